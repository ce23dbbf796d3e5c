// Command peers runs booking3 of `recourse bench` on recourse, on the floor, and on programs of
// others, one at a time in turns, and prints the figures as Markdown: see docs/comparison.md.
//
// A peer is a program in a directory of its own, with its own module or npm package, so that
// recourse depends on none of them. It reads three variables: DATABASE_URL, an empty Postgres
// database the first time and its own one later, STUB_URL, the remote service, and DATA_DIR, a
// directory that it keeps. It prints one line of JSON when it takes sagas:
//
//	{"run": URL, "send": URL, "live": URL}
//
// POST run starts a saga under the request's Idempotency-Key and responds with
// {"id": …, "status": "succeeded"} at its end; send responds once the start is durable; GET live
// responds with the number of sagas that have not ended. A saga makes three requests, POST
// STUB_URL/do/flight, /do/hotel and /do/car, each with an Idempotency-Key that stays the same
// when the request is repeated. The peer ends when its stdin ends.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"recourse/internal/cli/bench/measure"
)

// recipe says how a peer is built and started.
type recipe struct {
	name string
	node bool // an npm package; otherwise a Go module
}

var recipes = []recipe{
	{name: "dbos", node: true},
	{name: "langgraph", node: true},
	{name: "restate", node: true},
	{name: "river"},
	{name: "temporal"},
}

const reference = "recourse"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	names := make([]string, 0, len(recipes))
	for _, r := range recipes {
		names = append(names, r.name)
	}
	c := measure.PeersConfig{Reference: reference, Clients: []int{1, 32, 256}, Warm: 3 * time.Second, InFlight: 200, Patience: 3 * time.Minute, Progress: progress}
	flag.StringVar(&c.Database, "database", os.Getenv("RECOURSE_TEST_POSTGRES"), "`URL` of a Postgres whose user may create databases")
	flag.DurationVar(&c.Each, "each", 5*time.Second, "duration of each run")
	flag.IntVar(&c.Rounds, "rounds", 5, "number of rounds")
	flag.Func("clients", "`numbers` of clients (default 1,32,256)", func(s string) error {
		c.Clients = nil
		for field := range strings.SplitSeq(s, ",") {
			n, err := strconv.Atoi(field)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is no number of clients", field)
			}
			c.Clients = append(c.Clients, n)
		}
		return nil
	})
	recourse := flag.String("recourse", "bin/recourse", "the program recourse")
	chosen := flag.String("peers", strings.Join(names, ","), "`names` of the peers to compare with")
	quick := flag.Bool("quick", false, "one round of short runs, whatever -rounds and -each say")
	flag.Parse()
	if *quick {
		c.Each, c.Rounds, c.Warm = 1500*time.Millisecond, 1, time.Second
	}
	if c.Rounds < 1 || c.Each <= 0 {
		return errors.New("-rounds is at least 1, and -each is a duration such as 5s")
	}
	if c.Database == "" {
		return errors.New("there is no -database: run `make bench-peers`, which starts a Postgres")
	}
	var list []recipe
	for name := range strings.SplitSeq(*chosen, ",") {
		i := slices.Index(names, name)
		if i < 0 {
			return fmt.Errorf("there is no peer %q: the peers are %s", name, strings.Join(names, ", "))
		}
		list = append(list, recipes[i])
	}
	versions, err := prepare(ctx, list, *recourse)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bench-peers-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	dbs := &databases{url: c.Database, suffix: strconv.FormatInt(time.Now().UnixNano(), 36)}
	defer dbs.drop()
	stub := &process{name: "stub", dir: dir, command: []string{*recourse, "bench-stub"}}
	if c.Stub.URL, err = stub.listen(ctx); err != nil {
		return err
	}
	defer stub.Stop()
	c.Stub.PID = stub.cmd.Process.Pid
	if c.Peers, err = peers(ctx, c.Stub, dbs, dir, *recourse, list); err != nil {
		return err
	}
	r, err := measure.Peers(ctx, c)
	if err != nil {
		return fmt.Errorf("%w; there are no figures", err)
	}
	r.Ran("Postgres "+dbs.version+" with fsync", measure.Hardware(), 0)
	fmt.Println(strings.Join(versions, ", ") + ".")
	return r.Print(os.Stdout)
}

