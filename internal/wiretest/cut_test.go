package wiretest_test

import (
	"testing"

	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/testpg"
	"recourse/internal/wiretest/rig"
)

// A server whose connections are all cut while nobody looks answers as ever, or that its database is away: it is no mistake of its own.
func TestReadingOnCutConnections(t *testing.T) {
	t.Parallel()
	dsn := testpg.DSN(t)
	p, through := proxied(t, dsn)
	sys := rig.New(t, openStore(t, dsn, 1), rig.World(t, world.Config{}), "")
	n := sys.Add(openStore(t, through, 4), engine.Config{})
	paths := []string{"/v1/sagas", "/v1/sagas/" + newID().String(), "/v1/inbox", "/v1/stats", "/v1/definitions", "/v1/definitions/books"}
	away := 0
	for range 10 {
		for _, path := range paths {
			rig.Until(t, "the server reads", func() bool { return rig.Status(n.URL+"/v1/definitions/books") == 200 })
			p.CutAll()
			switch got := rig.Status(n.URL + path); got {
			case 200, 404:
			case 503:
				away++
			default:
				t.Errorf("GET %s: %d", path, got)
			}
		}
	}
	if away == 0 {
		t.Error("no request met a connection that was cut")
	}
}
