package memory

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

func (g *saga) addBlobs(blobs []journal.Blob) {
	for _, b := range blobs {
		if _, ok := g.blobs[b.Hash]; !ok {
			g.blobs[b.Hash] = slices.Clone(b.Data)
		}
	}
}

// PutBlobs implements journal.Blobs.
func (s *Store) PutBlobs(ctx context.Context, saga uuid.UUID, blobs []journal.Blob) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("put blobs: %w", err)
	}
	defer unlock()
	g := s.sagas[saga]
	switch {
	case g == nil:
		return fmt.Errorf("put blobs of %s: %w", saga, journal.ErrNotFound)
	case !g.head.EndedAt.IsZero():
		return fmt.Errorf("put blobs of %s: %w", saga, journal.ErrEnded)
	}
	g.addBlobs(blobs)
	return nil
}

// Blobs implements journal.Blobs.
func (s *Store) Blobs(ctx context.Context, saga uuid.UUID, hashes [][sha256.Size]byte) ([]journal.Blob, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("blobs: %w", err)
	}
	defer unlock()
	g := s.sagas[saga]
	if g == nil {
		return nil, nil
	}
	out := journal.BlobsInOrder(hashes, g.blobs)
	for i := range out {
		out[i].Data = slices.Clone(out[i].Data)
	}
	return out, nil
}

// EraseBlobs implements journal.Blobs.
func (s *Store) EraseBlobs(ctx context.Context, saga uuid.UUID) (int, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return 0, fmt.Errorf("erase blobs: %w", err)
	}
	defer unlock()
	g := s.sagas[saga]
	switch {
	case g == nil:
		return 0, fmt.Errorf("erase blobs of %s: %w", saga, journal.ErrNotFound)
	case g.head.EndedAt.IsZero():
		return 0, fmt.Errorf("erase blobs of %s: %w", saga, journal.ErrLive)
	}
	n := len(g.blobs)
	clear(g.blobs)
	return n, nil
}
