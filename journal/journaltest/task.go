package journaltest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
)

var taskTests = []test{
	{"a claim returns all fields of a task", claimedTask},
	{"a task that is claimed from its creation", bornClaimed},
	{"the oldest of the types first, up to the limit", claimTaskOrder},
	{"a repeated claim returns the same tasks", claimTasksAgain},
	{"concurrent claims: one each", claimTasksConcurrently},
	{"concurrent claims with one token", claimTokenConcurrently},
	{"heartbeats", heartbeats},
	{"heartbeats at once: each has its own result", heartbeatsAtOnce},
	{"heartbeats end at the deadline", heartbeatsEnd},
	{"an end sends its message", endTask},
	{"a repeated end", endTaskAgain},
	{"an end without a lease", endTaskLost},
	{"withdrawn unclaimed", withdrawUnclaimed},
	{"withdrawn while claimed", withdrawClaimed},
	{"reaping, up to the limit", reapTasks},
	{"an expired lease is lost, reaped or not", reapLost},
	{"reaping against ends", reapAgainstEnd},
	{"reaping against heartbeats", reapAgainstHeartbeat},
	{"reaping by many", reapConcurrently},
	{"task stats", taskStats},
	{"a deleted saga's tasks are deleted", deleteTasks},
	{"a repeated append adds no second task", replayTasks},
	{"an append that conflicts adds and withdraws no task", conflictTasks},
	{"hints of tasks", hintTasks},
}

// newTask returns a task of a type, with long durations.
func newTask(kind string) journal.Task {
	return journal.Task{ID: newID(), Path: "step", Way: journal.Do, Attempt: 1, Key: "key", Type: kind, Input: []byte(`{}`), Lease: time.Hour, Timeout: 2 * time.Hour}
}

// short gives a task a short lease.
func short(t journal.Task) journal.Task {
	t.Lease = 150 * time.Millisecond
	return t
}

// tasked starts a saga with tasks.
func (b *bench) tasked(tasks ...journal.Task) uuid.UUID {
	b.Helper()
	a := begin(newID())
	a.Tasks = tasks
	b.ok(a)
	return a.Saga
}

// claimTasks claims with a new token, and fails unless it gets the wanted number of tasks.
func (b *bench) claimTasks(kind string, limit, want int) (uuid.UUID, []journal.ClaimedTask) {
	b.Helper()
	c := journal.TaskClaim{Worker: "w", Types: []string{kind}, Max: limit, Token: newToken()}
	out, err := b.ClaimTasks(b.ctx, c)
	b.must(err)
	if len(out) != want {
		b.Fatalf("claimed %d tasks, want %d", len(out), want)
	}
	return c.Token, out
}

func newToken() uuid.UUID { return uuid.Must(uuid.NewV4()) }

func taskIDs(list []journal.ClaimedTask) (out []uuid.UUID) {
	for _, t := range list {
		out = append(out, t.ID)
	}
	return out
}

func result(saga uuid.UUID) journal.Message {
	return journal.Message{ID: newID(), Saga: saga, Kind: "result", Data: []byte(`{"n":9007199254740993,"nul":"\u0000"}`)}
}

// reap reaps tasks, and returns which have ended how, in order. Its messages have the tasks' ids.
func (b *bench) reap(limit int) (ids []uuid.UUID, ends []journal.TaskEnd) {
	b.Helper()
	n, _, err := b.ReapTasks(b.ctx, limit, func(t journal.Task, f journal.TaskEnd) journal.Message {
		ids, ends = append(ids, t.ID), append(ends, f)
		return journal.Message{ID: t.ID, Saga: t.Saga, Kind: string(f)}
	})
	b.must(err)
	if n != len(ids) {
		b.Fatalf("ReapTasks = %d, and asked for %d messages", n, len(ids))
	}
	return ids, ends
}

// tick waits until the store's clock advances.
func (b *bench) tick() time.Time {
	b.Helper()
	from := b.now()
	b.eventually("the clock goes on", func() bool { return b.now().After(from) })
	return b.now()
}

// runOut claims tasks, which must be all of their type, and waits until their leases have expired.
func (b *bench) runOut(tasks ...journal.Task) []journal.ClaimedTask {
	b.Helper()
	_, got := b.claimTasks(tasks[0].Type, len(tasks), len(tasks))
	last := got[0].Until
	for _, t := range got {
		if t.Until.After(last) {
			last = t.Until
		}
	}
	b.eventually("the leases run out", func() bool { return b.now().After(last) })
	return got
}

