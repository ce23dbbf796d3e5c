package api

import (
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga/machine"
)

// Any text sent as a lease is accepted only for the task whose attempt it names.
func FuzzLease(f *testing.F) {
	of := func(path string, way journal.Way, attempt int) lease {
		return lease{token: uuid.Must(uuid.NewV4()), saga: uuid.Must(uuid.NewV7()), path: path, way: way, attempt: attempt}
	}
	for _, l := range []lease{of("a", journal.Do, 1), of("pages[3].fetch", journal.Undo, 300), of("", journal.Do, 1<<31-1)} {
		f.Add(l.String(), machine.TaskID(l.saga, l.path, l.way, l.attempt).String())
	}
	f.Add("", "")
	f.Add("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAP____________8B", "01a20024-0779-7087-825a-6df07c7bfae5")
	f.Fuzz(func(t *testing.T, text, id string) {
		task := uuid.FromStringOrNil(id)
		l, ok := parseLease(text, task)
		if !ok {
			return
		}
		if machine.TaskID(l.saga, l.path, l.way, l.attempt) != task {
			t.Errorf("%q is taken for %s", text, id)
		}
		if again, ok := parseLease(l.String(), task); !ok || again != l {
			t.Errorf("%+v comes back as %+v", l, again)
		}
	})
}

func TestLeaseRoundTrip(t *testing.T) {
	for _, way := range []journal.Way{journal.Do, journal.Undo} {
		l := lease{token: uuid.Must(uuid.NewV4()), saga: uuid.Must(uuid.NewV7()), path: "pages[3].fetch", way: way, attempt: 300}
		got, ok := parseLease(l.String(), machine.TaskID(l.saga, l.path, l.way, l.attempt))
		if !ok || got != l {
			t.Errorf("%+v comes back as %+v, %v", l, got, ok)
		}
	}
}
