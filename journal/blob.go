package journal

import (
	"context"
	"crypto/sha256"

	"github.com/gofrs/uuid/v5"
)

// MaxBlob is the most bytes of data that a store must be able to keep in one blob. A store does not
// check it.
const MaxBlob = 16 << 20

// Blob is content that belongs to a saga and is stored under its hash, once in each saga: for
// example a message to a language model, which each later request repeats. Records contain only the
// hash, so the hash chain stays whole when the content is erased.
type Blob struct {
	// Hash is the SHA-256 of the original content. Two blobs of a saga with the same hash are the
	// same blob.
	Hash [sha256.Size]byte
	// Data is the stored form of the content, which the caller may have compressed. A store returns
	// these bytes as they were written: it does not compress them, and does not compare them with
	// the Hash.
	Data []byte
}

// Blobs is the port to the content of sagas. The node that owns a saga stores content with the
// records that refer to it, see Append.Blobs; any other node stores it before it sends the message
// that refers to it. An ended saga gets no new content, so EraseBlobs is final.
type Blobs interface {
	// PutBlobs stores blobs of a live saga, all or none of them. A blob that the saga has already
	// stays as it is, so the call may be repeated. Errors: ErrNotFound, ErrEnded, ErrUnknown.
	PutBlobs(ctx context.Context, saga uuid.UUID, blobs []Blob) error
	// Blobs returns the blobs of a saga that have one of the hashes, in the order of hashes; a hash
	// that occurs twice there gives its blob twice. Hashes that the saga does not have are left
	// out, also if there is no such saga. The caller limits their number: all of their data is in
	// memory at once.
	Blobs(ctx context.Context, saga uuid.UUID, hashes [][sha256.Size]byte) ([]Blob, error)
	// EraseBlobs deletes all blobs of an ended saga, forever, and returns how many there were. Its
	// journal stays as it is. A repeated append does not restore them. The data remains in earlier
	// backups and, except on SQLite, in the database's files until their space is used again. If
	// EraseBlobs fails, it may have deleted some of them. Errors: ErrNotFound, ErrLive, ErrUnknown.
	EraseBlobs(ctx context.Context, saga uuid.UUID) (int, error)
}

// BlobsInOrder returns the blobs of which data has the hash, in the order of hashes: see
// Blobs.Blobs.
func BlobsInOrder(hashes [][sha256.Size]byte, data map[[sha256.Size]byte][]byte) []Blob {
	var out []Blob
	for _, hash := range hashes {
		if d, ok := data[hash]; ok {
			out = append(out, Blob{Hash: hash, Data: d})
		}
	}
	return out
}
