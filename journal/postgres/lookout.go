package postgres

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"recourse/internal/pgsession"
)

const (
	checkEvery   = 5 * time.Second // between two checks of all servers
	checkTimeout = 3 * time.Second // timeout of one check
)

// lookout checks every server that a URL names, not only the one in use. Two of them may accept
// writes: an old primary may be back, or may have been cut off when another was promoted. A new
// connection reaches either of them at random, so the one on the earlier timeline must be known.
type lookout struct {
	lineage *lineage
	servers []*pgx.ConnConfig // without duplicates; none if the URL names only one
}

// newLookout takes the servers from the parsed URL, before any settings are added.
func newLookout(line *lineage, cfg *pgx.ConnConfig) *lookout {
	o := &lookout{lineage: line}
	known := make(map[string]*pgx.ConnConfig)
	add := func(f *pgconn.FallbackConfig) {
		name := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port)))
		if server := known[name]; server != nil { // the same server with or without TLS
			server.Fallbacks = append(server.Fallbacks, f)
			return
		}
		server := cfg.Copy()
		server.Host, server.Port, server.TLSConfig, server.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
		server.ValidateConnect = nil // target_session_attrs must not apply: all servers are checked
		pgsession.Prepare(server, nil)
		known[name] = server
		o.servers = append(o.servers, server)
	}
	add(&pgconn.FallbackConfig{Host: cfg.Host, Port: cfg.Port, TLSConfig: cfg.TLSConfig})
	for _, f := range cfg.Fallbacks {
		add(f)
	}
	if len(o.servers) == 1 {
		o.servers = nil
	}
	return o
}

// Rival checks all servers that a URL names. It returns ErrWentBack, with the server and what to
// do, if one of them accepts writes as an earlier state of the database or as another database. For
// an invalid URL it returns nil.
func Rival(ctx context.Context, dsn string) error {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil //nolint:nilerr // opening the store reports it
	}
	o := newLookout(&lineage{}, cfg.ConnConfig)
	o.check(ctx)
	return o.lineage.rivalServer()
}

// check reads the position of all servers concurrently. Servers that do not respond are ignored.
func (o *lookout) check(ctx context.Context) {
	if len(o.servers) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	type primary struct {
		host string
		point
	}
	var (
		mu        sync.Mutex
		primaries []primary
		asking    sync.WaitGroup
	)
	for _, server := range o.servers {
		asking.Go(func() {
			conn, err := pgx.ConnectConfig(ctx, server)
			if err != nil {
				return
			}
			defer conn.Close(ctx)
			at, err := locate(ctx, conn.PgConn())
			if err != nil || at.timeline == 0 {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			primaries = append(primaries, primary{net.JoinHostPort(server.Host, strconv.Itoa(int(server.Port))), at})
		})
	}
	asking.Wait()
	// The primary on the latest timeline comes first; the others are compared with it.
	slices.SortFunc(primaries, func(a, b primary) int {
		return cmp.Or(cmp.Compare(b.timeline, a.timeline), cmp.Compare(a.host, b.host))
	})
	var rival error
	for _, p := range primaries {
		if err := o.lineage.observe(p.point); err != nil {
			rival = fmt.Errorf("%s: %w", p.host, err)
		}
	}
	o.lineage.mu.Lock()
	defer o.lineage.mu.Unlock()
	o.lineage.rival = rival
}

// run checks repeatedly until ctx ends.
func (o *lookout) run(ctx context.Context) {
	if len(o.servers) == 0 {
		return
	}
	for tick := time.NewTicker(checkEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.check(ctx)
		}
	}
}
