package wire_test

import (
	"testing"
	"time"

	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/test/pgserver"
	"recourse/internal/test/wire/rig"
)

// Postgres stops and starts again under two nodes at work, several times: nothing is lost or done
// twice, clients are asked to retry later, and the nodes continue by themselves. One of the times,
// the nodes' leases end while it is down.
func TestPostgresStopped(t *testing.T) {
	t.Parallel()
	c, err := pgserver.Start(pgserver.Durable...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // after the stores are closed
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	sys := rig.New(t, openStore(t, c.URL, 4), rig.World(t, world.Config{}), "")
	var nodes []*rig.Node
	for range 2 {
		nodes = append(nodes, sys.Add(openStore(t, c.URL, 8), engine.Config{Lease: 2 * time.Second, Lanes: 2}))
	}
	l := sys.Load(4)
	for _, away := range []struct {
		how   string
		lasts time.Duration
	}{{pgserver.Immediate, 0}, {pgserver.Fast, 0}, {pgserver.Immediate, 3 * time.Second}} {
		before := nodes[0].Engine.Stats().Commits
		rig.Until(t, "sagas run", func() bool { return nodes[0].Engine.Stats().Commits > before+20 })
		if err := c.Halt(away.how); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			rig.Until(t, "the node is not ready", func() bool { return rig.Status(n.URL+"/readyz") == 503 })
			turnedAway(t, n)
		}
		<-time.After(away.lasts)
		if err := c.Resume(); err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			rig.Until(t, "the node is ready again", func() bool { return rig.Status(n.URL+"/readyz") == 200 })
		}
	}
	l.End()
	sys.MustSettle()
}
