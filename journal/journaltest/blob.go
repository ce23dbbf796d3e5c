package journaltest

import (
	"bytes"
	"crypto/sha256"
	"math/rand/v2"
	"slices"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
)

var blobTests = []test{
	{"are read as they were written, in the order asked for", blobsReadBack},
	{"the same hash put twice", blobsTwice},
	{"of a saga that does not exist, or has ended", blobsOfNoSaga},
	{"with an append", blobsAppended},
	{"an append that fails leaves none", blobsOfFailedAppend},
	{"of several sagas in one batch", blobsOfBatch},
	{"erased", blobsErased},
	{"deleted with their saga", blobsDeleted},
	{"large ones", blobsLarge},
	{"the same ones put by several nodes at once", blobsConcurrently},
	{"put while their saga ends and is erased", blobsEraseRace},
}

type hash = [sha256.Size]byte

// blob returns a blob whose data is not its content, as if it were compressed.
func blob(content string) journal.Blob {
	return journal.Blob{Hash: sha256.Sum256([]byte(content)), Data: []byte("\x00packed\xff " + content)}
}

func hashesOf(blobs ...journal.Blob) (out []hash) {
	for _, b := range blobs {
		out = append(out, b.Hash)
	}
	return out
}

// blobsOf returns those of the blobs that the saga has.
func (b *bench) blobsOf(saga uuid.UUID, blobs ...journal.Blob) []journal.Blob {
	b.Helper()
	out, err := b.Blobs(b.ctx, saga, hashesOf(blobs...))
	b.must(err)
	return out
}

// sameBlobs compares data by bytes.Equal, because cmp is slow with large data that differs.
var sameBlobs = cmp.Comparer(func(a, b journal.Blob) bool { return a.Hash == b.Hash && bytes.Equal(a.Data, b.Data) })

// hasBlobs fails unless the saga has exactly those blobs of all.
func (b *bench) hasBlobs(what string, saga uuid.UUID, all, want []journal.Blob) {
	b.Helper()
	diff(b, what, b.blobsOf(saga, all...), want, sameBlobs)
}

// end ends a saga whose journal has one record.
func (b *bench) end(saga uuid.UUID) {
	b.Helper()
	b.ok(journal.Append{Saga: saga, Row: ended(), Release: true})
}

func blobsReadBack(b *bench) {
	saga, _ := b.started()
	var all []journal.Blob
	for i := range 100 { // more than one statement reads
		all = append(all, blob(string(rune('a'+i))))
	}
	empty, none := journal.Blob{Hash: hash{1}, Data: []byte{}}, journal.Blob{Hash: hash{2}}
	all = append(all, empty, none)
	b.must(b.PutBlobs(b.ctx, saga, all))
	b.hasBlobs("all", saga, all, all)
	slices.Reverse(all)
	b.hasBlobs("in another order", saga, all, all)
	b.hasBlobs("with some that are missing", saga, []journal.Blob{blob("?"), all[3], blob("!"), all[1]}, []journal.Blob{all[3], all[1]})
	b.hasBlobs("one asked for twice", saga, []journal.Blob{all[50], all[3], all[50]}, []journal.Blob{all[50], all[3], all[50]})
	b.hasBlobs("none asked for", saga, nil, nil)
	other, _ := b.started()
	b.hasBlobs("another saga's", other, all, nil)
	b.hasBlobs("no saga's", newID(), all, nil)
	got := b.blobsOf(saga, all[5])
	got[0].Data[0] = 'x'
	b.hasBlobs("after the result was changed", saga, all, all)
	b.must(b.PutBlobs(b.ctx, saga, nil))
}

func blobsTwice(b *bench) {
	saga, prev := b.started()
	first, later := blob("one"), blob("one")
	later.Data = []byte("packed in another way")
	b.must(b.PutBlobs(b.ctx, saga, []journal.Blob{first, later}))
	b.must(b.PutBlobs(b.ctx, saga, []journal.Blob{later, blob("two")}))
	b.ok(journal.Append{Saga: saga, Records: chain(saga, prev, 2, 1), Blobs: []journal.Blob{later, blob("three"), later}})
	all := []journal.Blob{first, blob("two"), blob("three")}
	b.hasBlobs("blobs", saga, all, all)
	other, _ := b.started()
	b.must(b.PutBlobs(b.ctx, other, []journal.Blob{later}))
	b.hasBlobs("another saga's", other, all, []journal.Blob{later})
}

