package api

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"recourse/saga"
	"recourse/saga/machine"
)

// Bounds of a summary.
const (
	maxSummary = 16 << 10
	maxQuoted  = 200 // characters of a text that is not ours
)

// summary serves GET /v1/sessions/{id}/summary: what the session has done, as a text that an agent
// can put into its prompt. Texts of others are quoted and cut.
func (s *server) summary(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	l, err := s.readSession(c)
	if err != nil {
		return err
	}
	calls := machine.Calls(l.m, l.log)
	for _, own := range machine.OwnSteps(l.m, l.log) {
		calls = append(calls, machine.CallView{Path: own.Path, Action: "by the agent", Status: own.Status, Input: own.Input, Output: own.Output, Error: own.Error, WaitsFor: own.WaitsFor})
	}
	text := summarize(l.m.View(), calls)
	c.(*call).letGo()
	return c.Blob(http.StatusOK, echo.MIMETextPlainCharsetUTF8, []byte(text))
}

func summarize(v machine.View, calls []machine.CallView) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Session %s is %s.\n", strings.TrimPrefix(v.Definition, saga.SessionPrefix), v.Status)
	if v.Reason != nil {
		fmt.Fprintf(&b, "Why: %s\n", quote(v.Reason.Text()))
	}
	if v.Cost.Budget != "" {
		fmt.Fprintf(&b, "Budget: %s %s spent, %s reserved, of %s.\n", v.Cost.Spent, v.Cost.Currency, v.Cost.Reserved, v.Cost.Budget)
	}
	for _, part := range []struct {
		title string
		holds func(machine.CallView) bool
	}{
		{"Done", func(c machine.CallView) bool { return c.Status == machine.CallSucceeded }},
		{"In progress", func(c machine.CallView) bool { return !c.Status.Ended() }},
		{"May have happened", func(c machine.CallView) bool { return c.Status == machine.CallInDoubt }},
		{"Failed, without an effect", func(c machine.CallView) bool { return c.Status == machine.CallFailed }},
		{"Undone", func(c machine.CallView) bool { return c.Status == machine.CallUndone }},
	} {
		title := part.title + ":\n"
		for _, c := range calls {
			if !part.holds(c) {
				continue
			}
			line := "- " + c.Path + " " + c.Action + " " + quote(string(c.Input))
			switch {
			case c.Output != nil:
				line += " -> " + quote(string(c.Output))
			case c.Error != nil:
				line += ": " + quote(c.Error.Error())
			}
			if c.WaitsFor != "" {
				line += ", waits for: " + c.WaitsFor
			}
			if b.Len()+len(title)+len(line) > maxSummary-100 {
				b.WriteString("(further steps are left out)\n")
				return b.String()
			}
			b.WriteString(title + line + "\n")
			title = ""
		}
	}
	if len(calls) == 0 {
		b.WriteString("It has done nothing.\n")
	}
	return b.String()
}

// quote returns a text of others, cut, with quotes and without line breaks, so that it cannot be
// taken for a part of the summary.
func quote(text string) string { return fmt.Sprintf("%q", cutText(text, maxQuoted)) }
