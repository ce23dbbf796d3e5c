package ui

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/api"
	"recourse/examples/world"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// haunted is a store that can let only the ghost claim sagas, and that can contain records of a
// later release.
type haunted struct {
	journal.Store
	closed, later atomic.Bool
}

const ghost = "ghost"

func (g *haunted) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	if g.closed.Load() && node != ghost {
		return nil, nil
	}
	return g.Store.Claim(ctx, node, limit)
}

func (g *haunted) Records(ctx context.Context, id uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	records, err := g.Store.Records(ctx, id, after, limit)
	if err == nil && g.later.Load() && len(records) < limit {
		records = append(records, journal.Record{Seq: after + int64(len(records)) + 1, At: time.Now(), Kind: "of_a_later_release", Node: "n"})
	}
	return records, err
}

// quarantine lets a parked saga be given up until it is in quarantine.
func (g *haunted) quarantine(t *testing.T, id uuid.UUID) {
	t.Helper()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	g.closed.Store(true)
	for range journal.QuarantineAfter {
		must(g.Send(t.Context(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: saga.CommandMessage, Data: []byte(`{"command":"resume"}`)}))
		claimed, err := g.Claim(t.Context(), ghost, 10)
		must(err)
		if len(claimed) != 1 {
			t.Fatalf("claimed %+v", claimed)
		}
		_, err = g.Append(t.Context(), ghost, []journal.Append{{Saga: id, Release: true}})
		must(err)
	}
}

// A saga that no node can run has a page, and so has one that this program cannot read.
func TestSagaQuarantined(t *testing.T) {
	g := &haunted{Store: memory.New(memory.Config{})}
	x := newSiteOn(t, g, func(a *api.Config, _ *Config) { a.Limits.Command = 100 * time.Millisecond })
	if _, err := g.Register(t.Context(), ghost, time.Hour); err != nil {
		t.Fatal(err)
	}
	x.publish("saga: naps\nsteps:\n  - {id: nap, sleep: 1h}\n")
	id := x.start("naps", `null`)
	at, u := "/sagas/"+id, uuid.Must(uuid.FromString(id))
	x.until("it is parked", func() bool {
		h, err := g.Saga(t.Context(), u)
		return err == nil && h.Owner == ""
	})

	g.later.Store(true) // not in quarantine yet: the API refuses to read it
	x.page(at).want(200).has("This program cannot read the saga", "naps", "Journal")
	x.page(at + "/journal").want(200).has("of_a_later_release")
	g.later.Store(false)

	g.quarantine(t, u)
	x.page(at).want(200).has("The saga makes no progress", "recourse or the definition has to be fixed", "Resume…", "nap")
	g.later.Store(true)
	a := x.page(at).want(200).has("The saga makes no progress", "This program cannot read the saga", "cannot list them", "Resume…", "Cancel…")
	x.post(at+"/command/resume", a.hidden(at+"/command/resume")...).want(303)
	x.post(at+"/command/cancel", append(a.hidden(at+"/command/cancel"), "mode", "compensate")...).want(503).has("no node has read it yet")
}

// The page says of a step in doubt whether somebody has to find out what has become of it.
func TestStepsInDoubt(t *testing.T) {
	x := newSite(t)
	const step = "steps:\n  - {id: make, http: \"POST ${vars.things}\", body: {}, "
	x.publish("saga: shrugs\n" + step + "in_doubt: fail, on_error: continue}\n  - {id: nap, signal: com.shop.go}\n")
	x.publish("saga: insists\n" + step + "in_doubt: retry, retry: {attempts: 3, initial: 1h}}\n")
	const nobody, somebody = "Nobody has to act", "nothing is sent to find it out"
	x.lose(0)
	id := x.start("shrugs", `null`)
	x.until("it has gone on", func() bool { return strings.Contains(x.page("/sagas/"+id).body, "the signal com.shop.go") })
	x.page("/sagas/" + id).want(200).has(somebody).lacks(nobody)
	x.rest("POST", "/v1/sagas/"+id+"/signals/com.shop.go", "1").want(202)
	x.becomes(id, saga.Succeeded)
	x.page("/sagas/" + id).want(200).has(somebody).lacks(nobody)
	x.lose(0)
	id = x.start("insists", `null`)
	x.becomes(id, saga.Waiting)
	x.page("/sagas/" + id).want(200).has(nobody).lacks(somebody)
}