func blobsOfNoSaga(b *bench) {
	one := []journal.Blob{blob("one")}
	nobody := newID()
	b.wantErr(b.PutBlobs(b.ctx, nobody, one), journal.ErrNotFound)
	_, err := b.EraseBlobs(b.ctx, nobody)
	b.wantErr(err, journal.ErrNotFound)
	b.ok(begin(nobody))
	b.hasBlobs("put before the saga began", nobody, one, nil)
	b.end(nobody)
	b.wantErr(b.PutBlobs(b.ctx, nobody, one), journal.ErrEnded)
	b.wantErr(b.PutBlobs(b.ctx, nobody, nil), journal.ErrEnded)
	b.hasBlobs("put after the saga ended", nobody, one, nil)
}

func blobsAppended(b *bench) {
	a := begin(newID())
	a.Blobs = []journal.Blob{blob("one"), blob("two")}
	all := append(slices.Clone(a.Blobs), blob("three"))
	b.ok(a)
	b.ok(a)
	b.hasBlobs("of a start", a.Saga, all, a.Blobs)
	next := journal.Append{Saga: a.Saga, Records: chain(a.Saga, a.Records[0].Hash, 2, 1), Row: rowOf("running", 2), Blobs: all[1:]}
	b.ok(next)
	b.ok(next)
	b.hasBlobs("of a later record", a.Saga, all, all)
	two := chain(a.Saga, a.Records[0].Hash, 2, 2)
	more := append(slices.Clone(all), blob("four"))
	b.ok(journal.Append{Saga: a.Saga, Records: two, Blobs: more[3:]}) // the first of its records is there already
	b.hasBlobs("of an append that was written in part", a.Saga, more, more)
}

func blobsOfFailedAppend(b *bench) {
	one := []journal.Blob{blob("one")}
	live, prev := b.started()
	gap := journal.Append{Saga: live, Records: chain(live, nil, 5, 1), Blobs: one}
	fork := journal.Append{Saga: live, Records: chain(live, []byte("another"), 1, 1), Blobs: one}
	keyed, taken := begin(newID()), begin(newID())
	keyed.Start.Key, taken.Start.Key = "k", "k"
	taken.Blobs = one
	b.ok(keyed)
	for _, a := range []journal.Append{gap, fork, taken} {
		other := begin(newID())
		other.Blobs = one
		got := b.append(a, other)
		if got[0].Err == nil || got[1].Err != nil {
			b.Fatalf("results = %v, want an error of the first", got)
		}
		b.hasBlobs("of an append that failed", a.Saga, one, nil)
		b.hasBlobs("of another append of the batch", other.Saga, one, one)
	}
	taken.Start.Key = ""
	taken.Blobs = nil
	b.ok(taken)
	b.hasBlobs("of a start that failed", taken.Saga, one, nil)
	_, err := b.Store.Append(b.ctx, "nobody", []journal.Append{{Saga: live, Records: chain(live, prev, 2, 1), Blobs: one}})
	b.wantErr(err, journal.ErrFenced)
	b.hasBlobs("of a fenced node", live, one, nil)
}

func blobsOfBatch(b *bench) {
	all := []journal.Blob{blob("one"), blob("two"), blob("three")}
	var batch []journal.Append
	for i := range 40 {
		a := begin(newID())
		a.Blobs = all[:i%4]
		batch = append(batch, a)
	}
	// A message makes the batch one whose statements are not independent.
	batch[1].Messages = []journal.Message{{ID: newID(), Saga: batch[0].Saga, Kind: "signal"}}
	b.ok(batch...)
	for _, a := range batch {
		b.hasBlobs("of each", a.Saga, all, a.Blobs)
	}
}

