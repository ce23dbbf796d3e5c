// Package bench has the command that measures the overhead of a saga. Package measure does the
// measuring; this one starts the processes, makes the databases, and verifies the sagas at the end.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/bench/measure"
	"recourse/internal/cli/database"
	"recourse/internal/cli/process"
	"recourse/internal/cli/verify"
	"recourse/saga/dsl"
)

// Command is `recourse bench`.
type Command struct {
	cli.OutputFlag
	Workload string        `default:"booking3" enum:"booking3,wide,start,long,parked,recover,list,growth,overload,agent" help:"Workload: booking3, wide, start, long, parked, recover, list, growth, overload or agent; default ${default}."`
	Database string        `default:"" env:"RECOURSE_BENCH_DATABASE" placeholder:"FILE|URL" help:"A SQLite file to create, or postgres://… with a user who may create databases. Default: a SQLite file in a temporary directory."`
	Quick    bool          `help:"Finish within a minute: shorter runs, fewer rounds, fewer sagas."`
	Clients  []int         `help:"booking3, wide, start, growth: number of concurrent sagas; default 1,32,256, for wide 256, for growth 1,32. overload: of the closed loop that finds the rate; default 256."`
	Rate     int           `help:"booking3: also start this many sagas per second, whether or not earlier ones have ended."`
	Each     time.Duration `help:"booking3, start, growth: duration of each run; default 5s. overload, agent: duration of the load, and of idle sessions; default 20s."`
	Rounds   int           `help:"booking3, wide, start, long, growth, agent: number of rounds; default 5, for long, growth and agent 3."`
	Sagas    int           `help:"wide, parked, recover, list: number of sagas; default 1000, 1000000, 10000, 1000000. growth: of the most ended sagas; default 1000000. agent: of idle sessions; default 1000, at most 10000."`
	Steps    int           `help:"long: number of steps of the saga; default 10000, the maximum. agent: of turns; default 20."`
	Wake     int           `help:"parked: number of sagas that wake; default 10000."`
	Times    int           `help:"list, growth: number of requests for each list, unless they take longer than 10s; default 50. agent: of each kind of request; default 500."`
	Cheat    bool          `hidden:"" help:"Have the mock services record some effects twice, to see that the check reports it."`
}

// size is the size of a workload.
type size struct {
	clients            []int
	each               time.Duration
	rounds, sagas      int
	steps, wake, times int
	verify             int // number of sagas to check at the end, newest first; 0: all
}

// slowDelay is the response time of the stub in the second part of recover.
const slowDelay = 50 * time.Millisecond

// newestVerified is the number of sagas that are checked if checking all would take minutes.
const newestVerified = 20_000

// sizes are the default sizes of the workloads, and those with --quick.
var sizes = map[string]struct{ full, quick size }{
	"booking3": {size{clients: []int{1, 32, 256}, each: 5 * time.Second, rounds: 5}, size{clients: []int{1, 32, 256}, each: 1200 * time.Millisecond, rounds: 3}},
	"wide":     {size{clients: []int{256}, sagas: 1000, rounds: 5}, size{clients: []int{256}, sagas: 256, rounds: 3}},
	"start":    {size{clients: []int{1, 32, 256}, each: 5 * time.Second, rounds: 5, verify: newestVerified}, size{clients: []int{1, 32, 256}, each: time.Second, rounds: 3, verify: newestVerified}},
	"long":     {size{steps: dsl.MaxSteps, rounds: 3}, size{steps: 1000, rounds: 3}},
	"parked":   {size{sagas: 1_000_000, wake: 10_000, rounds: 1, verify: newestVerified}, size{sagas: 100_000, wake: 1000, rounds: 1, verify: newestVerified}},
	"recover":  {size{sagas: 10_000, rounds: 1}, size{sagas: 2000, rounds: 1}},
	"overload": {size{clients: []int{256}, each: 20 * time.Second, rounds: 1}, size{clients: []int{256}, each: 8 * time.Second, rounds: 1}},
	"agent":    {size{sagas: 1000, steps: 20, times: 500, rounds: 3, each: 20 * time.Second}, size{sagas: 1000, steps: 20, times: 100, rounds: 1, each: 5 * time.Second}},
	"growth":   {size{clients: []int{1, 32}, each: 5 * time.Second, rounds: 3, sagas: 1_000_000, times: 20}, size{clients: []int{32}, each: time.Second, rounds: 1, sagas: 100_000, times: 5}},
	"list":     {size{sagas: 1_000_000, times: 50, rounds: 1, verify: newestVerified}, size{sagas: 100_000, times: 10, rounds: 1, verify: newestVerified}},
}