// peers returns recourse, the floor, and the chosen peers.
func peers(ctx context.Context, stub measure.Process, dbs *databases, dir, recourse string, list []recipe) ([]measure.Peer, error) {
	engineDB, err := dbs.create(ctx, reference)
	if err != nil {
		return nil, err
	}
	floorDB, err := dbs.create(ctx, "floor")
	if err != nil {
		return nil, err
	}
	engine := &own{process{name: reference, dir: dir, command: []string{
		recourse, "serve", "--database", engineDB, "--state-dir", filepath.Join(dir, "state"), "--listen", "127.0.0.1:0",
		"--egress-allow", "127.0.0.1", "--while-stdin", "--log-level", "warn",
	}}, true}
	at, err := engine.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer engine.Stop()
	scripts, err := measure.Prepare(ctx, measure.Process{URL: strings.TrimSuffix(at.Run, starts), PID: at.PID}, stub, []measure.Variant{measure.Succeeds})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "scripts.json")
	text, err := json.Marshal(scripts)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return nil, err
	}
	all := []measure.Peer{
		engine,
		&own{process{name: "floor", dir: dir, command: []string{recourse, "bench-floor", "--database", floorDB, "--stub", stub.URL, "--scripts", file}}, false},
	}
	for _, r := range list {
		db, err := dbs.create(ctx, r.name)
		if err != nil {
			return nil, err
		}
		data := filepath.Join(dir, r.name)
		if err := os.Mkdir(data, 0o700); err != nil {
			return nil, err
		}
		all = append(all, &peer{process{name: r.name, dir: dir, command: r.command(), env: []string{"DATABASE_URL=" + db, "STUB_URL=" + stub.URL, "DATA_DIR=" + data}}})
	}
	return all, nil
}

// peer is a program of others.
type peer struct{ process }

// Start implements measure.Peer.
func (p *peer) Start(ctx context.Context) (measure.Running, error) {
	line, err := p.start(ctx, "{")
	if err != nil {
		return measure.Running{}, err
	}
	var at struct{ Run, Send, Live string }
	if err := json.Unmarshal([]byte("{"+line), &at); err != nil {
		return measure.Running{}, fmt.Errorf("%s printed {%s: %w", p.name, line, err)
	}
	return measure.Running{PID: p.cmd.Process.Pid, Run: at.Run, Send: at.Send, Live: func(ctx context.Context) (int, error) { return measure.LiveAt(ctx, at.Live) }}, nil
}

// Resumes implements measure.Peer.
func (p *peer) Resumes() bool { return true }

// own is a program of this repository.
type own struct {
	process
	resumes bool
}

// starts is the path of starts.
const starts = "/v1/sagas"

// Start implements measure.Peer.
func (o *own) Start(ctx context.Context) (measure.Running, error) {
	at, err := o.listen(ctx)
	if err != nil {
		return measure.Running{}, err
	}
	p := measure.Process{URL: at, PID: o.cmd.Process.Pid}
	// The load asks for a response at the end with a header, which makes one URL do.
	return measure.Running{PID: p.PID, Run: at + starts, Send: at + starts, Live: func(ctx context.Context) (int, error) { return measure.LiveSagas(ctx, p) }}, nil
}

// Resumes implements measure.Peer.
func (o *own) Resumes() bool { return o.resumes }

// databases creates a database for each peer.
type databases struct{ url, suffix, version string }

func (d *databases) create(ctx context.Context, peer string) (string, error) {
	u, err := url.Parse(d.url)
	if err != nil {
		return "", errors.New("-database is not a URL")
	}
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		return "", err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	name := "peers_" + peer + "_" + d.suffix
	if _, err := conn.Exec(ctx, `CREATE DATABASE `+name); err != nil {
		return "", fmt.Errorf("the user of -database must be allowed to create databases: %w", err)
	}
	d.version, _, _ = strings.Cut(conn.PgConn().ParameterStatus("server_version"), " ")
	u.Path = "/" + name
	return u.String(), nil
}

