package wire_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/test/pgserver"
	"recourse/internal/test/wire"
	"recourse/internal/test/wire/rig"
	"recourse/journal"
)

// A server whose idle connections were all cut responds as usual, or that its database is
// unavailable. It does not report an internal error.
func TestReadingOnCutConnections(t *testing.T) {
	t.Parallel()
	dsn := pgserver.DSN(t)
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

// A connection that broke while it had statements to forget returns an error that differs from that
// of a mistake.
func TestBrokenConnectionIsNamed(t *testing.T) {
	w := newWired(t)
	for _, tt := range []struct {
		name string
		read func() error
	}{
		{"a query", func() error { _, err := w.store.Sagas(t.Context(), journal.Filter{}); return err }},
		{"a row", func() error { _, err := w.store.Records(t.Context(), newID(), 0, 1); return err }},
		{"a batch", func() error { _, err := w.store.Stats(t.Context()); return err }},
		{"a transaction", func() error { _, _, err := w.store.Publish(t.Context(), document("d", "d"), ""); return err }},
		{"a ping", func() error { return w.store.Ping(t.Context()) }},
	} {
		// The connections that were cut for the one before may still be in the pool that writes.
		if err := tt.read(); err != nil && !lost(err) && !errors.Is(err, journal.ErrNotFound) {
			t.Fatal(err)
		}
		// A refusal makes the driver forget the statement. The listener may meet it instead, as it
		// connects again by itself: then the next one is for us.
		for tries := 10; ; tries-- {
			w.proxy.Arm(wire.Fault{At: wire.Statement, Do: wire.Refuse, Code: "53100"})
			if tt.read() != nil {
				break
			}
			if tries == 0 {
				t.Fatalf("%s: refused statements go through", tt.name)
			}
		}
		w.proxy.CutAll()
		if err := tt.read(); err != nil && !lost(err) && !errors.Is(err, journal.ErrNotFound) {
			t.Errorf("%s on a broken connection = %v, want an error that says so", tt.name, err)
		}
	}
}

// lost tells errors of a connection that is no more, by what any driver may say.
func lost(err error) bool {
	var n net.Error
	var state interface{ SQLState() string }
	return errors.As(err, &n) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, journal.ErrUnknown) ||
		errors.As(err, &state) && strings.HasPrefix(state.SQLState(), "08")
}
