package api

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// loneEngine is an engine that, while alone is true, cannot commit: the standby that commits wait
// for is missing. What was committed before can still be read.
type loneEngine struct {
	Engine
	alone *atomic.Bool
}

func (e loneEngine) Start(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData, follow bool) (machine.Begun, error) {
	if e.alone.Load() {
		return machine.Begun{}, saga.ErrUnavailable
	}
	return e.Engine.Start(ctx, def, start, data, follow)
}

func (e loneEngine) StartAs(ctx context.Context, id uuid.UUID, def *saga.Definition, start journal.Start, data saga.StartedData) error {
	if e.alone.Load() {
		return saga.ErrUnavailable
	}
	return e.Engine.StartAs(ctx, id, def, start, data)
}

func (e loneEngine) Submit(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData) (func(context.Context) (uuid.UUID, error), error) {
	if e.alone.Load() {
		return nil, saga.ErrUnavailable
	}
	return e.Engine.Submit(ctx, def, start, data)
}

func (e loneEngine) Confirm(ctx context.Context) error {
	if e.alone.Load() {
		return saga.ErrUnavailable
	}
	return e.Engine.Confirm(ctx)
}

// A start that is sent again is not acknowledged because its saga can be read: perhaps no second
// machine has that saga, and it is lost with the first.
func TestRepeatedStartsAreConfirmed(t *testing.T) {
	var alone atomic.Bool
	x := newFixture(t, func(c *Config) { c.Engine = loneEngine{c.Engine, &alone} })
	x.publish(fmt.Sprintf(undoableDef, x.world.URL, "1h", ""))
	x.publish(strings.Replace(fmt.Sprintf(undoableDef, x.world.URL, "1h", "  - {id: last, http: POST "+x.world.URL+"/ship/orders, body: {}, compensate: none}\non_failure: stop\n"), "undoable", "stops", 1))
	refuseOnce(x, "/ship/orders")
	start := func(name string) *answer {
		return x.do("POST", "/v1/sagas", `{"definition": "`+name+`"}`, header{"Idempotency-Key", name}, header{"Prefer", "wait=30"})
	}
	done, failed := start("undoable").want(201).saga(), start("stops").want(201).saga()
	if done.Status != saga.Succeeded || failed.Status != saga.Failed {
		t.Fatalf("%s, %s", done.Status, failed.Status)
	}
	agent := openAgent(t, x, `, "budget": "1.00 USD"`)
	requests := map[string]func() *answer{
		"start": func() *answer { return start("undoable") },
		"retry from a step": func() *answer {
			return x.do("POST", "/v1/sagas/"+failed.ID+"/retry", `{"from": "last", "reason": "again"}`, header{"Prefer", "wait=30"})
		},
		"undo": func() *answer {
			return x.do("POST", "/v1/sagas/"+done.ID+"/compensate", `{"reason": "again"}`, header{"Prefer", "wait=30"})
		},
		"session": func() *answer { return x.below(agent.id, "one", `, "budget": "0.40 USD"`) },
	}
	for name, again := range requests {
		t.Run(name, func(t *testing.T) {
			if name != "start" {
				again().want(201)
			}
			alone.Store(true)
			again().problem(503, "unavailable")
			if name == "start" {
				if r := x.batch([]string{`{"idempotency_key": "undoable", "definition": "undoable"}`}); r[0].Status != 503 {
					t.Errorf("in a batch: %+v", r[0])
				}
			}
			alone.Store(false)
			again().want(200)
		})
	}
}
