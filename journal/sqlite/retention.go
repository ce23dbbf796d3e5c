package sqlite

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

const listExpired = head + `delete_at >= ? AND (delete_at, id) > (?, ?) AND delete_at <= ? AND ` + mayGo + `
	ORDER BY delete_at, id LIMIT +?`

// ListExpired implements journal.Retention.
func (s *Store) ListExpired(ctx context.Context, after journal.Head, limit int) ([]journal.Head, error) {
	from := max(after.DeleteAt.UnixMilli(), 0)
	rows, err := s.read(ctx, listExpired, from, from, after.ID.Bytes(), s.clock(), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("list expired: %w", err)
	}
	var out []journal.Head
	err = walk(rows, func(scan func(...any) error) error {
		h, err := scanHead(scan)
		out = append(out, h)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list expired: %w", err)
	}
	return out, nil
}

const blobHashes = `SELECT hash FROM blobs WHERE saga_id = ? ORDER BY hash`

// BlobHashes implements journal.Retention.
func (s *Store) BlobHashes(ctx context.Context, saga uuid.UUID) (out [][sha256.Size]byte, err error) {
	rows, err := s.read(ctx, blobHashes, saga.Bytes())
	if err != nil {
		return nil, fmt.Errorf("blob hashes of %s: %w", saga, err)
	}
	err = walk(rows, func(scan func(...any) error) error {
		var hash []byte
		if err := scan(&hash); err != nil {
			return err
		}
		out = append(out, [sha256.Size]byte(hash))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("blob hashes of %s: %w", saga, err)
	}
	return out, nil
}

// asCopied reports whether a saga is what was copied of it, and may be deleted.
const asCopied = `SELECT ` + mayGo + ` AND seq = ? AND (SELECT count(*) FROM blobs b WHERE b.saga_id = sagas.id) = ? FROM sagas WHERE id = ?`

// DeleteCopied implements journal.Retention.
func (s *Store) DeleteCopied(ctx context.Context, sagas []journal.Copied) ([]uuid.UUID, error) {
	list := make([]removal, len(sagas))
	for i, c := range sagas {
		list[i] = removal{c.Saga, asCopied, []any{c.Seq, c.Blobs, c.Saga.Bytes()}}
	}
	deleted, err := s.removeAll(ctx, list)
	if err != nil {
		return deleted, fmt.Errorf("delete copied: %w", err)
	}
	return deleted, nil
}

// Reclaim implements journal.Retention. Deletions have left nothing.
func (s *Store) Reclaim(ctx context.Context) error { return ctx.Err() }
