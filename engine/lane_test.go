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
	"recourse/saga/machine"
)

// bench drives one lane: commits and responses happen when the test says so.
type bench struct {
	t     *testing.T
	store *memory.Store
	lane  *engine.Lane
	now   time.Time
	lag   time.Duration // how much later the store's clock may be than now
	def   *saga.Definition
	out   []engine.Effect
}

func newBench(t *testing.T, src string) *bench {
	b := &bench{t: t, def: compile(t, src), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.store = memory.New(memory.Config{Now: func() time.Time { return b.now }})
	b.lane = engine.NewLane(engine.LaneConfig{ParkAfter: time.Second, MaxBatch: 8, MaxRecords: 16, Random: func() uint64 { return 0 }})
	return b
}

func (b *bench) handle(ev engine.Event) {
	b.out = append(b.out, b.lane.Handle(b.now, b.now.Add(b.lag), ev)...)
}

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

// append carries out the pending commit, and returns its Committed.
func (b *bench) append() engine.Committed {
	b.t.Helper()
	cs := take[engine.Commit](b)
	if len(cs) != 1 {
		b.t.Fatalf("%d commits, want one", len(cs))
	}
	res, err := b.store.Append(context.Background(), cs[0].Node, cs[0].Batch)
	return engine.Committed{Number: cs[0].Number, Results: res, Err: err}
}

// tick lets the time pass until the lane's next alarm.
func (b *bench) tick() {
	b.t.Helper()
	at := b.lane.Alarm()
	if at.IsZero() {
		b.t.Fatal("the lane has no alarm")
	}
	b.now = at
	b.handle(engine.Tick{})
}

func (b *bench) start() uuid.UUID {
	b.t.Helper()
	id := uuid.Must(uuid.NewV7())
	b.startAs(id)
	return id
}

func (b *bench) startAs(id uuid.UUID) {
	b.t.Helper()
	data, _, wrong := machine.Begin(b.def, machine.StartOptions{Version: 1})
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
	unread, err := b.store.Messages(context.Background(), []uuid.UUID{claimed[0].Saga}, 100, 1<<20)
	if err != nil {
		b.t.Fatal(err)
	}
	return engine.Loaded{Claimed: claimed[0], Node: node, Def: b.def, Records: records, Messages: unread}
}

// The record that ends a saga is in the same append as its row, however many records precede it: a
// child's start that is committed later sees that its parent has ended.
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

// The record that begins the compensation is in the same append as a row with the reason, however
// many records precede or follow it: a child's start that is committed later is refused.
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
				t.Fatalf("%d steps: it is being undone, but its row as of record %d of %d has no reason", steps, head.Seq, len(records))
			}
		}
	}
}

// A saga may be released and claimed again by the same node before the lane gets the result of the
// release. The lane then has it read again, and does not forget it.
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

// reloaded carries out the lane's Reload of the saga, which must then succeed.
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

// A node may claim a saga while it repeats the start of that saga. The start is refused, and the
// lane has the saga read again, and does not forget it.
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
		t.Errorf("the reply to the repeated start is %+v, want a conflict", replies)
	}
	b.reloaded(id)
}

// If the start turns out to be durable, the saga is not read again.
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

// A node that loses its lease during a commit answers a start with its id: it may be durable.
func TestStartOfAFencedNode(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n")
	b.lease("n1")
	b.start()
	if _, err := b.store.Append(t.Context(), "n1", take[engine.Commit](b)[0].Batch); err != nil {
		t.Fatal(err)
	}
	b.handle(engine.LeaseLost{})
	got := take[engine.Replied](b)
	if len(got) != 1 || !errors.Is(got[0].Err, saga.ErrUnavailable) || !errors.Is(got[0].Err, journal.ErrUnknown) {
		t.Fatalf("got %+v, want one reply: unavailable, with an unknown result", got)
	}
	if _, err := b.store.Saga(t.Context(), got[0].ID); err != nil {
		t.Errorf("the reply names %s: %v", got[0].ID, err)
	}
}

