package story

import (
	"fmt"
	"strconv"
	"strings"

	"recourse/saga"
	"recourse/saga/history"
)

func (t *Teller) decided(e *history.Event, d *saga.DecidedData) []Line {
	if d.Branch != nil {
		if *d.Branch < 0 {
			return t.one("·", e.Path, "no branch applies", Dimmed)
		}
		return t.one("·", e.Path, fmt.Sprintf("takes branch %d", *d.Branch+1), Plain)
	}
	switch {
	case d.Enter && d.Items != nil:
		return t.one("·", e.Path, "begins, over "+count(len(d.Items), "item"), Plain)
	case d.Enter:
		return t.one("·", e.Path, "begins", Plain)
	case e.Iteration():
		if d.Error != nil {
			return t.one("✗", e.Path, "fails: "+Short(d.Error.Title, 110), Bad)
		}
		return t.one("✓", e.Path, strings.TrimRight("ends "+result(d.Output), " "), Good)
	}
	if e.Path == "" { // for a child saga
		if d.Error != nil {
			return t.one("✗", "", "its output could not be computed: "+d.Error.Error(), Doubt)
		}
		return t.one("·", "", strings.TrimRight("has succeeded, and waits for its parent's end "+result(d.Output), " "), Plain)
	}
	after := t.next(d.Next, nil)
	switch {
	case d.Next == saga.NextDone:
		return t.one("✓", e.Path, strings.TrimRight("settled: it did happen "+result(d.Output), " "), Good)
	case d.Next == saga.NextFail:
		return t.one("✗", e.Path, "settled: "+d.Detail, Bad)
	case d.Next == saga.NextRetry:
		return t.one("·", e.Path, d.Detail+after, Plain)
	}
	return t.one("?", e.Path, d.Detail+after, Doubt)
}

func count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

func (t *Teller) compensating(d *saga.CompensatingData) []Line {
	text := d.Reason.Title
	if d.Reason.Detail != "" {
		text += " (" + Short(d.Reason.Detail, 110) + ")"
	}
	if len(d.Plan) == 0 {
		text += ": there is nothing to undo"
	} else {
		text += ": undoing " + strings.Join(d.Plan, ", then ")
	}
	lines := t.one("↩", "", text, Strong)
	for _, left := range d.Residual {
		lines = append(lines, t.line("!", left.Path, "will remain: "+left.Why, Bad))
	}
	return lines
}

func (t *Teller) command(e *history.Event, d *saga.CommandData) []Line {
	who := d.Actor
	switch {
	case d.Kind == "attach" || d.Kind == "call" || d.Kind == "commit": // it was refused
		who = "the agent"
	case who == "":
		who = "a person"
	}
	text := who + ": " + phrase(d)
	switch d.Kind {
	case "approve":
		text = who + " approves"
	case "reject":
		text = who + " rejects"
	}
	if e.Path != "" {
		text += " " + e.Path
	}
	if d.Outcome != "" {
		text += " as " + d.Outcome
	}
	if d.Session != nil {
		text = OfSession(d.Session)
	}
	if d.Budget != nil {
		text += ", budget " + budget(*d.Budget)
	}
	text += strings.TrimRight(" "+result(d.Output), " ")
	if d.Reason != "" {
		text += " — “" + Short(d.Reason, 90) + "”"
	}
	if d.Rejected != nil {
		return t.one("✗", "", text+": refused, "+Short(d.Rejected.Error(), 110), Bad)
	}
	return t.one("☞", "", text, Strong)
}

func (t *Teller) signalled(d *saga.SignalData) []Line {
	return t.one("☞", "", strings.TrimRight("signal "+d.Name+" "+result(d.Payload), " "), Strong)
}

func phrase(d *saga.CommandData) string {
	switch {
	case d.Kind == "cancel" && d.Mode == "stop":
		return "cancel, and undo nothing"
	case d.Kind == "patch":
		return "change"
	case d.Kind == "retry" && d.NewKey:
		return "retry under a new key"
	}
	return d.Kind
}

// OfSession says what a record tells about a session that belongs to the saga.
func OfSession(s *saga.SessionPart) string {
	switch {
	case s.Cost != nil && s.Cost.Reserved != "":
		return "session " + s.ID + " has ended; it has cost " + budget(saga.BudgetData{Amount: s.Cost.Spent, Currency: s.Cost.Currency}) + ", and perhaps " + s.Cost.Reserved + " more"
	case s.Cost != nil:
		return "session " + s.ID + " has ended; it has cost " + budget(saga.BudgetData{Amount: s.Cost.Spent, Currency: s.Cost.Currency})
	case s.Part != nil:
		return "reserves " + budget(*s.Part) + " for session " + s.ID
	}
	return "session " + s.ID + " belongs to it"
}

func budget(b saga.BudgetData) string {
	var limits []string
	if b.Amount != "" {
		limits = append(limits, strings.TrimSpace(b.Amount+" "+b.Currency))
	}
	if b.Tokens != 0 {
		limits = append(limits, strconv.FormatInt(b.Tokens, 10)+" tokens")
	}
	return strings.Join(limits, " and ")
}