func claimedTask(b *bench) {
	saga := newID()
	whole := journal.Task{ID: newID(), Saga: saga, Path: "pages[3].fetch ✈", Way: journal.Undo, Attempt: 1<<31 - 1, Key: "k'\"\\%_", Type: "render",
		Input: []byte("{\"a\":1,\"a\":2.10,\"nul\":\"\\u0000\",\"raw\":\"\x00\"}"), Lease: 90 * time.Second, Timeout: time.Hour,
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
	// Its Saga is ignored.
	bare := journal.Task{ID: newID(), Saga: newID(), Type: "other", Lease: time.Hour, Timeout: time.Minute}
	a := begin(saga)
	a.Tasks = []journal.Task{whole, bare}
	b.ok(a)
	bare.Saga = saga

	claim := func(c journal.TaskClaim, want journal.Task, lease time.Duration) {
		b.Helper()
		from := b.now()
		got, err := b.ClaimTasks(b.ctx, c)
		b.must(err)
		to := b.now()
		if len(got) != 1 {
			b.Fatalf("claimed %d tasks, want one", len(got))
		}
		diff(b, "task", got[0].Task, want)
		diff(b, "worker", got[0].Worker, c.Worker)
		for _, tt := range []struct {
			what string
			at   time.Time
			in   time.Duration
		}{{"until", got[0].Until, lease}, {"deadline", got[0].Deadline, want.Timeout}} {
			if tt.at.Before(from.Add(tt.in)) || tt.at.After(to.Add(tt.in)) {
				b.Errorf("%s %v, want %v after a time from %v to %v", tt.what, tt.at, tt.in, from, to)
			}
		}
	}
	claim(journal.TaskClaim{Worker: "w1", Types: []string{"none", "render"}, Max: 5, Token: newToken()}, whole, whole.Lease)
	// The timeout is shorter than the lease.
	claim(journal.TaskClaim{Worker: "w2", Types: []string{"other"}, Max: 1, Token: newToken()}, bare, bare.Timeout)
	again := newTask("render")
	again.Saga = b.tasked(again)
	claim(journal.TaskClaim{Types: []string{"render"}, Max: 1, Token: newToken(), Lease: time.Second}, again, time.Second)
}

func bornClaimed(b *bench) {
	born, other := newTask("a"), newTask("a")
	token := newToken()
	born.Claimant = &journal.Claimant{Worker: "agent", Token: token}
	from := b.now()
	saga := b.tasked(born, other)
	to := b.now()
	b.claimTasks("a", 10, 1) // only the other one
	got, err := b.ClaimTasks(b.ctx, journal.TaskClaim{Worker: "w", Types: []string{"b"}, Max: 1, Token: token})
	b.must(err)
	if len(got) != 1 {
		b.Fatalf("the token claims %d tasks, want one", len(got))
	}
	born.Saga, born.Claimant = saga, nil
	diff(b, "task", got[0].Task, born)
	diff(b, "worker", got[0].Worker, "agent")
	for _, tt := range []struct {
		what string
		at   time.Time
		in   time.Duration
	}{{"until", got[0].Until, born.Lease}, {"deadline", got[0].Deadline, born.Timeout}} {
		if tt.at.Before(from.Add(tt.in)) || tt.at.After(to.Add(tt.in)) {
			b.Errorf("%s %v, want %v after a time from %v to %v", tt.what, tt.at, tt.in, from, to)
		}
	}
	if _, err := b.Heartbeat(b.ctx, born.ID, newToken()); !errors.Is(err, journal.ErrTaskLost) {
		b.Errorf("a heartbeat under another token: %v", err)
	}
	_, err = b.Heartbeat(b.ctx, born.ID, token)
	b.must(err)

	brief := short(newTask("c"))
	brief.Claimant = &journal.Claimant{Worker: "agent", Token: token} // the same token again
	b.tasked(brief)
	lease, err := b.Heartbeat(b.ctx, brief.ID, token)
	b.must(err)
	b.eventually("the lease runs out", func() bool { return b.now().After(lease.Until) })
	ids, ends := b.reap(10)
	diff(b, "reaped", ids, []uuid.UUID{brief.ID})
	diff(b, "how", ends, []journal.TaskEnd{journal.TaskExpired})
}

func claimTaskOrder(b *bench) {
	one, other, two, three := newTask("a"), newTask("b"), newTask("a"), newTask("c")
	for _, t := range []journal.Task{one, other, two, three} {
		b.tasked(t)
		b.tick()
	}
	got, err := b.ClaimTasks(b.ctx, journal.TaskClaim{Types: []string{"c", "b", "a", "b"}, Max: 3, Token: newToken()})
	b.must(err)
	diff(b, "claimed", taskIDs(got), []uuid.UUID{one.ID, other.ID, two.ID})
	b.claimTasks("a", 10, 0)
	b.claimTasks("none", 10, 0)
	_, got = b.claimTasks("c", 10, 1)
	diff(b, "then", taskIDs(got), []uuid.UUID{three.ID})
	pair := []journal.Task{newTask("a"), newTask("a")}
	b.tasked(pair...)
	_, first := b.claimTasks("a", 1, 1)
	_, second := b.claimTasks("a", 1, 1)
	if ids := taskIDs(append(first, second...)); ids[0] == ids[1] {
		b.Errorf("task %s was claimed twice", ids[0])
	}
}

func claimTasksAgain(b *bench) {
	one, two, three := newTask("a"), newTask("a"), newTask("a")
	saga := b.tasked(one, two)
	c := journal.TaskClaim{Worker: "w", Types: []string{"a"}, Max: 2, Token: newToken()}
	first, err := b.ClaimTasks(b.ctx, c)
	b.must(err)
	b.tasked(three)
	again := func(what string, want []journal.ClaimedTask) {
		b.Helper()
		c.Max, c.Types = 10, []string{"a", "b"} // other values have no effect
		got, err := b.ClaimTasks(b.ctx, c)
		b.must(err)
		diff(b, what, got, want)
	}
	again("again", first)
	b.must(b.EndTask(b.ctx, first[0].ID, c.Token, "done", result(saga)))
	again("after an end", first[1:])
	b.must(b.EndTask(b.ctx, first[1].ID, c.Token, "done", result(saga)))
	again("after all ends", nil)
	b.claimTasks("a", 10, 1)

	none := journal.TaskClaim{Types: []string{"later"}, Max: 1, Token: newToken()}
	got, err := b.ClaimTasks(b.ctx, none)
	b.must(err)
	diff(b, "claimed", got, nil)
	later := short(newTask("later"))
	b.tasked(later, short(newTask("later")))
	got, err = b.ClaimTasks(b.ctx, none)
	b.must(err)
	if len(got) != 1 {
		b.Fatalf("a token whose claim got nothing gets %d tasks, want 1", len(got))
	}
	b.eventually("it no longer holds anything", func() bool {
		got, err := b.ClaimTasks(b.ctx, none)
		b.must(err)
		return len(got) == 0
	})
	b.claimTasks("later", 10, 1)
}

func claimTasksConcurrently(b *bench) {
	const tasks, claimers = 120, 8
	for range tasks / 12 {
		var some []journal.Task
		for i := range 12 {
			some = append(some, newTask([]string{"a", "b"}[i%2]))
		}
		b.tasked(some...)
	}
	stores := []journal.Store{b.Store}
	if b.subject.Again != nil {
		stores = append(stores, b.again(), b.again())
	}
	var mu sync.Mutex
	holder := map[uuid.UUID]uuid.UUID{}
	deadline := time.Now().Add(patience)
	var wg sync.WaitGroup
	for i := range claimers {
		wg.Go(func() {
			for {
				c := journal.TaskClaim{Types: []string{"a", "b"}[:1+i%2], Max: 3, Token: newToken()}
				if i%4 == 0 {
					c.Types = []string{"b"}
				}
				got, err := stores[i%len(stores)].ClaimTasks(b.ctx, c)
				if err != nil {
					b.Errorf("claim: %v", err)
					return
				}
				if len(got) > c.Max {
					b.Errorf("claimed %d tasks, more than the %d asked for", len(got), c.Max)
				}
				mu.Lock()
				for _, t := range got {
					if _, taken := holder[t.ID]; taken {
						b.Errorf("task %s was claimed twice", t.ID)
					}
					holder[t.ID] = c.Token
				}
				done := len(holder) >= tasks
				mu.Unlock()
				if done || b.Failed() || time.Now().After(deadline) {
					return
				}
			}
		})
	}
	wg.Wait()
	if len(holder) != tasks {
		b.Fatalf("%d tasks were claimed, want %d", len(holder), tasks)
	}
	for task, token := range holder {
		if _, err := b.Heartbeat(b.ctx, task, token); err != nil {
			b.Errorf("the worker that claimed task %s has no lease: %v", task, err)
		}
	}
}

func claimTokenConcurrently(b *bench) {
	for i := range 20 {
		want := []int{2, 6}[i%2] // fewer than all tasks, or all
		var tasks []journal.Task
		for range 6 {
			tasks = append(tasks, newTask("a"))
		}
		b.tasked(tasks...)
		c := journal.TaskClaim{Types: []string{"a"}, Max: want, Token: newToken()}
		var wg sync.WaitGroup
		var got [4][]journal.ClaimedTask
		for i := range got {
			wg.Go(func() {
				var err error
				if got[i], err = b.ClaimTasks(b.ctx, c); err != nil {
					b.Errorf("claim: %v", err)
				}
			})
		}
		wg.Wait()
		for _, list := range got {
			if len(list) != want {
				b.Fatalf("a claim got %d tasks, want %d", len(list), want)
			}
			diff(b, "claimed by another under the same token", list, got[0])
		}
		b.claimTasks("a", 10, 6-want)
	}
}

func heartbeats(b *bench) {
	b.tasked(newTask("a"))
	token, got := b.claimTasks("a", 1, 1)
	b.tick()
	from := b.now()
	lease, err := b.Heartbeat(b.ctx, got[0].ID, token)
	b.must(err)
	if lease.Cancel || lease.Until.Before(from.Add(time.Hour)) || lease.Until.After(b.now().Add(time.Hour)) {
		b.Errorf("lease = %+v, want one for an hour from %v on", lease, from)
	}
	for _, tt := range []struct{ task, token uuid.UUID }{{got[0].ID, newToken()}, {newID(), token}, {got[0].ID, uuid.Nil}} {
		_, err := b.Heartbeat(b.ctx, tt.task, tt.token)
		b.wantErr(err, journal.ErrTaskLost)
	}
	other := newTask("a")
	b.tasked(other)
	_, err = b.Heartbeat(b.ctx, other.ID, token) // nobody has claimed it
	b.wantErr(err, journal.ErrTaskLost)
	c := journal.TaskClaim{Types: []string{"a"}, Max: 1, Token: newToken(), Lease: time.Minute}
	_, err = b.ClaimTasks(b.ctx, c)
	b.must(err)
	lease, err = b.Heartbeat(b.ctx, other.ID, c.Token)
	b.must(err)
	if now := b.now(); lease.Until.After(now.Add(time.Minute)) {
		b.Errorf("lease until %v at %v, want the duration that the claim asked for", lease.Until, now)
	}
	b.must(b.EndTask(b.ctx, got[0].ID, token, "done", result(got[0].Saga)))
	_, err = b.Heartbeat(b.ctx, got[0].ID, token)
	b.wantErr(err, journal.ErrTaskLost)
}

func heartbeatsAtOnce(b *bench) {
	const tasks = 8
	var list []journal.Task
	for range tasks {
		list = append(list, newTask("a"))
	}
	b.tasked(list...)
	token, got := b.claimTasks("a", tasks, tasks)
	var wg sync.WaitGroup
	for i, t := range got {
		wg.Go(func() {
			for n := range 20 {
				ended, cancel := context.WithCancel(b.ctx)
				cancel()
				if _, err := b.Heartbeat(ended, t.ID, token); !errors.Is(err, context.Canceled) {
					b.Errorf("a heartbeat whose caller has left: %v", err)
				}
				from := b.now()
				lease, err := b.Heartbeat(b.ctx, t.ID, token)
				if err != nil || lease.Until.Before(from.Add(time.Hour)) {
					b.Errorf("heartbeat %d of task %d: %+v, %v", n, i, lease, err)
				}
				if _, err := b.Heartbeat(b.ctx, t.ID, newToken()); !errors.Is(err, journal.ErrTaskLost) {
					b.Errorf("a heartbeat without the lease of task %d: %v", i, err)
				}
			}
		})
	}
	wg.Wait()
}

func heartbeatsEnd(b *bench) {
	t := newTask("a")
	t.Lease, t.Timeout = 200*time.Millisecond, 600*time.Millisecond
	b.tasked(t)
	token, got := b.claimTasks("a", 1, 1)
	b.eventually("the time is over", func() bool {
		lease, err := b.Heartbeat(b.ctx, t.ID, token)
		if errors.Is(err, journal.ErrTaskLost) {
			return true
		}
		b.must(err)
		if lease.Until.After(got[0].Deadline) {
			b.Fatalf("until %v, beyond the deadline, %v", lease.Until, got[0].Deadline)
		}
		return false
	})
	ids, ends := b.reap(10)
	diff(b, "reaped", ids, []uuid.UUID{t.ID})
	diff(b, "ends", ends, []journal.TaskEnd{journal.TaskExpired})
}

func endTask(b *bench) {
	a := begin(newID())
	a.Tasks, a.Release = []journal.Task{newTask("a"), newTask("a")}, true
	b.ok(a)
	b.claim(b.node, 10)
	b.ok(journal.Append{Saga: a.Saga, Row: row("parked"), Release: true})
	token, got := b.claimTasks("a", 2, 2)
	diff(b, "claimable", b.claim(b.node, 10), nil)
	m := result(newID()) // m.Saga is ignored
	b.must(b.EndTask(b.ctx, got[0].ID, token, "done", m))
	m.Saga = a.Saga
	claimed, err := b.Claim(b.ctx, b.node, 10)
	b.must(err)
	diff(b, "claimed", claimed, []journal.Claimed{{Saga: a.Saga, Definition: "trip", Version: 3, Claims: 1, Messages: 1}}, whenever)
	diff(b, "its messages", b.messages(b.node), []journal.Message{m})
	second := result(a.Saga)
	b.must(b.EndTask(b.ctx, got[1].ID, token, "done", second))
	diff(b, "messages of an owner", b.messages(b.node), []journal.Message{m, second})
}

func endTaskAgain(b *bench) {
	saga := b.tasked(newTask("a"))
	token, got := b.claimTasks("a", 1, 1)
	m := result(saga)
	end := func(token uuid.UUID, how string, m journal.Message) error {
		return b.EndTask(b.ctx, got[0].ID, token, how, m)
	}
	b.must(end(token, "done", m))
	b.must(end(token, "done", m))
	b.must(end(token, "done", result(saga))) // a repetition does nothing
	b.wantErr(end(token, "failed", m), journal.ErrTaskLost)
	b.wantErr(end(token, "", m), journal.ErrTaskLost)
	b.wantErr(end(newToken(), "done", m), journal.ErrTaskLost)
	diff(b, "messages", b.messages(b.node), []journal.Message{m})
	b.ok(journal.Append{Saga: saga, Applied: []uuid.UUID{m.ID}})
	b.must(end(token, "done", m))
	diff(b, "messages once it was applied", b.messages(b.node), nil)
	b.ok(journal.Append{Saga: saga, Withdraw: []uuid.UUID{got[0].ID}})
	b.must(end(token, "done", m))
	ids, _ := b.reap(10)
	diff(b, "reaped", ids, nil)
}

func endTaskLost(b *bench) {
	t := newTask("a")
	saga := b.tasked(t)
	b.wantErr(b.EndTask(b.ctx, t.ID, newToken(), "done", result(saga)), journal.ErrTaskLost) // nobody has claimed it
	b.wantErr(b.EndTask(b.ctx, t.ID, uuid.Nil, "done", result(saga)), journal.ErrTaskLost)
	token, _ := b.claimTasks("a", 1, 1)
	b.wantErr(b.EndTask(b.ctx, t.ID, newToken(), "done", result(saga)), journal.ErrTaskLost)
	b.wantErr(b.EndTask(b.ctx, newID(), token, "done", result(saga)), journal.ErrTaskLost)
	diff(b, "messages", b.messages(b.node), nil)
	b.must(b.EndTask(b.ctx, t.ID, token, "done", result(saga)))
}

func withdrawUnclaimed(b *bench) {
	one, two, three, four := newTask("a"), newTask("a"), newTask("a"), newTask("a")
	saga := b.tasked(one, two, three)
	other := b.tasked()
	b.ok(journal.Append{Saga: saga, Withdraw: []uuid.UUID{one.ID, newID()}})
	b.tick()
	// One of the withdrawn tasks is created by the same append.
	b.ok(journal.Append{Saga: saga, Tasks: []journal.Task{four}, Withdraw: []uuid.UUID{four.ID, one.ID}})
	// The task is not one of this saga.
	b.ok(journal.Append{Saga: other, Withdraw: []uuid.UUID{two.ID}})
	_, got := b.claimTasks("a", 10, 2)
	ids, ends := b.reap(10)
	diff(b, "reaped", ids, []uuid.UUID{one.ID, four.ID})
	diff(b, "ends", ends, []journal.TaskEnd{journal.TaskWithdrawn, journal.TaskWithdrawn})
	messages := []journal.Message{{ID: one.ID, Saga: saga, Kind: "withdrawn"}, {ID: four.ID, Saga: saga, Kind: "withdrawn"}}
	slices.SortFunc(messages, func(x, y journal.Message) int { return slices.Compare(x.ID[:], y.ID[:]) })
	diff(b, "messages", b.messages(b.node), messages)
	for _, t := range got {
		if t.ID != two.ID && t.ID != three.ID {
			b.Errorf("the withdrawn task %s was claimed", t.ID)
		}
	}
	b.ok(journal.Append{Saga: saga, Withdraw: []uuid.UUID{one.ID}})
	ids, _ = b.reap(10)
	diff(b, "reaped again", ids, nil)
}

func withdrawClaimed(b *bench) {
	t := newTask("a")
	saga := b.tasked(t, short(newTask("short")))
	token, _ := b.claimTasks("a", 1, 1)
	b.ok(journal.Append{Saga: saga, Withdraw: []uuid.UUID{t.ID}})
	ids, _ := b.reap(10)
	diff(b, "reaped while in flight", ids, nil)
	lease, err := b.Heartbeat(b.ctx, t.ID, token)
	b.must(err)
	if !lease.Cancel || !lease.Until.After(b.now()) {
		b.Errorf("lease = %+v, want Cancel", lease)
	}
	m := result(saga)
	b.must(b.EndTask(b.ctx, t.ID, token, "cancelled", m))
	diff(b, "messages", b.messages(b.node), []journal.Message{m})

	_, got := b.claimTasks("short", 1, 1)
	b.ok(journal.Append{Saga: saga, Withdraw: []uuid.UUID{got[0].ID}})
	var ends []journal.TaskEnd
	b.eventually("it expires", func() bool {
		ids, ends = b.reap(10)
		return len(ids) > 0
	})
	diff(b, "reaped", ids, []uuid.UUID{got[0].ID})
	diff(b, "ends", ends, []journal.TaskEnd{journal.TaskExpired}) // the work may have been done
}

func reapTasks(b *bench) {
	tasks := []journal.Task{short(newTask("a")), short(newTask("a")), short(newTask("a"))}
	a := begin(newID())
	a.Row.WakeAt, a.Release, a.Tasks = time.Time{}, true, tasks
	b.ok(a)
	b.tasked(newTask("a"), newTask("long"))
	b.claimTasks("long", 1, 1) // in progress
	got := b.runOut(tasks...)
	var all []journal.Task
	for _, limit := range []int{0, 2, 2, 2} {
		n, _, err := b.ReapTasks(b.ctx, limit, func(t journal.Task, f journal.TaskEnd) journal.Message {
			all = append(all, t)
			return journal.Message{ID: t.ID, Saga: newID(), Kind: string(f), Data: []byte(`1`)}
		})
		b.must(err)
		if n > limit {
			b.Fatalf("reaped %d tasks, want %d at most", n, limit)
		}
	}
	var want []journal.Task
	var messages []journal.Message
	for _, t := range got {
		want = append(want, t.Task)
		messages = append(messages, journal.Message{ID: t.ID, Saga: a.Saga, Kind: "expired", Data: []byte(`1`)})
	}
	byID := func(x, y uuid.UUID) int { return slices.Compare(x[:], y[:]) }
	for _, list := range [][]journal.Task{all, want} {
		slices.SortFunc(list, func(x, y journal.Task) int { return byID(x.ID, y.ID) })
	}
	slices.SortFunc(messages, func(x, y journal.Message) int { return byID(x.ID, y.ID) })
	diff(b, "reaped", all, want)
	claimed, err := b.Claim(b.ctx, b.node, 10)
	b.must(err)
	diff(b, "claimed", claimed, []journal.Claimed{{Saga: a.Saga, Definition: "trip", Version: 3, Claims: 1, Messages: len(messages)}}, whenever)
	diff(b, "messages", b.messages(b.node), messages)
}

func reapLost(b *bench) {
	t := short(newTask("a"))
	saga := b.tasked(t)
	token, got := b.claimTasks("a", 1, 1)
	b.eventually("the lease runs out", func() bool { return !b.now().Before(got[0].Until) })
	lost := func(when string) {
		b.Helper()
		_, err := b.Heartbeat(b.ctx, t.ID, token)
		b.wantErr(err, journal.ErrTaskLost)
		for _, how := range []string{"done", "expired", ""} {
			b.wantErr(b.EndTask(b.ctx, t.ID, token, how, result(saga)), journal.ErrTaskLost)
		}
		again, err := b.ClaimTasks(b.ctx, journal.TaskClaim{Types: []string{"a"}, Max: 1, Token: token})
		b.must(err)
		diff(b, "held "+when, again, nil)
	}
	lost("before")
	b.claimTasks("a", 1, 0) // no other worker gets it: the work may have been done
	diff(b, "messages before", b.messages(b.node), nil)
	ids, ends := b.reap(10)
	diff(b, "reaped", ids, []uuid.UUID{t.ID})
	diff(b, "ends", ends, []journal.TaskEnd{journal.TaskExpired})
	lost("after")
	ids, _ = b.reap(10)
	diff(b, "reaped again", ids, nil)
	diff(b, "messages after", b.messages(b.node), []journal.Message{{ID: t.ID, Saga: saga, Kind: "expired"}})
}

// reapAgainstEnd: each task ends in one way, and its saga gets one message, which reports that way.
func reapAgainstEnd(b *bench) {
	const tasks = 40
	var made []journal.Task
	for range tasks {
		made = append(made, short(newTask("a")))
	}
	b.tasked(made...)
	token, got := b.claimTasks("a", tasks, tasks)
	var mu sync.Mutex
	won := map[uuid.UUID]string{} // by the id of the message
	win := func(m uuid.UUID, how string) {
		mu.Lock()
		defer mu.Unlock()
		won[m] = how
	}
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			for _, t := range got[i*tasks/3 : (i+1)*tasks/3] {
				<-time.After(14 * time.Millisecond) // until the leases have expired
				if b.subject.Advance != nil {
					b.subject.Advance(4 * time.Millisecond)
				}
				m := result(t.Saga)
				switch err := b.EndTask(b.ctx, t.ID, token, "done", m); {
				case err == nil:
					win(m.ID, "done")
				case !errors.Is(err, journal.ErrTaskLost):
					b.Errorf("end: %v", err)
				}
			}
		})
	}
	reaped := func() int {
		n, _, err := b.ReapTasks(b.ctx, 7, func(t journal.Task, f journal.TaskEnd) journal.Message {
			win(t.ID, string(f))
			return journal.Message{ID: t.ID, Kind: string(f)}
		})
		b.must(err)
		return n
	}
	total := 0
	b.eventually("all have ended", func() bool {
		total += reaped()
		mu.Lock()
		defer mu.Unlock()
		return len(won) >= tasks
	})
	wg.Wait()
	reported := map[uuid.UUID]string{}
	for _, m := range b.messages(b.node) {
		how := m.Kind
		if how == "result" {
			how = "done"
		}
		reported[m.ID] = how
	}
	if d := cmp.Diff(won, reported); d != "" || len(reported) != tasks {
		b.Errorf("%d tasks, but the saga got %d messages (-ended +reported):\n%s", tasks, len(reported), d)
	}
	b.Logf("%d of %d were reaped", total, tasks)
}

