package crash

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	"recourse/examples/world"
	"recourse/journal"
)

// A rolling restart under load: nothing is lost, nothing happens twice, no attempt is
// left in doubt, and other nodes continue at once.
func TestRollingRestart(t *testing.T) {
	f, l := rolling(t, syscall.SIGTERM, 3+3*rounds(t)/2)
	e := l.verify(t)
	for _, wrong := range disturbed(e) {
		t.Error(wrong)
	}
	for _, text := range []string{"stopping with sagas in memory", "could not release the lease"} {
		if n := f.count(text); n > 0 {
			t.Errorf("nodes logged %d times: %s", n, text)
		}
	}
	for status := range l.answers {
		switch status {
		case 0, 200, 201, 503: // none: the node had stopped listening
		default:
			t.Errorf("a client was answered %d", status)
		}
	}
}

// If nodes are killed instead, the check detects it.
func TestRollingKillsAreNoticed(t *testing.T) {
	_, l := rolling(t, syscall.SIGKILL, 3)
	l.settle(2 * time.Minute)
	if wrong := disturbed(l.gather(t)); len(wrong) == 0 {
		t.Error("nodes were killed, and no saga shows it")
	}
}

// rollingLease is long, so that a wait for its end is visible.
const rollingLease = 10 * time.Second

// rolling stops one node after another by a signal, when all are up.
func rolling(t *testing.T, sig syscall.Signal, restarts int) (*fleet, *load) {
	t.Helper()
	program := struck(t)
	w := startWorld(t, program)
	// Requests are slow, so that some are in flight whenever a node ends.
	if err := w.AddFault(t.Context(), world.Rule{Match: world.Match{Method: "POST"}, Do: world.Do{LateMS: 40}}); err != nil {
		t.Fatal(err)
	}
	f := startFleet(t, fleetConfig{program: program, db: onPostgres(t), world: w.URL, nodes: 3, lease: rollingLease})
	l := startLoad(f, w, "3s", fair)
	for i := range restarts {
		<-time.After(400 * time.Millisecond)
		f.whole(time.Minute)
		f.mu.Lock()
		p := f.up[i%len(f.up)]
		f.mu.Unlock()
		if p == nil {
			t.Fatalf("node %d is down already", i%len(f.up))
		}
		p.signal(sig)
		if !p.gone(20 * time.Second) {
			t.Fatal("the node does not end")
		}
	}
	return f, l
}

// fair is a load without faults, of sagas that never wait for long.
func fair(ctx context.Context, l *load, who int) {
	names := []string{"books", "fails", "slow", "ships"}
	for i := 0; ctx.Err() == nil; i++ {
		l.one(ctx, names[(who+i)%len(names)], fmt.Sprintf("client-%d-%d", who, i), i)
	}
}

// disturbed returns what shows that a node did not end as it should: attempts in doubt, and sagas
// that waited for a lease to end.
func disturbed(e evidence) (wrong []string) {
	moved := 0
	for _, s := range e.sagas {
		for i, r := range s.Records {
			if r.Class == journal.InDoubt {
				wrong = append(wrong, fmt.Sprintf("saga %s: record %d of step %s is in doubt: %.200s", s.ID, r.Seq, r.Path, r.Data))
			}
			if i == 0 || s.Records[i-1].Node == r.Node {
				continue
			}
			moved++
			if waited := r.At.Sub(s.Records[i-1].At); waited > rollingLease/2 {
				wrong = append(wrong, fmt.Sprintf("saga %s: record %d, by the next node, comes %s after the one before", s.ID, r.Seq, waited))
			}
		}
	}
	if moved == 0 {
		wrong = append(wrong, "no saga went from one node to another: nothing was tried")
	}
	return wrong
}
