package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/pgsync"
	"recourse/internal/test/pgserver"
	"recourse/journal"
	"recourse/journal/postgres"
)

// own starts a server for one test.
func own(t *testing.T, settings ...string) *pgserver.Cluster {
	t.Helper()
	c, err := pgserver.Start(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// started returns an append that starts a saga.
func started() journal.Append {
	id := uuid.Must(uuid.NewV7())
	r := journal.Record{Seq: 1, At: time.UnixMilli(1), Kind: journal.Started, Node: "n", Data: []byte(`{}`)}
	journal.Seal(id, nil, &r)
	return journal.Append{Saga: id, Start: &journal.Start{Definition: "d", Version: 1, CreatedAt: time.UnixMilli(1)}, Records: []journal.Record{r},
		Row: &journal.Row{Status: "running", Seq: 1, UpdatedAt: time.UnixMilli(1)}}
}

// After a failover the store fences the nodes that were registered before it, and never uses the
// old primary again. Nor does it use another cluster.
func TestGoingBack(t *testing.T) {
	ctx := t.Context()
	c := own(t)
	s, err := postgres.Open(ctx, c.URL, postgres.Options{Migrate: true})
	must(t, err)
	defer s.Close()
	lease, err := s.Register(ctx, "before", time.Hour)
	must(t, err)
	if lease.Timeline != 1 {
		t.Fatalf("registered on timeline %d", lease.Timeline)
	}
	must(t, c.Halt(pgserver.Fast))
	standby, err := c.Branch()
	must(t, err)
	must(t, c.Resume())
	lost := started()
	until(t, "an append", func() bool {
		_, err = s.Append(ctx, "before", []journal.Append{lost})
		return err == nil
	})
	must(t, c.Halt(pgserver.Immediate))
	old, err := c.Exchange(standby)
	must(t, err)
	must(t, c.ResumePromoted())

	until(t, "the node is fenced", func() bool {
		_, err = s.Renew(ctx, "before", time.Hour)
		return errors.Is(err, journal.ErrFenced)
	})
	if _, err := s.Append(ctx, "before", []journal.Append{started()}); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("append of a node from before: %v", err)
	}
	if _, err := s.Claim(ctx, "before", 1); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("claim of a node from before: %v", err)
	}
	lease, err = s.Register(ctx, "after", time.Hour)
	must(t, err)
	if lease.Timeline != 2 {
		t.Errorf("registered on timeline %d, want 2", lease.Timeline)
	}
	var noted int64
	if err := connect(t, c.URL).QueryRow(ctx, `SELECT timeline FROM installation`).Scan(&noted); err != nil || noted != 2 {
		t.Errorf("the installation row has timeline %d, %v; want 2", noted, err)
	}
	must(t, s.Release(ctx, "before"))
	if _, err := s.Records(ctx, lost.Saga, 0, 1); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("the lost saga: %v", err)
	}
	if out, err := s.Append(ctx, "after", []journal.Append{started()}); err != nil || out[0].Err != nil {
		t.Errorf("append of a node from after: %v, %v", out, err)
	}

	must(t, c.Halt(pgserver.Fast))
	_, err = c.Exchange(old)
	must(t, err)
	must(t, c.Resume())
	until(t, "the old primary is refused", func() bool {
		_, err = s.Append(ctx, "after", []journal.Append{started()})
		return errors.Is(err, postgres.ErrWentBack)
	})
	if !strings.Contains(err.Error(), "pg_rewind") {
		t.Errorf("it does not say what to do: %v", err)
	}
	if err := s.Ping(ctx); !errors.Is(err, postgres.ErrWentBack) {
		t.Errorf("ping of the old primary: %v", err)
	}

	conn := connect(t, c.URL)
	_, err = conn.Exec(ctx, `UPDATE installation SET system = system + 1`)
	must(t, err)
	if _, err := postgres.Open(ctx, c.URL, postgres.Options{}); !errors.Is(err, postgres.ErrWentBack) || !strings.Contains(err.Error(), "DELETE FROM installation") {
		t.Errorf("a database that was copied from elsewhere: %v", err)
	}
	_, err = conn.Exec(ctx, `DELETE FROM installation`)
	must(t, err)
	other, err := postgres.Open(ctx, c.URL, postgres.Options{})
	must(t, err)
	must(t, other.Close())
}