// reapAgainstHeartbeat: a task is not reaped before its lease expires, however the lease was
// extended.
func reapAgainstHeartbeat(b *bench) {
	t := newTask("a")
	t.Lease = 40 * time.Millisecond
	b.tasked(t)
	token, got := b.claimTasks("a", 1, 1)
	var until atomic.Int64 // end of the lease by the last successful heartbeat
	until.Store(got[0].Until.UnixMilli())
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			lease, err := b.Heartbeat(b.ctx, t.ID, token)
			if errors.Is(err, journal.ErrTaskLost) {
				return
			}
			if err != nil {
				b.Errorf("heartbeat: %v", err)
				return
			}
			until.Store(lease.Until.UnixMilli())
		}
	})
	for i := range 150 {
		runs := until.Load()
		ids, _ := b.reap(10)
		if now := b.now().UnixMilli(); len(ids) > 0 {
			if now < runs {
				b.Errorf("reaped before %d, while the lease ran until %d", now, runs)
			}
			break
		}
		if b.subject.Advance != nil && i%10 == 0 {
			b.subject.Advance(time.Millisecond)
		}
	}
	close(stop)
	wg.Wait()
	b.eventually("it is reaped, once it does not beat", func() bool {
		_, err := b.Heartbeat(b.ctx, t.ID, token)
		if err == nil {
			<-time.After(50 * time.Millisecond)
		}
		b.reap(10)
		return len(b.messages(b.node)) == 1
	})
	_, err := b.Heartbeat(b.ctx, t.ID, token)
	b.wantErr(err, journal.ErrTaskLost)
}

