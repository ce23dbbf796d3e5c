package journaltest_test

import (
	"crypto/sha256"

	"github.com/gofrs/uuid/v5"
	"pgregory.net/rapid"

	"recourse/journal"
)

var contents = []string{"", "a", "b"}

// blob returns a blob of one of a few contents, in one of two stored forms.
func (w *world) blob() journal.Blob {
	content := rapid.SampledFrom(contents).Draw(w.T, "content")
	return journal.Blob{Hash: sha256.Sum256([]byte(content)), Data: []byte(content + rapid.SampledFrom([]string{"", "packed"}).Draw(w.T, "form"))}
}

// blobStep puts or erases blobs of a saga.
func (w *world) blobStep() {
	saga := w.pick(w.sagas, "saga")
	if rapid.IntRange(0, 3).Draw(w.T, "erase") == 0 {
		w.all("erase blobs", func(s journal.Store) (any, error) { return s.EraseBlobs(w.ctx, saga) })
	} else {
		put := []journal.Blob{w.blob(), w.blob()}
		w.all("put blobs "+show(put), func(s journal.Store) (any, error) { return nil, s.PutBlobs(w.ctx, saga, put) })
	}
	w.blobs(saga)
}

// blobs compares the blobs of a saga.
func (w *world) blobs(saga uuid.UUID) {
	var hashes [][sha256.Size]byte
	for _, content := range contents {
		hashes = append(hashes, sha256.Sum256([]byte(content)))
	}
	w.all("blobs", func(s journal.Store) (any, error) {
		list, err := s.Blobs(w.ctx, saga, hashes)
		var got []string
		for _, b := range list {
			got = append(got, string(b.Hash[:1])+string(b.Data))
		}
		return got, err
	})
}
