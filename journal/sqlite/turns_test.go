package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"recourse/journal"
)

func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		only := new(sql.Conn)
		turns := &turns{conn: only}
		conn, err := turns.take(t.Context(), false)
		if conn != only || err != nil {
			t.Fatal(conn, err)
		}
		var mu sync.Mutex
		var order []string
		wait := func(name string, urgent bool, within time.Duration) {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				conn, err := turns.take(ctx, urgent)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					order = append(order, name+" leaves")
					return
				}
				order = append(order, name)
				turns.give(conn)
			}()
			synctest.Wait()
		}
		wait("commit", false, time.Hour)
		wait("impatient", true, time.Second)
		wait("claim", false, time.Hour)
		wait("renewal", true, time.Hour)
		time.Sleep(time.Minute)
		turns.give(conn)
		synctest.Wait()
		if want := []string{"impatient leaves", "renewal", "commit", "claim"}; !slices.Equal(order, want) {
			t.Errorf("the turns were %v, want %v", order, want)
		}
	})
}

// Only one caller has the connection at a time, and it is not lost, while others take turns, leave
// the line and close it.
func TestTurnsAreNotLost(t *testing.T) {
	for seed := range uint64(100) {
		synctest.Test(t, func(t *testing.T) {
			turns := &turns{conn: new(sql.Conn)}
			var having atomic.Int32
			var all sync.WaitGroup
			for i := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, i))
				all.Go(func() {
					for range 20 {
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rng.IntN(20))*time.Millisecond)
						conn, err := turns.take(ctx, rng.IntN(4) == 0)
						if err == nil {
							if having.Add(1) != 1 {
								t.Errorf("seed %d: two have the connection", seed)
							}
							time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
							having.Add(-1)
							turns.give(conn)
						}
						cancel()
					}
				})
			}
			all.Wait()
			if turns.close() == nil {
				t.Errorf("seed %d: the connection is lost", seed)
			}
			if _, err := turns.take(t.Context(), false); !errors.Is(err, errClosed) || turns.close() != nil {
				t.Errorf("seed %d: %v after it was closed", seed, err)
			}
		})
	}
}

// A renewal does not wait for other methods' writes.
func TestRenewalComesFirst(t *testing.T) {
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"), Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Register(t.Context(), "node", time.Minute); err != nil {
		t.Fatal(err)
	}
	conn := turnOf(t, s)
	line := func(of *[]chan *sql.Conn) int {
		s.w.turns.mu.Lock()
		defer s.w.turns.mu.Unlock()
		return len(*of)
	}
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := s.Append(t.Context(), "node", nil); err != nil {
			t.Error(err)
		}
	})
	all.Go(func() {
		if _, err := s.Renew(t.Context(), "node", time.Minute); err != nil {
			t.Error(err)
		}
	})
	for late := time.Now().Add(time.Minute); line(&s.w.turns.others) != 1 || line(&s.w.turns.urgent) != 1; {
		if time.Now().After(late) {
			s.w.turns.give(conn)
			t.Fatal("want the append in one line, and the renewal in the one that comes first")
		}
		runtime.Gosched()
	}
	s.w.turns.give(conn)
	all.Wait()
}

