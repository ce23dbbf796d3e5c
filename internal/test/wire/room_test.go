package wire_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/test/pgserver"
	"recourse/internal/test/wire"
	"recourse/internal/test/wire/rig"
)

// readOnly has a database take no writes, or take them again, on connections that are new from now
// on; there are no others.
func readOnly(t *testing.T, dsn, value string) {
	t.Helper()
	ctx := t.Context()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, query := range []string{
		`SET default_transaction_read_only = off`,
		`DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET default_transaction_read_only = ` + value + `', current_database()); END $$`,
		`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`,
	} {
		if _, err := conn.Exec(ctx, query); err != nil {
			t.Fatal(err)
		}
	}
}

// turnedAway waits until a node takes no starts, and fails if it takes this one.
func turnedAway(t *testing.T, n *rig.Node) {
	t.Helper()
	rig.Until(t, "starts are turned away", func() bool {
		id, away, err := rig.Start(http.DefaultClient, n.URL, "extra", "books")
		if err != nil || !id.IsNil() {
			t.Fatalf("a start: %v, %v", id, err)
		}
		return away
	})
}

// While Postgres takes no writes, a server under load turns starts away and lets its lease end. It
// loses nothing, and continues by itself once there is room.
func TestServerWithoutRoom(t *testing.T) {
	full := wire.Fault{Do: wire.Refuse, Code: "53100", Times: -1}
	for _, tt := range []struct {
		name          string
		harm, restore func(t *testing.T, p *wire.Proxy, dsn string)
	}{
		{"full", func(_ *testing.T, p *wire.Proxy, _ string) { p.Arm(full) }, func(_ *testing.T, p *wire.Proxy, _ string) { p.Heal() }},
		{"read-only", func(t *testing.T, _ *wire.Proxy, dsn string) { readOnly(t, dsn, "on") },
			func(t *testing.T, _ *wire.Proxy, dsn string) { readOnly(t, dsn, "off") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dsn := pgserver.DSN(t)
			p, through := proxied(t, dsn)
			sys := rig.New(t, openStore(t, dsn, 4), rig.World(t, world.Config{}), "")
			n := sys.Add(openStore(t, through, 8), engine.Config{Lease: time.Second, Lanes: 2})
			l := sys.Load(3)
			rig.Until(t, "sagas run", func() bool { return n.Engine.Stats().Commits > 20 })
			tt.harm(t, p, dsn)
			rig.Until(t, "the server is not ready", func() bool { return rig.Status(n.URL+"/readyz") == 503 })
			turnedAway(t, n)
			rig.Until(t, "the lease has ended", func() bool { return !n.Engine.Ready() && n.Engine.Stats().RenewsFailed > 2 })
			tt.restore(t, p, dsn)
			rig.Until(t, "the server is ready again", func() bool { return rig.Status(n.URL+"/readyz") == 200 })
			l.End()
			sys.MustSettle()
		})
	}
}
