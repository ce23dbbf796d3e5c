package api

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
)

const workDef = "saga: work\nsteps:\n  - {id: fetch, task: page.fetch}\n"

func TestSystem(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		read := func() (v systemView) {
			x.do("GET", "/v1/system", "").want(200).into(&v)
			return v
		}
		v := read()
		if v.Engine == nil || v.Engine.Node == "" || v.Engine.Lanes != 1 || len(v.Tasks) != 0 || len(v.Outbox) != 0 || x.eng.Now().Sub(v.Now.Time).Abs() > time.Minute {
			t.Errorf("at first: %+v", v)
		}
		x.publish(workDef)
		id := x.do("POST", "/v1/sagas", `{"definition": "work"}`).want(201).saga().ID
		v = read()
		if len(v.Tasks) != 1 || v.Tasks[0].Oldest == nil || v.Now.Sub(v.Tasks[0].Oldest.Time) > time.Minute {
			t.Fatalf("tasks %+v", v.Tasks)
		}
		v.Tasks[0].Oldest = nil
		if d := cmp.Diff([]taskCount{{Type: "page.fetch", Waiting: 1}}, v.Tasks); d != "" || v.Engine.Commits == 0 || v.Engine.Appends == 0 {
			t.Errorf("tasks (-want +got):\n%s%+v", d, v.Engine)
		}
		x.do("POST", "/v1/tasks/claim", `{"types": ["page.fetch"], "worker": "w", "lease": "1m"}`).want(200)
		if d := cmp.Diff([]taskCount{{Type: "page.fetch", Claimed: 1}}, read().Tasks); d != "" {
			t.Errorf("claimed tasks (-want +got):\n%s", d)
		}
		x.do("POST", "/v1/sagas/"+id+"/cancel", `{"mode": "stop"}`).want(202)
		x.do("GET", "/v1/system?x=1", "", outside).problem(400, "invalid_request")
	})
}

// Waiting events and this node's deliveries are shown together.
func TestSystemOutbox(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	x := newFixture(t, func(c *Config) {
		c.Store = backlogged{c.Store, []journal.OutboxStat{{Sink: "audit", Events: 3, Oldest: at, Last: "HTTP 503"}, {Sink: "gone", Events: 1, Oldest: at}}}
		c.OutboxStats = func() []OutboxStats { return []OutboxStats{{"audit", 9, 2, 0}, {"crm", 1, 0, 4}} }
		c.EngineStats = nil
	})
	var v systemView
	x.do("GET", "/v1/system", "").want(200).into(&v)
	oldest := &saga.Time{Time: at}
	want := []sinkCount{{Sink: "audit", Waiting: 3, Oldest: oldest, Why: "HTTP 503", Delivered: 9, Failed: 2}, {Sink: "crm", Delivered: 1, Dropped: 4}, {Sink: "gone", Waiting: 1, Oldest: oldest}}
	if d := cmp.Diff(want, v.Outbox); d != "" || v.Engine != nil {
		t.Errorf("outbox (-want +got):\n%s%+v", d, v.Engine)
	}
}

// backlogged is a store with a backlog in its outbox.
type backlogged struct {
	journal.Store
	stats []journal.OutboxStat
}

func (s backlogged) OutboxStats(context.Context) ([]journal.OutboxStat, error) { return s.stats, nil }
