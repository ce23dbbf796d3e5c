//go:build ha

package pgha_test

import (
	"testing"

	"recourse/internal/test/pgha"
)

// Another member leads after a switchover, and after the loss of the leader, which is a follower
// when it is back.
func TestPatroni(t *testing.T) {
	ctx := t.Context()
	c := pgha.NewPatroni(t, 2, true)
	leads := func() string {
		t.Helper()
		m, err := c.Leader(ctx)
		must(t, err)
		return m.Name
	}
	first := leads()
	must(t, c.Switchover(ctx))
	second, err := c.Leader(ctx)
	must(t, err)
	if second.Name == first {
		t.Fatalf("%s leads after the switchover from it", first)
	}
	must(t, c.Whole(ctx))
	must(t, second.Kill())
	if now := leads(); now != first {
		t.Fatalf("%s leads after the loss of %s", now, second.Name)
	}
	must(t, second.Resume())
	must(t, c.Whole(ctx))
	if now := leads(); now != first {
		t.Errorf("%s leads when %s is back", now, second.Name)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
