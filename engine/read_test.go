package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// check is a schema that calls a function.
type check func()

// Apply implements saga.Schema.
func (c check) Apply(v any) (any, []saga.Finding) {
	c()
	return v, nil
}

// Document implements saga.Schema.
func (check) Document() any { return true }

// checkedCall is a saga whose step's schema a test replaces.
const checkedCall = "saga: checked\nsteps:\n" +
	"  - {id: a, http: \"POST http://w/a\", timeout: 10ms, in_doubt: ask}\n"

// says is a caller whose responses have a body of this many bytes.
type says int

func (n says) Call(context.Context, saga.Request) saga.Answer {
	return saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`"` + strings.Repeat("x", int(n)) + `"`)}
}

// While a response is checked by its schema, the other sagas of the lane continue, and its own is
// not taken for stalled.
func TestReadingHoldsUpNobody(t *testing.T) {
	for name, size := range map[string]int{"small": 10, "large": 100 << 10} {
		t.Run(name, func(t *testing.T) {
			begun, hold := make(chan struct{}), make(chan struct{})
			checked := compile(t, checkedCall)
			checked.Steps[0].Expect.Schema = check(sync.OnceFunc(func() {
				close(begun)
				<-hold
			}))
			other := compile(t, oneCall)
			n := startNode(t, memory.New(memory.Config{}), definitions{"checked": checked, "x": other}, func(c *engine.Config) {
				c.Callers = map[string]engine.Caller{"http": says(size)}
				if size > 64<<10 {
					c.Watch = 10 * time.Millisecond
				}
			})
			id := n.start(checked, "null", nil)
			<-begun
			n.ended(other, n.start(other, "null", nil), saga.Succeeded)
			<-time.After(400 * time.Millisecond) // the timeout and twelve Watches, more than twice
			close(hold)
			n.ended(checked, id, saga.Succeeded)
			if s := n.Stats(); s.Stalled != 0 || s.RequestsSent != 2 {
				t.Errorf("%d sagas stalled, %d requests were sent; want 0 and 2", s.Stalled, s.RequestsSent)
			}
		})
	}
}

// If a response cannot be read because of a bug, this node stops running its saga, and only that.
func TestReadingPanics(t *testing.T) {
	checked := compile(t, checkedCall)
	checked.Steps[0].Expect.Schema = check(func() { panic("bug") })
	other := compile(t, oneCall)
	n := startNode(t, memory.New(memory.Config{}), definitions{"checked": checked, "x": other}, func(c *engine.Config) {
		c.Callers = map[string]engine.Caller{"http": says(10)}
	})
	id := n.start(checked, "null", nil)
	n.head(id, "set aside", func(h journal.Head) bool { return h.Owner == "" })
	n.ended(other, n.start(other, "null", nil), saga.Succeeded)
}
