package journal

import (
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"
)

func TestIDTime(t *testing.T) {
	at := time.Date(2026, 11, 21, 8, 0, 0, 123_000_000, time.UTC)
	id, err := uuid.NewV7AtTime(at)
	if err != nil {
		t.Fatal(err)
	}
	if got := IDTime(id); !got.Equal(at) {
		t.Errorf("IDTime = %s, want %s", got, at)
	}
}

func TestIDCell(t *testing.T) {
	for text, want := range map[string]int{
		"0193abcd-1234-7001-8000-00000000ffff": 0,
		"0193abcd-1234-8001-8000-00000000ffff": 1,
		"0193abcd-1234-8fff-bfff-ffffffffffff": 4095,
		"0193abcd-1234-8000-8000-00000000ffff": 0,
		"0193abcd-1234-4fff-8000-00000000ffff": 0,
	} {
		id := uuid.FromStringOrNil(text)
		if got := IDCell(id); got != want {
			t.Errorf("%s is of cell %d, want %d", text, got, want)
		}
		if got, want := IDTime(id), IDTime(uuid.FromStringOrNil("0193abcd-1234-7000-8000-000000000000")); !got.Equal(want) {
			t.Errorf("%s is of %s, want %s", text, got, want)
		}
	}
}

func TestNamed(t *testing.T) {
	id := uuid.FromStringOrNil
	for _, tt := range []struct {
		text         string
		from, before uuid.UUID
		ok           bool
	}{
		{"0193abcd", id("0193abcd-0000-0000-0000-000000000000"), id("0193abce-0000-0000-0000-000000000000"), true},
		{"0193ABCD-12", id("0193abcd-1200-0000-0000-000000000000"), id("0193abcd-1300-0000-0000-000000000000"), true},
		{"0193abcd-1234-7000-8000-00000000ffff", id("0193abcd-1234-7000-8000-00000000ffff"), id("0193abcd-1234-7000-8000-000000010000"), true},
		{"ffffffff", id("ffffffff-0000-0000-0000-000000000000"), uuid.Nil, true},
		{"0193abcd1234", uuid.Nil, uuid.Nil, false},
		{"0193abcg", uuid.Nil, uuid.Nil, false},
		{"0193abcd-1234-7000-8000-00000000ffff0", uuid.Nil, uuid.Nil, false},
		{"é", uuid.Nil, uuid.Nil, false},
	} {
		var f Filter
		if ok := f.Named(tt.text); ok != tt.ok {
			t.Errorf("%q: %v, want %v", tt.text, ok, tt.ok)
		}
		if d := cmp.Diff(Filter{From: tt.from, Before: tt.before}, f); d != "" {
			t.Errorf("%q: %s", tt.text, d)
		}
	}
}

// Started and Older narrow the filter further, in any order.
func TestFilterNarrows(t *testing.T) {
	at := time.UnixMilli
	first := firstID
	var f Filter
	f.Started(at(1000), at(9000))
	f.Started(at(500), at(9500))
	f.Older(first(8000))
	f.Older(uuid.Nil)
	f.Older(first(8500))
	if d := cmp.Diff(Filter{From: first(1001), Before: first(8000)}, f); d != "" {
		t.Error(d)
	}
}
