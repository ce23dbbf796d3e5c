package journal

import "testing"

func TestFeed(t *testing.T) {
	list := func(from, to int64) (list []Record) {
		for seq := from; seq <= to; seq++ {
			list = append(list, Record{Seq: seq})
		}
		return list
	}
	stopped := false
	f := NewFeed(func() { stopped = true })
	want := func(after int64, from, to int64) {
		t.Helper()
		got := f.After(after)
		if len(got) != len(list(from, to)) || len(got) > 0 && got[0].Seq != from {
			t.Errorf("after %d: %v, want %d to %d", after, got, from, to)
		}
	}
	want(0, 1, 0)
	f.Add(list(4, 5))
	f.Add(list(6, 6))
	<-f.Grown()
	want(2, 1, 0) // record 3 is missing
	want(3, 4, 6)
	want(5, 6, 6)
	want(4, 1, 0) // it was forgotten
	want(6, 1, 0)
	f.Add(list(9, 9)) // another node has appended 7 and 8
	want(6, 1, 0)
	want(8, 9, 9)
	f.Add(list(10, 10+mostFed-1))
	want(9, 10, 10+mostFed-1)
	f.Add(list(10+mostFed, 10+mostFed)) // they are too many
	want(9, 1, 0)
	want(9+mostFed, 10+mostFed, 10+mostFed)
	f.Add(list(1000, 1000+mostFed))
	want(999, 1, 0)
	f.Stop()
	if !stopped {
		t.Error("it was not stopped")
	}
}
