package journaltest_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"pgregory.net/rapid"

	"recourse/journal"
)

// TestSameReads runs random operations, as TestSameResults does, and between them compares all
// reads of all stores. Nodes without a lease try to write, and callers cancel in the middle of a
// write and repeat it.
func TestSameReads(t *testing.T) {
	open := stores(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, open)
		for range rapid.IntRange(1, 12).Draw(t, "operations") {
			w.step()
			switch rapid.IntRange(0, 3).Draw(t, "then") {
			case 0:
				w.lookUp()
			case 1:
				w.list()
			case 2:
				w.ghost()
			case 3:
				w.interrupted()
			}
		}
		w.finalState()
	})
}

// lookUp reads single items.
func (w *world) lookUp() {
	saga := w.pick(append(slices.Clone(w.sagas), uuid.Must(uuid.FromString("01920000-0000-7000-8000-00000000dead"))), "saga")
	after, limit := rapid.Int64Range(-1, 8).Draw(w.T, "after"), rapid.IntRange(1, 8).Draw(w.T, "limit")
	w.all("records", func(s journal.Store) (any, error) {
		list, err := s.Records(w.ctx, saga, after, limit)
		return append([]journal.Record(nil), list...), err
	})
	head := func(h journal.Head, err error) (any, error) { return w.comparable(h), err }
	w.all("saga", func(s journal.Store) (any, error) { return head(s.Saga(w.ctx, saga)) })
	key := w.prefix + rapid.SampledFrom([]string{"k1", "k2", "k3", ""}).Draw(w.T, "key")
	w.all("saga by key", func(s journal.Store) (any, error) { return head(s.SagaByKey(w.ctx, key)) })
	w.all("opened", func(s journal.Store) (any, error) { return s.Opened(w.ctx, w.prefix+"bot", 3) })
	name := w.prefix + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(w.T, "name")
	version := rapid.IntRange(0, 4).Draw(w.T, "version")
	w.all("document", func(s journal.Store) (any, error) { return s.Document(w.ctx, "definition", name, version) })
	w.all("versions", func(s journal.Store) (any, error) { return s.Versions(w.ctx, "definition", name, version, limit) })
}

// comparable returns a head without the times of the store's clock.
func (w *world) comparable(h journal.Head) journal.Head {
	h.Inbox = nil
	h.WakeAt, h.UpdatedAt = sameNow(h.WakeAt), sameNow(h.UpdatedAt)
	return h
}

// list reads lists with their filters.
func (w *world) list() {
	f := journal.Filter{Definition: w.prefix + rapid.SampledFrom([]string{"d", "D", "x"}).Draw(w.T, "definition"), Limit: rapid.IntRange(1, 5).Draw(w.T, "limit")}
	f.Status = rapid.SliceOfN(rapid.SampledFrom([]string{"running", "waiting", "stuck"}), 0, 2).Draw(w.T, "status")
	if rapid.Bool().Draw(w.T, "labelled") {
		f.Labels = map[string]string{"l": rapid.SampledFrom([]string{"x", "y", "", "%"}).Draw(w.T, "label")}
	}
	if rapid.Bool().Draw(w.T, "text") {
		f.Text = rapid.SampledFrom([]string{"X", "y", w.sagas[0].String()[:30], w.prefix, "%", "_", "\\", "é"}).Draw(w.T, "q")
	}
	if rapid.Bool().Draw(w.T, "since") {
		f.From = w.pick(w.sagas, "from")
	}
	if rapid.Bool().Draw(w.T, "page") {
		f.Before = w.pick(w.sagas, "before")
	}
	w.all("sagas "+show(f), func(s journal.Store) (any, error) {
		list, err := s.Sagas(w.ctx, f)
		for i := range list.Heads {
			list.Heads[i] = w.comparable(list.Heads[i])
		}
		return append([]journal.Head(nil), list.Heads...), err
	})
	costs := journal.CostFilter{Definition: f.Definition, From: w.sagas[0], Before: f.Before, Limit: f.Limit}
	w.all("costs "+show(costs), func(s journal.Store) (any, error) {
		list, err := s.Costs(w.ctx, costs)
		for i := range list {
			list[i].CreatedAt, list[i].EndedAt = sameNow(list[i].CreatedAt), sameNow(list[i].EndedAt)
		}
		return append([]journal.Cost(nil), list...), err
	})
	in := journal.InboxFilter{Saga: w.pick(w.sagas, "inbox of"), Kind: rapid.SampledFrom([]string{"", "approval", "stuck", "x"}).Draw(w.T, "kind"), Limit: f.Limit}
	w.all("inbox "+show(in), func(s journal.Store) (any, error) {
		list, err := s.Inbox(w.ctx, in)
		for i := range list {
			list[i].Since = sameNow(list[i].Since)
		}
		return append([]journal.Entry(nil), list...), err
	})
	w.all("documents", func(s journal.Store) (any, error) {
		list, err := s.Documents(w.ctx, "definition", w.prefix, f.Limit)
		list = slices.DeleteFunc(list, func(d journal.Document) bool { return d.Name != w.prefix+"a" && d.Name != w.prefix+"b" })
		return append([]journal.Document(nil), list...), err
	})
	w.all("stats", func(s journal.Store) (any, error) {
		st, err := s.Stats(w.ctx)
		st.OldestInbox = sameNow(st.OldestInbox)
		for kind, at := range st.OldestInboxByKind {
			st.OldestInboxByKind[kind] = sameNow(at)
		}
		st.OldestDue, st.Oldest, st.CountedAt = time.Time{}, nil, time.Time{} // these depend on the clock, too
		return st, err
	})
}

