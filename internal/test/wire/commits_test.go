package wire_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"recourse/internal/test/pgserver"
	"recourse/internal/test/wire"
	"recourse/journal"
	"recourse/journal/postgres"
)

// patience is for calls on a whole wire, on a machine that is busy with other things.
const patience = 30 * time.Second

// faults are what happens at each commit, at each round trip, and when there is no connection.
var faults = []struct {
	name string
	wire.Fault
}{
	{"closed before", wire.Fault{Do: wire.Close}},
	{"closed after", wire.Fault{Do: wire.Close, After: true}},
	{"silent before", wire.Fault{Do: wire.Hang}},
	{"silent after", wire.Fault{Do: wire.Hang, After: true}},
	{"lands later", wire.Fault{Do: wire.Late}},
	{"shut down before", wire.Fault{Do: wire.Refuse, Code: "57P01", Fatal: true}},
	{"shut down after", wire.Fault{Do: wire.Refuse, Code: "57P01", Fatal: true, After: true}},
	{"outcome not known", wire.Fault{Do: wire.Refuse, Code: "40003"}},
	{"conflict at commit", wire.Fault{Do: wire.Refuse, Code: "40001"}},
	{"deadlock at commit", wire.Fault{Do: wire.Refuse, Code: "40P01"}},
	{"conflicts at commit", wire.Fault{Do: wire.Refuse, Code: "40001", Times: 8}},
	{"disk full at commit", wire.Fault{Do: wire.Refuse, Code: "53100"}},
	{"conflict", wire.Fault{At: wire.Statement, Do: wire.Refuse, Code: "40001"}},
	{"deadlock", wire.Fault{At: wire.Statement, Do: wire.Refuse, Code: "40P01"}},
	{"disk full", wire.Fault{At: wire.Statement, Do: wire.Refuse, Code: "53100"}},
	{"read-only", wire.Fault{At: wire.Statement, Do: wire.Refuse, Code: "25006"}},
	{"shut down", wire.Fault{At: wire.Statement, Do: wire.Refuse, Code: "57P01", Fatal: true}},
	{"closed", wire.Fault{At: wire.Statement, Do: wire.Close}},
	{"too many clients", wire.Fault{At: wire.Connect, Do: wire.Refuse, Code: "53300", Times: -1}},
}

// wired is a database of its own, and a store that reaches it through a proxy.
type wired struct {
	*bench
	proxy *wire.Proxy
	store journal.Store
}

func newWired(t *testing.T) *wired {
	t.Helper()
	dsn := pgserver.DSN(t)
	direct := openStore(t, dsn, 4)
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	p, through := proxied(t, dsn)
	w := &wired{bench: &bench{Store: direct, node: newID().String(), conn: conn}, proxy: p, store: openStore(t, through, 1)}
	if _, err := direct.Register(t.Context(), w.node, ttl); err != nil {
		t.Fatal(err)
	}
	return w
}

func proxied(t *testing.T, dsn string) (*wire.Proxy, string) {
	t.Helper()
	p, through, err := wire.New(dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Deliver()
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, through
}

func openStore(t *testing.T, dsn string, conns int32) *postgres.Store {
	t.Helper()
	s, err := postgres.Open(t.Context(), dsn, postgres.Options{Migrate: true, MaxConns: conns})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// With every fault at every commit of every operation, the caller learns what the contract says,
// and doing the same again leads to the same as if nothing had happened.
func TestEveryCommit(t *testing.T) {
	for _, op := range operations {
		t.Run(op.method+"/"+op.name, func(t *testing.T) {
			t.Parallel()
			w := newWired(t)
			points, err := w.count(op)
			if err != nil || points[wire.Commit] == 0 {
				t.Fatalf("%v commits, statements and connections, %v: it is to write", points, err)
			}
			for _, f := range faults {
				struck := 0
				for f.Skip = range points[f.At] {
					n, err := w.strike(w.store, op, f.Fault)
					struck += n
					if err != nil {
						t.Errorf("%s, %d of %d: %v", f.name, f.Skip+1, points[f.At], err)
					}
				}
				if struck == 0 {
					t.Errorf("%s: the fault did not strike", f.name)
				}
			}
		})
	}
}

// count says how many points there are in an operation to strike at.
func (w *wired) count(op operation) (points [wire.Connect + 1]int, err error) {
	a := op.make(w.bench)
	if err := w.use(); err != nil {
		return points, err
	}
	points[wire.Connect] = 1
	commits, statements := w.proxy.Tried(wire.Commit), w.proxy.Tried(wire.Statement)
	err = a.do(context.Background(), w.store)
	points[wire.Commit] = w.proxy.Tried(wire.Commit) - commits
	points[wire.Statement] = w.proxy.Tried(wire.Statement) - statements
	return points, errors.Join(err, a.finished(w.store))
}

// use uses a connection for writing and the connection for leases.
func (w *wired) use() error {
	err := w.store.Ping(context.Background())
	if _, fenced := w.store.Renew(context.Background(), "no node", time.Minute); !errors.Is(fenced, journal.ErrFenced) {
		err = errors.Join(err, fenced)
	}
	return err
}

// strike has a fault befall an operation on s, does it again, and says how often the fault struck
// and what is wrong.
func (w *wired) strike(s journal.Store, op operation, f wire.Fault) (struck int, err error) {
	a := op.make(w.bench)
	if err := w.use(); err != nil { // each pool has a live connection now
		return 0, fmt.Errorf("before: %w", err)
	}
	if f.At == wire.Connect {
		w.proxy.CutAll()
		_ = w.use() // they are found to be dead
	}
	w.proxy.Arm(f)
	gaveUp, first := w.untilStruck(f, func(ctx context.Context) error { return a.do(ctx, s) })
	struck = w.proxy.Struck()
	w.proxy.Heal()
	if struck > 0 || gaveUp {
		if err := a.acknowledges(w.bench, first, f); err != nil {
			return struck, err
		}
	} else if first != nil {
		return 0, fmt.Errorf("nothing struck, and it failed: %w", first)
	}
	if first != nil {
		for deadline := time.Now().Add(time.Second); ; <-time.After(time.Millisecond) {
			if err := w.again(s, a, f); err != nil {
				return struck, fmt.Errorf("again, after %q: %w", first, err)
			}
			if done, err := a.settled(w.bench); done || err != nil || !slices.Contains(passing, op.method) || time.Now().After(deadline) {
				break
			}
		}
	}
	return struck, a.finished(w.bench)
}

// passing are the methods that pass over rows that are locked, and leave them for the next time.
// The server holds those of a connection that broke until it has noticed.
var passing = []string{"Renew", "Claim", "ClaimLocal", "DeleteExpired", "DeleteCopied", "Sweep", "ClaimTasks", "ReapTasks", "ClaimEvents"}

// untilStruck gives a call up once a fault has struck that leaves it without an answer.
func (w *wired) untilStruck(f wire.Fault, do func(context.Context) error) (gaveUp bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			return false, err
		case <-look.C:
		}
		if f.Do != wire.Hang && f.Do != wire.Late || w.proxy.Struck() == 0 {
			continue
		}
		<-time.After(50 * time.Millisecond) // in which the server does what it does
		if w.proxy.Struck() > 0 {           // still: there was a commit to strike
			cancel()
			return true, <-ended
		}
	}
}

