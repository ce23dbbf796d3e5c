package postgres_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"recourse/internal/testpg"
	"recourse/journal"
	"recourse/journal/postgres"
)

// cut is where a proxy breaks the next connection that comes to it.
type cut int32

const (
	nowhere      cut = iota
	beforeServer     // what the client sends next does not arrive
	afterCommit      // the server commits, and its answer does not arrive
)

// proxy stands between a store and its server.
type proxy struct {
	l      net.Listener
	target string
	cut    atomic.Int32
}

// behindProxy returns dsn by way of a proxy.
func behindProxy(t *testing.T, dsn string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{l: l, target: u.Host}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	u.Host = l.Addr().String()
	return p, u.String()
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	var wg sync.WaitGroup
	wg.Go(func() {
		p.pump(server, client, func([]byte) bool { return p.cut.CompareAndSwap(int32(beforeServer), int32(nowhere)) })
		server.Close()
	})
	p.pump(client, server, func(b []byte) bool {
		return bytes.Contains(b, []byte("COMMIT\x00")) && p.cut.CompareAndSwap(int32(afterCommit), int32(nowhere))
	})
	client.Close()
	server.Close()
	wg.Wait()
}

func (p *proxy) pump(to io.Writer, from io.Reader, cuts func([]byte) bool) {
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil || cuts(buf[:n]) {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

func TestUnknownCommits(t *testing.T) {
	dsn := testpg.DSN(t)
	p, through := behindProxy(t, dsn)
	s := open(t, through, postgres.Options{Migrate: true, MaxConns: 1})
	defer s.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "n", time.Hour)
	must(t, err)
	for _, tt := range []struct {
		name    string
		at      cut
		written bool
	}{{"before the server", beforeServer, false}, {"after the commit", afterCommit, true}} {
		t.Run(tt.name, func(t *testing.T) {
			must(t, s.Ping(ctx)) // a live connection is in the pool
			a := begin()
			p.cut.Store(int32(tt.at))
			if _, err := s.Append(ctx, "n", []journal.Append{a}); !errors.Is(err, journal.ErrUnknown) {
				t.Fatalf("Append = %v, want ErrUnknown", err)
			}
			if _, err := s.Saga(ctx, a.Saga); errors.Is(err, journal.ErrNotFound) == tt.written {
				t.Fatalf("Saga = %v, written %v", err, tt.written)
			}
			out, err := s.Append(ctx, "n", []journal.Append{a})
			must(t, err)
			must(t, out[0].Err)
			records, err := s.Records(ctx, a.Saga, 0, 10)
			must(t, err)
			if len(records) != 1 {
				t.Fatalf("%d records after the second try, want 1", len(records))
			}

			m := journal.Mail{ID: uuid.Must(uuid.NewV7()), Saga: a.Saga, Kind: "signal"}
			p.cut.Store(int32(tt.at))
			if err := s.Post(ctx, m); !errors.Is(err, journal.ErrUnknown) {
				t.Fatalf("Post = %v, want ErrUnknown", err)
			}
			must(t, s.Post(ctx, m))
			mail, err := s.Mail(ctx, "n", 10)
			must(t, err)
			if len(mail) != 1 {
				t.Fatalf("%d messages after the second try, want 1", len(mail))
			}
			_, err = s.Append(ctx, "n", []journal.Append{{Saga: a.Saga, Mail: []uuid.UUID{m.ID}}})
			must(t, err)
		})
	}
}

// A claim whose answer is lost is handed out by the next one: else its sagas would be the node's
// without its knowing, for as long as it lives.
func TestLostClaim(t *testing.T) {
	p, through := behindProxy(t, testpg.DSN(t))
	s := open(t, through, postgres.Options{Migrate: true, MaxConns: 1})
	defer s.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "n", time.Hour)
	must(t, err)
	a := begin()
	a.Row = &journal.Row{Status: "parked", WakeAt: time.UnixMilli(1)}
	a.Release = true
	_, err = s.Append(ctx, "n", []journal.Append{a})
	must(t, err)
	p.cut.Store(int32(afterCommit))
	if got, err := s.Claim(ctx, "n", 10); !errors.Is(err, journal.ErrUnknown) {
		t.Fatalf("Claim = %v, %v, want ErrUnknown", got, err)
	}
	if h, err := s.Saga(ctx, a.Saga); err != nil || h.Owner != "n" {
		t.Fatalf("owner = %q, %v: the claim was to be committed", h.Owner, err)
	}
	got, err := s.Claim(ctx, "n", 10)
	must(t, err)
	if len(got) != 1 || got[0].Saga != a.Saga {
		t.Fatalf("the next claim = %+v, want the lost one", got)
	}
	if got, err := s.Claim(ctx, "n", 10); err != nil || len(got) != 0 {
		t.Fatalf("the claim after it = %+v, %v, want none", got, err)
	}
}