// ghost acts as a node that never registered: nothing that it does has an effect.
func (w *world) ghost() {
	batch := w.batch()
	w.all("ghost's append", func(s journal.Store) (any, error) { return s.Append(w.ctx, "ghost", batch) })
	w.all("ghost's claim", func(s journal.Store) (any, error) { return s.Claim(w.ctx, "ghost", 10) })
	w.all("ghost's renewal", func(s journal.Store) (any, error) { return s.Renew(w.ctx, "ghost", time.Hour) })
	w.all("ghost's release", func(s journal.Store) (any, error) { return nil, s.Release(w.ctx, "ghost") })
	w.all("ghost's messages", func(s journal.Store) (any, error) {
		boxes, err := s.Recipients(w.ctx, "ghost", uuid.Nil, 10)
		return len(boxes), err
	})
}

// interrupted acts as a caller that cancels at some moment of an append, and repeats it. Whatever
// the first attempt did, the second one's result and the state after it are the same.
func (w *world) interrupted() {
	batch := w.batch()
	for i := range batch {
		if st := batch[i].Start; st != nil && slices.ContainsFunc(batch[i+1:], func(a journal.Append) bool { return a.Start != nil && a.Saga == st.Parent }) {
			st.Parent = uuid.Nil // the parent may not exist in the first attempt and exist in the second
		}
		// If the first attempt refuses a start for another reason, and a later start takes its key
		// or unique value, the second attempt refuses it for that.
		for k := range batch[:i] {
			if earlier, st := batch[k].Start, batch[i].Start; earlier != nil && st != nil {
				if st.Key == earlier.Key {
					st.Key = ""
				}
				if st.Unique == earlier.Unique {
					st.Unique = ""
				}
			}
		}
		batch[i].Messages = slices.DeleteFunc(batch[i].Messages, func(m journal.Message) bool {
			return slices.ContainsFunc(batch, func(a journal.Append) bool {
				// A start that waits for another saga's end gets its messages in a second
				// transaction, which may never be committed. A message that is applied before it is
				// sent is applied by the second attempt, if that has no records which distinguish
				// it from the first.
				return a.Start != nil && a.Saga == m.Saga || slices.Contains(a.Applied, m.ID)
			})
		})
	}
	wait := time.Duration(rapid.IntRange(0, 3000).Draw(w.T, "µs")) * time.Microsecond
	w.all("interrupted append "+show(batch), func(s journal.Store) (any, error) {
		ctx, cancel := context.WithTimeout(w.ctx, wait)
		first, err := s.Append(ctx, w.node, batch)
		cancel()
		if err == nil {
			return results(first), nil
		}
		if !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, journal.ErrUnknown) {
			return nil, err
		}
		again, err := s.Append(w.ctx, w.node, batch)
		return results(again), err
	})
	w.finalState()
}
