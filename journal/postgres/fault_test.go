package postgres_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"recourse/internal/test/pgserver"
	"recourse/journal"
	"recourse/journal/postgres"
)

// The open transaction of a frozen node does not prevent others from renewing.
func TestTakeoverDoesNotWaitForLocks(t *testing.T) {
	dsn := pgserver.DSN(t)
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
	_, err = tx.Exec(ctx, `SELECT has_lease('frozen')`)
	must(t, err)
	renewing, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	_, err = s.Renew(renewing, "live", time.Hour)
	must(t, err)
	if got := nodeIDs(t, s); len(got) != 2 {
		t.Fatalf("nodes = %v: one was taken over while it was appending", got)
	}
	must(t, tx.Rollback(ctx))
	for deadline := time.Now().Add(time.Minute); len(nodeIDs(t, s)) > 1; {
		_, err = s.Renew(ctx, "live", time.Hour)
		must(t, err)
		if time.Now().After(deadline) {
			t.Fatal("the frozen node is never taken over")
		}
	}
}

// An append or a claim that waits for the takeover of its node is fenced, although its snapshot is
// older than the takeover.
func TestTakeoverFencesWaitingWrites(t *testing.T) {
	dsn := pgserver.DSN(t)
	s := open(t, dsn, postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	conn, watch := connect(t, dsn), connect(t, dsn)
	for name, write := range map[string]func() error{
		"append": func() error { _, err := s.Append(ctx, "append", []journal.Append{begin()}); return err },
		"claim":  func() error { _, err := s.Claim(ctx, "claim", 1); return err },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Register(ctx, name, time.Hour)
			must(t, err)
			tx, err := conn.Begin(ctx)
			must(t, err)
			_, err = tx.Exec(ctx, `SELECT pg_advisory_xact_lock(node_lock($1))`, name)
			must(t, err)
			_, err = tx.Exec(ctx, `DELETE FROM nodes WHERE id = $1`, name)
			must(t, err)
			written := make(chan error, 1)
			go func() { written <- write() }()
			untilLocked(t, watch, "the "+name+" waits for the takeover")
			must(t, tx.Commit(ctx))
			if err := <-written; !errors.Is(err, journal.ErrFenced) {
				t.Errorf("err = %v, want ErrFenced", err)
			}
		})
	}
	if list, err := s.Sagas(ctx, journal.Filter{}); err != nil || len(list.Heads) > 0 {
		t.Errorf("%d sagas of fenced nodes, %v", len(list.Heads), err)
	}
}

// The end of a node by its own release or by name waits for its appends in flight.
func TestEndsWaitForAppends(t *testing.T) {
	dsn := pgserver.DSN(t)
	s := open(t, dsn, postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	conn, watch := connect(t, dsn), connect(t, dsn)
	for name, end := range map[string]func() error{
		"released": func() error { return s.Release(ctx, "released") },
		"named":    func() error { _, err := s.Register(ctx, "next", time.Hour, "other", "named"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Register(ctx, name, time.Hour)
			must(t, err)
			tx, err := conn.Begin(ctx)
			must(t, err)
			_, err = tx.Exec(ctx, `SELECT has_lease($1)`, name)
			must(t, err)
			ended := make(chan error, 1)
			go func() { ended <- end() }()
			untilLocked(t, watch, "the end waits for the append")
			if !slices.Contains(nodeIDs(t, s), name) {
				t.Error("the node has ended while it was appending")
			}
			must(t, tx.Commit(ctx))
			must(t, <-ended)
			if slices.Contains(nodeIDs(t, s), name) {
				t.Error("the node has not ended")
			}
		})
	}
}

// The start of a child waits for a transaction that ends its parent, or begins to undo it, and sees
// what that transaction wrote. An update of a row conflicts with FOR SHARE, and not with FOR KEY
// SHARE.
func TestChildWaitsForItsParentsEnd(t *testing.T) {
	dsn := pgserver.DSN(t)
	s := open(t, dsn, postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "n", time.Hour)
	must(t, err)
	conn, watch := connect(t, dsn), connect(t, dsn)
	for name, change := range map[string]string{
		"ended":  `UPDATE sagas SET status = 'failed', ended_at = 2, owner = NULL WHERE id = $1`,
		"undone": `UPDATE sagas SET status = 'compensating', reason = 'step_failed' WHERE id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			parent, child := begin(), begin()
			out, err := s.Append(ctx, "n", []journal.Append{parent})
			must(t, errors.Join(err, out[0].Err))
			tx, err := conn.Begin(ctx)
			must(t, err)
			_, err = tx.Exec(ctx, change, parent.Saga.String())
			must(t, err)
			child.Start.Parent = parent.Saga
			started := make(chan error, 1)
			go func() {
				out, err := s.Append(ctx, "n", []journal.Append{child})
				if err == nil {
					err = out[0].Err
				}
				started <- err
			}()
			until(t, "the child waits for the parent's row", func() (waits bool) {
				if len(started) > 0 {
					t.Fatalf("the child did not wait for its parent's row: %v", <-started)
				}
				must(t, watch.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND $1 = ANY (pg_blocking_pids(pid)))`,
					int32(conn.PgConn().PID())).Scan(&waits))
				return waits
			})
			must(t, tx.Commit(ctx))
			if err := <-started; !errors.Is(err, journal.ErrParentEnded) {
				t.Errorf("err = %v, want ErrParentEnded", err)
			}
			if _, err := s.Saga(ctx, child.Saga); !errors.Is(err, journal.ErrNotFound) {
				t.Errorf("the child: %v, want ErrNotFound", err)
			}
		})
	}
}

