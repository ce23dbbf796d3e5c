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
	lookEvery = 5 * time.Second // between two looks at all servers
	lookTime  = 3 * time.Second // that each of them has to answer in
)

// lookout looks at every server that a URL names, not only at the one that is worked with. Two of
// them may take writes: an old primary that is back, or was cut off while another was promoted. A
// connection finds one of them first at random, so the one on the earlier timeline has to be known
// as such.
type lookout struct {
	lineage *lineage
	servers []*pgx.ConnConfig // one each; none if the URL names only one
}

// newLookout takes the servers from the configuration of a URL, to which nothing has been added.
func newLookout(line *lineage, cfg *pgx.ConnConfig) *lookout {
	o := &lookout{lineage: line}
	known := make(map[string]*pgx.ConnConfig)
	add := func(f *pgconn.FallbackConfig) {
		name := net.JoinHostPort(f.Host, strconv.Itoa(int(f.Port)))
		if server := known[name]; server != nil { // without TLS what is tried with it, or the other way round
			server.Fallbacks = append(server.Fallbacks, f)
			return
		}
		server := cfg.Copy()
		server.Host, server.Port, server.TLSConfig, server.Fallbacks = f.Host, f.Port, f.TLSConfig, nil
		server.ValidateConnect = nil // the URL's choice is not what is asked for here
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

// Rival looks at all servers that a URL names. It returns ErrWentBack, with the server and what to
// do, if one of them takes writes as an earlier state of the database, or as another one. A URL
// that cannot be read has none.
func Rival(ctx context.Context, dsn string) error {
	cfg, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil
	}
	o := newLookout(&lineage{}, cfg.ConnConfig)
	o.look(ctx)
	return o.lineage.rivalServer()
}

// look asks all servers at once where they stand. One that does not answer is left out of account.
func (o *lookout) look(ctx context.Context) {
	if len(o.servers) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTime)
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
	// The one that is ahead comes first: the others are judged by it.
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

// run looks until ctx ends.
func (o *lookout) run(ctx context.Context) {
	if len(o.servers) == 0 {
		return
	}
	for tick := time.NewTicker(lookEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.look(ctx)
		}
	}
}
