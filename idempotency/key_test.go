package idempotency

import (
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"pgregory.net/rapid"

	"recourse/journal"
)

// Computed with another implementation: python3 -c 'import uuid;
// print(uuid.uuid5(uuid.UUID("01920000-0000-7000-8000-000000000001"), "charge:do:0"))'.
func TestKeyIsUUIDv5(t *testing.T) {
	saga := uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001"))
	if got, want := Key(saga, "charge", journal.Do, 0), "acd7481f-3d21-5487-b70c-f4fd3cf151a9"; got != want {
		t.Errorf("key = %s, want %s", got, want)
	}
}

// Another saga, path, way or generation is another key; the same ones are the same key.
func TestKeyTellsApart(t *testing.T) {
	type name struct {
		saga       uuid.UUID
		path       string
		way        journal.Way
		generation int
	}
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) name {
			return name{
				uuid.NewV5(uuid.NamespaceURL, rapid.StringN(0, 3, 3).Draw(t, label+" saga")),
				rapid.StringMatching(`[a-z]{1,2}(\[[0-9]\]\.[a-z])?`).Draw(t, label+" path"),
				rapid.SampledFrom([]journal.Way{journal.Do, journal.Undo}).Draw(t, label+" way"),
				rapid.IntRange(0, 3).Draw(t, label+" generation"),
			}
		}
		a, b := draw("a"), draw("b")
		ka, kb := Key(a.saga, a.path, a.way, a.generation), Key(b.saga, b.path, b.way, b.generation)
		if (a == b) != (ka == kb) {
			t.Fatalf("%+v → %s, %+v → %s", a, ka, b, kb)
		}
		if len(ka) != 36 {
			t.Fatalf("key %q is not 36 characters", ka)
		}
	})
}

func TestExpired(t *testing.T) {
	if DefaultWindow != 24*time.Hour { // as docs/definitions.md says
		t.Errorf("the window is %s", DefaultWindow)
	}
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	if Expired(first, first.Add(DefaultWindow-time.Millisecond), DefaultWindow) {
		t.Error("expired within the window")
	}
	if !Expired(first, first.Add(DefaultWindow), DefaultWindow) {
		t.Error("not expired at the window's end")
	}
	if Expired(time.Time{}, first, DefaultWindow) {
		t.Error("what was never sent has expired")
	}
}
