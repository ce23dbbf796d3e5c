package journaltest

import (
	"sync"
	"sync/atomic"
	"time"

	"recourse/journal"
)

var requestTests = []test{
	{"begin, finish, replay", replayRequest},
	{"abandon", abandon},
	{"a reservation expires", lapse},
	{"a late finish leaves another's key alone", lateFinish},
	{"sweep", sweep},
	{"concurrent reservations: one is fresh", beginConcurrently},
	{"api keys", apiKeys},
}

func (b *bench) begin(key, fingerprint string, ttl time.Duration) (journal.Reply, bool) {
	b.Helper()
	r, fresh, err := b.Begin(b.ctx, key, fingerprint, ttl)
	b.must(err)
	return r, fresh
}

func replayRequest(b *bench) {
	r, fresh := b.begin("k", "f", time.Hour)
	diff(b, "first", r, journal.Reply{Fingerprint: "f"})
	if !fresh {
		b.Fatal("the first is not fresh")
	}
	r, fresh = b.begin("k", "other", time.Hour)
	diff(b, "while in flight", r, journal.Reply{Fingerprint: "f"})
	if fresh {
		b.Fatal("the second is fresh")
	}
	want := journal.Reply{Fingerprint: "f", Status: 201, Header: map[string]string{"Location": "/x"}, Body: []byte("{\"a\":\x00\xff}")}
	b.must(b.Finish(b.ctx, "k", want, time.Hour))
	want.Done = true
	r, fresh = b.begin("k", "f", time.Hour)
	diff(b, "replay", r, want)
	if fresh {
		b.Fatal("the replay is fresh")
	}
	b.must(b.Abandon(b.ctx, "k"))
	r, _ = b.begin("k", "f", time.Hour)
	diff(b, "after a late abandon", r, want)
}

func abandon(b *bench) {
	b.begin("k", "f", time.Hour)
	b.must(b.Abandon(b.ctx, "k"))
	b.must(b.Abandon(b.ctx, "k"))
	if _, fresh := b.begin("k", "g", time.Hour); !fresh {
		b.Error("an abandoned key is not free")
	}
}

func lapse(b *bench) {
	b.begin("k", "f", 300*time.Millisecond)
	b.eventually("the reservation lapses", func() bool {
		_, fresh := b.begin("k", "g", time.Hour)
		return fresh
	})
	b.begin("kept", "f", time.Hour)
	b.must(b.Finish(b.ctx, "kept", journal.Reply{Fingerprint: "f", Status: 200}, 300*time.Millisecond))
	b.eventually("the reply lapses", func() bool {
		r, fresh := b.begin("kept", "g", time.Hour)
		if fresh {
			diff(b, "fresh", r, journal.Reply{Fingerprint: "g"})
		}
		return fresh
	})
}

func lateFinish(b *bench) {
	b.begin("k", "f", time.Millisecond)
	b.eventually("the reservation lapses", func() bool {
		_, fresh := b.begin("k", "g", time.Hour)
		return fresh
	})
	b.must(b.Finish(b.ctx, "k", journal.Reply{Fingerprint: "f", Status: 200}, time.Hour))
	r, _ := b.begin("k", "g", time.Hour)
	diff(b, "reservation", r, journal.Reply{Fingerprint: "g"})
}

func sweep(b *bench) {
	for _, k := range []string{"a", "b", "c"} {
		b.begin(k, "f", time.Millisecond)
	}
	b.begin("stays", "f", time.Hour)
	total := 0
	b.eventually("the short ones are swept", func() bool {
		n, err := b.Sweep(b.ctx, 2)
		b.must(err)
		if n > 2 {
			b.Fatalf("swept %d, limit 2", n)
		}
		total += n
		return total >= 3
	})
	n, err := b.Sweep(b.ctx, 100)
	b.must(err)
	if total+n != 3 {
		b.Errorf("swept %d, want 3", total+n)
	}
	if _, fresh := b.begin("stays", "f", time.Hour); fresh {
		b.Error("a key was swept before its time")
	}
}

func beginConcurrently(b *bench) {
	var fresh atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			r, ok, err := b.Begin(b.ctx, "k", "f", time.Hour)
			if err != nil || r.Fingerprint != "f" {
				b.Errorf("begin = %+v, %v", r, err)
			}
			if ok {
				fresh.Add(1)
			}
		})
	}
	wg.Wait()
	if n := fresh.Load(); n != 1 {
		b.Errorf("%d are fresh, want 1", n)
	}
}

func apiKeys(b *bench) {
	one := journal.APIKey{ID: newID(), Name: "ci", Role: "client", Hash: sha("1"), CreatedAt: epoch}
	two := journal.APIKey{ID: newID(), Name: "ops", Role: "operator", Hash: sha("2"), CreatedAt: epoch.Add(-time.Hour), ExpiresAt: epoch,
		Binding: journal.KeyBinding{Sources: []string{"/shop, \"new\"", "crm"}, Signals: []string{"order-*/*"}}}
	b.must(b.AddKey(b.ctx, one))
	b.must(b.AddKey(b.ctx, two))
	for _, twin := range []journal.APIKey{{ID: one.ID, Hash: sha("3"), CreatedAt: epoch}, {ID: newID(), Hash: sha("1"), CreatedAt: epoch}} {
		if err := b.AddKey(b.ctx, twin); err == nil {
			b.Errorf("a second key with id %s or hash %s was added", twin.ID, twin.Hash)
		}
	}
	got, err := b.ListKeys(b.ctx)
	b.must(err)
	diff(b, "keys", got, []journal.APIKey{two, one})
	k, err := b.Key(b.ctx, sha("2"))
	b.must(err)
	diff(b, "key", k, two)
	_, err = b.Key(b.ctx, sha("nobody's"))
	b.wantErr(err, journal.ErrNotFound)
	b.must(b.RevokeKey(b.ctx, one.ID))
	b.wantErr(b.RevokeKey(b.ctx, one.ID), journal.ErrNotFound)
	_, err = b.Key(b.ctx, one.Hash)
	b.wantErr(err, journal.ErrNotFound)
}
