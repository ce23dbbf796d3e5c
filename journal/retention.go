package journal

import (
	"context"
	"crypto/sha256"

	"github.com/gofrs/uuid/v5"
)

// Retention is the port of the service that copies ended sagas to an archive and then deletes them.
// A server without an archive calls Index.DeleteExpired instead, which copies nothing.
//
// The service lists expired sagas, reads the records and blobs of each, stores the copy, and reads
// it back. Only then it calls DeleteCopied. Several services may do so at once: a saga may be
// copied twice, and is deleted once.
type Retention interface {
	// ListExpired lists the heads of up to limit sagas that DeleteExpired would delete, in
	// ascending order of (DeleteAt, ID), after the given one (zero: from the first). So a saga that
	// cannot be copied does not hide those after it.
	ListExpired(ctx context.Context, after Head, limit int) ([]Head, error)
	// BlobHashes returns the hashes of all blobs of a saga, in ascending order. There are none if
	// the saga does not exist.
	BlobHashes(ctx context.Context, saga uuid.UUID) ([][sha256.Size]byte, error)
	// DeleteCopied removes those of the sagas that are still what the caller has copied, as
	// Index.Delete does, and returns their ids, in the order of sagas. Like DeleteExpired it may
	// use several transactions, and return ids together with an error. It leaves, without an error,
	// a saga that does not exist or that DeleteExpired would skip; one whose Seq is another; one
	// that has another number of blobs, because its content was erased after it had been copied;
	// and one that another transaction uses at the moment. Errors: ErrUnknown. Then the call may be
	// repeated, and returns fewer ids.
	DeleteCopied(ctx context.Context, sagas []Copied) ([]uuid.UUID, error)
	// Reclaim frees the space of sagas that DeleteCopied or Index.DeleteExpired has removed, if the
	// store has left that for later, and prepares space for the sagas of the coming days. Each node
	// calls it about once a minute; several may do so at once. The journals of removed sagas are
	// never read, whether Reclaim is called or not. Errors: ErrUnknown.
	Reclaim(ctx context.Context) error
}

// Copied says what the copy of a saga has.
type Copied struct {
	Saga  uuid.UUID
	Seq   int64 // of its last record, and so the number of its records
	Blobs int
}
