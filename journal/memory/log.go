package memory

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Append implements journal.Log.
func (s *Store) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("append: %w", err)
	}
	defer unlock()
	if _, ok := s.nodes[node]; !ok {
		return nil, fmt.Errorf("append: %w", journal.ErrFenced)
	}
	results := make([]journal.Result, len(batch))
	var messages []journal.Message
	for i := range batch {
		var done bool
		if results[i], done = s.append(node, &batch[i]); done {
			messages = append(messages, batch[i].Messages...)
		}
	}
	for _, m := range messages {
		s.deliver(m)
	}
	return results, nil
}

// append applies one append completely or not at all. The caller sends its messages if done.
func (s *Store) append(node string, a *journal.Append) (res journal.Result, done bool) {
	g := s.sagas[a.Saga]
	if g == nil {
		return s.start(node, a)
	}
	fresh, ok := g.missing(a.Records)
	switch {
	case !ok:
		return journal.Result{Err: journal.ErrConflict}, false
	case len(fresh) == 0 && (len(a.Records) > 0 || a.Start != nil):
		return journal.Result{}, false // a repetition: everything in it is written already
	case a.Stale(int64(len(g.records))):
		return journal.Result{}, false // a late repetition: the saga has continued since
	case g.head.Owner != node && len(a.Records) == 0 && a.Release:
		return journal.Result{}, false // released already
	case g.head.Owner != node:
		return journal.Result{Err: journal.ErrConflict}, false
	}
	s.apply(g, a, fresh)
	return journal.Result{}, true
}

func (s *Store) start(node string, a *journal.Append) (res journal.Result, done bool) {
	g := &saga{applied: map[uuid.UUID]bool{}, blobs: map[[sha256.Size]byte][]byte{}}
	if _, ok := g.missing(a.Records); a.Start == nil || !ok {
		return journal.Result{Err: journal.ErrConflict}, false
	}
	if holder, taken := s.keys[a.Start.Key]; taken && a.Start.Key != "" {
		return journal.Result{Err: journal.ErrStartKey, Saga: holder}, false
	}
	if a.TakesUnique() {
		if holder := s.uniqueHolder(a.Start); holder != nil {
			return journal.Result{Err: journal.ErrUnique, Saga: holder.head.ID}, false
		}
	}
	if a.Start.Newest && !s.newest(a.Start) {
		return journal.Result{Err: journal.ErrNotNewest}, false
	}
	if !a.Start.Parent.IsNil() && !s.acceptsChild(a.Start) {
		return journal.Result{Err: journal.ErrParentEnded}, false
	}
	g.head = journal.Head{ID: a.Saga, Start: *a.Start, Owner: node}
	g.head.Newest, g.head.Final = false, false
	g.head.CreatedAt = milli(a.Start.CreatedAt)
	s.sagas[a.Saga] = g
	if a.Start.Key != "" {
		s.keys[a.Start.Key] = a.Saga
	}
	s.apply(g, a, a.Records)
	return journal.Result{}, true
}

// acceptsChild reports whether the start's parent may start another child.
func (s *Store) acceptsChild(st *journal.Start) bool {
	if !s.live(st.Parent) {
		return false
	}
	return st.Final || s.sagas[st.Parent].head.Reason == ""
}

// live reports whether a saga exists and has not ended.
func (s *Store) live(id uuid.UUID) bool {
	g := s.sagas[id]
	return g != nil && g.head.EndedAt.IsZero()
}

func (s *Store) uniqueHolder(st *journal.Start) *saga {
	for _, g := range s.sagas {
		if g.head.Definition == st.Definition && g.head.Unique == st.Unique && g.head.EndedAt.IsZero() {
			return g
		}
	}
	return nil
}

// missing returns those of records that the journal does not have yet. ok is false if the journal
// has another record at one of the seqs, or if the records do not continue it.
func (g *saga) missing(records []journal.Record) (fresh []journal.Record, ok bool) {
	last := int64(len(g.records))
	for i, r := range records {
		switch {
		case r.Seq < 1, i == 0 && r.Seq > last+1, i > 0 && r.Seq != records[i-1].Seq+1:
			return nil, false
		case r.Seq > last:
			fresh = append(fresh, r)
		case !bytes.Equal(g.records[r.Seq-1].Hash, r.Hash):
			return nil, false
		}
	}
	return fresh, true
}

