package engine_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/machine"
)

// noting counts how often stalls were recorded.
type noting struct {
	journal.Store
	times atomic.Int64
}

func (n *noting) NoteStalls(ctx context.Context, list []journal.StallNotice, show time.Duration) (int, error) {
	defer n.times.Add(1)
	return n.Store.NoteStalls(ctx, list, show)
}

// again waits until stalls were recorded a few more times.
func (n *noting) again(t *testing.T) {
	t.Helper()
	from := n.times.Load()
	until(t, "more searches", func() bool { return n.times.Load() >= from+4 })
}

// stalls lists the stalls, as "kind definition path".
func (n *noting) stalls(t *testing.T) (list []string) {
	t.Helper()
	found, err := n.ListStalls(context.WithoutCancel(t.Context()), journal.StallFilter{})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		list = append(list, f.Kind+" "+f.Definition+" "+f.Path)
	}
	slices.Sort(list)
	return list
}

// tells takes the notifications from the outbox, as "type path".
func (n *noting) tells(t *testing.T) (list []string) {
	t.Helper()
	events, err := n.ClaimEvents(t.Context(), []string{"ops"}, 100, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		var d notification
		if err := json.Unmarshal(e.Data, &d); err != nil {
			t.Fatal(err)
		}
		list = append(list, d.Type+" "+d.Data.Path)
		if err := n.EventDelivered(t.Context(), e.ID, e.Sink); err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(list)
	return list
}

// A due saga that no node claims, and a task that no worker claims, are listed and cause one
// notification. Paused sagas, and those that are not due, do not.
func TestStalls(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			store := &noting{Store: open(t)}
			t.Cleanup(func() { _ = store.Close() })
			defs := definitions{}
			for _, src := range []string{
				"saga: nap\nsteps:\n  - {id: a, sleep: 50ms}\n",
				"saga: work\nsteps:\n  - {id: a, task: ocr}\n",
				"saga: idle\nsteps:\n  - {id: a, task: ocr}\n",
				"saga: long\nsteps:\n  - {id: a, sleep: 1h}\n",
				"saga: asks\nsteps:\n  - {id: a, approval: {title: Go on?}}\n",
			} {
				def := compile(t, src)
				defs[def.Name] = def
			}
			first := startNode(t, store, defs, func(c *engine.Config) { c.ParkAfter = time.Millisecond })
			ids := map[string]uuid.UUID{}
			for _, name := range []string{"long", "asks", "work", "idle"} {
				ids[name] = first.start(defs[name], "null", nil)
			}
			m, err := saga.Command{Do: saga.Pause{}}.Message(uuid.Must(uuid.NewV7()), ids["idle"])
			if err == nil {
				err = first.Send(t.Context(), m)
			}
			if err != nil {
				t.Fatal(err)
			}
			first.await(defs["idle"], ids["idle"], "paused", func(m *machine.Machine) bool { return m.Status() == saga.PausedStatus })
			until(t, "its row says so", func() bool {
				h, err := store.Saga(t.Context(), ids["idle"])
				return err == nil && h.Status == string(saga.PausedStatus) && h.Owner == ""
			})
			ids["nap"] = first.start(defs["nap"], "null", nil)
			first.stop()

			second := startNode(t, store, defs, func(c *engine.Config) {
				// The node has no room for a saga.
				c.MaxRunning, c.StallAfter, c.Notices = -1, 100*time.Millisecond, everyone()
			})
			want := []string{journal.StallNoWorker + " work a", journal.StallUnclaimed + " nap "}
			until(t, "both are listed", func() bool { return cmp.Equal(store.stalls(t), want) })
			store.again(t)
			if d := cmp.Diff([]string{"recourse.saga.stalled ", "recourse.step.stalled a"}, store.tells(t)); d != "" {
				t.Errorf("notifications (-want +got):\n%s", d)
			}
			store.again(t)
			if got := store.tells(t); len(got) > 0 {
				t.Errorf("sent again: %q", got)
			}
			second.stop()

			third := startNode(t, store, defs, func(c *engine.Config) { c.StallAfter, c.Notices = 100*time.Millisecond, everyone() })
			third.ended(defs["nap"], ids["nap"], saga.Succeeded)
			store.again(t)
			if d := cmp.Diff(want[:1], store.stalls(t)); d != "" {
				t.Errorf("listed in the end (-want +got):\n%s", d)
			}
			if got := store.tells(t); len(got) > 0 {
				t.Errorf("sent again by another node: %q", got)
			}
		})
	}
}

// The store puts a saga in quarantine into the inbox, and the engine sends the notification for it.
func TestQuarantineIsNotified(t *testing.T) {
	store := &noting{Store: memory.New(memory.Config{})}
	def := compile(t, "saga: long\nsteps:\n  - {id: a, sleep: 1h}\n")
	n := startNode(t, store, definitions{"long": def}, func(c *engine.Config) { c.ParkAfter = time.Millisecond })
	id := n.start(def, "null", nil)
	n.stop()
	if _, err := store.Register(t.Context(), "unlucky", time.Hour); err != nil {
		t.Fatal(err)
	}
	for range journal.QuarantineAfter {
		if err := store.Send(t.Context(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: "odd"}); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Claim(t.Context(), "unlucky", 1); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Append(t.Context(), "unlucky", []journal.Append{{Saga: id, Release: true}}); err != nil {
			t.Fatal(err)
		}
	}
	entries, err := store.Inbox(t.Context(), journal.InboxFilter{})
	if err != nil || len(entries) != 1 {
		t.Fatalf("the inbox has %+v, %v", entries, err)
	}
	startNode(t, store, definitions{"long": def}, func(c *engine.Config) { c.StallAfter, c.Notices = time.Second, everyone() })
	until(t, "it is listed", func() bool { return len(store.stalls(t)) == 1 })
	store.again(t)
	events, err := store.ClaimEvents(t.Context(), []string{"ops"}, 10, time.Hour)
	if err != nil || len(events) != 1 {
		t.Fatalf("the outbox has %+v, %v", events, err)
	}
	var got notification
	if err := json.Unmarshal(events[0].Data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Type != "recourse.inbox.stuck" || got.Data.URL != "https://page/inbox#"+entries[0].ID.String() || got.Data.Kind != saga.InboxStuck {
		t.Errorf("%+v", got)
	}
}

// held responds when it is closed.
type held chan struct{}

func (h held) Call(ctx context.Context, _ saga.Request) saga.Answer {
	select {
	case <-h:
	case <-ctx.Done():
	}
	return saga.Answer{Sent: true, Status: 200}
}

// A request that waits long for a call slot is a stalled step.
func TestWaitsForASlot(t *testing.T) {
	store, free := &noting{Store: memory.New(memory.Config{})}, make(held)
	def := compile(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 1h}\n")
	n := startNode(t, store, definitions{"x": def}, func(c *engine.Config) {
		c.Callers, c.MaxCalls, c.StallAfter, c.Watch, c.Notices = map[string]engine.Caller{"http": free}, 1, 100*time.Millisecond, 10*time.Millisecond, everyone()
	})
	ids := []uuid.UUID{n.start(def, "null", nil), n.start(def, "null", nil)}
	until(t, "one is listed", func() bool { return cmp.Equal(store.stalls(t), []string{journal.StallNoSlot + " x a"}) })
	store.again(t)
	close(free)
	for _, id := range ids {
		n.ended(def, id, saga.Succeeded)
	}
	if d := cmp.Diff([]string{"recourse.step.stalled a"}, store.tells(t)); d != "" {
		t.Errorf("notifications (-want +got):\n%s", d)
	}
}