// An append that the server ends by its own time limit counts as one that was too slow, so that the
// node makes its batches smaller.
func TestAppendExceedsStatementTimeout(t *testing.T) {
	dsn := pgserver.DSN(t)
	s := open(t, dsn+"&statement_timeout=200ms", postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "n", time.Hour)
	must(t, err)
	tx, err := connect(t, dsn).Begin(ctx)
	must(t, err)
	_, err = tx.Exec(ctx, `SELECT pg_advisory_xact_lock(node_lock('n'))`)
	must(t, err)
	if _, err = s.Append(ctx, "n", []journal.Append{begin()}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, journal.ErrUnknown) {
		t.Errorf("err = %v, want a deadline that was exceeded before anything was written", err)
	}
	must(t, tx.Rollback(ctx))
	_, err = s.Append(ctx, "n", []journal.Append{begin()})
	must(t, err)
}

// untilLocked waits until a statement in this database waits for an advisory lock.
func untilLocked(t *testing.T, watch *pgx.Conn, what string) {
	t.Helper()
	until(t, what, func() (waits bool) {
		must(t, watch.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'advisory')`).Scan(&waits))
		return waits
	})
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

// While many messages to one saga wait for its row, a node renews its lease, commits, and claims,
// and messages to other sagas have their turns.
func TestRenewalComesFirst(t *testing.T) {
	dsn := pgserver.DSN(t)
	s := open(t, dsn, postgres.Options{Migrate: true, MaxConns: 4})
	defer s.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "n", time.Hour)
	must(t, err)
	locked, other := begin(), begin()
	_, err = s.Append(ctx, "n", []journal.Append{locked, other})
	must(t, err)
	conn, watch := connect(t, dsn), connect(t, dsn)
	tx, err := conn.Begin(ctx)
	must(t, err)
	_, err = tx.Exec(ctx, `SELECT 1 FROM sagas WHERE id = $1 FOR UPDATE`, locked.Saga.String())
	must(t, err)
	send := func(saga uuid.UUID) error {
		return s.Send(ctx, journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: saga, Kind: "signal"})
	}
	sent := make(chan error, 8)
	for range cap(sent) {
		go func() { sent <- send(locked.Saga) }()
	}
	until(t, "messages have all connections that they may have", func() bool {
		var waiting int
		must(t, watch.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&waiting))
		return waiting >= 3
	})
	_, err = s.Renew(ctx, "n", time.Hour)
	must(t, err)
	_, err = s.Append(ctx, "n", []journal.Append{begin()})
	must(t, err)
	_, err = s.Claim(ctx, "n", 1)
	must(t, err)
	must(t, send(other.Saga))
	if len(sent) > 0 {
		t.Error("these waited for the messages")
	}
	must(t, tx.Rollback(ctx))
	for range cap(sent) {
		must(t, <-sent)
	}
}

func TestListenerReconnects(t *testing.T) {
	dsn := pgserver.DSN(t)
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
	until(t, "hint of the other's message", func() bool {
		must(t, other.Send(ctx, journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: a.Saga, Kind: "signal"}))
		select {
		case <-s.Hints():
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	})
}

// Text that PostgreSQL cannot store does not make a batch fail forever.
func TestOddTextInDerivedValues(t *testing.T) {
	s := open(t, pgserver.DSN(t), postgres.Options{Migrate: true})
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
	s := open(t, pgserver.DSN(t)+"&pool_max_conns=2&default_query_exec_mode=exec", postgres.Options{Migrate: true})
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
	deadline := time.Now().Add(time.Minute)
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

// A saga is released while a message to it is being committed. The release waits for the saga's
// row, and must then see the message, which its own snapshot does not have.
func TestReleaseSeesMessageCommittedMeanwhile(t *testing.T) {
	dsn := pgserver.DSN(t)
	s := open(t, dsn, postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "n", time.Hour)
	must(t, err)
	a := begin()
	_, err = s.Append(ctx, "n", []journal.Append{a})
	must(t, err)

	conn, saga, message := connect(t, dsn), a.Saga.String(), uuid.Must(uuid.NewV7())
	tx, err := conn.Begin(ctx)
	must(t, err)
	_, err = tx.Exec(ctx, `INSERT INTO messages (saga_id, id, kind) VALUES ($1, $2, 'signal')`, saga, message.String())
	must(t, err)
	_, err = tx.Exec(ctx, `UPDATE sagas SET pending_messages = pending_messages + 1 WHERE id = $1`, saga)
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
	if len(got) != 1 || got[0].Messages != 1 {
		t.Fatalf("claim = %+v, want the saga with a message", got)
	}
	if left, err := s.Messages(ctx, []uuid.UUID{got[0].Saga}, 10, 1<<20); err != nil || len(left) != 1 || left[0].ID != message {
		t.Fatalf("messages = %+v, %v; want the message", left, err)
	}
}

// A release without records that is repeated because its response was lost does not take the saga
// from the node that has claimed it meanwhile.
func TestLateReleaseKeepsTheNextOwner(t *testing.T) {
	dsn := pgserver.DSN(t)
	s := open(t, dsn, postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "one", time.Hour)
	must(t, err)
	saga := uuid.Must(uuid.NewV7())
	start := journal.Record{Seq: 1, At: time.UnixMilli(1).UTC(), Kind: journal.Started, Node: "one"}
	journal.Seal(saga, nil, &start)
	_, err = s.Append(ctx, "one", []journal.Append{{Saga: saga, Start: &journal.Start{Definition: "d", Version: 1}, Records: []journal.Record{start}}})
	must(t, err)

	conn := connect(t, dsn)
	other, err := conn.Begin(ctx)
	must(t, err)
	_, err = other.Exec(ctx, `UPDATE sagas SET owner = 'two', wake_at = NULL, status = 'running'`)
	must(t, err)
	parked := make(chan error, 1)
	go func() {
		_, err := s.Append(ctx, "one", []journal.Append{{Saga: saga, Row: &journal.Row{Status: "waiting", UpdatedAt: time.UnixMilli(2)}, Release: true}})
		parked <- err
	}()
	watch := connect(t, dsn)
	for waits := 0; waits == 0; { // the release has read the saga's owner and waits for the row
		must(t, watch.QueryRow(ctx, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.datname = current_database()
			WHERE NOT l.granted AND l.locktype = 'transactionid' AND EXISTS (SELECT 1 FROM pg_stat_activity a WHERE a.pid = l.pid AND a.datid = d.oid)`).Scan(&waits))
	}
	must(t, other.Commit(ctx))
	must(t, <-parked)
	h, err := s.Saga(ctx, saga)
	must(t, err)
	if h.Owner != "two" || h.Status != "running" {
		t.Errorf("owner %q, status %q: the late release took it from node two", h.Owner, h.Status)
	}
}

