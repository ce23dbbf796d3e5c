package catalog

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"recourse/journal"
)

// slow is a catalog whose every read takes a second, and sees what was there when it began.
type slow struct {
	journal.Catalog
	version, reads atomic.Int64
}

func (s *slow) Document(context.Context, string, string, int) (journal.Document, error) {
	s.reads.Add(1)
	v := s.version.Load()
	time.Sleep(time.Second)
	return journal.Document{Version: int(v)}, nil
}

// Many callers share few reads, and each sees what was published before it asked.
func TestNewestIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slow{}
		l := lookup{store: s}
		var wait sync.WaitGroup
		for range 100 {
			wait.Go(func() {
				for range 10 {
					published := s.version.Add(1)
					d, err := l.newest(t.Context(), "a")
					if err != nil || int64(d.Version) < published {
						t.Errorf("got v%d, %v after v%d was published", d.Version, err, published)
					}
				}
			})
		}
		wait.Wait()
		if n := s.reads.Load(); n > 30 {
			t.Errorf("%d reads for 1,000 callers in ten waves", n)
		}
	})
}

// A caller may give up; the others get their answer.
func TestNewestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lookup{store: &slow{}}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		other := make(chan error)
		go func() {
			_, err := l.newest(t.Context(), "a")
			other <- err
		}()
		if _, err := l.newest(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := <-other; err != nil {
			t.Errorf("the other got %v", err)
		}
		time.Sleep(2 * time.Second) // of the bubble: the read for the one that gave up ends, too
	})
}
