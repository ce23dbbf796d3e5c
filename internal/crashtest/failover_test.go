package crashtest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"recourse/internal/testpg"
	"recourse/journal"
	"recourse/journal/postgres"
)

// pair is a primary and its standby, as one database.
type pair struct {
	primary, standby *testpg.Cluster
	database
}

// newPair starts both; the primary has these settings besides those under which commits are durable.
func newPair(t *testing.T, settings ...string) *pair {
	t.Helper()
	var p pair
	var err error
	if p.primary, err = testpg.Start(append(settings, testpg.Durable...)...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.primary.Stop() })
	if p.standby, err = p.primary.Standby(testpg.Durable...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.standby.Stop() })
	p.url = fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable&target_session_attrs=read-write", p.primary.Host(), p.standby.Host())
	p.open = func(t *testing.T) journal.Store {
		s, err := postgres.Open(t.Context(), p.url, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	return &p
}

// failOver kills the primary and promotes the standby.
func (p *pair) failOver(t *testing.T) {
	t.Helper()
	if err := p.primary.Halt(testpg.Killed); err != nil {
		t.Fatal(err)
	}
	if err := p.standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// With a synchronous standby a fail-over loses nothing that was acknowledged, and every saga ends.
func TestFailoverSynchronous(t *testing.T) {
	p := newPair(t, "synchronous_standby_names=*")
	_, l := scene(t, p.database, 2)
	l.enough(40)
	p.failOver(t)
	l.enough(80)
	l.verify(t)
}

// With an asynchronous standby the tail of the journals is lost, with starts that were acknowledged. Every saga that is left ends.
func TestFailoverThatLosesATail(t *testing.T) {
	p := newPair(t)
	_, l := scene(t, p.database, 2)
	l.enough(40)
	if err := p.standby.CutOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.enough(70)
	p.failOver(t)
	l.enough(110)
	for _, left := range l.settle(2 * time.Minute) {
		t.Error(left)
	}
	lost := 0
	store := p.open(t)
	defer store.Close()
	for _, s := range l.starts {
		h, err := store.Saga(context.Background(), s.ID)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			lost++
		case err != nil:
			t.Fatal(err)
		case h.EndedAt.IsZero():
			t.Errorf("saga %s is left, and has not ended: %s", h.ID, h.Status)
		}
	}
	t.Logf("%d of %d acknowledged starts were lost with the tail", lost, len(l.starts))
	if lost == 0 {
		t.Error("no start was lost: the standby had it all, and nothing was tried")
	}
}
