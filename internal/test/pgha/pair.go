// Package pgha provides tests with PostgreSQL databases that fail over, on the loopback interface:
// a primary with a standby that the test promotes, and members that Patroni promotes, with etcd.
// Tests never skip: if the programs are missing and cannot be installed, they fail and say what to
// install.
package pgha

import (
	"context"
	"errors"
	"strings"
	"testing"

	"recourse/internal/test/pgserver"
)

// Pair is a primary and its standby.
type Pair struct {
	Primary, Standby *pgserver.Cluster
	URL              string // names both servers; connects to the one that accepts writes
}

// NewPair starts both until tb ends. The settings are the primary's, in addition to
// pgserver.Durable.
func NewPair(tb testing.TB, settings ...string) *Pair {
	tb.Helper()
	var p Pair
	var err error
	if p.Primary, err = pgserver.Start(append(settings, pgserver.Durable...)...); err != nil {
		tb.Fatalf("pgha: %v", err)
	}
	stop := func(c *pgserver.Cluster) {
		if err := c.Stop(); err != nil {
			tb.Errorf("pgha: %v", err)
		}
	}
	tb.Cleanup(func() { stop(p.Primary) })
	if p.Standby, err = p.Primary.Standby(pgserver.Durable...); err != nil {
		tb.Fatalf("pgha: %v", err)
	}
	tb.Cleanup(func() { stop(p.Standby) })
	p.URL = address(p.Primary.Host(), p.Standby.Host())
	return &p
}

// FailOver kills the primary and promotes the standby.
func (p *Pair) FailOver(ctx context.Context) error {
	return errors.Join(p.Primary.Halt(pgserver.Killed), p.Standby.Promote(ctx))
}

// address returns a URL for the host that accepts writes.
func address(hosts ...string) string {
	return "postgres://postgres@" + strings.Join(hosts, ",") + "/postgres?sslmode=disable&target_session_attrs=read-write"
}
