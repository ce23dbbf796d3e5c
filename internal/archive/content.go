package archive

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// contentBytes is the size from which on an object of content is full.
const contentBytes = 16 << 20

// errChanged means that a saga is not what it was when it was listed: its content was erased, or
// another node has deleted it. What is left of it is archived by the next run.
var errChanged = errors.New("the saga has changed")

// content is a line of an object of content. Data is the blob as the database had it, which may be
// compressed.
type content struct {
	Hash string `json:"hash"`
	Data []byte `json:"data"`
}

// moveContent stores the blobs of a saga, and reads them back. The same blobs give the same
// objects, so a repetition changes nothing. If the content was erased after an earlier try, it is
// erased in the archive, too.
func (a *Archiver) moveContent(ctx context.Context, e *Entry) error {
	hashes, err := a.cfg.Store.BlobHashes(ctx, e.Saga)
	if err != nil {
		return err
	}
	if len(hashes) != e.Blobs {
		return fmt.Errorf("content of saga %s: %w", e.Saga, errChanged)
	}
	n := 0
	for len(hashes) > 0 {
		object, left, err := a.packContent(ctx, e.Saga, hashes)
		if err != nil {
			return err
		}
		n++
		key := contentKey(e.Saga, n)
		if err := a.cfg.Bucket.Put(ctx, key, object); err != nil {
			return err
		}
		read, err := a.same(ctx, key, object)
		if err != nil {
			return err
		}
		if err := holdsContent(read, hashes[:len(hashes)-len(left)]); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		hashes = left
	}
	if e.Blobs == 0 && isSession(e.Definition) {
		return eraseContent(ctx, a.cfg.Bucket, e.Saga)
	}
	return nil
}

// isSession reports whether sagas of the definition may have content.
func isSession(definition string) bool {
	return strings.HasPrefix(definition, "~") && !strings.Contains(definition, "/")
}

// eraseErased deletes the content of a saga in the archive if it was erased in the database. If the
// saga has no row, another node has archived and deleted it: with its content, or without.
func (a *Archiver) eraseErased(ctx context.Context, saga uuid.UUID) error {
	hashes, err := a.cfg.Store.BlobHashes(ctx, saga)
	if err != nil || len(hashes) > 0 {
		return err
	}
	if exists, err := a.exists(ctx, saga); err != nil {
		return err
	} else if !exists {
		// That node has stored the index before, so a saga without an entry was not archived.
		e, err := NewReader(a.cfg.Bucket).Find(ctx, saga)
		if err != nil && !errors.Is(err, ErrNotFound) || e.Blobs > 0 {
			return err
		}
	}
	return eraseContent(ctx, a.cfg.Bucket, saga)
}

// exists reports whether a saga that had no blobs a moment ago has none, and was not just deleted.
// The row must be read after the hashes: if it exists now, it existed then.
func (a *Archiver) exists(ctx context.Context, saga uuid.UUID) (bool, error) {
	_, err := a.cfg.Store.Saga(ctx, saga)
	if errors.Is(err, journal.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// packContent makes an object of the first of the blobs, and returns the hashes of the rest. It
// reads them one by one, because each may be large.
func (a *Archiver) packContent(ctx context.Context, saga uuid.UUID, hashes [][sha256.Size]byte) (object []byte, left [][sha256.Size]byte, err error) {
	w, err := newPacker()
	if err != nil {
		return nil, nil, err
	}
	for len(hashes) > 0 && w.size < contentBytes {
		blobs, err := a.cfg.Store.Blobs(ctx, saga, hashes[:1])
		if err != nil {
			return nil, nil, err
		}
		if len(blobs) != 1 {
			return nil, nil, fmt.Errorf("content of saga %s: %w", saga, errChanged)
		}
		line, err := journal.Encode(content{Hash: hex.EncodeToString(blobs[0].Hash[:]), Data: blobs[0].Data})
		if err == nil {
			err = w.line(line)
		}
		if err != nil {
			return nil, nil, err
		}
		hashes = hashes[1:]
	}
	object, err = w.end()
	return object, hashes, err
}

// eachBlob calls f for the blobs of an object of content.
func eachBlob(object []byte, f func(journal.Blob) error) error {
	return eachLine(object, func(line []byte) error {
		var c content
		if err := json.Unmarshal(line, &c); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		hash, err := hex.DecodeString(c.Hash)
		if err != nil || len(hash) != sha256.Size {
			return fmt.Errorf("%w: %q is not a hash", ErrDamaged, c.Hash)
		}
		return f(journal.Blob{Hash: [sha256.Size]byte(hash), Data: c.Data})
	})
}

// holdsContent checks that an object has the blobs with these hashes.
func holdsContent(object []byte, hashes [][sha256.Size]byte) error {
	err := eachBlob(object, func(b journal.Blob) error {
		if len(hashes) == 0 || !bytes.Equal(hashes[0][:], b.Hash[:]) {
			return fmt.Errorf("%w: it has another blob", ErrDamaged)
		}
		hashes = hashes[1:]
		return nil
	})
	if err == nil && len(hashes) > 0 {
		err = fmt.Errorf("%w: it lacks a blob", ErrDamaged)
	}
	return err
}

// eraseContent deletes the content of a saga.
func eraseContent(ctx context.Context, bucket Bucket, saga uuid.UUID) error {
	var keys []string
	err := bucket.List(ctx, contentOf(saga), func(key string) error {
		keys = append(keys, key)
		return nil
	})
	for _, key := range keys {
		err = errors.Join(err, bucket.Delete(ctx, key))
	}
	return err
}
