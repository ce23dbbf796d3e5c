package postgres

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

// newBlobs inserts blobs that their sagas do not have. Those that exist were put before, or are of
// an earlier record.
func newBlobs(_ string, batch []part) (stmt, error) {
	var saga []pgtype.UUID
	var hash, data [][]byte
	for i := range batch {
		for _, b := range sortedBlobs(batch[i].Blobs) {
			saga, hash, data = append(saga, id(batch[i].Saga)), append(hash, b.Hash[:]), append(data, b.Data)
		}
	}
	if len(saga) == 0 {
		return stmt{}, nil
	}
	return stmt{query: `INSERT INTO blobs (saga_id, hash, data) SELECT a.saga_id, a.hash, coalesce(a.data, '')
		FROM unnest($1::uuid[], $2::bytea[], $3::bytea[]) AS a (saga_id, hash, data) ON CONFLICT DO NOTHING`, args: []any{saga, hash, data}}, nil
}

// sortedBlobs returns blobs in the order of their hashes. An insert waits for another transaction
// that inserts the same hash, so all transactions use the same order.
func sortedBlobs(blobs []journal.Blob) []journal.Blob {
	return slices.SortedFunc(slices.Values(blobs), func(a, b journal.Blob) int { return bytes.Compare(a.Hash[:], b.Hash[:]) })
}

// PutBlobs implements journal.Blobs. It locks the saga's row first. An erasure or a deletion either
// waits for the blobs and deletes them, or has committed and is seen here. The lock does not
// conflict with an update of the row, so the saga continues meanwhile; therefore a later statement
// must check that the saga has not ended. That statement fails if the saga does not exist or has
// ended, so that nothing is inserted.
func (s *Store) PutBlobs(ctx context.Context, saga uuid.UUID, blobs []journal.Blob) error {
	insert, err := newBlobs("", []part{{Append: journal.Append{Saga: saga, Blobs: blobs}}})
	stmts := []stmt{{
		query: `SELECT 1 FROM sagas WHERE id = $1 FOR KEY SHARE`, args: []any{id(saga)},
	}, {
		query: `SELECT sqrt(count(*) - 1::float8), 1 / (1 - count(ended_at))::int FROM sagas WHERE id = $1`, args: []any{id(saga)},
		fails: map[string]error{codeBadSquareRoot: journal.ErrNotFound, codeDivisionByZero: journal.ErrEnded},
	}}
	if insert.query != "" {
		stmts = append(stmts, insert)
	}
	if err == nil {
		err = s.rest.patiently(ctx, stmts)
	}
	if err != nil {
		return fmt.Errorf("put blobs of %s: %w", saga, err)
	}
	return nil
}

const blobsQuery = `SELECT hash, data FROM blobs WHERE saga_id = $1 AND hash = ANY($2)`

// Blobs implements journal.Blobs.
func (s *Store) Blobs(ctx context.Context, saga uuid.UUID, hashes [][sha256.Size]byte) ([]journal.Blob, error) {
	wanted := make([][]byte, len(hashes))
	for i := range hashes {
		wanted[i] = hashes[i][:]
	}
	rows, err := s.pool.Query(ctx, blobsQuery, id(saga), wanted)
	if err != nil {
		return nil, fmt.Errorf("blobs of %s: %w", saga, err)
	}
	found := make(map[[sha256.Size]byte][]byte, len(hashes))
	var hash, data []byte
	_, err = pgx.ForEachRow(rows, []any{&hash, &data}, func() error {
		found[[sha256.Size]byte(hash)] = data
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("blobs of %s: %w", saga, err)
	}
	return journal.BlobsInOrder(hashes, found), nil
}

// eraseBlobs deletes blobs of a saga, one after another until they have so many bytes. It selects
// how many it has deleted, and how many there were. To choose them it does not read their data.
const eraseBlobs = `WITH b AS (
		SELECT hash, sum(octet_length(data)) OVER (ORDER BY hash) - octet_length(data) AS before FROM blobs WHERE saga_id = $1
	), erased AS (DELETE FROM blobs WHERE saga_id = $1 AND hash = ANY(ARRAY(SELECT hash FROM b WHERE before < $2::bigint)) RETURNING 1)
	SELECT (SELECT count(*) FROM erased), (SELECT count(*) FROM b)`

// EraseBlobs implements journal.Blobs. Much content takes longer than a statement may take, so it
// is erased in several transactions.
func (s *Store) EraseBlobs(ctx context.Context, saga uuid.UUID) (n int, err error) {
	for more := true; more && err == nil; {
		var erased, all int
		err = s.rest.tx(ctx, func(t session) error {
			var live bool
			err := t.QueryRow(ctx, `SELECT ended_at IS NULL FROM sagas WHERE id = $1 FOR UPDATE`, id(saga)).Scan(&live)
			switch {
			case errors.Is(err, pgx.ErrNoRows):
				return journal.ErrNotFound
			case err != nil:
				return err
			case live:
				return journal.ErrLive
			}
			return t.QueryRow(ctx, eraseBlobs, id(saga), s.removeBytes).Scan(&erased, &all)
		})
		n, more = n+erased, erased < all
	}
	if err != nil {
		return 0, fmt.Errorf("erase blobs of %s: %w", saga, err)
	}
	return n, nil
}
