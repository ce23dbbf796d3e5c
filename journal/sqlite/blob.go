package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// addBlobs inserts those of the blobs that the saga does not have.
func (t *tx) addBlobs(saga uuid.UUID, blobs []journal.Blob) error {
	for i := range blobs {
		b := &blobs[i]
		_, err := t.exec(`INSERT INTO blobs (saga_id, hash, data) VALUES (?, ?, coalesce(?, x'')) ON CONFLICT DO NOTHING`, saga.Bytes(), b.Hash[:], b.Data)
		if err != nil {
			return err
		}
	}
	return nil
}

// ended reports whether a saga has ended.
func (t *tx) ended(saga uuid.UUID) (ended bool, err error) {
	err = t.row(`SELECT ended_at IS NOT NULL FROM sagas WHERE id = ?`, []any{saga.Bytes()}, &ended)
	if errors.Is(err, sql.ErrNoRows) {
		err = journal.ErrNotFound
	}
	return ended, err
}

// PutBlobs implements journal.Blobs.
func (s *Store) PutBlobs(ctx context.Context, saga uuid.UUID, blobs []journal.Blob) error {
	err := s.w.do(ctx, func(t *tx) error {
		switch ended, err := t.ended(saga); {
		case err != nil:
			return err
		case ended:
			return journal.ErrEnded
		}
		return t.addBlobs(saga, blobs)
	})
	if err != nil {
		return fmt.Errorf("put blobs of %s: %w", saga, err)
	}
	return nil
}

// blobRows is how many blobs one statement reads: see snapshotRows.
const blobRows = 32

var blobsQuery = `SELECT hash, data FROM blobs WHERE saga_id = ? AND hash IN (?` + strings.Repeat(`, ?`, blobRows-1) + `)`

// Blobs implements journal.Blobs.
func (s *Store) Blobs(ctx context.Context, saga uuid.UUID, hashes [][sha256.Size]byte) ([]journal.Blob, error) {
	found := make(map[[sha256.Size]byte][]byte, len(hashes))
	for some := range slices.Chunk(hashes, blobRows) {
		if err := s.blobs(ctx, saga, some, found); err != nil {
			return nil, fmt.Errorf("blobs of %s: %w", saga, err)
		}
	}
	return journal.BlobsInOrder(hashes, found), nil
}

// blobs adds to found the data of those of the hashes that the saga has.
func (s *Store) blobs(ctx context.Context, saga uuid.UUID, hashes [][sha256.Size]byte, found map[[sha256.Size]byte][]byte) error {
	args := make([]any, 1+blobRows) // unused arguments stay NULL, which equals no hash
	args[0] = saga.Bytes()
	for i := range hashes {
		args[1+i] = hashes[i][:]
	}
	rows, err := s.read(ctx, blobsQuery, args...)
	if err != nil {
		return err
	}
	return walk(rows, func(scan func(...any) error) error {
		var hash, data []byte
		if err := scan(&hash, &data); err != nil {
			return err
		}
		found[[sha256.Size]byte(hash)] = data
		return nil
	})
}

const deleteBlobs = `DELETE FROM blobs WHERE saga_id = ?`

const eraseBlob = `DELETE FROM blobs WHERE rowid = (SELECT rowid FROM blobs WHERE saga_id = ? LIMIT 1)`

// EraseBlobs implements journal.Blobs. Overwriting much content takes long, so it lets the
// other transactions have turns.
func (s *Store) EraseBlobs(ctx context.Context, saga uuid.UUID) (n int, err error) {
	for more := true; more && err == nil; {
		err = s.removing(ctx, func(t *tx, full func() bool) error {
			switch ended, err := t.ended(saga); {
			case err != nil:
				return err
			case !ended:
				return journal.ErrLive
			}
			for more {
				k, err := t.exec(eraseBlob, saga.Bytes())
				if err != nil {
					return err
				}
				n += int(k)
				if more = k > 0; full() {
					break
				}
			}
			return nil
		})
	}
	if err != nil {
		return 0, fmt.Errorf("erase blobs of %s: %w", saga, err)
	}
	s.w.flush(ctx)
	return n, nil
}