// deaf is an engine whose nodes read no messages.
type deaf struct{ api.Engine }

func (deaf) Send(context.Context, journal.Message) error { return nil }

// A command that no node has read has no effect yet, and the page says so.
func TestCommandsThatNoNodeReads(t *testing.T) {
	x := newSite(t, func(a *api.Config, _ *Config) { a.Engine, a.Limits.Command = deaf{a.Engine}, 50*time.Millisecond })
	x.publish("saga: naps\nsteps:\n  - {id: nap, sleep: 1h}\n")
	at := "/sagas/" + x.start("naps", `null`)
	x.until("it sleeps", func() bool { return strings.Contains(x.page(at).body, "the timer") })
	x.post(at+"/command/pause", x.page(at).hidden(at+"/command/pause")...).want(303)
	x.page(at).want(200).has("no node has read it").lacks("The saga is paused.")

	x.publish(asks)
	id := x.start("asks", `{"n": 6}`)
	x.waits(id)
	x.post("/inbox/budget", append(x.page("/inbox").hidden("/inbox/budget"), "amount", "4.00 EUR", "reason", "r")...).want(303)
	x.page("/inbox").want(200).has("no node has read it").lacks("is raised, and the saga continues")
	at = "/sagas/" + id
	x.post(at+"/command/budget", append(x.page(at).hidden(at+"/command/budget"), "amount", "4.00 EUR")...).want(303)
	x.page(at).want(200).has("no node has read it").lacks("The budget is changed.")
}

// A refused compensation can be retried with another input from the page.
func TestResolveUndo(t *testing.T) {
	x := newSite(t)
	x.publish(flow)
	x.fault(world.Rule{Match: world.Match{Method: "PUT"}, Do: world.Do{Before: world.FaultStatus, Status: 402}})
	x.fault(world.Rule{Match: world.Match{Method: "DELETE"}, Times: 1, Do: world.Do{Before: world.FaultStatus, Status: 422, Body: `{"title":"not this one"}`}})
	id := x.start("flow", `{"items": [], "title": "t"}`)
	x.becomes(id, saga.Stuck)
	at := "/sagas/" + id
	to := at + "/steps/first/resolve"
	a := x.page(at).want(200).has("Undoing step first was refused", "Undo it again", "Leave its effect", "undo failed", "<b>Stuck while being undone</b>").lacks("It happened", "Cancel…")
	x.post(to, append(a.hidden(to), "outcome", "failed", "reason", "no")...).want(409)
	x.post(to, append(a.hidden(to), "outcome", "skip", "reason", "it may stay")...).want(303)
	x.becomes(id, saga.Failed)
	x.page(at).has("its undoing was skipped by an operator: it may stay")
}

// A step that does not fit into the budget waits, and the page can raise the budget.
func TestRaiseBudget(t *testing.T) {
	x := newSite(t)
	x.publish("saga: dear\nbudget: {amount: 1.00 EUR, on_exceed: ask}\nsteps:\n  - id: buy\n    http: POST ${vars.things}\n    in_doubt: retry\n    compensate: none\n    cost: 1.50 EUR\n")
	id := x.start("dear", `null`)
	x.until("it asks for money", func() bool { return len(x.saga(id).Open) > 0 })
	at := "/sagas/" + id
	a := x.page(at).want(200).has(`href="`+at+`#do-budget"`, "The new budget replaces 1.00 EUR")
	x.post(at+"/command/budget", append(a.hidden(at+"/command/budget"), "amount", "2.00", "reason", "it is worth it")...).want(303)
	x.becomes(id, saga.Succeeded)
	x.page(at).has("1.50 EUR", "of a budget of <b>2.00 EUR</b>", "it is worth it")
}
