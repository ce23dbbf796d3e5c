package invariant

import (
	"bytes"
	"encoding/json"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Start is a start that was acknowledged to its client.
type Start struct {
	ID    uuid.UUID       // the saga that the response named
	Key   string          // the client's idempotency key; "": none
	Input json.RawMessage // as the client sent it; nil: not compared
}

// begun checks the part of invariant 1 about the input: the saga has the input that it was started
// with.
func (c *sagaCheck) begun(t *sagaState) {
	for _, s := range c.starts[t.ID] {
		d, ok := t.data[0].(*saga.StartedData)
		if !ok || s.Input == nil {
			continue
		}
		want := s.Input
		if t.Definition != nil { // with the defaults that its schema fills in
			filled, _, _ := machine.Begin(t.Definition, machine.StartOptions{Input: s.Input})
			want = filled.Input
		}
		if !same(want, d.Input) {
			c.say(1, t.Records[0].Seq, "it was started with an input that differs from its journal's")
		}
	}
}

func same(a, b json.RawMessage) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && bytes.Equal(x.Bytes(), y.Bytes())
}

// eachStart checks the rest of invariant 1: no start is lost, and a key has one saga.
func (c *Checker) eachStart() {
	of := make(map[string]uuid.UUID)
	said := make(map[uuid.UUID]bool)
	for _, s := range c.cfg.Starts {
		if !c.started[s.ID] && !said[s.ID] {
			said[s.ID] = true
			c.say(1, "an acknowledged start is lost: there is no saga %s", s.ID)
		}
		if before, ok := of[s.Key]; ok && s.Key != "" && before != s.ID {
			c.say(1, "starts with the key %s were acknowledged as saga %s and as saga %s", s.Key, before, s.ID)
		}
		of[s.Key] = s.ID
	}
}

// cancelled checks invariant 17: a saga whose cancel was acknowledged does not succeed.
func (c *sagaCheck) cancelled(t *sagaState) {
	for _, r := range t.Records {
		if r.Kind == journal.Cancelled && t.ended() == saga.Succeeded {
			c.say(17, r.Seq, "record %d cancels it, but it ended as succeeded", r.Seq)
			return
		}
	}
}
