package journaltest_test

import (
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
	"pgregory.net/rapid"

	"recourse/journal"
)

// more adds random tasks, events, messages and blobs to an append. As in practice, the ids of tasks
// and events are derived from their saga.
func (w *world) more(a *journal.Append) {
	switch rapid.IntRange(0, 9).Draw(w.T, "more") {
	case 0, 1:
		a.Tasks = []journal.Task{w.task(a.Saga)}
	case 2:
		a.Tasks = []journal.Task{w.task(a.Saga), w.task(a.Saga)}
		a.Withdraw = []uuid.UUID{w.pick(w.tasks(), "withdraw")}
	case 3:
		a.Withdraw = []uuid.UUID{w.pick(w.tasks(), "withdraw")}
	case 4:
		for _, sink := range []string{"x", "y"} {
			a.Events = append(a.Events, journal.Event{ID: of(a.Saga, "event"), Sink: w.prefix + sink, Data: []byte(`{"n":1.10}`)})
		}
	case 5, 6:
		for range rapid.IntRange(1, 3).Draw(w.T, "messages") {
			a.Messages = append(a.Messages, w.message())
		}
	case 7, 8:
		for range rapid.IntRange(1, 2).Draw(w.T, "blobs") {
			a.Blobs = append(a.Blobs, w.blob())
		}
	}
}

func (w *world) message() journal.Message {
	return journal.Message{ID: w.pick(w.messages, "message"), Saga: w.pick(w.sagas, "saga"), Kind: "signal", Data: []byte(`1`)}
}

// of returns an id that is derived from a saga.
func of(saga uuid.UUID, name string) uuid.UUID { return uuid.NewV5(saga, name) }

func (w *world) task(saga uuid.UUID) journal.Task {
	t := journal.Task{ID: of(saga, rapid.SampledFrom([]string{"one", "two"}).Draw(w.T, "task")), Path: "p", Way: journal.Do, Attempt: 1, Key: "k",
		Type: w.prefix + rapid.SampledFrom([]string{"t", "u"}).Draw(w.T, "type"), Input: []byte(`{"n":1.10}`), Lease: time.Hour, Timeout: 2 * time.Hour}
	if rapid.IntRange(0, 3).Draw(w.T, "claimed from its creation") == 0 {
		t.Claimant = &journal.Claimant{Worker: "w", Token: w.token()}
	}
	return t
}

func (w *world) tasks() (out []uuid.UUID) {
	for _, saga := range w.sagas {
		out = append(out, of(saga, "one"), of(saga, "two"))
	}
	return out
}

// token returns one of a few tokens, so that claims are repeated.
func (w *world) token() uuid.UUID {
	return of(w.sagas[0], w.prefix+rapid.SampledFrom([]string{"t1", "t2", "t3"}).Draw(w.T, "token"))
}

// taskStep does a random operation of a worker, or reaps tasks.
func (w *world) taskStep() {
	switch rapid.SampledFrom([]string{"claim", "claim", "claim shortly", "beat", "end", "end", "reap", "reap", "stats"}).Draw(w.T, "what") {
	case "claim":
		w.claimTasks(w.token())
	case "claim shortly": // for so short a time that the lease may have expired before the call returns
		c := journal.TaskClaim{Worker: "w", Types: w.types(), Max: 100, Token: w.token(), Lease: time.Millisecond}
		w.all("claim tasks shortly", func(s journal.Store) (any, error) {
			_, err := s.ClaimTasks(w.ctx, c)
			return nil, err
		})
		<-time.After(4 * time.Millisecond) // by the clocks of all stores
	case "beat":
		task, token := w.pick(w.tasks(), "task"), w.token()
		w.all("heartbeat", func(s journal.Store) (any, error) {
			l, err := s.Heartbeat(w.ctx, task, token)
			return []any{l.Cancel, sameNow(l.Until)}, err
		})
	case "end":
		task, token, m := w.pick(w.tasks(), "task"), w.token(), w.message()
		how := rapid.SampledFrom([]string{"done", "failed"}).Draw(w.T, "how")
		w.all("end task", func(s journal.Store) (any, error) { return nil, s.EndTask(w.ctx, task, token, how, m) })
	case "reap":
		w.reap()
	case "stats":
		w.taskStats()
	}
}

func (w *world) reap() {
	w.all("reap tasks", func(s journal.Store) (any, error) {
		var met []string
		_, _, err := s.ReapTasks(w.ctx, 1<<20, func(t journal.Task, f journal.TaskEnd) journal.Message {
			if slices.Contains(w.sagas, t.Saga) {
				met = append(met, string(f)+show(t))
			}
			return journal.Message{ID: of(t.ID, "end"), Kind: string(f)}
		})
		slices.Sort(met)
		return met, err
	})
}