// A frozen node's open transaction does not keep others from renewing.
func TestTakeoverDoesNotWaitForLocks(t *testing.T) {
	dsn := testpg.DSN(t)
	s := open(t, dsn, postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	for node, ttl := range map[string]time.Duration{"frozen": 0, "live": time.Hour} {
		_, err := s.Register(ctx, node, ttl)
		must(t, err)
	}
	conn := connect(t, dsn)
	tx, err := conn.Begin(ctx)
	must(t, err)
	_, err = tx.Exec(ctx, `SELECT 1 FROM nodes WHERE id = 'frozen' FOR KEY SHARE`)
	must(t, err)
	renewing, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	_, err = s.Renew(renewing, "live", time.Hour)
	must(t, err)
	if got := nodeIDs(t, s); len(got) != 2 {
		t.Fatalf("nodes = %v: one was taken over while it was appending", got)
	}
	must(t, tx.Rollback(ctx))
	for deadline := time.Now().Add(20 * time.Second); len(nodeIDs(t, s)) > 1; {
		_, err = s.Renew(ctx, "live", time.Hour)
		must(t, err)
		if time.Now().After(deadline) {
			t.Fatal("the frozen node is never taken over")
		}
	}
}

func nodeIDs(t *testing.T, s journal.Store) (out []string) {
	t.Helper()
	infos, err := s.Nodes(t.Context())
	must(t, err)
	for _, n := range infos {
		out = append(out, n.Node)
	}
	return out
}

func TestListenerReconnects(t *testing.T) {
	dsn := testpg.DSN(t)
	s := open(t, dsn, postgres.Options{Migrate: true})
	defer s.Close()
	other := open(t, dsn, postgres.Options{})
	defer other.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "n", time.Hour)
	must(t, err)
	a := begin()
	_, err = s.Append(ctx, "n", []journal.Append{a})
	must(t, err)
	conn := connect(t, dsn)
	const listeners = `FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'`
	count := func() (n int) {
		must(t, conn.QueryRow(ctx, `SELECT count(*) `+listeners).Scan(&n))
		return n
	}
	until(t, "both listen", func() bool { return count() == 2 })
	_, err = conn.Exec(ctx, `SELECT pg_terminate_backend(pid) `+listeners)
	must(t, err)
	until(t, "both listen again", func() bool { return count() == 2 })
	until(t, "hint of the other's mail", func() bool {
		must(t, other.Post(ctx, journal.Mail{ID: uuid.Must(uuid.NewV7()), Saga: a.Saga, Kind: "signal"}))
		select {
		case <-s.Hints():
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	})
}

// Text that PostgreSQL cannot hold does not make a batch fail for ever.
func TestOddTextInDerivedValues(t *testing.T) {
	s := open(t, testpg.DSN(t), postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "n", time.Hour)
	must(t, err)
	odd := "a\x00b\xff"
	a := begin()
	a.Start.Unique, a.Start.Key = odd, odd
	a.Row = &journal.Row{Reason: odd, Labels: map[string]string{odd: odd}}
	for range 2 {
		out, err := s.Append(ctx, "n", []journal.Append{a})
		must(t, err)
		must(t, out[0].Err)
	}
	h, err := s.SagaByKey(ctx, odd)
	must(t, err)
	if want := "a\uFFFDb\uFFFD"; h.Reason != want || h.Labels[want] != want {
		t.Errorf("head = %+v, want %q everywhere", h, want)
	}
}

func TestPoolOptionsInDSN(t *testing.T) {
	s := open(t, testpg.DSN(t)+"&pool_max_conns=2&default_query_exec_mode=exec", postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "n", time.Hour)
	must(t, err)
	a := begin()
	a.Row = &journal.Row{Status: "running", Labels: map[string]string{"k": "v"}, Inbox: []journal.Entry{{ID: a.Saga, Kind: "stuck"}}}
	for range 2 {
		out, err := s.Append(ctx, "n", []journal.Append{a})
		must(t, err)
		must(t, out[0].Err)
	}
}

func begin() journal.Append {
	saga := uuid.Must(uuid.NewV7())
	r := journal.Record{Seq: 1, At: time.UnixMilli(1), Kind: journal.Started, Node: "n"}
	journal.Seal(saga, nil, &r)
	return journal.Append{Saga: saga, Start: &journal.Start{Definition: "d", Version: 1}, Records: []journal.Record{r}}
}

func connect(t *testing.T, dsn string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	must(t, err)
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for tick := time.NewTicker(10 * time.Millisecond); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("still not: %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A saga is being parked while a message to it is about to be committed: parking waits for the
// saga's row, and must then see what its own snapshot does not have.
func TestParkingSeesMailCommittedMeanwhile(t *testing.T) {
	dsn := testpg.DSN(t)
	s := open(t, dsn, postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "n", time.Hour)
	must(t, err)
	a := begin()
	_, err = s.Append(ctx, "n", []journal.Append{a})
	must(t, err)

	conn, saga, mail := connect(t, dsn), a.Saga.String(), uuid.Must(uuid.NewV7())
	tx, err := conn.Begin(ctx)
	must(t, err)
	_, err = tx.Exec(ctx, `INSERT INTO mail (saga_id, id, kind) VALUES ($1, $2, 'signal')`, saga, mail.String())
	must(t, err)
	_, err = tx.Exec(ctx, `UPDATE sagas SET mail = mail + 1 WHERE id = $1`, saga)
	must(t, err)
	parked := make(chan error, 1)
	go func() {
		out, err := s.Append(ctx, "n", []journal.Append{{Saga: a.Saga, Row: &journal.Row{Status: "parked"}, Release: true}})
		if err == nil {
			err = out[0].Err
		}
		parked <- err
	}()
	watch := connect(t, dsn)
	until(t, "parking waits for the row", func() bool {
		var waiting bool
		must(t, watch.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting))
		return waiting
	})
	must(t, tx.Commit(ctx))
	must(t, <-parked)
	got, err := s.Claim(ctx, "n", 10)
	must(t, err)
	if len(got) != 1 || len(got[0].Mail) != 1 || got[0].Mail[0].ID != mail {
		t.Fatalf("claim = %+v, want the saga with its message", got)
	}
}