// turnOf takes the writing connection.
func turnOf(t *testing.T, s *Store) *sql.Conn {
	t.Helper()
	conn, err := s.w.turns.take(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// Others have their turns between two of many sagas whose removal takes long, and what was removed
// before the caller gave up stays removed.
func TestRemovalsTakeTurns(t *testing.T) {
	for name, remove := range map[string]func(context.Context, *Store, []journal.Copied) (int, error){
		"expired": func(ctx context.Context, s *Store, _ []journal.Copied) (int, error) { return s.DeleteExpired(ctx, 10) },
		"copied": func(ctx context.Context, s *Store, sagas []journal.Copied) (int, error) {
			deleted, err := s.DeleteCopied(ctx, sagas)
			return len(deleted), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := opened(t)
			s.removeFor = 0 // each takes long
			var sagas []journal.Copied
			for _, id := range started(t, s, 3, 1) {
				sagas = append(sagas, journal.Copied{Saga: id, Seq: 1})
			}
			err := s.w.do(t.Context(), func(t *tx) error {
				_, err := t.exec(`UPDATE sagas SET owner = NULL, ended_at = 1, delete_at = 1, seq = 1`)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, giveUp := context.WithCancel(t.Context())
			conn, removed := turnOf(t, s), 0
			var all sync.WaitGroup
			all.Go(func() { removed, err = remove(ctx, s, sagas) })
			other := make(chan *sql.Conn, 1)
			for waiting := 0; waiting < 2; runtime.Gosched() {
				s.w.turns.mu.Lock()
				if waiting = len(s.w.turns.others); waiting == 1 {
					s.w.turns.others = append(s.w.turns.others, other)
				}
				s.w.turns.mu.Unlock()
			}
			s.w.turns.give(conn)
			conn = <-other
			list, lerr := s.Sagas(t.Context(), journal.Filter{Limit: 10})
			giveUp()
			s.w.turns.give(conn)
			all.Wait()
			if len(list.Heads) != 2 || lerr != nil || removed != 1 || !errors.Is(err, context.Canceled) {
				t.Errorf("at the other's turn %d sagas were left, %v; %d were removed, %v", len(list.Heads), lerr, removed, err)
			}
		})
	}
}

// The search for expired sagas does not wait for the writing connection, nor keep it: there may be
// many that must stay because their parents have not ended.
func TestExpiredAreFoundWithoutTheWriter(t *testing.T) {
	s := opened(t)
	ids := started(t, s, 3, 1)
	err := s.w.do(t.Context(), func(t *tx) error {
		_, err := t.exec(`UPDATE sagas SET parent = ?, owner = NULL, ended_at = 1, delete_at = 1 WHERE id <> ?`, ids[0].Bytes(), ids[0].Bytes())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	conn := turnOf(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if n, err := s.DeleteExpired(ctx, 10); n != 0 || err != nil {
		t.Errorf("DeleteExpired = %d, %v", n, err)
	}
	s.w.turns.give(conn)
	err = s.w.do(t.Context(), func(t *tx) error {
		_, err := t.exec(`UPDATE sagas SET owner = NULL, ended_at = 1`)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.DeleteExpired(t.Context(), 10); n != 2 || err != nil {
		t.Errorf("once the parent has ended, DeleteExpired = %d, %v", n, err)
	}
}

// A saga that is no longer to be deleted when its turn comes stays, and does not keep the others.
func TestRemovalIsRevoked(t *testing.T) {
	s := opened(t)
	ids := started(t, s, 2, 1)
	err := s.w.do(t.Context(), func(t *tx) error {
		_, err := t.exec(`UPDATE sagas SET owner = NULL, ended_at = 1, delete_at = CASE WHEN id = ? THEN 1 END`, ids[1].Bytes())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var list []removal
	for _, id := range ids {
		list = append(list, removal{id, stillExpired, []any{s.clock(), id.Bytes()}})
	}
	if removed, err := s.removeAll(t.Context(), list); !slices.Equal(removed, ids[1:]) || err != nil {
		t.Errorf("removed %v, %v; want %v", removed, err, ids[1:])
	}
}

// A removal that takes longer than its caller waits is not in vain.
func TestRemovalIsKept(t *testing.T) {
	s := opened(t)
	id := started(t, s, 1, 1)[0]
	ctx, giveUp := context.WithCancel(t.Context())
	if err := s.removing(ctx, func(t *tx, _ func() bool) error { giveUp(); return t.remove(id) }); err != nil {
		t.Error(err)
	}
	if _, err := s.Saga(t.Context(), id); !errors.Is(err, journal.ErrNotFound) {
		t.Errorf("it was rolled back: %v", err)
	}
}