func reapConcurrently(b *bench) {
	const tasks = 60
	var made []journal.Task
	for range tasks / 3 {
		some := []journal.Task{short(newTask("a")), short(newTask("a")), short(newTask("a"))}
		b.tasked(some...)
		made = append(made, some...)
	}
	b.runOut(made...)
	stores := []journal.Store{b.Store}
	if b.subject.Again != nil {
		stores = append(stores, b.again())
	}
	var total atomic.Int64
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for range 20 {
				n, _, err := stores[i%len(stores)].ReapTasks(b.ctx, 10, func(t journal.Task, f journal.TaskEnd) journal.Message {
					return journal.Message{ID: newID(), Kind: string(f)} // a second message would be counted
				})
				if err != nil {
					b.Errorf("reap: %v", err)
				}
				total.Add(int64(n))
			}
		})
	}
	wg.Wait()
	ids, _ := b.reap(tasks)
	if n := int(total.Load()) + len(ids); n != tasks || len(b.messages(b.node)) != tasks {
		b.Errorf("reaped %d of %d tasks, with %d messages", n, tasks, len(b.messages(b.node)))
	}
}

func taskStats(b *bench) {
	stats := func(what string, want ...journal.TaskStat) {
		b.Helper()
		got, err := b.TaskStats(b.ctx)
		b.must(err)
		for i := range got {
			if i < len(want) && !want[i].Oldest.IsZero() {
				if at := got[i].Oldest; at.Before(want[i].Oldest) || at.After(want[i].Oldest.Add(time.Minute)) {
					b.Errorf("%s: the oldest of %s was created at %v, want a time just after %v", what, got[i].Type, at, want[i].Oldest)
				}
				got[i].Oldest = want[i].Oldest
			}
		}
		diff(b, what, got, want)
	}
	stats("none")
	from := b.now()
	gone := newTask("a")
	saga := b.tasked(newTask("z"), newTask("z"))
	then := b.tick()
	b.tasked(newTask("a"), newTask("b"), gone)
	stats("waiting", journal.TaskStat{Type: "z", Waiting: 2, Oldest: from}, journal.TaskStat{Type: "a", Waiting: 2, Oldest: then}, journal.TaskStat{Type: "b", Waiting: 1, Oldest: then})
	token, got := b.claimTasks("z", 2, 2)
	b.claimTasks("b", 2, 1)
	stats("claimed", journal.TaskStat{Type: "a", Waiting: 2, Oldest: then}, journal.TaskStat{Type: "b", Claimed: 1}, journal.TaskStat{Type: "z", Claimed: 2})
	b.must(b.EndTask(b.ctx, got[0].ID, token, "done", result(saga)))
	b.ok(journal.Append{Saga: saga, Withdraw: []uuid.UUID{got[1].ID}}) // it is still in progress
	b.claimTasks("a", 2, 2)
	withdrawn := newTask("a")
	b.ok(journal.Append{Saga: saga, Tasks: []journal.Task{withdrawn}, Withdraw: []uuid.UUID{withdrawn.ID}})
	stats("at last", journal.TaskStat{Type: "a", Claimed: 2}, journal.TaskStat{Type: "b", Claimed: 1}, journal.TaskStat{Type: "z", Claimed: 1})
}

