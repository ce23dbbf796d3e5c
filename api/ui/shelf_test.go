package ui

import (
	"fmt"
	"sync"
	"testing"

	"recourse/journal"
)

func TestShelf(t *testing.T) {
	var s shelf
	long := make([]journal.Record, 2*shelvedFrom)
	s.keep("short", long[:shelvedFrom-1])
	s.keep("huge", make([]journal.Record, shelvedUntil+1))
	heavy := make([]journal.Record, shelvedFrom)
	heavy[0].Data, heavy[1].Data = make([]byte, shelvedBytes), make([]byte, 1)
	s.keep("heavy", heavy)
	if s.take("short") != nil || s.take("huge") != nil || s.take("heavy") != nil {
		t.Error("it keeps what is too short or too long")
	}
	s.keep("a", long)
	s.keep("a", long[:shelvedFrom]) // of an earlier reader
	got := s.take("a")
	if len(got) != len(long) || cap(got) != len(got) {
		t.Errorf("%d records, room for %d", len(got), cap(got))
	}
	for i := range shelved - 1 {
		s.keep(fmt.Sprint(i), long)
	}
	s.keep("a", long) // used again
	s.keep("one more", long)
	if s.take("a") == nil || s.take("0") != nil || len(s.byID) != shelved || len(s.order) != shelved {
		t.Errorf("it keeps %v", s.order)
	}
	var all sync.WaitGroup
	for i := range 3 {
		all.Go(func() {
			for range 100 {
				s.keep(fmt.Sprint(i+1), append(s.take("a"), journal.Record{Seq: int64(i)}))
			}
		})
	}
	all.Wait()
	if n := len(s.take("a")); n != len(long) {
		t.Errorf("%d records", n)
	}
}
