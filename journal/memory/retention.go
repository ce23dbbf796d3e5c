package memory

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// ListExpired implements journal.Retention.
func (s *Store) ListExpired(ctx context.Context, after journal.Head, limit int) ([]journal.Head, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("list expired: %w", err)
	}
	defer unlock()
	list := slices.DeleteFunc(s.expired(), func(g *saga) bool { return byExpiry(&g.head, &after) <= 0 })
	var out []journal.Head
	for _, g := range first(list, limit) {
		out = append(out, copyHead(g.head))
	}
	return out, nil
}

// expired lists the sagas whose retention has ended, in the order of byExpiry.
func (s *Store) expired() []*saga {
	now := s.clock()
	list := s.sorted(func(g *saga) bool {
		return !g.head.EndedAt.IsZero() && !g.head.DeleteAt.IsZero() && !g.head.DeleteAt.After(now) && !s.kept(g)
	})
	slices.SortFunc(list, func(a, b *saga) int { return byExpiry(&a.head, &b.head) })
	return list
}

// byExpiry compares sagas by their DeleteAt, then their ids.
func byExpiry(a, b *journal.Head) int {
	return cmp.Or(a.DeleteAt.Compare(milli(b.DeleteAt)), journal.CompareID(a.ID, b.ID))
}

// BlobHashes implements journal.Retention.
func (s *Store) BlobHashes(ctx context.Context, id uuid.UUID) ([][sha256.Size]byte, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("blob hashes: %w", err)
	}
	defer unlock()
	g := s.sagas[id]
	if g == nil {
		return nil, nil
	}
	return slices.SortedFunc(maps.Keys(g.blobs), func(a, b [sha256.Size]byte) int { return bytes.Compare(a[:], b[:]) }), nil
}

// DeleteCopied implements journal.Retention.
func (s *Store) DeleteCopied(ctx context.Context, sagas []journal.Copied) ([]uuid.UUID, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("delete copied: %w", err)
	}
	defer unlock()
	var deleted []uuid.UUID
	for _, c := range sagas {
		g := s.sagas[c.Saga]
		if g == nil || g.head.EndedAt.IsZero() || s.kept(g) || g.head.Seq != c.Seq || len(g.blobs) != c.Blobs {
			continue
		}
		s.remove(g)
		deleted = append(deleted, c.Saga)
	}
	return deleted, nil
}

// Reclaim implements journal.Retention. Deletions have left nothing.
func (s *Store) Reclaim(ctx context.Context) error { return ctx.Err() }
