package sessionreplay

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/compare"
	"recourse/saga/expr"
	"recourse/saga/kinds/ask"
	"recourse/saga/machine"
)

// Difference is the first request of the agent that is not as in the recorded session.
type Difference struct {
	Path   string // the recorded step; "": there is none
	Detail string // what differs, in a line
	// At is the first place at which the body of a request to a model, or the input of a call or an
	// own step, differs; nil: there is none, or the recorded value is not known.
	At *compare.Difference
}

// maxShown limits the bytes of each value in a line.
const maxShown = 200

// String describes the difference for people.
func (d *Difference) String() string {
	if d.At == nil {
		return d.Detail
	}
	at := d.At.Pointer
	if at == "" {
		at = "the whole value"
	}
	value := func(doc json.RawMessage) string {
		switch {
		case doc == nil:
			return "absent"
		case len(doc) > maxShown:
			return strings.ToValidUTF8(string(doc[:maxShown]), "") + "…"
		}
		return string(doc)
	}
	return fmt.Sprintf("%s at %s\n  was %s\n  now %s", d.Detail, at, value(d.At.Was), value(d.At.Now))
}

// Missing implements api.Replay.
func (r *Replay) Missing(cmd saga.Command, prompt *ask.Prompt, refusal *machine.Refusal) error {
	t := &r.track
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return errReplay
	}
	next := t.next(nil)
	if prompt == nil {
		then, err := r.refusedThen(cmd, next, refusal)
		if err != nil {
			t.failed = err
			r.close()
			return err
		}
		if then != nil {
			return then
		}
	}
	if next == nil && r.end != journal.Committed {
		r.close() // the journal ends before this request
		return errReplay
	}
	d, err := r.difference(cmd, prompt, next)
	if t.found = d; err != nil {
		t.failed = err
	}
	r.close()
	return errReplay
}

// refusedThen returns how the session refused a command when the agent gave it, nil if it would not
// have refused it. Refusals are in no journal, and whether a command is refused depends on what was
// called before. So the command is given to the session as it was before the first step that the
// replayed agent has not asked for. next is that step; nil: it has asked for all.
func (r *Replay) refusedThen(cmd saga.Command, next *step, refusal *machine.Refusal) (*machine.Refusal, error) {
	if next == nil {
		return refusal, nil
	}
	m, _, err := r.until(next.before)
	if err != nil {
		return nil, err
	}
	life, _, _ := m.Life()
	switch o := cmd.Do.(type) {
	case saga.CallAction:
		o.Life, o.Resembles = life, ""
		_, _, refusal = m.Call(uuid.Nil, o)
	case saga.BeginStep:
		o.Life = life
		_, refusal = m.Begin(uuid.Nil, o)
	}
	return refusal, nil
}

// difference describes a request that the session has not made. next is the first step that the
// agent has not asked for; nil: it has asked for all.
func (r *Replay) difference(cmd saga.Command, prompt *ask.Prompt, next *step) (*Difference, error) {
	switch o := cmd.Do.(type) {
	case saga.AskModel:
		return r.otherPrompt(prompt, next)
	case saga.CallAction:
		return r.otherCall(&o, next), nil
	case saga.BeginStep:
		return r.otherStep(&o, next), nil
	}
	return &Difference{Path: cmd.Path, Detail: "the agent undoes " + cmd.Path + ", which the recorded session does not"}, nil
}

func (r *Replay) otherPrompt(p *ask.Prompt, next *step) (*Difference, error) {
	name := "a request to " + p.Route
	if p.Model != "" {
		name += " (" + p.Model + ")"
	}
	was := r.track.differing(p)
	if was == nil {
		return &Difference{Detail: "the agent makes " + name + instead(next)}, nil
	}
	d := &Difference{Path: was.path, Detail: fmt.Sprintf("%s differs from %s", name, was.path)}
	body, _, err := r.ask(was.path)
	if err != nil {
		return d, err
	}
	if body == nil {
		d.Detail += ", whose body is not stored"
		return d, nil
	}
	other, this, err := p.Compared(body, ask.Rules{Ignore: r.def.Session.Ignore})
	if err != nil {
		return d, err
	}
	d.At = compare.Values(other, this)
	return d, nil
}

