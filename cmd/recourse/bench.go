package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"recourse/internal/bench"
	"recourse/internal/invariant"
)

type benchCmd struct {
	outputFlag
	Database string        `default:"" env:"RECOURSE_BENCH_DATABASE" placeholder:"FILE|URL" help:"A SQLite file to make, or postgres://… whose user may create databases; default: a SQLite file in a temporary directory."`
	Quick    bool          `help:"Within a minute: shorter runs, fewer rounds."`
	Clients  []int         `default:"1,32,256" help:"How many sagas at once; default ${default}."`
	Rate     int           `help:"Also start this many sagas a second, whether or not earlier ones have ended."`
	Each     time.Duration `default:"5s" help:"How long each run takes; default ${default}."`
	Rounds   int           `default:"5" help:"How many rounds the medians are taken from; default ${default}."`
	Cheat    bool          `hidden:"" help:"Have the other side book some effects twice, to see that it is noticed."`
}

// Run measures booking3 beside the floor.
func (c *benchCmd) Run(a *app) error {
	if c.Quick {
		c.Each, c.Rounds = 1200*time.Millisecond, 3
	}
	if c.Rounds < 1 || c.Each <= 0 || len(c.Clients) == 0 {
		return exit(exitUsage, errors.New("--rounds, --each and --clients are at least 1"))
	}
	dir, err := os.MkdirTemp("", "recourse-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	dbs, drop, err := c.databases(a.ctx, dir)
	if err != nil {
		return err
	}
	defer drop()
	r, err := c.measure(a, dir, dbs)
	if err != nil {
		return exit(exitFailed, fmt.Errorf("bench: %w; there are no figures", err))
	}
	r.Store, r.Machine = kindOf(dbs.engine), machine()
	if c.json() {
		return a.encoded(r)
	}
	return r.Print(a.Stdout)
}

// benchDatabases are those of the engine and of the floor.
type benchDatabases struct{ engine, floor string }

// databases makes fresh ones; drop removes them.
func (c *benchCmd) databases(ctx context.Context, dir string) (dbs benchDatabases, drop func(), err error) {
	if !isPostgres(c.Database) {
		if c.Database != "" {
			dir = c.Database + ".bench"
			if err := os.MkdirAll(dir, 0o700); err != nil {
				return dbs, nil, exit(exitUsage, fmt.Errorf("--database %s: %w", c.Database, err))
			}
		}
		return benchDatabases{filepath.Join(dir, "engine.db"), filepath.Join(dir, "floor.db")}, func() { os.RemoveAll(dir) }, nil
	}
	conn, err := pgx.Connect(ctx, c.Database)
	if err != nil {
		return dbs, nil, databaseError(c.Database, err)
	}
	name := "recourse_bench_" + strconv.FormatInt(time.Now().UnixNano(), 36)
	for _, n := range []string{name + "_engine", name + "_floor"} {
		if _, err := conn.Exec(ctx, `CREATE DATABASE `+n); err != nil {
			return dbs, nil, exit(exitUsage, fmt.Errorf("bench makes databases of its own and drops them, which this user may not: %w", err))
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
	return benchDatabases{other(name + "_engine"), other(name + "_floor")}, drop, nil
}

// withDatabase names another database of the same server.
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

// measure starts the processes, lets the engine show the floor what to do, and runs the rounds.
func (c *benchCmd) measure(a *app, dir string, dbs benchDatabases) (bench.Report, error) {
	args := []string{"bench-stub"}
	if c.Cheat {
		args = append(args, "--cheat")
	}
	stub, err := spawn(a.ctx, dir, a.Env, "stub", args...)
	if err != nil {
		return bench.Report{}, err
	}
	defer stub.stop()
	engine, err := spawn(a.ctx, dir, a.Env, "engine", "serve", "--database", dbs.engine, "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1", "--while-stdin", "--log-level", "warn")
	if err != nil {
		return bench.Report{}, err
	}
	defer engine.stop()
	scripts, err := bench.Prepare(a.ctx, of(engine), of(stub))
	if err != nil {
		return bench.Report{}, err
	}
	file := filepath.Join(dir, "scripts.json")
	b, err := json.Marshal(scripts)
	if err == nil {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		return bench.Report{}, err
	}
	floor, err := spawn(a.ctx, dir, a.Env, "floor", "bench-floor", "--database", dbs.floor, "--stub", stub.url, "--scripts", file)
	if err != nil {
		return bench.Report{}, err
	}
	defer floor.stop()
	r, err := bench.Run(a.ctx, bench.Config{
		Engine: of(engine), Floor: of(floor), Stub: of(stub), Database: dbs.engine, Variants: []bench.Variant{bench.Succeeds, bench.Undone},
		Clients: c.Clients, Rate: c.Rate, Each: c.Each, Rounds: c.Rounds, Progress: a.bar,
	})
	if err == nil {
		err = a.verified(dbs.engine)
	}
	return r, err
}

// verified checks every saga of a database, as `recourse verify --database` does.
func (a *app) verified(database string) error {
	v := &verifying{app: a, cmd: &verifyCmd{Database: database}, missing: make(map[string]*missing)}
	if err := v.database(invariant.Config{Now: time.Now()}); err != nil {
		return err
	}
	if found := v.checker.End(); len(found) > 0 {
		return fmt.Errorf("%s, the first: %s", count(len(found), "violation"), found[0])
	}
	return nil
}

func of(p *process) bench.Process { return bench.Process{URL: p.url, PID: p.cmd.Process.Pid} }

// bar draws a bar on a terminal.
func (a *app) bar(done, of int, what string) {
	if !terminal(a.Stderr) {
		return
	}
	const width = 30
	full := done * width / max(of, 1)
	fmt.Fprintf(a.Stderr, "\r\x1b[K[%s%s] %d/%d %s", strings.Repeat("#", full), strings.Repeat(".", width-full), done, of, what)
	if done == of {
		fmt.Fprint(a.Stderr, "\r\x1b[K")
	}
}

// machine says what the figures were measured on.
func machine() string {
	model := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	return fmt.Sprintf("%d × %s, %s", runtime.NumCPU(), model, runtime.GOOS)
}

// benchStubCmd is the other side, as a process of its own.
type benchStubCmd struct {
	Delay time.Duration `help:"How long each answer takes."`
	Cheat bool          `help:"Book some effects twice."`
}

// Run serves until stdin ends.
func (c *benchStubCmd) Run(a *app) error {
	return a.serveUntilStdinEnds(bench.NewStub(c.Delay, c.Cheat))
}

// benchFloorCmd is the bare program, as a process of its own.
type benchFloorCmd struct {
	Database string `required:""`
	Stub     string `required:""`
	Scripts  string `required:""`
}

// Run serves until stdin ends.
func (c *benchFloorCmd) Run(a *app) error {
	b, err := os.ReadFile(c.Scripts)
	if err != nil {
		return err
	}
	var scripts map[string]bench.Script
	if err := json.Unmarshal(b, &scripts); err != nil {
		return err
	}
	f, err := bench.NewFloor(a.ctx, c.Database, c.Stub, scripts)
	if err != nil {
		return err
	}
	return a.serveUntilStdinEnds(f)
}

func (a *app) serveUntilStdinEnds(h http.Handler) error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		io.Copy(io.Discard, a.Stdin)
		s.Close()
	}()
	a.printf("listening on http://%s\n", l.Addr())
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
