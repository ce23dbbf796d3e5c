package crashmatrix

import (
	"bytes"
	"encoding/json"
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

// endpointKey is an idempotency key at the endpoint that it was sent to. Services keep the keys of
// each endpoint separately.
type endpointKey struct{ key, endpoint string }

func keyOf(send *machine.Send) endpointKey {
	return endpointKey{send.Key, send.Request.String()}
}

// answered is a request's payload, and the answer to it.
type answered struct {
	payload json.RawMessage
	answer  saga.Answer
}

// effect is an effect of a request of a step.
type effect struct {
	path   string
	from   endpointKey // of the request
	id     string      // a text in the answer that names the effect
	answer saga.Answer
	undone bool
	at     time.Time
}

// ledger has what happened at the remote services.
type ledger struct {
	honours Honours
	effects []*effect
	known   map[endpointKey]answered // of the services that recognise repetitions
	twice   map[string]bool          // paths of steps that were undone twice
	undone  int
	n       int
}

func newLedger(h Honours) *ledger {
	return &ledger{honours: h, known: make(map[endpointKey]answered), twice: make(map[string]bool)}
}

// honoured reports whether the remote service recognises a repetition of a request.
func (l *ledger) honoured(step *saga.Step, r *saga.Request) bool {
	switch {
	case r.Child != nil: // another saga
		return true
	case r.Method == "PUT" || r.Method == "DELETE": // RFC 9110, section 9.2.2: the second has no further effect
		return true
	}
	return l.keyed(step)
}

// keyed reports whether the remote service honours the key of a step.
func (l *ledger) keyed(step *saga.Step) bool {
	if l.honours == AsDeclared {
		return step.Idempotency.In != idempotency.None
	}
	return l.honours == Always
}

// repeated returns the answer to a request whose key the service has seen. For the same request, it
// is the first answer. Another request with the same key is refused, as the IETF's draft of the
// header Idempotency-Key says. ok is false for a request that takes effect.
func (l *ledger) repeated(step *saga.Step, send *machine.Send) (_ saga.Answer, ok bool) {
	before, ok := l.known[keyOf(send)]
	switch {
	case !ok || !l.honoured(step, &send.Request):
		return saga.Answer{}, false
	case bytes.Equal(before.payload, send.Request.Payload()):
		return before.answer, true
	case send.Request.Child != nil || !l.keyed(step): // a child has no key; PUT writes another value
		return saga.Answer{}, false
	}
	return saga.Answer{Sent: true, Status: 422, Body: json.RawMessage(`{"title":"the key came with another request before"}`)}, true
}

// remember notes the answer to a request.
func (l *ledger) remember(step *saga.Step, send *machine.Send, answer saga.Answer) {
	if l.honoured(step, &send.Request) {
		l.known[keyOf(send)] = answered{send.Request.Payload(), answer}
	}
}

// arrive makes a forward request take effect, and returns its answer. made makes up the answer of a
// new effect with this id.
func (l *ledger) arrive(step *saga.Step, send *machine.Send, now time.Time, made func(id string) saga.Answer) saga.Answer {
	if call, ok := step.Body.(saga.Call); ok && call.ReadOnly() {
		return made("")
	}
	if a, ok := l.repeated(step, send); ok {
		return a
	}
	l.n++
	e := &effect{path: send.Path, from: keyOf(send), id: fmt.Sprintf("fx%04d", l.n), at: now}
	e.answer = made(e.id)
	l.effects = append(l.effects, e)
	l.remember(step, send, e.answer)
	return e.answer
}

// revert makes a compensation take effect. It undoes the effects of its step that its request
// names, by their id or key, or all of them if it names none.
func (l *ledger) revert(step *saga.Step, send *machine.Send, answer saga.Answer) saga.Answer {
	if a, ok := l.repeated(step, send); ok {
		return a
	}
	text := send.Request.URL + string(send.Request.Payload())
	var own, named []*effect
	for _, e := range l.effects {
		if e.path != send.Path {
			continue
		}
		own = append(own, e)
		if strings.Contains(text, e.id) || strings.Contains(text, e.from.key) {
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
	if again > 0 && again == len(named) && !l.honoured(step, &send.Request) {
		l.twice[send.Path] = true
	}
	l.remember(step, send, answer)
	return answer
}

// found returns the effect of a request that was not undone; nil: there is none.
func (l *ledger) found(from endpointKey) *effect {
	for _, e := range l.effects {
		if e.from == from && !e.undone {
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
