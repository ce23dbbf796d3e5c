package world

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// book is the ledger. Its owner's lock guards it.
type book struct {
	now     func() time.Time
	entries Ledger
	base    int64         // N of the entry before the first one
	out     io.Writer     // receives each entry as a line, and again after its response; may be nil
	err     error         // the first error of out; nothing is recorded after it
	changed chan struct{} // closed and replaced at each change
}

func newBook(now func() time.Time, out io.Writer, base int64) *book {
	return &book{now: now, out: out, base: base, changed: make(chan struct{})}
}

// append adds an entry and returns its N.
func (b *book) append(e Entry) int64 {
	e.N = b.last() + 1
	e.At = b.now().UTC()
	b.entries = append(b.entries, e)
	b.written(e)
	return e.N
}

// answered records how a request ended, in its own entry and those of its effects.
func (b *book) answered(ns []int64, status string, replayed bool) {
	for _, n := range ns {
		e := &b.entries[n-b.base-1]
		e.Status, e.Replayed = status, replayed
		b.written(*e)
	}
}

func (b *book) last() int64 { return b.base + int64(len(b.entries)) }

func (b *book) snapshot() Ledger { return slices.Clone(b.entries) }

func (b *book) written(e Entry) {
	if b.out != nil && b.err == nil {
		b.err = writeLine(b.out, e)
	}
	b.wake()
}

func (b *book) wake() {
	close(b.changed)
	b.changed = make(chan struct{})
}

func writeLine(to io.Writer, e Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode ledger entry %d: %w", e.N, err)
	}
	if _, err := to.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("write ledger entry %d (make room or choose another file, then start again): %w", e.N, err)
	}
	return nil
}
