package journaltest

import (
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

var retentionTests = []test{
	{"list expired sagas", listsExpired},
	{"list no expired child", listsNoChild},
	{"delete copied sagas", deletesCopied},
	{"delete no saga that differs from its copy", deletesNoOther},
	{"delete no copied child", deletesNoChild},
	{"keep a saga that goes on from another one", keepsRetry},
	{"hashes of blobs", blobHashes},
	{"reclaim", reclaims},
}

// expired ends a saga whose retention has ended.
func (b *bench) expired(ago time.Duration, blobs ...journal.Blob) journal.Append {
	b.Helper()
	a := begin(newID())
	a.Row, a.Release, a.Blobs = ended(), true, blobs
	a.Row.DeleteAt = b.now().Add(-ago)
	b.ok(a)
	return a
}

func copied(a journal.Append) journal.Copied {
	return journal.Copied{Saga: a.Saga, Seq: a.Row.Seq, Blobs: len(a.Blobs)}
}

func (b *bench) listExpired(after journal.Head, limit int) (out []uuid.UUID) {
	b.Helper()
	heads, err := b.ListExpired(b.ctx, after, limit)
	b.must(err)
	for _, h := range heads {
		out = append(out, h.ID)
	}
	return out
}

func listsExpired(b *bench) {
	second, first, third := b.expired(time.Minute), b.expired(time.Hour), b.expired(time.Second)
	never, later := begin(newID()), begin(newID())
	never.Row, never.Release = ended(), true
	later.Row, later.Release = ended(), true
	later.Row.DeleteAt = b.now().Add(time.Hour)
	live := begin(newID())
	live.Row.DeleteAt = b.now().Add(-time.Hour)
	b.ok(never, later, live)
	diff(b, "all", b.listExpired(journal.Head{}, 10), []uuid.UUID{first.Saga, second.Saga, third.Saga})
	diff(b, "none", b.listExpired(journal.Head{}, 0), nil)
	diff(b, "one", b.listExpired(journal.Head{}, 1), []uuid.UUID{first.Saga})
	diff(b, "after the first", b.listExpired(b.head(first.Saga), 10), []uuid.UUID{second.Saga, third.Saga})
	diff(b, "after the last", b.listExpired(b.head(third.Saga), 10), nil)
	heads, err := b.ListExpired(b.ctx, journal.Head{}, 1)
	b.must(err)
	diff(b, "head", heads[0], b.head(first.Saga))

	at := b.now().Add(-time.Second) // sagas with the same DeleteAt are in the order of their ids
	var same []uuid.UUID
	for range 3 {
		a := begin(newID())
		a.Row, a.Release = ended(), true
		a.Row.DeleteAt = at
		b.ok(a)
		same = append(same, a.Saga)
	}
	slices.SortFunc(same, journal.CompareID)
	diff(b, "after one of three", b.listExpired(b.head(same[0]), 2), same[1:])
}

func listsNoChild(b *bench) {
	parent, hash := b.started()
	child := childOf(parent)
	child.Row, child.Release = ended(), true
	child.Row.DeleteAt = b.now().Add(-time.Hour)
	b.ok(child)
	diff(b, "while the parent lives", b.listExpired(journal.Head{}, 10), nil)
	b.ok(end(parent, hash))
	diff(b, "afterwards", b.listExpired(journal.Head{}, 10), []uuid.UUID{child.Saga})
}

func (b *bench) deleteCopied(sagas ...journal.Copied) []uuid.UUID {
	b.Helper()
	out, err := b.DeleteCopied(b.ctx, sagas)
	b.must(err)
	return out
}

func deletesCopied(b *bench) {
	one, two, kept := b.expired(time.Hour), b.expired(time.Minute, blob("a"), blob("b")), b.expired(time.Hour)
	diff(b, "none", b.deleteCopied(), nil)
	diff(b, "deleted", b.deleteCopied(copied(two), copied(one)), []uuid.UUID{two.Saga, one.Saga})
	diff(b, "again", b.deleteCopied(copied(two), copied(one)), nil)
	for _, a := range []journal.Append{one, two} {
		_, err := b.Saga(b.ctx, a.Saga)
		b.wantErr(err, journal.ErrNotFound)
		_, err = b.Records(b.ctx, a.Saga, 0, 1)
		b.wantErr(err, journal.ErrNotFound)
	}
	hashes, err := b.BlobHashes(b.ctx, two.Saga)
	b.must(err)
	diff(b, "blobs", hashes, nil)
	b.head(kept.Saga)
	b.ok(one) // its id and key are free again
}

func deletesNoOther(b *bench) {
	good, erased, longer, live := b.expired(time.Hour), b.expired(time.Hour, blob("a")), b.expired(time.Hour), begin(newID())
	b.ok(live)
	_, err := b.EraseBlobs(b.ctx, erased.Saga)
	b.must(err)
	other := copied(longer)
	other.Seq++
	more := copied(good)
	more.Blobs++
	diff(b, "deleted", b.deleteCopied(copied(erased), other, more, journal.Copied{Saga: live.Saga, Seq: 1}, journal.Copied{Saga: newID(), Seq: 1}, copied(good)), []uuid.UUID{good.Saga})
	for _, a := range []journal.Append{erased, longer, live} {
		b.head(a.Saga)
		diff(b, "records", len(b.records(a.Saga)), 1)
	}
}

func deletesNoChild(b *bench) {
	parent, hash := b.started()
	child := childOf(parent)
	child.Row, child.Release = ended(), true
	child.Row.DeleteAt = b.now().Add(-time.Hour)
	b.ok(child)
	diff(b, "while the parent lives", b.deleteCopied(copied(child)), nil)
	b.ok(end(parent, hash))
	diff(b, "afterwards", b.deleteCopied(copied(child)), []uuid.UUID{child.Saga})
}

func keepsRetry(b *bench) {
	original := begin(newID())
	original.Row, original.Release = ended(), true
	b.ok(original)
	retry := func(key string) journal.Append {
		a := begin(newID())
		a.Start.RetryOf, a.Start.Key = original.Saga, key
		a.Row, a.Release = ended(), true
		a.Row.DeleteAt = b.now().Add(-time.Hour)
		b.ok(a)
		return a
	}
	kept := retry(journal.RetryKey(original.Saga))
	for _, key := range []string{"ops/x", ""} { // from the beginning
		a := retry(key)
		diff(b, "listed", b.listExpired(journal.Head{}, 10), []uuid.UUID{a.Saga})
		diff(b, "copied", b.deleteCopied(copied(kept), copied(a)), []uuid.UUID{a.Saga})
	}
	expire := func(want int) {
		b.Helper()
		n, err := b.DeleteExpired(b.ctx, 10)
		b.must(err)
		diff(b, "deleted", n, want)
	}
	retry("")
	expire(1)
	b.head(kept.Saga)
	b.must(b.Delete(b.ctx, original.Saga))
	diff(b, "listed without the original", b.listExpired(journal.Head{}, 10), []uuid.UUID{kept.Saga})
	expire(1)
}

func blobHashes(b *bench) {
	x, y := blob("x"), blob("y")
	a := b.expired(time.Hour, x, y)
	want := []hash{x.Hash, y.Hash}
	slices.SortFunc(want, func(a, b hash) int { return slices.Compare(a[:], b[:]) })
	got, err := b.BlobHashes(b.ctx, a.Saga)
	b.must(err)
	diff(b, "hashes", got, want)
	got, err = b.BlobHashes(b.ctx, newID())
	b.must(err)
	diff(b, "of no saga", got, nil)
}

func reclaims(b *bench) {
	gone, kept := b.expired(time.Hour), b.expired(time.Hour)
	saga, hash := b.started()
	b.must(b.Reclaim(b.ctx))
	diff(b, "deleted", b.deleteCopied(copied(gone)), []uuid.UUID{gone.Saga})
	for range 2 {
		b.must(b.Reclaim(b.ctx))
		_, err := b.Records(b.ctx, gone.Saga, 0, 1)
		b.wantErr(err, journal.ErrNotFound)
		diff(b, "records that were not deleted", len(b.records(kept.Saga)), 1)
	}
	orphans, err := b.Orphans(b.ctx, 10)
	b.must(err)
	diff(b, "orphans", orphans, nil)
	b.ok(gone, end(saga, hash))
}