func (w *world) types() []string { return []string{w.prefix + "t", w.prefix + "u"} }

// claimTasks claims all tasks, because which tasks are the oldest depends on the clocks.
func (w *world) claimTasks(token uuid.UUID) {
	c := journal.TaskClaim{Worker: "w", Types: w.types(), Max: 100, Token: token}
	w.all("claim tasks", func(s journal.Store) (any, error) {
		got, err := s.ClaimTasks(w.ctx, c)
		slices.SortFunc(got, func(a, b journal.ClaimedTask) int { return slices.Compare(a.ID[:], b.ID[:]) })
		for i := range got {
			got[i].Until, got[i].Deadline = sameNow(got[i].Until), sameNow(got[i].Deadline)
		}
		return append([]journal.ClaimedTask(nil), got...), err
	})
}

func (w *world) taskStats() {
	w.all("task stats", func(s journal.Store) (any, error) {
		got, err := s.TaskStats(w.ctx)
		got = slices.DeleteFunc(got, func(st journal.TaskStat) bool { return !slices.Contains(w.types(), st.Type) })
		slices.SortFunc(got, func(a, b journal.TaskStat) int { return strings.Compare(a.Type, b.Type) })
		for i := range got {
			got[i].Oldest = sameNow(got[i].Oldest)
		}
		return append([]journal.TaskStat(nil), got...), err
	})
}

// eventStep does a random operation of an event sender.
func (w *world) eventStep() {
	event, sink := of(w.pick(w.sagas, "saga"), "event"), w.prefix+rapid.SampledFrom([]string{"x", "y"}).Draw(w.T, "sink")
	long := time.Duration(rapid.IntRange(0, 1).Draw(w.T, "hours")) * time.Hour
	switch rapid.SampledFrom([]string{"claim", "delivered", "failed", "stats"}).Draw(w.T, "what") {
	case "claim":
		w.claimEvents(long, rapid.SampledFrom([][]string{{"x"}, {"y", "x"}, {"z", "y"}}).Draw(w.T, "sinks")...)
	case "delivered":
		w.all("event delivered", func(s journal.Store) (any, error) { return nil, s.EventDelivered(w.ctx, event, sink) })
	case "failed":
		w.all("event failed", func(s journal.Store) (any, error) { return nil, s.EventFailed(w.ctx, event, sink, long, "refused") })
	case "stats":
		w.outboxStats()
	}
}

func (w *world) claimEvents(lease time.Duration, sinks ...string) {
	names := make([]string, len(sinks))
	for i, sink := range sinks {
		names[i] = w.prefix + sink
	}
	w.all("claim events", func(s journal.Store) (any, error) {
		got, err := s.ClaimEvents(w.ctx, names, 1<<20, lease)
		got = slices.DeleteFunc(got, func(d journal.Delivery) bool { return !slices.Contains(w.sagas, d.Saga) })
		slices.SortFunc(got, func(a, b journal.Delivery) int {
			if c := slices.Compare(a.ID[:], b.ID[:]); c != 0 {
				return c
			}
			return strings.Compare(a.Sink, b.Sink)
		})
		for i := range got {
			got[i].Since = sameNow(got[i].Since)
		}
		return append([]journal.Delivery(nil), got...), err
	})
}

func (w *world) outboxStats() {
	w.all("outbox stats", func(s journal.Store) (any, error) {
		got, err := s.OutboxStats(w.ctx)
		got = slices.DeleteFunc(got, func(st journal.OutboxStat) bool { return !strings.HasPrefix(st.Sink, w.prefix) })
		for i := range got {
			got[i].Oldest = sameNow(got[i].Oldest)
		}
		return append([]journal.OutboxStat(nil), got...), err
	})
}

func (w *world) scheduleStep() {
	name, at := w.prefix+rapid.SampledFrom([]string{"s", "t"}).Draw(w.T, "schedule"), time.UnixMilli(rapid.Int64Range(0, 9).Draw(w.T, "at"))
	w.all("set fired", func(s journal.Store) (any, error) { return nil, s.SetFired(w.ctx, name, at) })
	w.all("fired", func(s journal.Store) (any, error) {
		got, err := s.Fired(w.ctx)
		return []time.Time{got[w.prefix+"s"], got[w.prefix+"t"]}, err
	})
}

// forOthers compares the tasks and events of sagas.
func (w *world) forOthers() {
	w.taskStats()
	w.reap()
	w.claimTasks(uuid.Must(uuid.NewV4()))
	w.outboxStats()
	w.claimEvents(0, "x", "y")
}