// size returns the workload's size, adjusted by the flags.
func (c *Command) size() (size, error) {
	z := sizes[c.Workload].full
	if c.Quick {
		z = sizes[c.Workload].quick
	}
	if len(c.Clients) > 0 {
		z.clients = c.Clients
	}
	given := func(flag int, v *int) {
		if flag != 0 {
			*v = flag
		}
	}
	given(c.Rounds, &z.rounds)
	given(c.Sagas, &z.sagas)
	given(c.Steps, &z.steps)
	given(c.Wake, &z.wake)
	given(c.Times, &z.times)
	z.wake = min(z.wake, z.sagas)
	if c.Each != 0 {
		z.each = c.Each
	}
	switch {
	case z.rounds < 1 || z.each < 0 || z.sagas < 0 || z.wake < 0 || z.times < 0 || slices.ContainsFunc(z.clients, func(n int) bool { return n < 1 }):
		return z, cli.Exit(cli.Usage, errors.New("--rounds, --each, --clients, --sagas, --wake and --times are at least 1"))
	case c.Workload == "long" && (z.steps < 2 || z.steps > dsl.MaxSteps):
		return z, cli.Exit(cli.Usage, fmt.Errorf("--steps is from 2 to %d: a definition has no more", dsl.MaxSteps))
	case c.Workload == "recover" && z.sagas > 10_000:
		return z, cli.Exit(cli.Usage, errors.New("--sagas is at most 10000 for recover: a node runs no more at once"))
	case c.Workload == "growth" && (z.sagas < 1 || z.sagas > 10_000_000):
		return z, cli.Exit(cli.Usage, errors.New("--sagas is from 1 to 10000000 for growth"))
	case c.Workload == "agent" && (z.sagas < 1 || z.sagas > 10_000 || z.steps < 2 || z.steps > 100 || z.times < 2 || z.times > 1000):
		return z, cli.Exit(cli.Usage, errors.New("for agent, --sagas is from 1 to 10000, --steps from 2 to 100, and --times from 2 to 1000"))
	}
	return z, nil
}

// report is the result of a workload.
type report interface {
	Ran(store, machine string, verified int)
	Print(w io.Writer) error
}

// Run measures the workload. It prints no figures if the check at the end finds an error.
func (c *Command) Run(a *cli.App) error {
	size, err := c.size()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "recourse-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	dbs, drop, err := c.databases(a.Ctx, dir)
	if err != nil {
		return err
	}
	defer drop()
	r, err := c.measure(&runner{app: a, dir: dir, dbs: dbs, size: size, cheat: c.Cheat})
	if err != nil {
		return cli.Exit(cli.Failed, fmt.Errorf("bench: %w; there are no figures", err))
	}
	if c.Machine() {
		return a.Encode(r)
	}
	return r.Print(a.Stdout)
}

// measure runs the workload, and checks the resulting sagas.
func (c *Command) measure(b *runner) (r report, err error) {
	defer b.end()
	switch c.Workload {
	case "wide":
		r, err = b.compare(measure.Config{Workload: c.Workload, Variants: []measure.Variant{measure.Wide}, Sagas: max(b.size.sagas, 1)})
	case "start":
		r, err = b.compare(measure.Config{Workload: c.Workload, Variants: []measure.Variant{measure.Start}, Batches: true})
	case "long":
		r, err = b.long()
	case "parked":
		r, err = b.parked()
	case "recover":
		r, err = b.recover()
	case "list":
		r, err = b.list()
	case "growth":
		r, err = b.growth()
	case "overload":
		r, err = b.overload()
	case "agent":
		r, err = b.agent()
	default:
		r, err = b.compare(measure.Config{Workload: c.Workload, Variants: []measure.Variant{measure.Succeeds, measure.Undone}, Rate: c.Rate})
	}
	if err != nil {
		return nil, err
	}
	checked, err := verify.Newest(b.app, b.dbs.engine, b.size.verify)
	r.Ran(database.Kind(b.dbs.engine), measure.Hardware(), checked)
	return r, err
}

// databases are the databases of the engine and of the floor.
type databases struct{ engine, floor string }

// databases creates empty databases; drop removes them.
func (c *Command) databases(ctx context.Context, dir string) (dbs databases, drop func(), err error) {
	if !database.IsPostgres(c.Database) {
		if c.Database != "" {
			dir = c.Database + ".bench"
			if err := os.Mkdir(dir, 0o700); err != nil { // also if it exists, because drop removes it
				return dbs, nil, cli.Exit(cli.Usage, fmt.Errorf("--database %s: %w", c.Database, err))
			}
		}
		return databases{filepath.Join(dir, "engine.db"), filepath.Join(dir, "floor.db")}, func() { os.RemoveAll(dir) }, nil
	}
	conn, err := pgx.Connect(ctx, c.Database)
	if err != nil {
		return dbs, nil, database.Describe(c.Database, err)
	}
	name := "recourse_bench_" + strconv.FormatInt(time.Now().UnixNano(), 36)
	for _, n := range []string{name + "_engine", name + "_floor"} {
		if _, err := conn.Exec(ctx, `CREATE DATABASE `+n); err != nil {
			return dbs, nil, cli.Exit(cli.Usage, fmt.Errorf("bench makes databases of its own and drops them, which this user may not: %w", err))
		}
	}
	drop = func() {
		defer conn.Close(context.Background())
		for _, n := range []string{name + "_engine", name + "_floor"} {
			if _, err := conn.Exec(context.Background(), `DROP DATABASE IF EXISTS `+n+` WITH (FORCE)`); err != nil {
				fmt.Fprintln(os.Stderr, "could not drop database", n)
			}
		}
	}
	other := func(n string) string { return withDatabase(c.Database, n) }
	return databases{other(name + "_engine"), other(name + "_floor")}, drop, nil
}

// withDatabase returns the URL of another database on the same server.
func withDatabase(url, name string) string {
	before, query, _ := strings.Cut(url, "?")
	scheme, rest, _ := strings.Cut(before, "://")
	host, _, _ := strings.Cut(rest, "/")
	out := scheme + "://" + host + "/" + name
	if query != "" {
		out += "?" + query
	}
	return out
}

func processOf(p *process.Process) measure.Process { return measure.Process{URL: p.URL, PID: p.PID()} }