func (r *Replay) otherCall(o *saga.CallAction, next *step) *Difference {
	was := r.track.next(func(s *step) bool { return s.called.What == saga.ActionCall && s.called.Action == o.Action })
	if was == nil {
		return &Difference{Detail: "the agent calls " + o.Action + " with " + clip(o.Input) + instead(next)}
	}
	d := &Difference{Path: was.path, Detail: fmt.Sprintf("the input of a call of %s differs from that of %s", o.Action, was.path), At: values(was.called.Input, o.Input)}
	if d.At == nil {
		d.Detail = fmt.Sprintf("a call of %s has the input of %s, but another id, or another number for again", o.Action, was.path)
	}
	return d
}

func (r *Replay) otherStep(o *saga.BeginStep, next *step) *Difference {
	path := saga.OwnPrefix + o.ID
	was := r.track.byPath[path]
	if was == nil {
		return &Difference{Detail: "the agent begins the step " + path + instead(next)}
	}
	return &Difference{Path: path, Detail: "the input of the step " + path + " differs", At: values(was.called.Input, o.Input)}
}

// instead says what the recorded session has asked for.
func instead(next *step) string {
	if next == nil {
		return ", and has already made all the requests of the recorded session"
	}
	return ", where the recorded session has " + describe(next)
}

// describe names a recorded step, and what it was.
func describe(s *step) string {
	switch s.called.What {
	case saga.ActionCall:
		return s.path + " " + clip(s.called.Input)
	case saga.ModelAsk:
		var q ask.Question
		if json.Unmarshal(s.called.Input, &q) == nil && q.Model != "" {
			return s.path + " (" + q.Route + ", " + q.Model + ")"
		}
	}
	return s.path
}

func clip(doc json.RawMessage) string {
	if len(doc) > maxShown {
		return strings.ToValidUTF8(string(doc[:maxShown]), "") + "…"
	}
	return string(doc)
}

// values compares two inputs.
func values(was, now json.RawMessage) *compare.Difference {
	if now == nil {
		now = json.RawMessage("null")
	}
	a, errA := expr.Decode(was)
	b, errB := expr.Decode(now)
	if errA != nil || errB != nil {
		return nil
	}
	return compare.Values(a, b)
}

// Result is what a replay has found.
type Result struct {
	// Difference is the first one; nil: the agent has made the recorded requests, as far as the
	// journal goes.
	Difference *Difference
	Asks       int // requests to models that the journal has answered
	Calls      int
	Steps      int // own steps
	// Open is the first step that the agent has asked for and whose end the journal does not have;
	// "": none.
	Open string
	// Ended is how the session was over for its agent: journal.Committed, journal.Cancelled …; "":
	// the agent has not finished its work.
	Ended journal.Kind
}

// Result returns what the replay has found, once the agent's process has ended. Error: the replay
// could not go on.
func (r *Replay) Result() (Result, error) {
	t := &r.track
	t.mu.Lock()
	defer t.mu.Unlock()
	r.close()
	res := Result{Difference: t.found, Open: t.open, Ended: r.end}
	for _, s := range t.steps {
		switch {
		case !s.found:
		case s.called.What == saga.ModelAsk:
			res.Asks++
		case s.called.What == saga.ActionCall:
			res.Calls++
		default:
			res.Steps++
		}
	}
	if t.failed != nil || res.Difference != nil {
		return res, t.failed
	}
	n := 0
	for _, s := range t.steps {
		if s.missing() {
			n++
		}
	}
	if t.open == "" && r.end == journal.Committed { // it could have asked for every undo
		if s := t.notUndone(); s != nil {
			res.Difference = &Difference{Path: s.path, Detail: "the agent has ended without the undo of " + describe(s)}
		}
	}
	if s := t.next(nil); s != nil {
		res.Difference = &Difference{Path: s.path, Detail: "the agent has ended without " + describe(s)}
		if n > 1 {
			res.Difference.Detail += fmt.Sprintf(", and %d more of the recorded session", n-1)
		}
	}
	return res, nil
}
