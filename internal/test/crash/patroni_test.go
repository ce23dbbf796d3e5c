//go:build ha

package crash

import (
	"slices"
	"testing"

	"recourse/internal/test/pgha"
)

// Patroni in synchronous mode: the loss of the leader, and a switchover, lose nothing that was
// acknowledged.
func TestPatroniSynchronous(t *testing.T) {
	ctx := t.Context()
	c := pgha.NewPatroni(t, 3, true)
	_, l := scene(t, onServers(c.URL), 2)
	l.more(60)
	l.longest()
	lost := loseLeader(t, c)
	l.more(60)
	t.Logf("the leader was lost: %v without an acknowledged start", l.longest())
	must(t, lost.Resume())
	must(t, c.Whole(ctx))
	l.longest()
	must(t, c.Switchover(ctx))
	l.more(60)
	t.Logf("a switchover: %v without an acknowledged start", l.longest())
	must(t, c.Whole(ctx))
	l.verify(t)
}

// Patroni without synchronous mode: the loss of the leader loses the last acknowledged commits,
// and the nodes log them. The remaining sagas end.
func TestPatroniThatLosesATail(t *testing.T) {
	c := pgha.NewPatroni(t, 2, false)
	f, l := scene(t, onLosing(c.URL), 2)
	l.more(60)
	leader, err := c.Leader(t.Context())
	must(t, err)
	follower := c.Members[slices.IndexFunc(c.Members, func(m *pgha.Member) bool { return m != leader })]
	must(t, follower.CutOff(t.Context()))
	l.more(30)
	l.longest()
	must(t, leader.Kill())
	must(t, follower.Promotable())
	l.more(60)
	t.Logf("the leader was lost: %v without an acknowledged start", l.longest())
	must(t, leader.Resume())
	must(t, c.Whole(t.Context()))
	l.more(30)
	losesATail(t, f, l)
}

// loseLeader kills the leader's machine.
func loseLeader(t *testing.T, c *pgha.Patroni) *pgha.Member {
	t.Helper()
	m, err := c.Leader(t.Context())
	must(t, err)
	must(t, m.Kill())
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