func limited(limit time.Duration, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	return do(ctx)
}

// acknowledges checks the error that the caller got when the fault struck: if it is not ErrUnknown,
// it says that nothing was done.
func (a attempt) acknowledges(s journal.Store, got error, f wire.Fault) error {
	done, err := a.settled(s)
	switch {
	case err != nil:
		return fmt.Errorf("after %v: %w", got, err)
	case got == nil && !done:
		return errors.New("it answered that it is done, which it is not")
	case got != nil && done && !errors.Is(got, journal.ErrUnknown):
		return fmt.Errorf("it is done, and answered %w, want ErrUnknown", got)
	case got != nil && f.Do == wire.Refuse && retried(f.Code):
		return fmt.Errorf("it was not tried again: %w", got)
	}
	return nil
}

// settled reports whether it is done. done reads several times, and the server may commit what an
// abandoned attempt gave it between two of these reads. There are at most two attempts, so what
// disagrees a third time is wrong.
func (a attempt) settled(s journal.Store) (done bool, err error) {
	for range 3 {
		if done, err = a.done(s); err == nil {
			break
		}
	}
	return done, err
}

// retried tells the refusals after which the whole transaction is to be tried again.
func retried(code string) bool { return code == "40001" || code == "40P01" }

// again does it once more, and lets go what is held back while it is at it.
func (w *wired) again(s journal.Store, a attempt, f wire.Fault) error {
	ended := make(chan error, 1)
	go func() { ended <- limited(patience, func(ctx context.Context) error { return a.do(ctx, s) }) }()
	var err error
	select {
	case err = <-ended:
		w.proxy.Deliver()
	case <-time.After(20 * time.Millisecond): // it may be waiting for a lock of what is held back
		w.proxy.Deliver()
		err = <-ended
	}
	for deadline := time.Now().Add(patience); w.proxy.Held() > 0; <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			return errors.Join(err, errors.New("what was held back does not end"))
		}
	}
	return err
}

// finished checks that it is done, once.
func (a attempt) finished(s journal.Store) error {
	done, err := a.settled(s)
	if err == nil && !done {
		err = errors.New("it is not done")
	}
	if a.right != nil {
		err = errors.Join(err, a.right())
	}
	return err
}

// Every method of a store is in the list of those that write, or of those that do not and then
// makes no commit.
func TestEveryMethodIsListed(t *testing.T) {
	listed := slices.Clone(reading)
	for _, op := range operations {
		if !slices.Contains(listed, op.method) {
			listed = append(listed, op.method)
		}
	}
	if got := unlisted(reflect.TypeFor[journal.Store](), listed); len(got) > 0 {
		t.Errorf("%v: add an operation that calls it, or name it among those that read", got)
	}
	for _, m := range []string{"Append", "Claim", "Sagas"} { // the check can fail
		if got := unlisted(reflect.TypeFor[journal.Store](), slices.DeleteFunc(slices.Clone(listed), func(l string) bool { return l == m })); len(got) != 1 || got[0] != m {
			t.Errorf("unlisted = %v without %s", got, m)
		}
	}
}

// unlisted are the methods that are in a list of neither kind.
func unlisted(store reflect.Type, listed []string) (out []string) {
	for method := range store.Methods() {
		if name := method.Name; !slices.Contains(listed, name) {
			out = append(out, name)
		}
	}
	return out
}

// Methods that are said to read only do.
func TestReadingMakesNoCommit(t *testing.T) {
	w := newWired(t)
	saga := w.begun().Saga
	ctx := reflect.ValueOf(t.Context())
	before := w.proxy.Tried(wire.Commit)
	store := reflect.ValueOf(w.store)
	for _, name := range reading {
		if name == "Close" {
			continue // it ends the test's store
		}
		m := store.MethodByName(name)
		var args []reflect.Value
		for in := range m.Type().Ins() {
			switch in {
			case reflect.TypeFor[context.Context]():
				args = append(args, ctx)
			case reflect.TypeFor[uuid.UUID]():
				args = append(args, reflect.ValueOf(saga))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		m.Call(args)
	}
	if n := w.proxy.Tried(wire.Commit) - before; n != 0 {
		t.Errorf("reading made %d commits", n)
	}
}
