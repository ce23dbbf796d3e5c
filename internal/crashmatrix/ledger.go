package crashmatrix

import (
	"fmt"

	"strings"
	"time"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Honours says whether the stubbed remote services honour idempotency keys.
type Honours string

// The values of Honours.
const (
	AsDeclared Honours = "as-declared" // unless the definition says that it sends no key
	Always     Honours = "honours"
	Never      Honours = "ignores"
)

// effect is an effect of a request of a step.
type effect struct {
	path   string
	key    string // of the request
	id     string // a text in the answer that names the effect
	answer saga.Answer
	undone bool
	at     time.Time
}

// ledger has what happened at the remote services.
type ledger struct {
	honours Honours
	effects []*effect
	byKey   map[string]*effect     // of the services that honour keys
	undos   map[string]saga.Answer // answers to compensations, by key, likewise
	twice   map[string]bool        // paths of steps that were undone twice
	undone  int
	n       int
}

func newLedger(h Honours) *ledger {
	return &ledger{honours: h, byKey: make(map[string]*effect), undos: make(map[string]saga.Answer), twice: make(map[string]bool)}
}

// honoured reports whether the remote service recognises a repetition of a request.
func (l *ledger) honoured(step *saga.Step, r *saga.Request) bool {
	switch {
	case r.Child != nil: // another saga
		return true
	case r.Method == "PUT" || r.Method == "DELETE": // RFC 9110, section 9.2.2: the second has no further effect
		return true
	case l.honours == AsDeclared:
		return step.Idempotency.In != idempotency.None
	}
	return l.honours == Always
}

// arrive makes a forward request take effect, and returns its answer. made makes up the answer of a
// new effect with this id.
func (l *ledger) arrive(step *saga.Step, send *machine.Send, now time.Time, made func(id string) saga.Answer) saga.Answer {
	if call, ok := step.Body.(saga.Call); ok && call.ReadOnly() {
		return made("")
	}
	honoured := l.honoured(step, &send.Request)
	if e := l.byKey[send.Key]; honoured && e != nil {
		return e.answer
	}
	l.n++
	e := &effect{path: send.Path, key: send.Key, id: fmt.Sprintf("fx%04d", l.n), at: now}
	e.answer = made(e.id)
	l.effects = append(l.effects, e)
	if honoured {
		l.byKey[send.Key] = e
	}
	return e.answer
}

// revert makes a compensation take effect. It undoes the effects of its step that its request
// names, by their id or key, or all of them if it names none.
func (l *ledger) revert(step *saga.Step, send *machine.Send, answer saga.Answer) saga.Answer {
	honoured := l.honoured(step, &send.Request)
	if a, ok := l.undos[send.Key]; honoured && ok {
		return a
	}
	text := send.Request.URL + string(send.Request.Payload())
	var own, named []*effect
	for _, e := range l.effects {
		if e.path != send.Path {
			continue
		}
		own = append(own, e)
		if strings.Contains(text, e.id) || strings.Contains(text, e.key) {
			named = append(named, e)
		}
	}
	if len(named) == 0 {
		named = own
	}
	again := 0
	for _, e := range named {
		if e.undone {
			again++
			continue
		}
		e.undone = true
		l.undone++
	}
	if again > 0 && again == len(named) && !honoured {
		l.twice[send.Path] = true
	}
	l.undos[send.Key] = answer
	return answer
}

// found returns the effect of a key that was not undone; nil: there is none.
func (l *ledger) found(key string) *effect {
	for _, e := range l.effects {
		if e.key == key && !e.undone {
			return e
		}
	}
	return nil
}

// remaining lists the effects that were not undone, in the order in which they happened.
func (l *ledger) remaining() (list []*effect) {
	for _, e := range l.effects {
		if !e.undone {
			list = append(list, e)
		}
	}
	return list
}

// doubled lists the paths of steps that had their effect twice.
func (l *ledger) doubled() (paths []string) {
	seen := make(map[string]int)
	for _, e := range l.effects {
		if seen[e.path]++; seen[e.path] == 2 {
			paths = append(paths, e.path)
		}
	}
	return paths
}

// body returns the step whose body a request belongs to: the step, or its compensation.
func body(step *saga.Step, way journal.Way) *saga.Step {
	if way == journal.Undo && step.Compensate != nil {
		return &step.Compensate.Step
	}
	return step
}
