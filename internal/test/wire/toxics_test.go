package wire_test

import (
	"context"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/test/pgserver"
	"recourse/internal/test/wire/rig"
)

// toxic is something wrong with a wire, for a while.
type toxic struct {
	name       string
	attributes string
	lasts      time.Duration
	down       bool // the database counts as away meanwhile
}

var wireToxics = []toxic{
	{"latency", `{"latency":60,"jitter":50}`, 1500 * time.Millisecond, false},
	{"bandwidth", `{"rate":60}`, 1500 * time.Millisecond, false},
	{"slicer", `{"average_size":40,"size_variation":20,"delay":200}`, 1500 * time.Millisecond, false},
	{"slow_close", `{"delay":500}`, 1500 * time.Millisecond, false},
	{"limit_data", `{"bytes":6000}`, 1500 * time.Millisecond, false},
	{"reset_peer", `{"timeout":0}`, 2500 * time.Millisecond, true},
	{"timeout", `{"timeout":0}`, 2500 * time.Millisecond, true},
}

// toxicWire is a proxy to an address, for bytes.
func toxicWire(t *testing.T, to string) *toxiproxy.Proxy {
	t.Helper()
	p := toxiproxy.NewProxy(toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop()), "wire", "127.0.0.1:0", to)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

// by is a URL by way of a proxy.
func by(t *testing.T, address string, wire func(t *testing.T, to string) *toxiproxy.Proxy) (*toxiproxy.Proxy, string) {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p := wire(t, u.Host)
	u.Host = p.Listen
	return p, u.String()
}

func poison(t *testing.T, p *toxiproxy.Proxy, x toxic, streams ...string) (heal func()) {
	t.Helper()
	for _, stream := range streams {
		_, err := p.Toxics.AddToxicJson(strings.NewReader(`{"name":"` + stream + `","type":"` + x.name + `","stream":"` + stream + `","attributes":` + x.attributes + `}`))
		if err != nil {
			t.Fatal(err)
		}
	}
	return func() { p.Toxics.ResetToxics(context.Background()) }
}

// Between one of two nodes and its database the wire is bad for a while: nothing is lost or done
// twice, the other node continues meanwhile, and this one by itself afterwards.
func TestToxicDatabaseWire(t *testing.T) {
	for _, x := range wireToxics {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			dsn := pgserver.DSN(t)
			p, through := by(t, dsn, toxicWire)
			sys := rig.New(t, openStore(t, dsn, 4), rig.World(t, world.Config{}), "")
			sick := sys.Add(openStore(t, through, 8), engine.Config{Lease: time.Second, Lanes: 2})
			sys.Add(openStore(t, dsn, 8), engine.Config{Lease: time.Second, Lanes: 2})
			l := sys.Load(3)
			heal := poison(t, p, x, "upstream", "downstream")
			if x.down {
				rig.Until(t, "the node is not ready", func() bool { return rig.Status(sick.URL+"/readyz") == 503 })
				rig.Until(t, "its lease has ended", func() bool { return !sick.Engine.Ready() })
			}
			<-time.After(x.lasts)
			heal()
			rig.Until(t, "the node is ready again", func() bool { return rig.Status(sick.URL+"/readyz") == 200 })
			l.End()
			sys.MustSettle()
		})
	}
}

// The same between the nodes and the services they call.
func TestToxicStepWire(t *testing.T) {
	for _, x := range wireToxics {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			dsn := pgserver.DSN(t)
			w := rig.World(t, world.Config{})
			p, steps := by(t, w.URL, toxicWire)
			sys := rig.New(t, openStore(t, dsn, 4), w, steps)
			sys.Add(openStore(t, dsn, 8), engine.Config{Lease: 5 * time.Second, Lanes: 2})
			l := sys.Load(3)
			streams := []string{"upstream", "downstream"}
			if x.name == "limit_data" {
				// A few answers. The world's ledger does not tell a request that was cut from one
				// with another body.
				x.attributes, streams = `{"bytes":900}`, streams[1:]
			}
			heal := poison(t, p, x, streams...)
			<-time.After(x.lasts)
			heal()
			l.End()
			sys.MustSettle()
		})
	}
}
