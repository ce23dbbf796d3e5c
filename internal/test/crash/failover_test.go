package crash

import (
	"context"
	"errors"
	"testing"
	"time"

	"recourse/internal/test/pgha"
	"recourse/journal"
	"recourse/journal/postgres"
)

// onServers returns the database of a URL. The first node creates the schema.
func onServers(url string) database {
	return database{url: url, open: func(t *testing.T) journal.Store {
		s, err := postgres.Open(t.Context(), url, postgres.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}}
}

// onLosing is onServers for servers whose failover may lose the last commits.
func onLosing(url string) database {
	db := onServers(url)
	db.loses = true
	return db
}

// With a synchronous standby, a failover loses nothing that was acknowledged, and every saga ends.
func TestFailoverSynchronous(t *testing.T) {
	p := pgha.NewPair(t, "synchronous_standby_names=*")
	_, l := scene(t, onServers(p.URL), 2)
	l.more(40)
	if err := p.FailOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.more(40)
	l.verify(t)
}

// With an asynchronous standby, the end of the journals is lost, with starts that were
// acknowledged. Every remaining saga ends, and the nodes log what is lost.
func TestFailoverThatLosesATail(t *testing.T) {
	p := pgha.NewPair(t)
	f, l := scene(t, onLosing(p.URL), 2)
	l.more(40)
	if err := p.Standby.CutOff(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.more(30)
	if err := p.FailOver(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.more(40)
	losesATail(t, f, l)
}

// losesATail checks the remaining sagas after a failover that has lost the last commits.
func losesATail(t *testing.T, f *fleet, l *load) {
	t.Helper()
	for _, left := range l.settle(2 * time.Minute) {
		t.Error(left)
	}
	lost := 0
	store := f.cfg.db.open(t)
	defer store.Close()
	for _, s := range l.starts {
		h, err := store.Saga(context.Background(), s.ID)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			lost++
			if f.count(s.ID.String()) == 0 {
				t.Errorf("saga %s is gone, and no node says so", s.ID)
			}
		case err != nil:
			t.Fatal(err)
		case h.EndedAt.IsZero():
			t.Errorf("saga %s is left, and has not ended: %s", h.ID, h.Status)
		}
	}
	for _, two := range l.split {
		_, first := store.Saga(context.Background(), two[0])
		_, second := store.Saga(context.Background(), two[1])
		if first == nil && second == nil {
			t.Errorf("one key, and both sagas exist: %s", two)
		}
	}
	t.Logf("%d keys were acknowledged on both sides of the failover", len(l.split))
	t.Logf("%d of %d acknowledged starts were lost with the tail", lost, len(l.starts))
	if lost == 0 {
		t.Error("no start was lost: the standby had it all, and nothing was tried")
	}
}
