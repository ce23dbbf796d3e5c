package postgres

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

var listExpired = sql(headColumns + ` FROM sagas WHERE delete_at >= $1 AND (delete_at, id) > ($1, $2) AND delete_at <= {now} AND ` + mayGo + `
	ORDER BY delete_at, id LIMIT $3`)

// ListExpired implements journal.Retention.
func (s *Store) ListExpired(ctx context.Context, after journal.Head, limit int) ([]journal.Head, error) {
	rows, err := s.pool.Query(ctx, listExpired, max(after.DeleteAt.UnixMilli(), 0), id(after.ID), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("list expired: %w", err)
	}
	out, err := collect(rows, scanHead)
	if err != nil {
		return nil, fmt.Errorf("list expired: %w", err)
	}
	return out, nil
}

const blobHashes = `SELECT hash FROM blobs WHERE saga_id = $1 ORDER BY hash`

// BlobHashes implements journal.Retention.
func (s *Store) BlobHashes(ctx context.Context, saga uuid.UUID) ([][sha256.Size]byte, error) {
	rows, err := s.pool.Query(ctx, blobHashes, id(saga))
	if err != nil {
		return nil, fmt.Errorf("blob hashes of %s: %w", saga, err)
	}
	out, err := collect(rows, func(row pgx.CollectableRow) (h [sha256.Size]byte, err error) {
		var hash []byte
		if err = row.Scan(&hash); err == nil {
			h = [sha256.Size]byte(hash)
		}
		return h, err
	})
	if err != nil {
		return nil, fmt.Errorf("blob hashes of %s: %w", saga, err)
	}
	return out, nil
}

// copiedRows locks those of the sagas that have ended and whose journals are as long as their
// copies.
const copiedRows = `SELECT id FROM sagas JOIN unnest($1::uuid[], $2::bigint[]) AS c (saga, last) ON id = c.saga
	WHERE seq = c.last AND ` + mayGo + ` FOR UPDATE OF sagas SKIP LOCKED`

// DeleteCopied implements journal.Retention. It counts the blobs after it has locked the rows: an
// erasure, which locks them too, is then either visible, or comes later and finds no saga.
func (s *Store) DeleteCopied(ctx context.Context, sagas []journal.Copied) (deleted []uuid.UUID, err error) {
	list, seqs := make([]pgtype.UUID, len(sagas)), make([]int64, len(sagas))
	for i, c := range sagas {
		list[i], seqs[i] = id(c.Saga), c.Seq
	}
	err = s.rest.tx(ctx, func(t session) error {
		deleted = nil
		rows, err := t.Query(ctx, copiedRows, list, seqs)
		if err != nil {
			return err
		}
		locked, err := idSet(rows)
		if err != nil || len(locked) == 0 {
			return err
		}
		blobs, err := countBlobs(ctx, t, list)
		if err != nil {
			return err
		}
		var gone []pgtype.UUID
		for _, c := range sagas {
			if locked[c.Saga] && blobs[c.Saga] == c.Blobs {
				gone, deleted = append(gone, id(c.Saga)), append(deleted, c.Saga)
			}
		}
		if len(gone) == 0 {
			return nil
		}
		now, later := s.bySpan(gone)
		return remove(ctx, t, now, later)
	})
	if err != nil {
		return nil, fmt.Errorf("delete copied: %w", err)
	}
	return deleted, nil
}

func idSet(rows pgx.Rows) (map[uuid.UUID]bool, error) {
	set := make(map[uuid.UUID]bool)
	var u pgtype.UUID
	_, err := pgx.ForEachRow(rows, []any{&u}, func() error { set[u.Bytes] = true; return nil })
	return set, err
}

// countBlobs counts the blobs of those of the sagas that have any.
func countBlobs(ctx context.Context, t session, sagas []pgtype.UUID) (map[uuid.UUID]int, error) {
	rows, err := t.Query(ctx, `SELECT saga_id, count(*) FROM blobs WHERE saga_id = ANY($1) GROUP BY saga_id`, sagas)
	if err != nil {
		return nil, err
	}
	counts := make(map[uuid.UUID]int)
	var u pgtype.UUID
	var n int
	_, err = pgx.ForEachRow(rows, []any{&u, &n}, func() error { counts[u.Bytes] = n; return nil })
	return counts, err
}
