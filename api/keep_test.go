package api

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"recourse/journal"
)

// hiccup is a store that fails to store the first few replies.
type hiccup struct {
	journal.Store
	left atomic.Int64
}

func (h *hiccup) Finish(ctx context.Context, key string, r journal.Reply, keep time.Duration) error {
	if h.left.Add(-1) >= 0 {
		return errors.New("not now")
	}
	return h.Store.Finish(ctx, key, r, keep)
}

// A reply that the store does not accept at once is stored later: a repetition gets it, and has no
// second effect.
func TestReplyIsKeptLater(t *testing.T) {
	store := &hiccup{Store: stores["memory"](t)}
	x := newFixtureOn(t, store)
	x.publish("saga: nap\nsteps: [{id: a, sleep: 1h}]\n")
	id := x.do("POST", "/v1/sagas", `{"definition":"nap"}`).want(201).saga().ID
	store.left.Store(3)
	key := header{"Idempotency-Key", "once"}
	first := x.do("POST", "/v1/sagas/"+id+"/pause", `{}`, key).want(202)
	again := x.do("POST", "/v1/sagas/"+id+"/pause", `{}`, key).want(202)
	if again.Header.Get("Idempotency-Replayed") != "true" || string(again.Body) != string(first.Body) {
		t.Errorf("answered again: %s, after %s", again.Body, first.Body)
	}
}

// While the reply cannot be stored, its key is in flight, so the effect is not repeated.
func TestReplyThatIsNotKept(t *testing.T) {
	store := &hiccup{Store: stores["memory"](t)}
	x := newFixtureOn(t, store)
	x.publish("saga: nap\nsteps: [{id: a, sleep: 1h}]\n")
	id := x.do("POST", "/v1/sagas", `{"definition":"nap"}`).want(201).saga().ID
	store.left.Store(1 << 40)
	key := header{"Idempotency-Key", "once"}
	x.do("POST", "/v1/sagas/"+id+"/pause", `{}`, key).want(202)
	x.do("POST", "/v1/sagas/"+id+"/pause", `{}`, key).problem(409, "key_in_flight")
}