func deleteTasks(b *bench) {
	t, other := newTask("a"), newTask("b")
	saga := b.tasked(t, newTask("waits"), newTask("waits"))
	b.tasked(other)
	token, _ := b.claimTasks("a", 1, 1)
	end := ended()
	b.ok(journal.Append{Saga: saga, Row: end, Release: true})
	b.must(b.Delete(b.ctx, saga))
	b.claimTasks("waits", 10, 0)
	b.wantErr(b.EndTask(b.ctx, t.ID, token, "done", result(saga)), journal.ErrTaskLost)
	_, err := b.Heartbeat(b.ctx, t.ID, token)
	b.wantErr(err, journal.ErrTaskLost)
	ids, _ := b.reap(10)
	diff(b, "reaped", ids, nil)
	got, err := b.TaskStats(b.ctx)
	b.must(err)
	if len(got) != 1 || got[0].Type != "b" {
		b.Errorf("stats = %+v, want those of the other saga's task", got)
	}
	over := begin(newID())
	over.Row, over.Release, over.Tasks = ended(), true, []journal.Task{newTask("expires")}
	over.Row.DeleteAt = epoch
	b.ok(over)
	n, err := b.DeleteExpired(b.ctx, 10)
	b.must(err)
	diff(b, "expired", n, 1)
	b.claimTasks("expires", 10, 0)
	b.ok(over) // its id is free again
	b.claimTasks("expires", 10, 1)
}