// A standby is promoted while its primary is alive, and the URL names both. A store that has the
// database open switches to the new primary. A store that opens it later does not use the old one,
// although that accepts writes and comes first.
func TestOldPrimaryLives(t *testing.T) {
	ctx := t.Context()
	old := own(t, pgserver.Durable...)
	next, err := old.Standby()
	must(t, err)
	t.Cleanup(func() { must(t, next.Stop()) })
	url := "postgres://postgres@" + old.Host() + "," + next.Host() + "/postgres?sslmode=disable&target_session_attrs=read-write"
	s, err := postgres.Open(ctx, url, postgres.Options{Migrate: true})
	must(t, err)
	defer s.Close()
	lease, err := s.Register(ctx, "before", time.Hour)
	must(t, err)
	if lease.Timeline != 1 {
		t.Fatalf("registered on timeline %d", lease.Timeline)
	}
	primary := connect(t, old.URL)
	until(t, "the standby has the registration", func() (has bool) {
		must(t, primary.QueryRow(ctx, `SELECT coalesce(min(replay_lsn) >= pg_current_wal_lsn(), false) FROM pg_stat_replication`).Scan(&has))
		return has
	})
	must(t, next.Promote(ctx))
	until(t, "the node is fenced", func() bool {
		_, err = s.Append(ctx, "before", []journal.Append{started()})
		return errors.Is(err, journal.ErrFenced)
	})
	later, err := postgres.Open(ctx, url, postgres.Options{})
	must(t, err)
	defer later.Close()
	for i, s := range []*postgres.Store{s, later} {
		node := fmt.Sprint("after-", i)
		lease, err := s.Register(ctx, node, time.Hour)
		must(t, err)
		if lease.Timeline != 2 {
			t.Errorf("%s is registered on timeline %d, want 2", node, lease.Timeline)
		}
		lease, err = s.Renew(ctx, node, time.Hour)
		must(t, err)
		if !errors.Is(lease.Rival, postgres.ErrWentBack) || !strings.Contains(lease.Rival.Error(), old.Host()) {
			t.Errorf("%s: the rival is %v, want the old primary", node, lease.Rival)
		}
		for range 5 { // hints from before may be left
			_, err := connect(t, next.URL).Exec(ctx, `SELECT pg_notify('recourse', '')`)
			must(t, err)
			select {
			case <-s.Hints():
			case <-time.After(time.Minute):
				t.Fatalf("%s gets no hints from the new primary", node)
			}
		}
	}
	if err := postgres.Rival(ctx, url); !errors.Is(err, postgres.ErrWentBack) || !strings.Contains(err.Error(), old.Host()) {
		t.Errorf("a check of the URL finds %v, want the old primary", err)
	}
	must(t, old.Halt(pgserver.Fast))
	until(t, "the old primary is gone", func() bool {
		lease, err := s.Renew(ctx, "after-0", time.Hour)
		must(t, err)
		return lease.Rival == nil
	})
}

// With a role that may not read the cluster's identity, everything works, but no failover is
// detected.
func TestUnknownIdentity(t *testing.T) {
	ctx := t.Context()
	c := own(t)
	conn := connect(t, c.URL)
	for _, do := range []string{`CREATE ROLE plain LOGIN`, `CREATE DATABASE plain OWNER plain`} {
		_, err := conn.Exec(ctx, do)
		must(t, err)
	}
	_, err := connect(t, c.URL+"&dbname=plain").Exec(ctx, `REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC`)
	must(t, err)
	s, err := postgres.Open(ctx, strings.Replace(c.URL, "postgres@127.0.0.1", "plain@127.0.0.1", 1)+"&dbname=plain", postgres.Options{Migrate: true})
	must(t, err)
	defer s.Close()
	if lease, err := s.Register(ctx, "n", time.Hour); err != nil || lease.Timeline != 0 {
		t.Errorf("registered on timeline %d, %v; want 0", lease.Timeline, err)
	}
}

