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
	for len(sagas) > 0 && err == nil {
		var removed []uuid.UUID
		var left []journal.Copied
		err = s.rest.tx(ctx, func(t session) (err error) {
			removed, left, err = s.removeCopied(ctx, t, sagas)
			return err
		})
		if err == nil {
			sagas, deleted = left, append(deleted, removed...)
		}
	}
	if err != nil {
		return deleted, fmt.Errorf("delete copied: %w", err)
	}
	return deleted, nil
}

// removeCopied removes the first of the sagas, and returns those that it has not looked at.
func (s *Store) removeCopied(ctx context.Context, t session, sagas []journal.Copied) (removed []uuid.UUID, left []journal.Copied, err error) {
	list, seqs := make([]pgtype.UUID, len(sagas)), make([]int64, len(sagas))
	for i, c := range sagas {
		list[i], seqs[i] = id(c.Saga), c.Seq
	}
	rows, err := t.Query(ctx, copiedRows, list, seqs)
	if err != nil {
		return nil, nil, err
	}
	locked, err := idSet(rows)
	if err != nil || len(locked) == 0 {
		return nil, nil, err
	}
	blobs, err := countBlobs(ctx, t, list)
	if err != nil {
		return nil, nil, err
	}
	var gone []pgtype.UUID
	bytes := int64(0)
	for i, c := range sagas {
		if bytes >= s.removeBytes {
			left = sagas[i:]
			break
		}
		if has := blobs[c.Saga]; locked[c.Saga] && has.n == c.Blobs {
			gone, removed, bytes = append(gone, id(c.Saga)), append(removed, c.Saga), bytes+has.bytes
		}
	}
	if len(gone) == 0 {
		return nil, nil, nil
	}
	now, later := s.bySpan(gone)
	return removed, left, remove(ctx, t, now, later)
}

func idSet(rows pgx.Rows) (map[uuid.UUID]bool, error) {
	set := make(map[uuid.UUID]bool)
	var u pgtype.UUID
	_, err := pgx.ForEachRow(rows, []any{&u}, func() error { set[u.Bytes] = true; return nil })
	return set, err
}

// blobCount is how many blobs a saga has, and how many bytes they have.
type blobCount struct {
	n     int
	bytes int64
}

// countBlobs counts the blobs of those of the sagas that have any. It does not read them.
func countBlobs(ctx context.Context, t session, sagas []pgtype.UUID) (map[uuid.UUID]blobCount, error) {
	rows, err := t.Query(ctx, `SELECT saga_id, count(*), sum(octet_length(data)) FROM blobs WHERE saga_id = ANY($1) GROUP BY saga_id`, sagas)
	if err != nil {
		return nil, err
	}
	counts := make(map[uuid.UUID]blobCount)
	var u pgtype.UUID
	var c blobCount
	_, err = pgx.ForEachRow(rows, []any{&u, &c.n, &c.bytes}, func() error { counts[u.Bytes] = c; return nil })
	return counts, err
}