func replayTasks(b *bench) {
	saga, hash := b.started()
	one, two := newTask("a"), newTask("b")
	first := journal.Append{Saga: saga, Records: chain(saga, hash, 2, 2), Tasks: []journal.Task{one, one}}
	b.ok(first)
	b.ok(first)
	token, _ := b.claimTasks("a", 10, 1)
	b.ok(first)
	b.claimTasks("a", 10, 0)
	b.must(b.EndTask(b.ctx, one.ID, token, "done", result(saga)))
	b.ok(first)
	b.claimTasks("a", 10, 0)
	late := first
	// It is a repetition, so its tasks are not added.
	late.Tasks, late.Withdraw = []journal.Task{newTask("a")}, []uuid.UUID{two.ID}
	b.ok(journal.Append{Saga: saga, Tasks: []journal.Task{two}})
	b.ok(late)
	b.claimTasks("a", 10, 0)
	// Two of its records are written already.
	rest := journal.Append{Saga: saga, Records: chain(saga, hash, 2, 3), Tasks: []journal.Task{newTask("c")}}
	b.ok(rest)
	b.ok(rest)
	b.claimTasks("c", 10, 1)
	// Without records it is applied again, and the task exists already.
	b.ok(journal.Append{Saga: saga, Tasks: []journal.Task{two}})
	b.claimTasks("b", 10, 1)
	begun := begin(newID())
	begun.Tasks = []journal.Task{newTask("d")}
	b.ok(begun)
	b.ok(begun)
	b.claimTasks("d", 10, 1)
}

