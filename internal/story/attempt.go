package story

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/history"
)

func (t *Teller) intent(e *history.Event, d *saga.IntentData) []Line {
	if d.Awaited != nil {
		return t.awaits(e.Path, d)
	}
	if d.WakeAt != nil {
		return t.one("…", e.Path, "sleeps until "+d.WakeAt.UTC().Format(journal.TimeFormat), Plain)
	}
	text := "a request without content"
	if d.Request != nil {
		verb, object := d.Request.Target()
		text = verb + " " + Place(object)
		if d.Request.Own != nil {
			text = "the agent does it"
		}
	}
	if e.Attempt > 1 {
		text += fmt.Sprintf(", attempt %d", e.Attempt)
	}
	if e.Key != "" {
		text += ", " + t.key(e)
	}
	if e.Way == journal.Undo {
		return t.one("←", e.Path, "undo: "+text, Dimmed)
	}
	if e.Track.Check {
		return t.one("→", e.Track.Step, "status check: "+text, Dimmed)
	}
	return t.one("→", e.Path, text, Dimmed)
}

// awaits describes what a step waits for.
func (t *Teller) awaits(path string, d *saga.IntentData) []Line {
	text := "waits for the signal " + d.Awaited.Signal
	if a := d.Awaited.Approval; a != nil {
		text = "asks: " + Short(a.Title, 110)
		switch {
		case a.Stale != nil && a.Stale.Answer:
			text = "asks again, because the answer of " + Short(a.Stale.Step, 60) + " has changed: " + Short(a.Title, 110)
		case a.Stale != nil:
			text = "asks again, because the request of " + Short(a.Stale.Step, 60) + " is another one: " + Short(a.Title, 110)
		}
	}
	if d.WakeAt != nil {
		text += ", until " + d.WakeAt.UTC().Format(journal.TimeFormat)
	}
	return t.one("…", path, text, Plain)
}

// key returns the key, and whether it was sent before.
func (t *Teller) key(e *history.Event) string {
	text := "key " + Short(e.Key, 9)
	before, again := t.keys[e.Track]
	t.keys[e.Track] = e.Key
	switch {
	case !again:
		return text
	case before == e.Key:
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

func (t *Teller) outcome(e *history.Event, d *saga.OutcomeData) []Line {
	if d.Cost != "" {
		if cost, err := retry.Total(d.Cost, ""); err == nil {
			t.spent = t.spent.Add(cost)
		}
	}
	switch {
	case e.Track.Check:
		return t.answered(e, d)
	case e.Class == journal.Succeeded && e.Way == journal.Undo:
		text := "undone"
		switch {
		case d.AlreadyGone:
			text = "undone: it was already gone"
		case d.NeverStarted != "":
			text = "undone: saga " + d.NeverStarted + " was never started"
		}
		return t.one("↺", e.Path, text+t.how(e, d), Back)
	case e.Class == journal.Succeeded:
		text := strings.TrimLeft(result(d.Output)+t.how(e, d), " ")
		if d.Changed != "" {
			text += "; the answer has changed: " + Short(d.Changed, 110)
		}
		return t.one("✓", e.Path, text, Good)
	}
	mark, tone := "✗", Bad
	if e.Class == journal.InDoubt {
		mark, tone = "?", Doubt
	}
	return t.one(mark, e.Path, t.failed(e, d), tone)
}

// how returns the details of an answer: its status, its time, its cost.
func (t *Teller) how(e *history.Event, d *saga.OutcomeData) string {
	var parts []string
	if d.StatusCode > 0 {
		parts = append(parts, fmt.Sprintf("HTTP %d", d.StatusCode))
	}
	if d.Stubbed {
		parts = append(parts, "a stub")
	}
	if e.Begun.Known() {
		parts = append(parts, span(e.At.Sub(e.Begun.At)))
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

func (t *Teller) failed(e *history.Event, d *saga.OutcomeData) string {
	what := map[journal.Class]string{
		journal.Refused:   "refused",
		journal.Transient: "no effect",
		journal.InDoubt:   "in doubt",
		journal.Held:      "credentials refused",
	}[e.Class]
	if e.Class == journal.Held && d.StatusCode == 0 {
		what = "held"
	}
	if e.Way == journal.Undo {
		what = "undo " + what
	}
	if d.Error != nil {
		what += ": " + cause(e, d)
	}
	return what + t.next(d.Next, d.RetryAt)
}

// sentTo matches the title of an error in transport (see Failed of saga/kinds/http) and captures
// what went wrong, the method and the host.
var sentTo = regexp.MustCompile(`^(.+) \(([A-Z]+|tools/call) ([^()]+)\)$`)

// cause returns a summary of an error. If no answer came, title and detail repeat the request,
// which the line of the intent already shows. Other errors are not shortened.
func cause(e *history.Event, d *saga.OutcomeData) string {
	switch own := strings.HasPrefix(e.Path, saga.OwnPrefix) && e.Way == journal.Do; {
	case d.Error.Code == saga.Interrupted && own:
		return "the agent's process ended before it finished the step"
	case d.Error.Code == saga.Interrupted:
		return "its process stopped before the response came"
	}
	sent := sentTo.FindStringSubmatch(d.Error.Title)
	if d.StatusCode > 0 || sent == nil {
		return Short(d.Error.Error(), 160)
	}
	title, method, host := sent[1], sent[2], sent[3]
	short := saga.Failure{Title: title, Detail: d.Error.Detail}
	if to, why, ok := strings.Cut(short.Detail, ": "); ok && (to == host || strings.HasPrefix(to, method+" ")) {
		short.Detail = why
	}
	if short.Detail == title {
		short.Detail = ""
	}
	return Short(short.Error(), 160)
}

// next describes what follows.
func (t *Teller) next(next saga.Next, at *saga.Time) string {
	switch next {
	case saga.NextRetry:
		if at == nil || !at.After(t.now) {
			return " — retries at once"
		}
		return " — retries in " + span(at.Sub(t.now))
	case saga.NextVerify:
		if at != nil && at.After(t.now) {
			return " — checks the remote service in " + span(at.Sub(t.now))
		}
		return " — checks the remote service"
	case saga.NextAwaitResolution, saga.NextAwaitCredentials, saga.NextBlock:
		return " — needs a person (inbox)"
	case saga.NextHold:
		if at == nil {
			return " — on hold until somebody resumes the saga (inbox)"
		}
		return " — on hold (inbox); tries again in " + span(at.Sub(t.now))
	case saga.NextInDoubt:
		return " — ends in doubt"
	case saga.NextBegin:
		return " — the agent may do it again"
	}
	return ""
}

// answered describes the outcome of a status check.
func (t *Teller) answered(e *history.Event, d *saga.OutcomeData) []Line {
	switch {
	case d.Found != nil && *d.Found:
		return t.one("✓", e.Track.Step, "the remote service has it: it did happen"+t.how(e, d), Good)
	case d.Found != nil:
		return t.one("✓", e.Track.Step, "the remote service does not have it: it did not happen"+t.how(e, d), Good)
	}
	return t.one("?", e.Track.Step, "status check: "+t.failed(e, d), Doubt)
}
