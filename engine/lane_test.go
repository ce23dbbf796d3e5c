package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// bench drives one lane by hand: commits and answers come when the test says so.
type bench struct {
	t     *testing.T
	store *memory.Store
	lane  *engine.Lane
	now   time.Time
	def   *saga.Definition
	out   []engine.Effect
}

func newBench(t *testing.T, src string) *bench {
	b := &bench{t: t, def: compile(t, src), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.store = memory.New(memory.Config{Now: func() time.Time { return b.now }})
	b.lane = engine.NewLane(engine.LaneConfig{ParkAfter: time.Second, MaxBatch: 8, MaxRecords: 16, Random: func() uint64 { return 0 }})
	return b
}

func (b *bench) handle(ev engine.Event) { b.out = append(b.out, b.lane.Handle(b.now, ev)...) }

func (b *bench) lease(node string) {
	b.t.Helper()
	if _, err := b.store.Register(context.Background(), node, time.Hour); err != nil {
		b.t.Fatal(err)
	}
	b.handle(engine.Leased{Node: node})
}

// take removes and returns the effects of one type so far.
func take[E engine.Effect](b *bench) []E {
	var found []E
	var rest []engine.Effect
	for _, eff := range b.out {
		if e, ok := eff.(E); ok {
			found = append(found, e)
		} else {
			rest = append(rest, eff)
		}
	}
	b.out = rest
	return found
}

// append carries out the commit that is wanted, and returns the answer to give.
func (b *bench) append() engine.Committed {
	b.t.Helper()
	cs := take[engine.Commit](b)
	if len(cs) != 1 {
		b.t.Fatalf("%d commits are wanted, not one", len(cs))
	}
	res, err := b.store.Append(context.Background(), cs[0].Node, cs[0].Batch)
	return engine.Committed{Number: cs[0].Number, Results: res, Err: err}
}

func (b *bench) start() uuid.UUID {
	b.t.Helper()
	id := uuid.Must(uuid.NewV7())
	b.startAs(id)
	return id
}

func (b *bench) startAs(id uuid.UUID) {
	b.t.Helper()
	data, _, wrong := saga.Begin(b.def, saga.StartOptions{Version: 1})
	if wrong != nil {
		b.t.Fatal(wrong)
	}
	b.handle(engine.StartSaga{ID: id, Def: b.def, Start: journal.Start{Definition: b.def.Name, Version: 1}, Data: data, Reply: 1})
}

func (b *bench) claim(node string) engine.Loaded {
	b.t.Helper()
	claimed, err := b.store.Claim(context.Background(), node, 10)
	if err != nil || len(claimed) != 1 {
		b.t.Fatalf("claimed %v, %v; want one saga", claimed, err)
	}
	records, err := b.store.Records(context.Background(), claimed[0].Saga, 0, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	mail, err := b.store.Messages(context.Background(), []uuid.UUID{claimed[0].Saga}, 100, 1<<20)
	if err != nil {
		b.t.Fatal(err)
	}
	return engine.Loaded{Claimed: claimed[0], Node: node, Def: b.def, Records: records, Messages: mail}
}

// The record that ends a saga comes with its row, however many records there are before it: a
// child's start that is committed after it sees that its parent has ended.
func TestEndComesWithItsRow(t *testing.T) {
	for steps := 20; steps <= 36; steps++ { // a commit takes 16 records
		src := "saga: x\nsteps:\n"
		for i := range steps {
			src += fmt.Sprintf("  - {id: s%d, set: 1}\n", i)
		}
		b := newBench(t, src)
		b.lease("n1")
		id := b.start()
		for ended := false; !ended; {
			b.handle(b.append())
			records, err := b.store.Records(t.Context(), id, 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			head, err := b.store.Saga(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if ended = records[len(records)-1].Kind == journal.Finished; ended == head.EndedAt.IsZero() {
				t.Fatalf("%d steps: finished: %v, and the row ended at %v", steps, ended, head.EndedAt)
			}
		}
	}
}

// The record that begins the undoing comes with a row that has the reason, however many records
// there are before and after it: a child's start that is committed after it is refused.
func TestUndoingComesWithItsRow(t *testing.T) {
	for steps := range 17 { // a commit takes 16 records
		src := "saga: x\nsteps:\n"
		for i := range steps {
			src += fmt.Sprintf("  - {id: s%d, set: 1}\n", i)
		}
		src += "  - {id: no, fail: x}\nfinally:\n"
		for i := range 20 {
			src += fmt.Sprintf("  - {id: f%d, set: 1}\n", i)
		}
		b := newBench(t, src)
		b.lease("n1")
		id := b.start()
		for undoing, ended := false, false; !ended; {
			b.handle(b.append())
			records, err := b.store.Records(t.Context(), id, 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			head, err := b.store.Saga(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range records {
				undoing, ended = undoing || r.Kind == journal.Compensating, ended || r.Kind == journal.Finished
			}
			if undoing && head.Reason == "" {
				t.Fatalf("%d steps: it is being undone, and its row of record %d of %d has no reason", steps, head.Seq, len(records))
			}
		}
	}
}

// The store has a saga released and gives it to the same node again, before the
// lane has the answer to the release: the lane has it read again instead of forgetting it.
func TestClaimedAgainBeforeTheReleaseIsAnswered(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: nap, sleep: 1h}\n")
	b.lease("n1")
	id := b.start()
	answer := b.append()
	b.now = b.now.Add(2 * time.Hour)
	b.handle(b.claim("n1"))
	b.handle(answer)
	b.reloaded(id)
}

// reloaded has the saga read again, as the lane wants it, and expects it to succeed then.
func (b *bench) reloaded(id uuid.UUID) {
	b.t.Helper()
	reloads := take[engine.Reload](b)
	if len(reloads) != 1 || reloads[0].Claimed.Saga != id {
		b.t.Fatalf("reloads: %+v, want one of %s", reloads, id)
	}
	records, err := b.store.Records(b.t.Context(), id, 0, 100)
	if err != nil {
		b.t.Fatal(err)
	}
	b.handle(engine.Loaded{Claimed: reloads[0].Claimed, Node: "n1", Def: b.def, Records: records})
	b.handle(b.append())
	if h, err := b.store.Saga(b.t.Context(), id); err != nil || h.Status != string(saga.Succeeded) {
		b.t.Errorf("the saga is %s, %v; want succeeded", h.Status, err)
	}
}

// A start that is repeated while the store gives the very saga to this node is turned away, and the
// lane has the saga read again instead of forgetting it.
func TestClaimedWhileItsStartIsRepeated(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n  - {id: nap, sleep: 1h}\n")
	b.lease("n1")
	id := b.start()
	b.handle(b.append())
	b.handle(engine.Answered{ID: id, Path: "a", Way: journal.Do, Attempt: 1, Answer: saga.Answer{Sent: true, Status: 200}})
	b.handle(b.append())
	take[engine.Replied](b)
	b.now = b.now.Add(2 * time.Hour)
	b.startAs(id)
	b.handle(b.claim("n1"))
	b.handle(b.append())
	if replies := take[engine.Replied](b); len(replies) != 1 || !errors.Is(replies[0].Err, journal.ErrConflict) {
		t.Errorf("the repeated start was answered %+v, want a conflict", replies)
	}
	b.reloaded(id)
}

// A start that is answered late, and that did go through, does not have its saga read again.
func TestStartGoesThroughAfterItWasClaimed(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n")
	b.lease("n1")
	id := b.start()
	b.handle(engine.Loaded{Claimed: journal.Claimed{Saga: id, Definition: "x", Version: 1}, Node: "n1", Def: b.def})
	b.handle(b.append())
	b.handle(engine.Answered{ID: id, Path: "a", Way: journal.Do, Attempt: 1, Answer: saga.Answer{Sent: true, Status: 200}})
	b.handle(b.append())
	if got := take[engine.Reload](b); len(got) != 0 {
		t.Errorf("reloads: %+v, want none", got)
	}
}

// What was claimed under an earlier lease is not taken in under the next one.
func TestLoadedUnderAnEarlierLease(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n")
	b.lease("n1")
	b.start()
	b.handle(b.append())
	if err := b.store.Release(t.Context(), "n1"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.store.Register(t.Context(), "n2", time.Hour); err != nil {
		t.Fatal(err)
	}
	stale := b.claim("n2")
	b.handle(engine.LeaseLost{})
	if err := b.store.Release(t.Context(), "n2"); err != nil {
		t.Fatal(err)
	}
	b.lease("n3")
	take[engine.Dropped](b)
	b.handle(stale)
	if b.lane.Len() != 0 {
		t.Error("a saga claimed under n2 was taken in under n3")
	}
	b.handle(b.claim("n3"))
	if b.lane.Len() != 1 {
		t.Error("the saga claimed under n3 was not taken in")
	}
}

// Another writer's record stands where ours should: the lane gives the saga up,
// and the row with it, so that it is not left to nobody.
func TestConflictGivesTheSagaUp(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n")
	b.lease("n1")
	id := b.start()
	b.handle(b.append())
	send := take[engine.Perform](b)[0].Send
	b.handle(engine.Answered{ID: id, Path: send.Path, Way: send.Way, Attempt: 1, Answer: saga.Answer{Sent: true, Status: 200}})
	c := take[engine.Commit](b)[0]
	b.handle(engine.Committed{Number: c.Number, Results: []journal.Result{{Err: journal.ErrConflict}}})
	b.handle(b.append())
	h, err := b.store.Saga(t.Context(), id)
	if err != nil || h.Owner != "" || b.lane.Len() != 0 {
		t.Errorf("owner %q, %d in memory, %v: want it to be nobody's", h.Owner, b.lane.Len(), err)
	}
}

// A saga that has ended leaves no alarm behind for long, however far its time-out was.
func TestAlarmsDoNotPileUp(t *testing.T) {
	b := newBench(t, "saga: x\ntimeout: 30d\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n")
	b.lease("n1")
	for range 100 {
		id := b.start()
		b.handle(b.append())
		send := take[engine.Perform](b)[0].Send
		b.handle(engine.Answered{ID: id, Path: send.Path, Way: send.Way, Attempt: 1, Answer: saga.Answer{Sent: true, Status: 200}})
		b.handle(b.append())
	}
	b.now = b.now.Add(5 * time.Second)
	b.handle(engine.Tick{})
	if at := b.lane.Alarm(); b.lane.Len() != 0 || !at.IsZero() {
		t.Errorf("%d sagas held, next alarm %v: want none", b.lane.Len(), at)
	}
}

// brokenDefinitions cannot be used once broken is set.
type brokenDefinitions struct {
	definitions
	loads  atomic.Int64
	broken atomic.Bool
}

func (d *brokenDefinitions) Definition(ctx context.Context, name string, v int) (*saga.Definition, error) {
	d.loads.Add(1)
	if d.broken.Load() {
		return nil, fmt.Errorf("%s: %w", name, saga.ErrUnusable)
	}
	return d.definitions.Definition(ctx, name, v)
}

// A saga that this node cannot run rests, instead of being claimed over and over;
// mail to it does not change that.
func TestSetAsideRests(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			t.Cleanup(func() { _ = store.Close() })
			def := compile(t, "saga: poison\nsteps:\n  - {id: nap, sleep: 1h}\n")
			d := &brokenDefinitions{definitions: definitions{"poison": def}}
			n := startNode(t, store, nil, func(c *engine.Config) { c.Definitions, c.Log = d, nil })
			id := n.start(def, "null", nil)
			n.await(def, id, "parked", func(m *saga.Machine) bool {
				h, err := store.Saga(t.Context(), id)
				return err == nil && h.Owner == ""
			})
			d.broken.Store(true)
			command, err := json.Marshal(saga.Command{Kind: "pause"})
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Send(t.Context(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: "order", Data: command}); err != nil {
				t.Fatal(err)
			}
			var h journal.Head
			for range 1000 {
				if h, err = store.Saga(t.Context(), id); err != nil {
					t.Fatal(err)
				}
				if d.loads.Load() > 0 && h.Owner == "" && h.WakeAt.After(time.Now().Add(journal.FirstRetryDelay/2)) && h.WakeAt.Before(time.Now().Add(2*journal.FirstRetryDelay)) {
					return
				}
				<-time.After(5 * time.Millisecond)
			}
			t.Errorf("after %d loads it wakes at %v, owner %q: want it to rest for %v", d.loads.Load(), h.WakeAt, h.Owner, journal.FirstRetryDelay)
		})
	}
}

// With a coarser checkpoint a read leaves while its intent is being written; a write never does.
func TestCheckpoint(t *testing.T) {
	const steps = `
steps:
  - {id: a, http: "GET http://w/a"}
  - {id: b, http: "GET http://w/b"}
  - {id: c, when: "steps.b.output == null", http: "GET http://w/c"}
  - {id: d, http: "POST http://w/d"}
`
	for checkpoint, early := range map[string]string{"step": "", "phase": "", "decision": "b"} {
		b := newBench(t, "saga: x\ncheckpoint: "+checkpoint+steps)
		b.lease("n1")
		id := b.start()
		got := ""
		b.handle(b.append())
		for range 4 {
			send := take[engine.Perform](b)[0].Send
			b.handle(engine.Answered{ID: id, Path: send.Path, Way: send.Way, Attempt: 1, Answer: saga.Answer{Sent: true, Status: 200}})
			for _, p := range b.out {
				if p, ok := p.(engine.Perform); ok {
					got += p.Send.Path
				}
			}
			b.handle(b.append())
		}
		if b.lane.Len() != 0 || got != early {
			t.Errorf("%s: %q left ahead of their intents, want %q; %d sagas held", checkpoint, got, early, b.lane.Len())
		}
	}
}

// large returns a bench with n sagas whose first step has been answered with so many bytes each;
// nothing of that is committed yet.
func large(t *testing.T, n, bytes int, cfg engine.LaneConfig) (*bench, []uuid.UUID) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n")
	cfg.ParkAfter, cfg.MaxRecords, cfg.Random = time.Second, 16, func() uint64 { return 0 }
	b.lane = engine.NewLane(cfg)
	b.lease("n1")
	var ids []uuid.UUID
	for range n {
		ids = append(ids, b.start())
		b.handle(b.append())
	}
	body, err := json.Marshal(strings.Repeat("x", bytes))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range take[engine.Perform](b) {
		b.handle(engine.Answered{ID: p.ID, Path: "a", Way: journal.Do, Attempt: 1, Answer: saga.Answer{Sent: true, Status: 200, Body: body}})
	}
	return b, ids
}

// ended fails unless all sagas have succeeded.
func (b *bench) ended(ids []uuid.UUID) {
	b.t.Helper()
	for _, id := range ids {
		if h, err := b.store.Saga(context.Background(), id); err != nil || h.Status != string(saga.Succeeded) {
			b.t.Errorf("saga %s is %s, %v; want succeeded", id, h.Status, err)
		}
	}
	if b.lane.Len() != 0 {
		b.t.Errorf("the lane still holds %d sagas", b.lane.Len())
	}
}

// A commit takes no more bytes than it may, unless it is of one saga.
func TestCommitsAreBoundedByBytes(t *testing.T) {
	const most = 256 << 10
	b, ids := large(t, 40, 20<<10, engine.LaneConfig{MaxBatch: 100, MaxBytes: most})
	commits, appends := 0, 0
	for {
		cs := take[engine.Commit](b)
		if len(cs) == 0 {
			break
		}
		size := 0
		for _, a := range cs[0].Batch {
			size += a.Size()
		}
		if size > most && len(cs[0].Batch) > 1 {
			t.Errorf("a commit of %d appends has %d bytes", len(cs[0].Batch), size)
		}
		commits, appends = commits+1, appends+len(cs[0].Batch)
		res, err := b.store.Append(t.Context(), cs[0].Node, cs[0].Batch)
		b.handle(engine.Committed{Number: cs[0].Number, Results: res, Err: err})
	}
	if appends != len(ids) || commits < 3 || commits > 25 {
		t.Errorf("%d appends in %d commits, want %d in a few", appends, commits, len(ids))
	}
	b.ended(ids)
}

// A batch that the store does not get through in time is split until it does, and every append is
// repeated as it was.
func TestCommitIsSplit(t *testing.T) {
	const room = 5 // appends that the store gets through in time
	b, ids := large(t, 40, 100, engine.LaneConfig{MaxBatch: 100})
	late := fmt.Errorf("%w: %w", journal.ErrUnknown, context.DeadlineExceeded)
	tried := make(map[uuid.UUID]string)
	failed := 0
	for tries := 0; ; tries++ {
		cs := take[engine.Commit](b)
		if len(cs) == 0 {
			break
		}
		if tries > 60 {
			t.Fatal("the batch does not get through")
		}
		for _, a := range cs[0].Batch {
			if len(a.Records) == 0 {
				continue
			}
			doc, err := json.Marshal(a)
			if err != nil {
				t.Fatal(err)
			}
			if before := tried[a.Saga]; before != "" && before != string(doc) {
				t.Errorf("an append was changed:\n%s\n%s", before, doc)
			}
			tried[a.Saga] = string(doc)
		}
		ev := engine.Committed{Number: cs[0].Number, Err: late}
		if len(cs[0].Batch) <= room {
			ev.Results, ev.Err = b.store.Append(context.Background(), cs[0].Node, cs[0].Batch)
		} else {
			failed++
		}
		b.handle(ev)
	}
	if failed == 0 {
		t.Error("no batch was too large: this shows nothing")
	}
	b.ended(ids)
}

// A start that a try of the whole batch may have written is not turned away when a part fails.
func TestStartIsNotTurnedAwayAfterADoubt(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: nap, sleep: 1h}\n")
	b.lease("n1")
	b.start() // its commit keeps the next ones waiting, so that they are one batch
	first := take[engine.Commit](b)[0]
	for range 3 {
		b.start()
	}
	res, err := b.store.Append(t.Context(), "n1", first.Batch)
	b.handle(engine.Committed{Number: first.Number, Results: res, Err: err})
	whole := take[engine.Commit](b)[0]
	if len(whole.Batch) != 3 {
		t.Fatalf("%d appends, want 3", len(whole.Batch))
	}
	if _, err := b.store.Append(t.Context(), "n1", whole.Batch); err != nil { // it was written, and nobody knows
		t.Fatal(err)
	}
	take[engine.Replied](b)
	b.handle(engine.Committed{Number: whole.Number, Err: fmt.Errorf("%w: %w", journal.ErrUnknown, context.DeadlineExceeded)})
	b.handle(b.append())
	rest := take[engine.Commit](b)[0]
	b.handle(engine.Committed{Number: rest.Number, Err: errors.New("disk full")})
	b.handle(b.append())
	for _, r := range take[engine.Replied](b) {
		if r.Err != nil {
			t.Errorf("a start that is there was answered with %v", r.Err)
		}
	}
}

// A wait after an answer begins at the latest time at which the answer may have come.
func TestRetryAfterIsKept(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: a, http: \"GET http://w/a\", retry: 3}\n")
	b.lane = engine.NewLane(engine.LaneConfig{ParkAfter: time.Hour, MaxBatch: 8, MaxRecords: 16, Random: func() uint64 { return 0 }})
	b.lease("n1")
	b.start()
	b.handle(b.append())
	p := take[engine.Perform](b)[0]
	came := b.now.Add(300*time.Millisecond + 1) // the node's idea of the store's clock is behind
	b.handle(engine.Answered{ID: p.ID, Path: "a", Way: journal.Do, Attempt: 1, At: came, Answer: saga.Answer{Sent: true, Status: 429, RetryAfter: 20 * time.Second}})
	b.handle(b.append())
	for _, tt := range []struct {
		after time.Duration
		sends int
	}{{20 * time.Second, 0}, {20300 * time.Millisecond, 0}, {20301 * time.Millisecond, 1}} {
		b.now = came.Add(-300*time.Millisecond - 1).Add(tt.after)
		b.handle(engine.Tick{})
		if cs := take[engine.Commit](b); len(cs) > 0 {
			res, err := b.store.Append(t.Context(), cs[0].Node, cs[0].Batch)
			b.handle(engine.Committed{Number: cs[0].Number, Results: res, Err: err})
		}
		if got := len(take[engine.Perform](b)); got != tt.sends {
			t.Errorf("%v after the answer, by the node's clock: %d requests, want %d", tt.after, got, tt.sends)
		}
	}
}