func conflictTasks(b *bench) {
	t := newTask("a")
	saga := b.tasked(t)
	key, unique := begin(newID()), begin(newID())
	key.Start.Key, unique.Start.Unique = "k", "u"
	b.ok(key, unique)
	with := func(a journal.Append) journal.Append {
		a.Tasks, a.Withdraw = []journal.Task{newTask("b")}, []uuid.UUID{t.ID}
		a.Events, a.Messages = []journal.Event{{ID: newID(), Sink: "s"}}, []journal.Message{result(saga)}
		return a
	}
	sameKey, sameUnique := begin(newID()), begin(newID())
	sameKey.Start.Key, sameUnique.Start.Unique = "k", "u"
	fine := begin(newID())
	fine.Tasks = []journal.Task{newTask("c")}
	got := b.append(with(journal.Append{Saga: saga, Records: chain(saga, []byte("?"), 1, 1)}), with(sameKey), with(sameUnique),
		with(journal.Append{Saga: newID(), Records: chain(saga, nil, 1, 1)}), fine)
	for i, want := range []error{journal.ErrConflict, journal.ErrStartKey, journal.ErrUnique, journal.ErrConflict, nil} {
		b.wantErr(got[i].Err, want)
	}
	parked := b.parked(time.Time{})
	b.wantErr(b.append(with(journal.Append{Saga: parked}))[0].Err, journal.ErrConflict)
	b.must(b.append(with(journal.Append{Saga: parked, Release: true}))[0].Err) // released already: it does nothing
	_, err := b.Store.Append(b.ctx, "nobody", []journal.Append{with(journal.Append{Saga: saga})})
	b.wantErr(err, journal.ErrFenced)
	b.claimTasks("b", 10, 0)
	b.claimTasks("c", 10, 1)
	b.claimTasks("a", 10, 1)
	diff(b, "messages", b.messages(b.node), nil)
	diff(b, "events", b.claimEvents(10, time.Hour), nil)
}

