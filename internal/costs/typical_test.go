package costs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/internal/story/storytest"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// costStore is a source: costs, the newest first.
type costStore struct {
	mu    sync.Mutex
	costs []journal.Cost
	err   error
	reads int
}

func (s *costStore) Costs(_ context.Context, f journal.CostFilter) (page []journal.Cost, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	for _, c := range s.costs {
		if c.Definition == f.Definition && (f.Before.IsNil() || slices.Compare(c.ID[:], f.Before[:]) < 0) && len(page) < f.Limit {
			page = append(page, c)
		}
	}
	return page, s.err
}

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// put has n sagas of a definition end, a second after each other, which cost 1, 2, … in a currency;
// every live one stays.
func (s *costStore) put(definition string, n int, currency string, live int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range n + live {
		at := begin.Add(time.Duration(len(s.costs)) * time.Second)
		spent := fmt.Sprint(i + 1)
		c := journal.Cost{ID: journal.FirstID(at), Definition: definition, CreatedAt: at, EndedAt: at,
			Summary: json.RawMessage(`{"cost":{"currency":"` + currency + `","spent":"` + spent + `"}}`)}
		if i >= n {
			c.EndedAt = time.Time{}
		}
		s.costs = append([]journal.Cost{c}, s.costs...)
	}
}

func typical(s *costStore) (*Typical, *bytes.Buffer) {
	var log bytes.Buffer
	return NewTypical(s, slog.New(slog.NewTextHandler(&log, nil))), &log
}

func (t *Typical) says(definition string) string {
	m, ok := t.Median(definition)
	if !ok {
		return ""
	}
	return m.String()
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		name string
		put  func(*costStore)
		want string
	}{
		{"nothing is known", func(*costStore) {}, ""},
		{"too few", func(s *costStore) { s.put("a", Enough-1, "USD", 50) }, ""},
		{"another's", func(s *costStore) { s.put("b", 50, "USD", 0) }, ""},
		{"just enough", func(s *costStore) { s.put("a", Enough, "USD", 0) }, "10 USD"},
		{"the last 200", func(s *costStore) { s.put("a", 300, "USD", 0) }, "200 USD"},
		{"with live ones before", func(s *costStore) { s.put("a", 100, "USD", 800) }, "50 USD"},
		{"too many live ones", func(s *costStore) { s.put("a", 100, "USD", 3000) }, ""},
		{"nothing of it costs anything", func(s *costStore) { s.put("a", 100, "", 0) }, ""},
		{"in the newest's currency", func(s *costStore) { s.put("a", 100, "USD", 0); s.put("a", 30, "EUR", 0) }, "15 EUR"},
		{"too few in the newest's currency", func(s *costStore) { s.put("a", 100, "USD", 0); s.put("a", 3, "EUR", 0) }, ""},
		{"without child sagas", func(s *costStore) {
			s.put("a", 20, "USD", 0)
			for i := range s.costs {
				s.costs[i].Summary = json.RawMessage(`{"cost":{"currency":"USD","spent":"10","children":{"spent":"9"}}}`)
			}
		}, "1 USD"},
		{"one that cannot be read", func(s *costStore) { s.put("a", 21, "USD", 0); s.costs[0].Summary = json.RawMessage(`[`) }, "10 USD"},
	} {
		s := &costStore{}
		tt.put(s)
		typ, log := typical(s)
		if got := typ.says("a"); got != "" {
			t.Errorf("%s: before it has looked: %q", tt.name, got)
		}
		typ.fold(t.Context())
		if got := typ.says("a"); got != tt.want || log.Len() > 0 {
			t.Errorf("%s: %q, want %q\n%s", tt.name, got, tt.want, log)
		}
		reads := s.reads
		typ.fold(t.Context())
		if s.reads != reads {
			t.Errorf("%s: what is known is looked for again", tt.name)
		}
	}
}

// What ends on this node counts at once, and once: the store has it too.
func TestMedianGrows(t *testing.T) {
	s := &costStore{}
	s.put("order", 20, "USD", 0) // 1 to 20
	typ, _ := typical(s)
	grow := func(n int) {
		played := storytest.Play(t, "saga: order\nsteps: [{id: a, http: \"POST http://w/a\", cost: 30.00 USD}]", storytest.Script{
			ID:     journal.FirstID(begin.Add(time.Hour + time.Duration(n)*time.Second)).String(),
			Answer: func(machine.Send, time.Time) saga.Answer { return saga.Answer{Sent: true, Status: 200} }})
		typ.Acquired(engine.Growth{Saga: played.ID, Machine: played.Machine, Records: played.Records})
		typ.Appended(engine.Growth{Saga: played.ID, Machine: played.Machine, Records: played.Records[:2]})
		typ.Appended(engine.Growth{Saga: played.ID, Machine: played.Machine, Records: played.Records[2:]})
		typ.Released(played.ID)
		typ.fold(t.Context())
	}
	for n, want := range []string{"11 USD", "11 USD", "12 USD"} {
		grow(n)
		if got := typ.says("order"); got != want {
			t.Errorf("after %d: %q, want %q", n, got, want)
		}
	}
	grow(2)
	if got := typ.says("order"); got != "12 USD" {
		t.Errorf("one counts twice: %q", got)
	}
	for n := range 300 {
		grow(n)
	}
	if got := typ.says("order"); got != "30.00 USD" || len(typ.known["order"]) != Recent {
		t.Errorf("after 300: %q of %d", got, len(typ.known["order"]))
	}
}

// A report of an end never blocks its caller.
func TestNeverBlocks(t *testing.T) {
	typ, _ := typical(&costStore{})
	played := storytest.Play(t, "saga: order\nsteps: [{id: a, set: 1}]", storytest.Script{})
	for range 2 * cap(typ.ended) {
		typ.Appended(engine.Growth{Saga: played.ID, Machine: played.Machine, Records: played.Records})
	}
	for i := range 2 * cap(typ.wanted) {
		typ.Median(fmt.Sprint(i))
	}
	typ.Appended(engine.Growth{Saga: uuid.Nil, Machine: played.Machine})
}

// Run looks each second for what was asked for, and each minute for what has ended elsewhere. A
// store that is away is asked again.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &costStore{err: errors.New("the disk is gone")}
		s.put("a", 20, "USD", 0)
		typ, log := typical(s)
		ctx, stop := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		wait.Go(func() { typ.Run(ctx) })
		after := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d) // the bubble's clock
			synctest.Wait()
			if got := typ.says("a"); got != want {
				t.Errorf("%q, want %q", got, want)
			}
		}
		after(0, "")
		after(fold, "")
		s.mu.Lock()
		s.err = nil
		s.mu.Unlock()
		after(refresh, "10 USD")
		s.put("a", 200, "USD", 0)
		after(fold, "10 USD")
		after(refresh, "100 USD")
		stop()
		wait.Wait()
		if got := strings.Count(log.String(), "the disk is gone"); got != 1 {
			t.Errorf("%d warnings, want one:\n%s", got, log)
		}
	})
}
