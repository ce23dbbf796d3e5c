package ui

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"

	"recourse/api/rest"
	"recourse/api/ui/diff"
	"recourse/api/ui/format"
	"recourse/saga"
	"recourse/saga/machine"
)

// compared are the two calls that a person compares: a new one of a session, and an earlier life's
// one that it may repeat.
type compared struct {
	Action       string
	New, Earlier comparedCall
	Diverged     *saga.Divergence
	Result       *machine.CallView `json:"-"` // of the earlier call; nil if it cannot be read
}

type comparedCall struct {
	Call  string          `json:"call"`
	Life  int             `json:"life"`
	Input json.RawMessage `json:"input"`
	Lines []comparedLine  `json:"-"` // of the input
}

// comparedLine is a line of an input. Differs says that the other input does not have it.
type comparedLine struct {
	Text    string
	Differs bool
}

// comparison reads what an entry shows about two calls; nil if it has another form. call returns a
// call of the session; nil if it cannot be read.
func comparison(e entry, call func(path string) *machine.CallView) *compared {
	c := &compared{}
	if e.Kind != saga.InboxRepeat || json.Unmarshal(e.Shown, c) != nil || c.New.Call == "" || c.Earlier.Call == "" {
		return nil
	}
	before, moreBefore := format.FirstLines(format.JSON(c.Earlier.Input), mostCompared)
	after, moreAfter := format.FirstLines(format.JSON(c.New.Input), mostCompared)
	c.Earlier.Lines, c.New.Lines = linesOf(before, moreBefore), linesOf(after, moreAfter)
	for _, l := range diff.Lines(before, after) {
		switch l.Mark {
		case "-":
			c.Earlier.Lines[l.Old-1].Differs = true
		case "+":
			c.New.Lines[l.New-1].Differs = true
		}
	}
	c.Result = call(c.Earlier.Call)
	return c
}

// callOf returns how the API describes the calls of a session.
func (v *request) callOf(id string) func(path string) *machine.CallView {
	return func(path string) *machine.CallView {
		c := new(machine.CallView)
		if _, err := v.api.Get(rest.Path("v1", "sessions", id, "calls", path), c); err != nil {
			return nil
		}
		return c
	}
}

// mostCompared is the most lines of an input that an entry of the inbox compares: agents choose how
// long their inputs are.
const mostCompared = 200

// linesOf returns the lines of a text that more lines follow.
func linesOf(text string, more int) (list []comparedLine) {
	for _, line := range format.Lines(text) {
		list = append(list, comparedLine{Text: line})
	}
	if more > 0 {
		list = append(list, comparedLine{Text: "… " + format.Plural(more, "more line", "more lines") + ": see the call …"})
	}
	return list
}

// abandoned is what a person sees of a session that has lost its process.
type abandoned struct {
	Undone  []string // the calls that an abort would undo, and then the own steps
	AtLeast bool     // there may be more
	Unread  bool     // some could not be read
	Summary string   // what it has done, as its agent reads it
}

// mostAbandoned is the most calls that an entry of the inbox lists.
const mostAbandoned = 20

// More returns how many calls that an abort would undo are not listed.
func (a abandoned) More() int { return max(len(a.Undone)-mostAbandoned, 0) }

// List returns those that are.
func (a abandoned) List() []string { return a.Undone[:min(len(a.Undone), mostAbandoned)] }

// lost reads what a session has done that has lost its process.
func (v *request) lost(id string) *abandoned {
	a := &abandoned{Summary: v.summary(id)}
	for _, list := range []string{"calls", "steps"} {
		var got struct {
			Data []machine.CallView
			Next string `json:"next_cursor"`
		}
		if _, err := v.api.Get(rest.Path("v1", "sessions", id, list), &got); err != nil {
			a.Unread = true
			continue
		}
		a.AtLeast = a.AtLeast || got.Next != ""
		for _, c := range got.Data {
			if c.Undo == machine.UndoAvailable {
				a.Undone = append(a.Undone, c.Path)
			}
		}
	}
	return a
}

// summary returns the summary of a session; "" if it cannot be read.
func (v *request) summary(id string) string {
	req, err := v.api.Request(v.r.Context(), http.MethodGet, rest.Path("v1", "sessions", id, "summary"), nil, nil)
	if err != nil {
		return ""
	}
	w := rest.NewRecorder()
	v.cfg.API.ServeHTTP(&w, req)
	if w.Status != http.StatusOK {
		return ""
	}
	return w.Body.String()
}

// MayAbort reports whether the user may resume or abort the session of the entry.
func (f entryForms) MayAbort() bool {
	return f.Who.Can("operate") && slices.Contains(f.Actions, "abort") && slices.Contains(f.Actions, "resume")
}

// decideSession serves POST /inbox/session: it resumes or aborts a session that has lost its
// process, if the session is still as the user saw it.
func decideSession(v *request) error {
	f := v.posted()
	id, do := f.Get("saga"), f.Get("do")
	v.r.URL.RawQuery = queryOf(f.Get("back"))
	to := "/inbox?" + v.r.URL.RawQuery
	if back := local(f.Get("back")); strings.HasPrefix(back, "/sagas/") {
		to = back
	}
	command, done := "", ""
	switch do {
	case "resume":
		command, done = "resume", "Session "+format.Short(id)+" waits for another process."
	case "abort":
		command, done = "cancel", "Session "+format.Short(id)+" is aborted, and is being undone."
	default:
		return v.refuseSession(f, &rest.Problem{Status: http.StatusUnprocessableEntity, Title: "Choose what to do", Detail: "Nothing was done. Resume the session, or abort it."})
	}
	header := http.Header{"If-Match": {`"` + f.Get("etag") + `"`}}
	r, err := v.api.Send(http.MethodPost, rest.Path("v1", "sagas", id, command), map[string]string{"reason": f.Get("reason")}, header, nil)
	if err != nil {
		if hasMoved(err) {
			err = &rest.Problem{Status: http.StatusPreconditionFailed, Title: "The session has changed since you opened the page",
				Detail: "Nothing was done. The page now shows the current state: check it, then decide."}
		}
		return v.refuseSession(f, err)
	}
	if r.Unread() {
		done = unread
	}
	return v.done(to, done)
}

// refuseSession shows the inbox again with a refused form. If the session's entry is gone, the
// problem is shown above the list.
func (v *request) refuseSession(f map[string][]string, err error) error {
	p, ok := errors.AsType[*rest.Problem](err)
	if !ok || p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden {
		return err
	}
	v.still = true
	return v.inbox(p.Status, &tried{Do: "session", Typed: f, Problem: p})
}
