package crash

import (
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/internal/invariant"
	"recourse/saga"
)

// Nodes are killed at random times, not only at failpoints.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	for name, on := range map[string]struct {
		db    func(*testing.T) database
		nodes int
	}{"postgres": {onPostgres, 3}, "sqlite": {onSQLite, 1}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l := scene(t, on.db(t), on.nodes)
			rng := rand.New(rand.NewPCG(3, uint64(on.nodes)))
			for range 8 + 2*rounds(t) {
				if on.nodes == 1 {
					f.whole(time.Minute) // otherwise no node would make progress
				}
				<-time.After(time.Duration(50+rng.IntN(400)) * time.Millisecond)
				if p := f.node(); p != nil {
					p.signal(syscall.SIGKILL)
				}
			}
			l.more(30)
			e := l.verify(t)
			t.Logf("%d deaths of nodes", f.deaths)
			t.Run("catches", func(t *testing.T) { catches(t, e) })
		})
	}
}

// catches shows that the check of what really happened fails when a little of it is changed.
func catches(t *testing.T, e evidence) {
	if len(e.check()) > 0 {
		t.Fatal("something is wrong already")
	}
	for name, change := range map[string]func(*evidence){
		// One that its client knows of: an unacknowledged one may be unknown to all.
		"a saga is lost": func(e *evidence) {
			e.sagas = slices.DeleteFunc(e.sagas, func(s invariant.Saga) bool { return s.ID == e.starts[0].ID })
		},
		"a record is lost":        func(e *evidence) { s := &e.sagas[0]; s.Records = s.Records[:len(s.Records)-1] },
		"a key has another saga":  func(e *evidence) { e.starts[0].ID = e.starts[1].ID },
		"an input is another":     func(e *evidence) { e.starts[0].Input = []byte(`{"n":-1}`) },
		"an effect happens twice": func(e *evidence) { e.ledger = append(e.ledger, e.ledger.Effects()[0]) },
		"an effect is missing":    func(e *evidence) { e.ledger = without(e.ledger, stands(e.ledger)) },
		"an undo is missing":      func(e *evidence) { e.ledger = without(e.ledger, e.ledger.Undos()[0]) },
		"a request was not intended": func(e *evidence) {
			e.ledger = append(e.ledger, world.Entry{N: 1 << 40, At: e.now, Kind: world.Request, Method: "POST", Path: "/things", Key: "nobody's"})
		},
		"a cancelled saga has succeeded": func(e *evidence) { e.cancelled = append(slices.Clone(e.cancelled), succeeded(t, e)) },
		"a saga lives on":                func(e *evidence) { h := *e.sagas[0].Head; h.EndedAt = time.Time{}; e.sagas[0].Head = &h },
		"a saga ended as it should not":  func(e *evidence) { h := *e.sagas[0].Head; h.Status = "failed"; e.sagas[0].Head = &h },
	} {
		c := e
		c.sagas, c.starts, c.ledger = slices.Clone(e.sagas), slices.Clone(e.starts), slices.Clone(e.ledger)
		change(&c)
		if len(c.check()) == 0 {
			t.Errorf("%s, and nothing is noticed", name)
		}
	}
}

func without(l world.Ledger, gone world.Entry) world.Ledger {
	return l.Where(func(e world.Entry) bool { return e.N != gone.N })
}

// stands returns an effect at a service that honours keys, and that was not undone.
func stands(l world.Ledger) world.Entry {
	return l.Live().Where(func(e world.Entry) bool { return e.Service == "pay" })[0]
}

func succeeded(t *testing.T, e *evidence) uuid.UUID {
	i := slices.IndexFunc(e.sagas, func(s invariant.Saga) bool { return s.Head.Status == string(saga.Succeeded) })
	if i < 0 {
		t.Fatal("no saga has succeeded")
	}
	return e.sagas[i].ID
}
