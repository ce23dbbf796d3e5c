package story

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"strings"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// querySuffix ends the path of a step's status check.
const querySuffix = ".verify"

func track(r journal.Record) string { return string(r.Way) + " " + r.Path }

func (t *Teller) intent(r journal.Record) []Line {
	var d saga.IntentData
	if bad := read(t, r, &d); bad != nil {
		return bad
	}
	if d.Awaited != nil {
		return t.awaits(r.Path, d)
	}
	if d.WakeAt != nil {
		return t.one("…", r.Path, "sleeps until "+d.WakeAt.UTC().Format(journal.TimeFormat), Plain)
	}
	text := "a request without content"
	if d.Request != nil {
		verb, object := d.Request.Target()
		text = verb + " " + Place(object)
	}
	if r.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", r.Attempt)
	}
	if r.Key != "" {
		text += ", " + t.key(r)
	}
	t.sent[track(r)] = r.At
	if r.Way == journal.Undo {
		return t.one("←", r.Path, "undo: "+text, Dimmed)
	}
	if step, query := saga.SplitQuery(r.Path); query {
		return t.one("→", step, "status query: "+text, Dimmed)
	}
	return t.one("→", r.Path, text, Dimmed)
}

// awaits describes what a step waits for.
func (t *Teller) awaits(path string, d saga.IntentData) []Line {
	text := "waits for the signal " + d.Awaited.Signal
	if a := d.Awaited.Approval; a != nil {
		text = "asks: " + Short(a.Title, 110)
	}
	if d.WakeAt != nil {
		text += ", until " + d.WakeAt.UTC().Format(journal.TimeFormat)
	}
	return t.one("…", path, text, Plain)
}

// key returns the key, and whether it was sent before.
func (t *Teller) key(r journal.Record) string {
	text := "key " + Short(r.Key, 9)
	before, again := t.keys[track(r)]
	t.keys[track(r)] = r.Key
	switch {
	case !again:
		return text
	case before == r.Key:
		return "the same " + text
	}
	return "a new " + text
}

// Place shortens a URL for readers: it removes its scheme, and the host if it is this machine.
func Place(raw string) string {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		return Short(raw, 90)
	}
	host := u.Host
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		host = ""
	}
	return Short(host+u.RequestURI(), 90)
}

func (t *Teller) outcome(r journal.Record) []Line {
	var d saga.OutcomeData
	if bad := read(t, r, &d); bad != nil {
		return bad
	}
	if d.Cost != "" {
		if cost, err := retry.Amount(d.Cost, ""); err == nil {
			t.spent = t.spent.Add(cost)
		}
	}
	step, query := saga.SplitQuery(r.Path)
	switch {
	case query:
		return t.answered(step, r, d)
	case r.Class == journal.Succeeded && r.Way == journal.Undo:
		text := "undone"
		switch {
		case d.AlreadyGone:
			text = "undone: it was already gone"
		case d.NeverStarted != "":
			text = "undone: saga " + d.NeverStarted + " was never started"
		}
		return t.one("↺", r.Path, text+t.how(r, d), Back)
	case r.Class == journal.Succeeded:
		return t.one("✓", r.Path, strings.TrimLeft(result(d.Output)+t.how(r, d), " "), Good)
	}
	mark, tone := "✗", Bad
	if r.Class == journal.InDoubt {
		mark, tone = "?", Doubt
	}
	return t.one(mark, r.Path, t.failed(r, d), tone)
}

// how returns the details of an answer: its status, its time, its cost.
func (t *Teller) how(r journal.Record, d saga.OutcomeData) string {
	var parts []string
	if d.StatusCode > 0 {
		parts = append(parts, fmt.Sprintf("HTTP %d", d.StatusCode))
	}
	if at, ok := t.sent[track(r)]; ok && r.Attempt > 0 {
		parts = append(parts, span(r.At.Sub(at)))
	}
	if d.Cost != "" && strings.Trim(d.Cost, "0.") != "" {
		parts = append(parts, "cost "+t.amount(d.Cost))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

// result returns a summary of an output: its id, if it has one.
func result(output json.RawMessage) string {
	if len(output) == 0 || string(output) == "null" {
		return ""
	}
	var thing struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(output, &thing) == nil && thing.ID != "" {
		return "→ " + Short(thing.ID, 60)
	}
	return "→ " + Short(string(output), 60)
}

func (t *Teller) failed(r journal.Record, d saga.OutcomeData) string {
	what := map[journal.Class]string{
		journal.Refused:   "refused",
		journal.Transient: "no effect",
		journal.InDoubt:   "in doubt",
		journal.Held:      "credentials refused",
	}[r.Class]
	if r.Way == journal.Undo {
		what = "undo " + what
	}
	if d.Error != nil {
		what += ": " + cause(d)
	}
	return what + t.next(d)
}

// cause returns a summary of an error. If no answer came, title and detail repeat the request,
// which the line of the intent already shows. Other errors are not shortened.
func cause(d saga.OutcomeData) string {
	if d.Error.Code == saga.Interrupted {
		return "its process stopped before the response came"
	}
	title, _, named := strings.Cut(d.Error.Title, " (")
	if d.StatusCode > 0 || !named {
		return Short(d.Error.Error(), 160)
	}
	detail := d.Error.Detail[strings.LastIndex(d.Error.Detail, ": ")+1:]
	if detail = strings.TrimSpace(detail); detail == "" || detail == title {
		return Short(title, 110)
	}
	return Short(title+": "+detail, 110)
}

// next describes what follows.
func (t *Teller) next(d saga.OutcomeData) string {
	switch d.Next {
	case saga.NextRetry:
		if d.RetryAt == nil || !d.RetryAt.After(t.now) {
			return " — retries at once"
		}
		return " — retries in " + span(d.RetryAt.Sub(t.now))
	case saga.NextVerify:
		if d.RetryAt != nil && d.RetryAt.After(t.now) {
			return " — checks the remote service in " + span(d.RetryAt.Sub(t.now))
		}
		return " — checks the remote service"
	case saga.NextAwaitResolution, saga.NextAwaitCredentials, saga.NextBlock:
		return " — needs a person (inbox)"
	case saga.NextInDoubt:
		return " — ends in doubt"
	}
	return ""
}

// answered describes the outcome of a status check.
func (t *Teller) answered(step string, r journal.Record, d saga.OutcomeData) []Line {
	switch {
	case d.Found != nil && *d.Found:
		return t.one("✓", step, "the remote service has it: it did happen"+t.how(r, d), Good)
	case d.Found != nil:
		return t.one("✓", step, "the remote service does not have it: it did not happen"+t.how(r, d), Good)
	}
	return t.one("?", step, "status query: "+t.failed(r, d), Doubt)
}
