package api

import (
	"context"
	"encoding/json"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// haunted is a store that, while it is closed, lets only the ghost claim sagas, and that can
// contain records of a later release.
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
	if err == nil && g.later.Load() {
		records = append(records, journal.Record{Seq: after + int64(len(records)) + 1, At: time.Now(), Kind: "of_a_later_release", Node: "n"})
	}
	return records, err
}

// quarantine lets a node claim a parked saga and give it up until the saga is in quarantine.
func (g *haunted) quarantine(t *testing.T, id uuid.UUID) {
	t.Helper()
	ctx := t.Context()
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	g.closed.Store(true)
	for range journal.QuarantineAfter {
		must(g.Send(ctx, journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: saga.CommandMessage, Data: []byte(`{"command":"resume"}`)}))
		claimed, err := g.Claim(ctx, ghost, 10)
		must(err)
		if len(claimed) != 1 || claimed[0].Saga != id {
			t.Fatalf("claimed %+v, want %s", claimed, id)
		}
		_, err = g.Append(ctx, ghost, []journal.Append{{Saga: id, Release: true}})
		must(err)
	}
	g.closed.Store(false)
}

// napping starts a saga and waits until it is parked.
func napping(t *testing.T) (*fixture, *haunted, string) {
	t.Helper()
	g := &haunted{Store: stores["memory"](t)}
	x := newFixtureOn(t, g)
	x.cfg.Limits.Command = 100 * time.Millisecond
	x.url = serve(t, x.cfg)
	if _, err := g.Register(t.Context(), ghost, time.Hour); err != nil {
		t.Fatal(err)
	}
	x.publish("saga: naps\nsteps:\n  - {id: nap, sleep: 1h}\n")
	id := x.do("POST", "/v1/sagas", `{"definition":"naps"}`).want(201).saga().ID
	for deadline := time.Now().Add(time.Minute); ; {
		h, err := g.Saga(t.Context(), uuid.Must(uuid.FromString(id)))
		if err != nil {
			t.Fatal(err)
		}
		if h.Owner == "" {
			return x, g, id
		}
		if time.Now().After(deadline) {
			t.Fatalf("it is not parked: %+v", h)
		}
		<-time.After(time.Millisecond)
	}
}

func TestQuarantine(t *testing.T) {
	x, g, id := napping(t)
	x.do("POST", "/v1/sagas/"+id+"/resume", `{}`).problem(409, "not_paused")
	g.quarantine(t, uuid.Must(uuid.FromString(id)))

	v := x.do("GET", "/v1/sagas/"+id, "").want(200).saga()
	if v.Status != saga.Stuck || len(v.Open) != 1 || v.WakeAt != nil {
		t.Errorf("it shows as %s, open %v, wakes at %v; want it stuck, with one entry", v.Status, v.Open, v.WakeAt)
	}
	var page struct {
		Data []struct{ ID, Kind, Saga, Path, Detail string }
	}
	x.do("GET", "/v1/inbox?kind=stuck", "").want(200).into(&page)
	if len(page.Data) != 1 || page.Data[0].Saga != id || page.Data[0].ID != v.Open[0] || !strings.Contains(page.Data[0].Detail, "/v1/sagas/"+id+"/resume") {
		t.Errorf("inbox: %+v", page.Data)
	}
	var st statsView
	x.do("GET", "/v1/stats", "").want(200).into(&st)
	if _, ok := st.Oldest["stuck"]; st.Quarantined != 1 || !ok {
		t.Errorf("stats: %+v", st)
	}
	metrics := string(x.do("GET", "/metrics", "").want(200).Body)
	for _, want := range []string{"recourse_quarantined_sagas 1\n", `recourse_oldest_saga_seconds{status="stuck"} `, "recourse_engine_stalled_total 0\n",
		"recourse_engine_commit_age_seconds ", "recourse_engine_longest_idle_seconds ", "recourse_expired_sagas_total 0\n"} {
		if !strings.Contains(metrics, "\n"+want) {
			t.Errorf("no %q in /metrics", want)
		}
	}

	x.do("POST", "/v1/sagas/"+id+"/resume", `{"reason":"the bug is fixed"}`).want(202)
	x.until(id, func(v machine.View) bool { return v.Status == saga.Waiting && len(v.Open) == 0 })
	x.do("GET", "/v1/stats", "").want(200).into(&st)
	if st.Quarantined != 0 {
		t.Errorf("%d in quarantine, want none", st.Quarantined)
	}
	x.do("POST", "/v1/sagas/"+id+"/resume", `{}`).problem(409, "not_paused")
}

// A saga in quarantine whose journal this server cannot read is not an error: its row is shown, and
// it accepts commands.
func TestQuarantineUnreadable(t *testing.T) {
	x, g, id := napping(t)
	u := uuid.Must(uuid.FromString(id))
	g.later.Store(true)
	x.do("GET", "/v1/sagas/"+id, "").problem(500, "journal_unreadable")
	x.do("POST", "/v1/sagas/"+id+"/pause", `{}`).problem(500, "journal_unreadable")
	g.quarantine(t, u)
	v := x.do("GET", "/v1/sagas/"+id, "").want(200).saga()
	if v.Status != saga.Stuck || len(v.Open) != 1 || v.Definition != "naps" {
		t.Errorf("it shows as %+v", v)
	}
	g.closed.Store(true)
	x.do("POST", "/v1/sagas/"+id+"/cancel", `{}`).problem(503, "unavailable")
	x.do("POST", "/v1/sagas/"+id+"/resume", `{}`).want(202)
	claimed, err := g.Claim(t.Context(), ghost, 1)
	if err != nil || len(claimed) != 1 {
		t.Fatalf("claimed %+v, %v: want the command to wake it", claimed, err)
	}
	unread, err := g.Messages(t.Context(), []uuid.UUID{claimed[0].Saga}, 100, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	commands := make(map[string]int) // messages of one millisecond have no order
	for _, m := range unread {
		var cmd saga.Command
		if err := json.Unmarshal(m.Data, &cmd); err != nil {
			t.Fatal(err)
		}
		commands[cmd.Do.Verb()]++
	}
	if want := map[string]int{"cancel": 1, "resume": journal.QuarantineAfter + 1}; !maps.Equal(commands, want) {
		t.Errorf("commands: %v", commands)
	}
}

// A panic while a saga is read counts as unreadable.
func TestTried(t *testing.T) {
	id := uuid.Must(uuid.NewV7())
	if err := recovered(id, func() error { panic("poison") }); !unreadable(err) {
		t.Errorf("%v is not unreadable", err)
	}
	if err := recovered(id, func() error { return journal.ErrNotFound }); err == nil || unreadable(err) {
		t.Errorf("%v, want it as it was", err)
	}
}
