//go:build ha

package crash

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"recourse/internal/test/pgha"
	"recourse/internal/test/pgserver"
)

// An old primary returns and accepts writes, because nothing fences it, and it is the first in the
// URL: neither the nodes that know the new one nor those that start now write to it, and they log
// that it exists.
func TestFailoverOldPrimaryIsBack(t *testing.T) {
	p := pgha.NewPair(t)
	must(t, p.Primary.WaitFor(t.Context(), "*")) // so that all losses are due to the old primary
	f, l := scene(t, onServers(p.URL), 2)
	l.more(40)
	l.longest()
	must(t, p.FailOver(t.Context()))
	l.more(40)
	t.Logf("the primary was lost: %v without an acknowledged start", l.longest())
	must(t, p.Primary.Resume())
	must(t, p.Primary.WaitFor(t.Context(), "")) // it accepts writes alone
	before := written(t, p.Primary)
	for range 2 * len(f.up) {
		if n := f.await(20 * time.Second); n != nil {
			n.signal(syscall.SIGKILL)
		}
		l.more(10)
	}
	f.says(t, "a second database server accepts writes", len(f.up))
	l.verify(t)
	if after := written(t, p.Primary); after != before {
		t.Errorf("the old primary has %+v, and had %+v before", after, before)
	}
}

// A standby is promoted while its primary lives and accepts writes: the nodes detect it and switch
// over. Their earlier writes to the old one are lost, and they log which.
func TestFailoverWhileThePrimaryLives(t *testing.T) {
	p := pgha.NewPair(t)
	f, l := scene(t, onLosing(p.URL), 2)
	l.more(40)
	must(t, p.Standby.Promote(t.Context()))
	f.says(t, "the database has failed over; this node compared its journals", len(f.up))
	before := written(t, p.Primary)
	l.more(40)
	if after := written(t, p.Primary); after != before {
		t.Errorf("the old primary has %+v, and had %+v when all nodes had left it", after, before)
	}
	losesATail(t, f, l)
}

// amount counts the rows that nodes write to a database.
type amount struct{ sagas, records, nodes int }

func written(t *testing.T, c *pgserver.Cluster) (n amount) {
	t.Helper()
	err := session(t, c).QueryRow(t.Context(), `SELECT (SELECT count(*) FROM sagas), (SELECT count(*) FROM journal), (SELECT count(*) FROM nodes)`).Scan(&n.sagas, &n.records, &n.nodes)
	must(t, err)
	return n
}

func session(t *testing.T, c *pgserver.Cluster) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), c.URL)
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.Background()) }) // the server may be gone
	return conn
}

// says waits until the nodes have logged a text so often.
func (f *fleet) says(t *testing.T, text string, times int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); f.count(text) < times; <-time.After(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("nodes have logged %d times, not %d: %s", f.count(text), times, text)
		}
	}
}