// drop removes the databases, and what a peer made itself, such as a second database.
func (d *databases) drop() {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, d.url)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers: could not drop its databases:", err)
		return
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT datname FROM pg_database WHERE strpos(datname, 'peers_') = 1 AND strpos(datname, $1) > 0`, "_"+d.suffix)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers: could not drop its databases:", err)
		return
	}
	names, _ := pgx.CollectRows(rows, pgx.RowTo[string])
	for _, name := range names {
		if _, err := conn.Exec(ctx, `DROP DATABASE IF EXISTS `+name+` WITH (FORCE)`); err != nil {
			fmt.Fprintln(os.Stderr, "bench-peers: could not drop database", name)
		}
	}
}

// progress prints where the comparison is.
func progress(done, of int, what string) {
	fmt.Fprintf(os.Stderr, "%3d %% %s\n", 100*done/max(of, 1), what)
}

// home is the directory of the peers, from the repository's root.
const home = "bench/peers"

// command is what starts a prepared peer.
func (r recipe) command() []string {
	if r.node {
		return []string{"node", filepath.Join(home, r.name, "main.mjs")}
	}
	return []string{filepath.Join("bin/peers", r.name)}
}

// prepare builds or installs the peers, and returns the versions of all that is measured.
func prepare(ctx context.Context, list []recipe, recourse string) ([]string, error) {
	if _, err := os.Stat(filepath.Join(home, "main.go")); err != nil {
		return nil, errors.New("run it in the repository's root, with `make bench-peers`")
	}
	if _, err := exec.LookPath(recourse); err != nil {
		return nil, fmt.Errorf("%s is missing: run `make build`", recourse)
	}
	versions := []string{}
	for _, r := range list {
		v, err := r.prepare(ctx)
		if err != nil {
			return nil, err
		}
		versions = append(versions, v...)
	}
	slices.Sort(versions)
	return slices.Compact(versions), nil
}

func (r recipe) prepare(ctx context.Context) ([]string, error) {
	dir := filepath.Join(home, r.name)
	if !r.node {
		progress(0, 1, "building "+r.name)
		if err := quiet(ctx, "go", "-C", dir, "build", "-trimpath", "-o", "../../../bin/peers/"+r.name, "."); err != nil {
			return nil, fmt.Errorf("%s: %w; its modules come from the Go module proxy", r.name, err)
		}
		return versionsOfModule(ctx, dir)
	}
	version, err := output(ctx, "node", "--version")
	if err != nil {
		return nil, fmt.Errorf("%s needs Node.js 20 or later and npm: install them (Debian: apt-get install nodejs npm), or choose other peers: make bench-peers PEERS=river,temporal", r.name)
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < 20 {
		return nil, fmt.Errorf("%s needs Node.js 20 or later, and this is %s", r.name, version)
	}
	lock, installed := filepath.Join(dir, "package-lock.json"), filepath.Join(dir, "node_modules", ".package-lock.json")
	if newer(lock, installed) {
		progress(0, 1, "installing "+r.name)
		// No package runs a program of its own while it is installed.
		if err := quiet(ctx, "npm", "ci", "--prefix", dir, "--ignore-scripts", "--no-audit", "--no-fund"); err != nil {
			return nil, fmt.Errorf("%s: %w; its packages come from the npm registry", r.name, err)
		}
	}
	list, err := versionsOfPackage(dir)
	return append(list, "Node.js "+version), err
}

// newer reports whether a file is newer than another one, which may be missing.
func newer(file, than string) bool {
	a, err := os.Stat(file)
	if err != nil {
		return false
	}
	b, err := os.Stat(than)
	return err != nil || a.ModTime().After(b.ModTime())
}

// versionsOfModule returns the direct requirements of a Go module.
func versionsOfModule(ctx context.Context, dir string) ([]string, error) {
	out, err := output(ctx, "go", "-C", dir, "list", "-m", "-f", "{{if not (or .Indirect .Main)}}{{.Path}} {{.Version}}{{end}}", "all")
	if err != nil {
		return nil, err
	}
	goVersion, err := output(ctx, "go", "env", "GOVERSION")
	list := slices.DeleteFunc(strings.Split(out, "\n"), func(s string) bool { return !strings.Contains(s, ".") })
	return append(list, goVersion), err
}

// versionsOfPackage returns the dependencies of an npm package, which are exact versions.
func versionsOfPackage(dir string) ([]string, error) {
	var p struct{ Dependencies map[string]string }
	b, err := os.ReadFile(filepath.Join(dir, "package.json"))
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	var list []string
	for name, version := range p.Dependencies {
		list = append(list, name+" "+version)
	}
	return list, err
}

// quiet runs a command, and returns what it printed only if it failed.
func quiet(ctx context.Context, name string, args ...string) error {
	_, err := output(ctx, name, args...)
	return err
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, cmp.Or(strings.TrimSpace(errs.String()), strings.TrimSpace(string(out))))
	}
	return strings.TrimSpace(string(out)), nil
}
