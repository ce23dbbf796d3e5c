package journaltest

import (
	"fmt"
	"sync"

	"recourse/journal"
)

var catalogTests = []test{
	{"versions", versions},
	{"expectations", expectations},
	{"lists", documents},
	{"odd names", oddNames},
	{"archive and revive", archive},
	{"concurrent publishing", publishConcurrently},
}

func doc(name, source string) journal.Document {
	return journal.Document{Kind: "definition", Name: name, SHA256: sha(source), Source: []byte(source), CreatedAt: epoch}
}

func (b *bench) publish(d journal.Document, match string, version int, created bool) {
	b.Helper()
	b.publishNow(d, match, version, created, false)
}

func (b *bench) publishNow(d journal.Document, match string, version int, created, revived bool) {
	b.Helper()
	got, fresh, err := b.Publish(b.ctx, d, match)
	b.must(err)
	d.Version, d.Revived = version, revived
	diff(b, "published", got, d)
	if fresh != created {
		b.Fatalf("created = %v, want %v", fresh, created)
	}
}

func versions(b *bench) {
	one, two := doc("trip", "a: \x00 1"), doc("trip", "b")
	b.publish(one, "", 1, true)
	b.publish(one, "", 1, false)
	b.publish(two, "", 2, true)
	b.publish(one, "", 3, true)
	other := doc("trip", "action")
	other.Kind = "action"
	b.publish(other, "", 1, true)
	for version, want := range []journal.Document{one, one, two, one} {
		got, err := b.Document(b.ctx, "definition", "trip", version)
		b.must(err)
		want.Version = version
		if version == 0 {
			want.Version = 3
		}
		diff(b, fmt.Sprint("version ", version), got, want)
	}
	_, err := b.Document(b.ctx, "definition", "trip", 4)
	b.wantErr(err, journal.ErrNotFound)
	_, err = b.Document(b.ctx, "definition", "tour", 0)
	b.wantErr(err, journal.ErrNotFound)
	for _, tt := range []struct {
		before, limit int
		want          []int
	}{{0, 0, []int{3, 2, 1}}, {0, 2, []int{3, 2}}, {2, 2, []int{1}}, {1, 5, nil}} {
		list, err := b.Versions(b.ctx, "definition", "trip", tt.before, tt.limit)
		b.must(err)
		var got []int
		for _, d := range list {
			got = append(got, d.Version)
		}
		diff(b, "versions", got, tt.want)
	}
	_, err = b.Versions(b.ctx, "definition", "tour", 0, 1)
	b.wantErr(err, journal.ErrNotFound)
}

func expectations(b *bench) {
	one, two, three := doc("trip", "1"), doc("trip", "2"), doc("trip", "3")
	refused := func(d journal.Document, match string) {
		b.Helper()
		_, _, err := b.Publish(b.ctx, d, match)
		b.wantErr(err, journal.ErrMismatch)
	}
	refused(one, "*")
	refused(one, one.SHA256)
	_, err := b.Document(b.ctx, "definition", "trip", 0)
	b.wantErr(err, journal.ErrNotFound)
	b.publish(one, "-", 1, true)
	refused(one, "-")
	refused(two, "-")
	refused(two, two.SHA256)
	b.publish(two, one.SHA256, 2, true)
	refused(three, one.SHA256)
	b.publish(three, "*", 3, true)
	b.publish(three, three.SHA256, 3, false)
}

func documents(b *bench) {
	for _, name := range []string{"c", "a_b", "aB", "a", "b"} {
		b.publish(doc(name, "old"), "", 1, true)
		b.publish(doc(name, "new"), "", 2, true)
	}
	b.must(b.Archive(b.ctx, "definition", "b"))
	for _, tt := range []struct {
		after string
		limit int
		want  []string
	}{{"", 0, []string{"a", "aB", "a_b", "c"}}, {"", 2, []string{"a", "aB"}}, {"aB", 2, []string{"a_b", "c"}}, {"c", 2, nil}} {
		list, err := b.Documents(b.ctx, "definition", tt.after, tt.limit)
		b.must(err)
		var got []string
		for _, d := range list {
			got = append(got, d.Name)
			if d.Version != 2 {
				b.Errorf("%s: version %d, want the newest", d.Name, d.Version)
			}
		}
		diff(b, "documents", got, tt.want)
	}
}

// No document has such a name, but a client may ask for it: some databases cannot store it.
func oddNames(b *bench) {
	b.publish(doc("a", "1"), "", 1, true)
	for _, odd := range []string{"\xff", "b\x00"} {
		list, err := b.Documents(b.ctx, "definition", odd, 10)
		b.must(err)
		diff(b, "documents after it", list, nil)
		_, err = b.Document(b.ctx, "definition", odd, 0)
		b.wantErr(err, journal.ErrNotFound)
		_, err = b.Versions(b.ctx, "definition", odd, 0, 1)
		b.wantErr(err, journal.ErrNotFound)
		b.wantErr(b.Archive(b.ctx, "definition", odd), journal.ErrNotFound)
	}
}

func archive(b *bench) {
	b.wantErr(b.Archive(b.ctx, "definition", "trip"), journal.ErrNotFound)
	one := doc("trip", "1")
	b.publish(one, "", 1, true)
	b.must(b.Archive(b.ctx, "definition", "trip"))
	b.must(b.Archive(b.ctx, "definition", "trip"))
	for version := range 2 {
		got, err := b.Document(b.ctx, "definition", "trip", version)
		b.must(err)
		if !got.Archived || got.Version != 1 {
			b.Errorf("archived document: %+v", got)
		}
	}
	b.publishNow(one, "", 1, false, true)
	b.publish(one, "", 1, false)
	got, err := b.Document(b.ctx, "definition", "trip", 0)
	b.must(err)
	if got.Archived || got.Revived {
		b.Error("it was published again and is still archived")
	}
	b.must(b.Archive(b.ctx, "definition", "trip"))
	b.publishNow(doc("trip", "2"), "", 2, true, true)
	b.publish(doc("trip", "3"), "", 3, true)
}

func publishConcurrently(b *bench) {
	const writers = 8
	var mu sync.Mutex
	seen := map[int]bool{}
	created := 0
	var wg sync.WaitGroup
	for i := range writers {
		wg.Go(func() {
			for _, d := range []journal.Document{doc("trip", fmt.Sprint("own ", i)), doc("same", "same")} {
				got, fresh, err := b.Publish(b.ctx, d, "")
				if err != nil {
					b.Errorf("publish: %v", err)
					return
				}
				mu.Lock()
				if d.Name == "same" && fresh {
					created++
				}
				if d.Name == "trip" {
					seen[got.Version] = true
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if created != 1 || len(seen) != writers {
		b.Errorf("one source was created %d times; %d writers created %d versions", created, writers, len(seen))
	}
}