// Sagas of two nodes that send messages to each other, while workers end tasks that the sagas
// withdraw, do not deadlock. The database would detect a deadlock only after a second, and would
// abort one transaction.
func TestMessagesCross(t *testing.T) {
	dsn := pgserver.DSN(t)
	s := open(t, dsn, postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	const rounds, each = 40, 3
	var sagas [2][]uuid.UUID
	for i, node := range []string{"one", "two"} {
		_, err := s.Register(ctx, node, time.Hour)
		must(t, err)
		for range each {
			a := begin()
			_, err = s.Append(ctx, node, []journal.Append{a})
			must(t, err)
			sagas[i] = append(sagas[i], a.Saga)
		}
	}
	claim := journal.TaskClaim{Types: []string{"t"}, Max: rounds * each, Token: uuid.Must(uuid.NewV4())}
	var tasks [2][]uuid.UUID
	for i, node := range []string{"one", "two"} {
		for _, saga := range sagas[i] {
			a := journal.Append{Saga: saga}
			for range rounds {
				tasks[i] = append(tasks[i], uuid.Must(uuid.NewV7()))
				a.Tasks = append(a.Tasks, journal.Task{ID: tasks[i][len(tasks[i])-1], Type: "t", Lease: time.Hour, Timeout: time.Hour})
			}
			_, err := s.Append(ctx, node, []journal.Append{a})
			must(t, err)
		}
	}
	claim.Max *= 2
	claimed, err := s.ClaimTasks(ctx, claim)
	must(t, err)
	var wg sync.WaitGroup
	for i, node := range []string{"one", "two"} {
		wg.Go(func() {
			for round := range rounds {
				var batch []journal.Append
				for k := range each {
					own, other := (round+k)%each, (round+2*k+i)%each // in every order
					batch = append(batch, journal.Append{Saga: sagas[i][own], Row: &journal.Row{Status: "s"}, Withdraw: tasks[i][own*rounds : own*rounds+rounds],
						Messages: []journal.Message{{ID: uuid.Must(uuid.NewV7()), Saga: sagas[1-i][other], Kind: "m"}, {ID: uuid.Must(uuid.NewV7()), Saga: sagas[1-i][own], Kind: "m"}}})
				}
				if _, err := s.Append(ctx, node, batch); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Go(func() {
		for _, w := range claimed {
			if err := s.EndTask(ctx, w.ID, claim.Token, "done", journal.Message{ID: w.ID, Kind: "m"}); err != nil {
				t.Error(err)
			}
		}
	})
	wg.Wait()
	for i, node := range []string{"one", "two"} {
		boxes, err := s.Recipients(ctx, node, uuid.Nil, 10_000)
		must(t, err)
		messages := 0
		for _, b := range boxes {
			messages += b.Messages
		}
		if want := 2*rounds*each + len(tasks[i]); messages != want {
			t.Errorf("%d messages for node %s, want %d", messages, node, want)
		}
	}
	watch := connect(t, dsn)
	until(t, "the statistics are in", func() bool {
		var commits, deadlocks int
		must(t, watch.QueryRow(ctx, `SELECT xact_commit, deadlocks FROM pg_stat_database WHERE datname = current_database()`).Scan(&commits, &deadlocks))
		if deadlocks > 0 {
			t.Fatalf("%d deadlocks", deadlocks)
		}
		return commits > rounds
	})
}

// Transactions that insert the same blobs of a saga do so in the order of hashes, so that none
// waits for another that waits for it.
func TestBlobsAreInsertedInOrder(t *testing.T) {
	dsn := pgserver.DSN(t)
	s := open(t, dsn, postgres.Options{Migrate: true})
	defer s.Close()
	ctx := t.Context()
	_, err := s.Register(ctx, "n", time.Hour)
	must(t, err)
	a := begin()
	_, err = s.Append(ctx, "n", []journal.Append{a})
	must(t, err)
	conn := connect(t, dsn)
	other, err := conn.Begin(ctx)
	must(t, err)
	first, last := [32]byte{1}, [32]byte{2}
	insert := func(hash [32]byte) error {
		_, err := other.Exec(ctx, `INSERT INTO blobs (saga_id, hash, data) VALUES ($1, $2, '')`, a.Saga.String(), hash[:])
		return err
	}
	must(t, insert(first))
	put := make(chan error)
	go func() { put <- s.PutBlobs(ctx, a.Saga, []journal.Blob{{Hash: last}, {Hash: first}}) }()
	watcher := connect(t, dsn)
	until(t, "it waits for the other transaction", func() bool {
		var n int
		must(t, watcher.QueryRow(ctx, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n))
		return n > 0
	})
	_, err = other.Exec(ctx, `SET LOCAL lock_timeout = '100ms'`)
	must(t, err)
	if err := insert(last); err != nil {
		t.Errorf("the other transaction waits, too: %v", err)
	}
	must(t, other.Rollback(ctx))
	must(t, <-put)
}