func (s *Store) apply(g *saga, a *journal.Append, fresh []journal.Record) {
	for _, r := range fresh {
		r.At = milli(r.At)
		r.Data = slices.Clone(r.Data)
		r.Hash = slices.Clone(r.Hash)
		if s.remember {
			r.Remember()
		}
		g.records = append(g.records, r)
	}
	g.applyMessages(a.Applied)
	if len(fresh) > 0 || a.Row != nil {
		g.head.Claims = 0
	}
	if a.Row != nil {
		end := g.head.EndedAt
		g.head.Row = copyRow(a.Row, g.head)
		if !end.IsZero() {
			g.head.EndedAt = end
		}
	}
	g.addBlobs(a.Blobs)
	s.addTasks(a)
	s.withdraw(a)
	s.addEvents(a)
	if a.Release {
		g.head.Owner = ""
		switch {
		case a.Row == nil:
			g.postpone(s.clock(), a.ReleaseDelay())
		case len(g.messages) > 0:
			g.wake(s.clock())
		}
		if w := g.head.WakeAt; !w.IsZero() && !w.After(s.clock()) {
			s.hint()
		}
	}
}

// wake makes g due at once, or leaves it due.
func (g *saga) wake(now time.Time) {
	if g.head.WakeAt.IsZero() || g.head.WakeAt.After(now) {
		g.head.WakeAt = now
	}
}

func copyRow(r *journal.Row, h journal.Head) journal.Row {
	out := *r
	out.Labels = nil
	if len(r.Labels) > 0 {
		out.Labels = maps.Clone(r.Labels)
	}
	out.Summary = slices.Clone(r.Summary)
	out.WakeAt, out.UpdatedAt, out.EndedAt, out.DeleteAt = milli(r.WakeAt), milli(r.UpdatedAt), milli(r.EndedAt), milli(r.DeleteAt)
	out.Inbox = slices.Clone(r.Inbox)
	for i := range out.Inbox {
		e := &out.Inbox[i]
		e.Saga, e.Definition = h.ID, h.Definition
		e.Since = milli(e.Since)
		e.Data = slices.Clone(e.Data)
	}
	return out
}

// Claim implements journal.Log.
func (s *Store) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	return s.claim(ctx, node, func(*saga) bool { return true }, limit)
}

// ClaimLocal implements journal.Local.
func (s *Store) ClaimLocal(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	return s.claim(ctx, node, func(g *saga) bool { return g.head.Local }, limit)
}

// claim claims sagas that are due, of those to keep.
func (s *Store) claim(ctx context.Context, node string, keep func(*saga) bool, limit int) ([]journal.Claimed, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	defer unlock()
	if _, ok := s.nodes[node]; !ok {
		return nil, fmt.Errorf("claim: %w", journal.ErrFenced)
	}
	now := s.clock()
	due := s.dueFirst(now, func(g *saga) bool { return keep(g) && g.head.Claims < journal.SuspectAfter })
	suspects := s.dueFirst(now, func(g *saga) bool { return keep(g) && g.head.Claims >= journal.SuspectAfter })
	var out []journal.Claimed
	for _, g := range first(append(first(due, limit-min(len(suspects), 1)), first(suspects, 1)...), limit) {
		g.head.Owner = node
		g.head.Claims++
		out = append(out, journal.Claimed{Saga: g.head.ID, Definition: g.head.Definition,
			Version: g.head.Version, Claims: g.head.Claims, Due: g.head.WakeAt, Messages: len(g.messages)})
	}
	return out, nil
}

// dueFirst lists the sagas that are due, the one that has been due for longest first.
func (s *Store) dueFirst(now time.Time, keep func(*saga) bool) []*saga {
	out := s.sorted(func(g *saga) bool { return g.due(now) && keep(g) })
	slices.SortStableFunc(out, func(a, b *saga) int { return a.head.WakeAt.Compare(b.head.WakeAt) })
	return out
}

func (g *saga) due(now time.Time) bool {
	return g.head.Owner == "" && !g.head.WakeAt.IsZero() && !g.head.WakeAt.After(now)
}

// Records implements journal.Log.
func (s *Store) Records(ctx context.Context, id uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	defer unlock()
	g := s.sagas[id]
	if g == nil {
		return nil, fmt.Errorf("records of %s: %w", id, journal.ErrNotFound)
	}
	from := min(max(after, 0), int64(len(g.records)))
	out := slices.Clone(first(g.records[from:], limit))
	for i := range out {
		out[i].Data = slices.Clone(out[i].Data)
		out[i].Hash = slices.Clone(out[i].Hash)
	}
	return out, nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	return slices.Sorted(maps.Keys(m))
}
