package crashtest

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/internal/invariant"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// Two sagas that pass every window: one succeeds after a backoff, the other
// fails at its end and is undone.
const books = `saga: books
steps:
  - id: flight
    http: POST ${vars.air}/bookings
    body: {route: HAM-LIS, date: "2026-12-24", passenger: p}
    timeout: 2s
    retry: {attempts: 8, initial: 50ms, max: 1s}
    compensate: {http: "DELETE ${vars.air}/bookings/${output.id}", timeout: 2s, retry: {initial: 50ms}}
  - id: charge
    http: POST ${vars.pay}/charges
    body: {amount: "${steps.flight.output.price}"}
    timeout: 2s
    retry: {attempts: 8, initial: 50ms, max: 1s}
    compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund", timeout: 2s, retry: {initial: 50ms}}
`

var fails = strings.Replace(books, "saga: books", "saga: fails", 1) + `  - id: enough
    fail: no seats left after all
`

// points are the windows of a saga's life, by the failpoints that mark them.
var points = []string{
	"commit.before.started", "commit.after.started", "start.reply",
	"commit.before.intent.do@2", "commit.after.intent.do@2", "send.before.do", "send.before.do@2", "send.after.do", "send.after.do@2",
	"commit.before.outcome.do", "commit.after.outcome.do", "commit.before.woke", "commit.after.woke",
	"commit.before.compensating", "commit.after.compensating",
	"commit.before.intent.undo", "commit.after.intent.undo", "send.before.undo", "send.after.undo", "send.after.undo@2",
	"commit.before.outcome.undo", "commit.after.outcome.undo", "commit.before.finished", "commit.after.finished",
}

// A process killed in any window leaves a journal with which the next one ends
// every saga, does nothing twice and undoes what has to be undone.
func TestKillAtEachWindow(t *testing.T) {
	for name, open := range databases() {
		for _, point := range points {
			t.Run(name+"/"+point, func(t *testing.T) {
				t.Parallel()
				db := open(t)
				w := startWorld(t)
				armed := strings.Replace(point, "@", "=kill@", 1)
				if armed == point {
					armed += "=kill"
				}
				first := serve(t, db, w, armed)
				first.publish(books)
				first.publish(fails)
				ids := []string{first.start("books", "k1"), first.start("fails", "k2")}
				first.await("failpoint " + point + " was not reached")

				second := serve(t, db, w, "")
				for i, definition := range []string{"books", "fails"} {
					id := second.start(definition, fmt.Sprint("k", i+1))
					if ids[i] != "" && ids[i] != id {
						t.Errorf("key k%d was acknowledged for saga %s, and now for %s", i+1, ids[i], id)
					}
				}
				settled(t, db, w, map[string]saga.Status{"books": saga.Succeeded, "fails": saga.Compensated})
			})
		}
	}
}

// Processes killed while they take over: the third one ends it.
func TestKillWhileTakingOver(t *testing.T) {
	for name, open := range databases() {
		for _, point := range []string{"claim.after", "load.after", "commit.before.outcome.do", "commit.after.intent.undo"} {
			t.Run(name+"/"+point, func(t *testing.T) {
				t.Parallel()
				db := open(t)
				w := startWorld(t)
				first := serve(t, db, w, "send.after.do=kill@2")
				first.publish(fails)
				first.start("fails", "k1")
				first.await("failpoint was not reached")
				serve(t, db, w, point+"=kill").await("failpoint " + point + " was not reached")
				third := serve(t, db, w, "")
				third.start("fails", "k1")
				settled(t, db, w, map[string]saga.Status{"fails": saga.Compensated})
			})
		}
	}
}