func hintTasks(b *bench) {
	saga, _ := b.started()
	b.drain()
	b.ok(journal.Append{Saga: saga, Tasks: []journal.Task{newTask("a")}})
	b.hinted("the task")
	token, got := b.claimTasks("a", 1, 1)
	b.drain()
	b.must(b.EndTask(b.ctx, got[0].ID, token, "done", result(saga)))
	b.hinted("the end's messages")
}

// ForgetsTasks tests that a store deletes tasks that ended long ago, and not sooner. later advances
// the clock. ForgetsTasks closes the store.
func ForgetsTasks(t *testing.T, s journal.Store, later func(time.Duration)) {
	b := &bench{T: t, Store: s, ctx: t.Context()}
	defer func() { b.must(s.Close()) }()
	b.node = b.register(ttl)
	saga := b.tasked(newTask("a"), newTask("waits"))
	token, got := b.claimTasks("a", 1, 1)
	m := result(saga)
	end := func() error { return b.EndTask(b.ctx, got[0].ID, token, "done", m) }
	b.must(end())
	later(24*time.Hour - time.Minute)
	b.reap(10)
	b.must(end())
	later(2 * time.Minute)
	b.reap(0)
	b.must(end())
	for _, want := range []bool{true, false} {
		_, more, err := b.ReapTasks(b.ctx, 1, nil)
		b.must(err)
		diff(b, "there may be more old tasks", more, want)
	}
	b.wantErr(end(), journal.ErrTaskLost)
	b.claimTasks("waits", 10, 1)
}