func blobsErased(b *bench) {
	a := begin(newID())
	a.Blobs = []journal.Blob{blob("one"), blob("two")}
	other := begin(newID())
	other.Blobs = a.Blobs
	b.ok(a, other)
	_, err := b.EraseBlobs(b.ctx, a.Saga)
	b.wantErr(err, journal.ErrLive)
	b.hasBlobs("of a live saga", a.Saga, a.Blobs, a.Blobs)
	b.end(a.Saga)
	before := b.records(a.Saga)
	for _, want := range []int{2, 0} {
		n, err := b.EraseBlobs(b.ctx, a.Saga)
		b.must(err)
		diff(b, "erased", n, want)
		b.hasBlobs("after they were erased", a.Saga, a.Blobs, nil)
		b.ok(a) // a repetition
	}
	diff(b, "records", b.records(a.Saga), before)
	b.must(journal.Verify(a.Saga, nil, 1, b.records(a.Saga)))
	b.hasBlobs("another saga's", other.Saga, a.Blobs, a.Blobs)
}

func blobsDeleted(b *bench) {
	gone, kept, expired := begin(newID()), begin(newID()), begin(newID())
	all := []journal.Blob{blob("one"), blob("two")}
	gone.Blobs, kept.Blobs, expired.Blobs = all, all, all
	b.ok(gone, kept, expired)
	b.end(gone.Saga)
	b.must(b.Delete(b.ctx, gone.Saga))
	last := ended()
	last.DeleteAt = b.now().Add(-1)
	b.ok(journal.Append{Saga: expired.Saga, Row: last, Release: true})
	n, err := b.DeleteExpired(b.ctx, 10)
	b.must(err)
	diff(b, "deleted", n, 1)
	for _, saga := range []uuid.UUID{gone.Saga, expired.Saga} {
		b.wantErr(b.PutBlobs(b.ctx, saga, all), journal.ErrNotFound)
		b.ok(begin(saga)) // the id belongs to a new saga
		b.hasBlobs("after its deletion", saga, all, nil)
	}
	b.hasBlobs("another saga's", kept.Saga, all, all)
}

func blobsLarge(b *bench) {
	saga, prev := b.started()
	random := rand.NewChaCha8([sha256.Size]byte{})
	var all []journal.Blob
	for range 2 {
		data := make([]byte, journal.MaxBlob)
		_, _ = random.Read(data) // it never fails
		all = append(all, journal.Blob{Hash: sha256.Sum256(data), Data: data})
	}
	b.must(b.PutBlobs(b.ctx, saga, all[:1]))
	b.ok(journal.Append{Saga: saga, Records: chain(saga, prev, 2, 1), Blobs: all})
	b.hasBlobs("large ones", saga, all, all)
}

// Nodes that put the same blobs in different orders do not block each other forever, nor the owner.
func blobsConcurrently(b *bench) {
	saga, prev := b.started()
	var all []journal.Blob
	for i := range 50 {
		all = append(all, blob(string(rune('a'+i))))
	}
	backwards := slices.Clone(all)
	slices.Reverse(backwards)
	stores := []journal.Store{b.Store, b.Store}
	if b.subject.Again != nil {
		stores[1] = b.again()
	}
	ends := make(chan error)
	for i := range 6 {
		blobs := all
		if i%2 == 1 {
			blobs = backwards
		}
		go func() { ends <- stores[i%2].PutBlobs(b.ctx, saga, blobs) }()
	}
	go func() {
		_, err := b.Store.Append(b.ctx, b.node, []journal.Append{{Saga: saga, Records: chain(saga, prev, 2, 1), Row: rowOf("running", 2), Blobs: backwards,
			Messages: []journal.Message{{ID: newID(), Saga: saga, Kind: "signal"}}}})
		ends <- err
	}()
	for range 7 {
		b.must(<-ends)
	}
	b.hasBlobs("blobs", saga, all, all)
	if n := len(b.records(saga)); n != 2 {
		b.Errorf("%d records, want 2", n)
	}
}

// A blob that is put while its saga ends is either refused or erased.
func blobsEraseRace(b *bench) {
	stores := []journal.Store{b.Store, b.Store}
	if b.subject.Again != nil {
		stores[1] = b.again()
	}
	for range 20 {
		saga, _ := b.started()
		all := []journal.Blob{blob("one"), blob("two")}
		ends := make(chan error)
		for _, s := range stores {
			go func() { ends <- s.PutBlobs(b.ctx, saga, all) }()
		}
		b.end(saga)
		_, err := b.EraseBlobs(b.ctx, saga)
		b.must(err)
		for range stores {
			if err := <-ends; err != nil {
				b.wantErr(err, journal.ErrEnded)
			}
		}
		b.hasBlobs("after they were erased", saga, all, nil)
	}
}