// A node that freezes past its lease and wakes up writes nothing over its successor.
func TestFreezePastTheLease(t *testing.T) {
	for _, point := range []string{"send.before.do@2", "send.after.do@2", "commit.before.outcome.do", "commit.after.outcome.do", "commit.before.intent.undo", "send.after.undo", "commit.before.finished"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			db := databases()["postgres"](t)
			w := startWorld(t)
			armed := strings.Replace(point, "@", "=stop@", 1)
			if armed == point {
				armed += "=stop"
			}
			frozen := serve(t, db, w, armed)
			frozen.publish(fails)
			second := serve(t, db, w, "")
			go frozen.request("POST", "/v1/sagas", "k1", []byte(`{"definition":"fails","input":{}}`)) // it may never be answered
			frozen.frozen("failpoint " + point + " was not reached")
			store := db.open(t)
			defer store.Close()
			// Frozen or not, the saga ends: after the lease is over the second node goes on.
			deadline := time.Now().Add(30 * time.Second)
			for {
				heads, err := store.Sagas(t.Context(), journal.Filter{Limit: 10})
				if err != nil {
					t.Fatal(err)
				}
				if len(heads) == 1 && !heads[0].EndedAt.IsZero() {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("the second node did not take over: %+v\n%s", heads, second.log)
				}
				<-time.After(50 * time.Millisecond)
			}
			frozen.signal(syscall.SIGCONT)
			if status, body := frozen.request("GET", "/v1/sagas", "", nil); status != 200 {
				t.Errorf("the thawed node does not answer: %d %s", status, body)
			}
			settled(t, db, w, map[string]saga.Status{"fails": saga.Compensated})
		})
	}
}

func startWorld(t *testing.T) *world.Server {
	t.Helper()
	w, err := world.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	// The first charge is put off, so that there is a timer to lose.
	if err := w.AddFault(world.Rule{Match: world.Match{PathPrefix: "/pay/charges"}, Times: 1, Do: world.Do{Before: "status", Status: 429, RetryAfter: "0"}}); err != nil {
		t.Fatal(err)
	}
	return w
}

// settled waits until every saga has ended as it should, then checks the invariants.
func settled(t *testing.T, db database, w *world.Server, want map[string]saga.Status) {
	t.Helper()
	store := db.open(t)
	defer store.Close()
	defs := make(map[string]*saga.Definition)
	for _, src := range []string{books, fails} {
		def, errs := dsl.Parse("crashtest", []byte(src), dsl.Options{Kinds: kinds.All()})
		if errs != nil {
			t.Fatal(errs)
		}
		defs[def.Name] = def
	}
	deadline := time.Now().Add(40 * time.Second)
	var heads []journal.Head
	for {
		var err error
		if heads, err = store.Sagas(t.Context(), journal.Filter{Limit: 100}); err != nil {
			t.Fatal(err)
		}
		live := 0
		for _, h := range heads {
			if h.EndedAt.IsZero() {
				live++
			}
		}
		if live == 0 && len(heads) == len(want) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("sagas did not end, or are not %d: %+v", len(want), heads)
		}
		<-time.After(20 * time.Millisecond)
	}
	var sagas []invariant.Saga
	for _, h := range heads {
		if got := saga.Status(h.Status); got != want[h.Definition] {
			t.Errorf("%s ended as %s, want %s", h.Definition, got, want[h.Definition])
		}
		records, err := store.Records(t.Context(), h.ID, 0, 10_000)
		if err != nil {
			t.Fatal(err)
		}
		sagas = append(sagas, invariant.Saga{ID: h.ID, Definition: defs[h.Definition], Head: &h, Records: records})
	}
	ledger := w.Ledger()
	for _, v := range invariant.Check(sagas, ledger, time.Now().Add(-time.Second)) {
		t.Error(v)
	}
	for key, n := range ledger.EffectsByKey() {
		if n != 1 {
			t.Errorf("%d effects under key %s", n, key)
		}
	}
	if t.Failed() {
		for _, s := range sagas {
			t.Logf("%s:\n%s", s.ID, transcript(s.ID, s.Records))
		}
	}
}

func transcript(id uuid.UUID, records []journal.Record) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "%s %3d %s %-12s %-8s %-4s %d %-9s %s %.200s\n", id.String()[:8], r.Seq, r.At.Format("05.000"), r.Kind, r.Path, r.Way, r.Attempt, r.Class, r.Node, r.Data)
	}
	return b.String()
}