// A commit that stopped waiting for its standby is unknown, however often it is repeated, until a
// commit has reached the standby.
func TestUnknownWithoutStandby(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := own(t, pgserver.Durable...)
	s, err := postgres.Open(ctx, c.URL, postgres.Options{Migrate: true})
	must(t, err)
	defer s.Close()
	_, err = s.Register(ctx, "n", time.Hour)
	must(t, err)
	if err := s.Synchronous(ctx); !errors.Is(err, journal.ErrNotSynchronous) {
		t.Errorf("without a standby: %v", err)
	}
	must(t, c.WaitFor(ctx, "nobody"))
	until(t, "commits wait for nobody", func() bool { return errors.Is(s.Synchronous(ctx), pgsync.ErrNoStandby) })
	over := make(chan struct{})
	var cancelling sync.WaitGroup
	cancelling.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(20 * time.Millisecond):
			}
			if err := c.CancelWaits(ctx); err != nil {
				t.Errorf("cancel: %v", err)
				return
			}
		}
	})
	defer cancelling.Wait()
	defer close(over)
	a := started()
	for try := range 3 {
		if _, err := s.Append(ctx, "n", []journal.Append{a}); !errors.Is(err, journal.ErrUnknown) {
			t.Fatalf("try %d: %v, want it to be unknown", try, err)
		}
	}
	if records, err := s.Records(ctx, a.Saga, 0, 10); err != nil || len(records) != 1 {
		t.Errorf("%d records, %v: the commit is there all the same", len(records), err)
	}
	if err := s.Confirm(ctx, "n"); !errors.Is(err, journal.ErrUnknown) {
		t.Errorf("confirm: %v, and it is not known whether a standby has the records that were read", err)
	}
	if _, err := s.Claim(ctx, "n", 1); err != nil {
		t.Errorf("a claim of nothing: %v", err)
	}
	must(t, c.WaitFor(ctx, ""))
	until(t, "it is confirmed", func() bool { return s.Confirm(ctx, "n") == nil })
	until(t, "it is known", func() bool {
		out, err := s.Append(ctx, "n", []journal.Append{a})
		return err == nil && out[0].Err == nil
	})
}

// A store that knows the state from before a failover refuses the old primary even if its URL names
// one address. It also refuses another cluster.
func TestMemory(t *testing.T) {
	ctx := t.Context()
	c := own(t)
	memory := postgres.Memory{Place: "the-file"}
	var kept []int64
	memory.Keep = func(system string, timeline int64) {
		memory.System, memory.Timeline = system, timeline
		kept = append(kept, timeline)
	}
	begin := func() error {
		s, err := postgres.Open(ctx, c.URL, postgres.Options{Migrate: true, Memory: memory})
		if err != nil {
			return err
		}
		_, err = s.Register(ctx, uuid.Must(uuid.NewV7()).String(), time.Hour)
		return errors.Join(err, s.Close())
	}
	must(t, begin())
	must(t, c.Halt(pgserver.Fast))
	standby, err := c.Branch()
	must(t, err)
	old, err := c.Exchange(standby)
	must(t, err)
	must(t, c.ResumePromoted())
	must(t, begin())
	must(t, begin())
	if !slices.Equal(kept, []int64{1, 2}) || memory.System == "" {
		t.Fatalf("kept timelines %v of system %q, want each once", kept, memory.System)
	}

	must(t, c.Halt(pgserver.Fast))
	_, err = c.Exchange(old)
	must(t, err)
	must(t, c.Resume())
	if err := begin(); !errors.Is(err, postgres.ErrWentBack) || !strings.Contains(err.Error(), "pg_rewind") || !strings.Contains(err.Error(), "remove the-file") {
		t.Errorf("the old primary: %v", err)
	}
	known := memory
	memory.System = "1"
	if err := begin(); !errors.Is(err, postgres.ErrWentBack) || !strings.Contains(err.Error(), "DELETE FROM installation") || !strings.Contains(err.Error(), "remove the-file") {
		t.Errorf("another cluster: %v", err)
	}
	memory.System, memory.Timeline = "", 0 // the file is removed
	must(t, begin())
	if memory.System != known.System || memory.Timeline != 1 {
		t.Errorf("kept system %s, timeline %d", memory.System, memory.Timeline)
	}

	_, err = connect(t, c.URL).Exec(ctx, `UPDATE installation SET system = system + 1`)
	must(t, err)
	memory.System, memory.Timeline = "", 0
	if err := begin(); !errors.Is(err, postgres.ErrWentBack) || memory.System != "" {
		t.Errorf("a database that is refused: %v, and it is kept as %q", err, memory.System)
	}
}