// A saga that was claimed under an earlier lease is not loaded under the next one.
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
		t.Error("a saga claimed under n2 was loaded under n3")
	}
	b.handle(b.claim("n3"))
	if b.lane.Len() != 1 {
		t.Error("the saga claimed under n3 was not loaded")
	}
}

// If another writer's record is at the seq of ours, the lane gives the saga up and releases its
// row, so that another node can claim it.
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
		t.Errorf("owner %q, %d in memory, %v: want no owner", h.Owner, b.lane.Len(), err)
	}
}

// A saga that has ended does not keep its alarm for long, even if its timeout was far away.
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
		t.Errorf("%d sagas in the lane, next alarm %v: want none", b.lane.Len(), at)
	}
}

// brokenDefinitions returns no definition once broken is set.
type brokenDefinitions struct {
	definitions
	loads  atomic.Int64
	broken atomic.Bool
}

func (d *brokenDefinitions) Of(ctx context.Context, start *saga.StartedData) (*saga.Definition, error) {
	d.loads.Add(1)
	if d.broken.Load() {
		return nil, fmt.Errorf("%s: %w", start.Definition, saga.ErrUnusable)
	}
	return d.definitions.Of(ctx, start)
}

// A saga that this node cannot run is claimed again only after a delay, even if a message for it
// arrives.
func TestGivenUpIsRetriedLater(t *testing.T) {
	for name, open := range stores(t) {
		t.Run(name, func(t *testing.T) {
			store := open(t)
			t.Cleanup(func() { _ = store.Close() })
			def := compile(t, "saga: poison\nsteps:\n  - {id: nap, sleep: 1h}\n")
			d := &brokenDefinitions{definitions: definitions{"poison": def}}
			n := startNode(t, store, nil, func(c *engine.Config) { c.Definitions, c.Log = d, nil })
			id := n.start(def, "null", nil)
			n.await(def, id, "parked", func(m *machine.Machine) bool {
				h, err := store.Saga(t.Context(), id)
				return err == nil && h.Owner == ""
			})
			d.broken.Store(true)
			command, err := json.Marshal(saga.Command{Do: saga.Pause{}})
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Send(t.Context(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: saga.CommandMessage, Data: command}); err != nil {
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
			t.Errorf("after %d loads it wakes at %v, owner %q: want it to wake after %v", d.loads.Load(), h.WakeAt, h.Owner, journal.FirstRetryDelay)
		})
	}
}

// With a coarser checkpoint, a read may be sent while its intent is being committed. A write never
// is.
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
			t.Errorf("%s: %q were sent before their intents, want %q; %d sagas in the lane", checkpoint, got, early, b.lane.Len())
		}
	}
}

// large returns a bench with n sagas whose first step got a response of so many bytes. Their
// outcomes are not committed yet.
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
		b.t.Errorf("%d sagas are still in the lane", b.lane.Len())
	}
}

// A commit has at most MaxBytes, unless it has only one append.
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

// A batch that times out is split until the store can commit it. Each append is repeated unchanged.
func TestCommitIsSplit(t *testing.T) {
	const room = 5 // appends that the store commits in time
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
			t.Fatal("the batch is never committed")
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
		t.Error("no batch was too large, so this test shows nothing")
	}
	b.ended(ids)
}

// A start that may have been written as part of the whole batch is not refused when a later part
// fails.
func TestStartIsNotTurnedAwayAfterADoubt(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: nap, sleep: 1h}\n")
	b.lease("n1")
	b.start() // the next starts wait for its commit, and form one batch
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
	// The batch was written, but the lane does not know.
	if _, err := b.store.Append(t.Context(), "n1", whole.Batch); err != nil {
		t.Fatal(err)
	}
	take[engine.Replied](b)
	b.handle(engine.Committed{Number: whole.Number, Err: fmt.Errorf("%w: %w", journal.ErrUnknown, context.DeadlineExceeded)})
	b.handle(b.append())
	rest := take[engine.Commit](b)[0]
	b.handle(engine.Committed{Number: rest.Number, Err: errors.New("disk full")})
	b.tick()
	b.handle(b.append())
	for _, r := range take[engine.Replied](b) {
		if r.Err != nil {
			t.Errorf("the reply to a start that was written is %v", r.Err)
		}
	}
}

