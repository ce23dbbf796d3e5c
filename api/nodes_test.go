package api

import (
	"context"
	"testing"
	"time"

	"recourse/engine"
	"recourse/saga"
)

// otherNode runs a second engine on the fixture's store, with an API on top. As another process, it
// shares nothing else with the first one.
func otherNode(t *testing.T, x *fixture) *fixture {
	t.Helper()
	callers, passed := x.callers()
	eng := engine.New(engine.Config{Store: x.store, Definitions: x.cfg.Catalog, Callers: callers, Poll: 20 * time.Millisecond, Drain: time.Second})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	y := *x
	cfg := x.cfg
	cfg.Engine, cfg.Relay = eng, passed
	y.url = serve(t, cfg)
	return &y
}

// Every node accepts commands for every saga and shows its progress, whichever node runs it.
func TestCommandsThroughAnotherNode(t *testing.T) {
	x := newFixture(t)
	y := otherNode(t, x)
	x.publish("saga: slow\nsteps:\n  - {id: a, sleep: 1s}\n  - {id: b, sleep: 2h}\n")
	id := x.do("POST", "/v1/sagas", `{"definition": "slow"}`).want(201).saga().ID
	tag := y.do("GET", "/v1/sagas/"+id, "").want(200).Header.Get("ETag")
	y.do("GET", "/v1/sagas/"+id, "", header{"If-None-Match", tag}, header{"Prefer", "wait=20"}).want(200)
	if v := y.do("POST", "/v1/sagas/"+id+"/pause", "").want(202).saga(); v.Status != saga.PausedStatus {
		t.Errorf("status %s", v.Status)
	}
	x.do("POST", "/v1/sagas/"+id+"/resume", "").want(202)
	y.do("POST", "/v1/sagas/"+id+"/cancel", "", header{"Idempotency-Key", "c"}).want(202)
	x.until(id, is(saga.Compensated))
	if a := x.do("POST", "/v1/sagas/"+id+"/cancel", "", header{"Idempotency-Key", "c"}).want(202); a.Header.Get(replayHeader) != "true" {
		t.Error("the other node does not know the key")
	}
}

// A server that stops responds to waiting clients with the present state.
func TestWaitsEndWhenStopping(t *testing.T) {
	done := make(chan struct{})
	x := newFixture(t, func(c *Config) { c.Done = done })
	x.publish(sleepDef)
	id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
	began := time.Now()
	waiting := make(chan *answer, 1)
	go func() { waiting <- x.do("GET", "/v1/sagas/"+id, "", header{"Prefer", "wait=60"}) }()
	close(done)
	if v := (<-waiting).want(200).saga(); v.Status != saga.Waiting || time.Since(began) > 30*time.Second {
		t.Errorf("%s after %v", v.Status, time.Since(began))
	}
}