// A delay after a response begins at the latest time at which the response may have arrived.
func TestRetryAfterIsKept(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: a, http: \"GET http://w/a\", retry: 3}\n")
	b.lane = engine.NewLane(engine.LaneConfig{ParkAfter: time.Hour, MaxBatch: 8, MaxRecords: 16, Random: func() uint64 { return 0 }})
	b.lease("n1")
	b.start()
	b.handle(b.append())
	p := take[engine.Perform](b)[0]
	came := b.now.Add(300*time.Millisecond + 1) // the node's estimate of the store's clock is late
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

// Waits that begin while the node's estimate of the store's clock is late are not cut short when a
// quick renewal corrects it, whichever node carries on.
func TestWaitsAreNotCutShort(t *testing.T) {
	for name, src := range map[string]string{
		"sleep":    "saga: x\nsteps:\n  - {id: a, sleep: 30s}\n",
		"signal":   "saga: x\nsteps:\n  - {id: a, signal: go, timeout: 30s}\n",
		"approval": "saga: x\nsteps:\n  - {id: a, approval: {title: Sure?}, timeout: 30s}\n",
		"timeout":  "saga: x\ntimeout: 30s\nsteps:\n  - {id: a, sleep: 1h}\n",
		"hold":     "saga: x\nbudget: 0.01 USD\nsteps:\n  - {id: a, http: \"POST http://w/a\", cost: 0.02 USD, on_error: hold, hold_for: 30s}\n",
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, src)
			b.lag = 4 * time.Second // so much the commit of the registration has waited for a standby
			b.lease("n1")
			b.now = b.now.Add(-b.lag)
			id := b.start()
			b.now = b.now.Add(b.lag)
			began := b.now
			b.handle(b.append())
			h, err := b.store.Saga(t.Context(), id)
			if wait := h.WakeAt.Sub(began); err != nil || wait < 30*time.Second || wait > 30*time.Second+b.lag {
				t.Fatalf("the wait of 30s ends after %v by the store's clock, %v", wait, err)
			}
			b.now, b.lag = h.WakeAt.Add(-time.Millisecond), 0
			if claimed, err := b.store.Claim(t.Context(), "n1", 1); err != nil || len(claimed) > 0 {
				t.Fatalf("it is claimed early: %v, %v", claimed, err)
			}
			b.now = h.WakeAt
			b.handle(b.claim("n1"))
			if c := take[engine.Commit](b); len(c) != 1 || c[0].Batch[0].Records[0].Kind != journal.Woke {
				t.Errorf("it does not go on when the wait has ended: %+v", c)
			}
		})
	}
}

// So is the deadline of a step.
func TestDeadlineIsNotCutShort(t *testing.T) {
	b := newBench(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", timeout: 9s, deadline: 10s, retry: {initial: 1s, attempts: 3, on: [503]}}\n")
	b.lane = engine.NewLane(engine.LaneConfig{ParkAfter: time.Hour, MaxBatch: 8, MaxRecords: 16, Random: func() uint64 { return 0 }})
	b.lag = 4 * time.Second
	b.lease("n1")
	b.now = b.now.Add(-b.lag)
	_, p := b.sent()
	b.now, b.lag = b.now.Add(b.lag+8*time.Second), 0
	b.handle(engine.Answered{ID: p.ID, Path: "a", Way: journal.Do, Attempt: 1, Answer: saga.Answer{Sent: true, Status: 503}})
	b.handle(b.append())
	b.now = b.now.Add(time.Second)
	b.handle(engine.Tick{})
	b.handle(b.append())
	if sends := take[engine.Perform](b); len(sends) != 1 || sends[0].Send.Timeout != time.Second {
		t.Errorf("%+v, want an attempt for the second that is left", sends)
	}
}
