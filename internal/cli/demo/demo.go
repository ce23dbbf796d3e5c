// Package demo has the command that runs five sagas with mock services, kills the server in
// one of them, and checks the ledger of the services at the end.
package demo

import (
	"embed"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"recourse/examples/llmstub"
	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/process"
	"recourse/internal/cli/remote"
	"recourse/internal/story"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

//go:embed definitions/*.yaml
var files embed.FS

// Command is `recourse demo`.
type Command struct {
	Once     bool   `help:"Exit after the sagas have run. Otherwise the server stays up."`
	Listen   string `default:"127.0.0.1:8080" placeholder:"HOST:PORT" help:"Address to listen on; another port is used if this one is taken."`
	Database string `placeholder:"FILE|URL" help:"Database for the sagas. Default: a SQLite file that is deleted at the end."`
	APIKey   string `name:"api-key" env:"RECOURSE_API_KEY" placeholder:"KEY" help:"An API key with the role admin, if --database has keys. Prefer the environment variable."`
	config.TracesFlag
	ForgetKeys bool `hidden:"" help:"The mock services forget idempotency keys at once; the check at the end must report it."`
}

// player is a running demo.
type player struct {
	*cli.App
	cmd      *Command
	dir      string
	database string
	env      []string
	defs     map[string]*saga.Definition
	world    *process.Process
	llm      *llmstub.Server
	flags    []string // the server's flags for the model
	control  world.Control
	server   *process.Process
	listen   string
	client   *remote.Client
	sagas    []played
}

// played is a saga that a story started.
type played struct{ id, definition string }

// Run plays the stories and checks the world's ledger.
func (c *Command) Run(a *cli.App) error {
	dir, err := os.MkdirTemp("", "recourse-demo-")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	defer os.RemoveAll(dir)
	d := &player{App: a, cmd: c, dir: dir, database: c.Database, defs: make(map[string]*saga.Definition)}
	if d.database == "" {
		d.database = filepath.Join(dir, "recourse.db")
	}
	defer d.down()
	begun := time.Now()
	if err := d.up(); err != nil {
		return err
	}
	for i, s := range stories {
		d.Printf("\n%s\n%s\n\n", story.Paint(fmt.Sprintf("%d. %s", i+1, s.title), story.Strong, d.Colour), s.intro)
		if err := d.play(s); err != nil {
			return fmt.Errorf("story %d: %w", i+1, err)
		}
	}
	if err := d.check(); err != nil {
		return err
	}
	if c.Once {
		d.Printf("\nThat took %.1f s. `recourse demo` without --once stays up to be tried.\n", time.Since(begun).Seconds())
		return nil
	}
	if err := d.leave(); err != nil {
		return fmt.Errorf("the sagas to try: %w", err)
	}
	d.guide(time.Since(begun))
	return d.stay()
}

// up starts the world and the server, and publishes the definitions.
func (d *player) up() error {
	var err error
	d.env = process.OwnEnv(d.Env)
	args := []string{"world"}
	if d.cmd.ForgetKeys {
		args = append(args, "--key-window", "1ns")
	}
	if d.world, err = process.Start(d.App, d.dir, d.env, "world", args...); err != nil {
		return err
	}
	d.control = world.Control{URL: d.world.URL}
	if d.flags, err = d.model(); err != nil {
		return err
	}
	for _, service := range []string{"air", "hotels", "pay", "stock", "shipping", "mail", "orders"} {
		d.env = append(d.env, config.VarPrefix+service+"="+d.world.URL+"/"+service)
	}
	d.listen = free(d.cmd.Listen)
	if d.cmd.Once {
		d.listen = "127.0.0.1:0"
	}
	if err := d.serve(); err != nil {
		return err
	}
	d.listen = strings.TrimPrefix(d.server.URL, "http://")
	at := remote.ServerFlags{Server: d.server.URL}
	if d.cmd.Database != "" { // a new database has no keys
		at.APIKey = d.cmd.APIKey
	}
	if d.client, err = at.Client(d.Ctx); err != nil {
		return err
	}
	if err := d.publish(); err != nil {
		return err
	}
	d.Printf("A world of flights, hotels, cards, parcels and mail listens on %s (process %d),\n", d.world.URL, d.world.PID())
	d.Printf("recourse on %s (process %d). Five sagas, each with the story of its journal:\n", d.server.URL, d.server.PID())
	return nil
}

// serve starts the server as a separate process.
func (d *player) serve() error {
	args := []string{"serve", "--while-stdin", "--listen", d.listen, "--database", d.database,
		"--state-dir", filepath.Join(d.dir, "state"), "--drain", "2s", "--egress-allow", strings.Join(config.Loopback, ",")}
	if d.cmd.OTLPEndpoint != "" {
		args = append(args, "--otlp-endpoint", d.cmd.OTLPEndpoint)
	}
	args = append(args, d.flags...)
	var err error
	d.server, err = process.Start(d.App, d.dir, d.env, "serve", args...)
	return err
}

// free returns the address if it is free, otherwise one with another port.
func free(addr string) string {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return "127.0.0.1:0"
	}
	l.Close()
	return addr
}

// publish compiles and publishes the embedded definitions.
func (d *player) publish() error {
	entries, err := files.ReadDir("definitions")
	if err != nil {
		return fmt.Errorf("demo: %w", err)
	}
	for _, e := range entries {
		src, err := files.ReadFile("definitions/" + e.Name())
		if err != nil {
			return fmt.Errorf("demo: %w", err)
		}
		def, errs := dsl.Parse(e.Name(), src, dsl.Options{Kinds: kinds.All()})
		if errs != nil {
			return errs
		}
		d.defs[def.Name] = def
		if _, _, err := remote.Publish(d.client, "definition", def.Name, src); err != nil {
			return err
		}
	}
	return nil
}

// down stops the processes.
func (d *player) down() {
	if d.server != nil {
		d.server.Stop()
	}
	if d.world != nil {
		d.world.Stop()
	}
	if d.llm != nil {
		d.llm.Close()
	}
}

// invocation returns the command that runs this program from the present directory.
func invocation() string {
	exe, err := os.Executable()
	if err != nil {
		return "recourse"
	}
	if strings.Contains(exe, "go-build") { // go run deletes the binary at its end
		return "go run ./cmd/recourse"
	}
	if wd, err := os.Getwd(); err == nil {
		if rel, err := filepath.Rel(wd, exe); err == nil && !strings.HasPrefix(rel, "..") {
			return rel
		}
	}
	return "recourse"
}

// stay keeps the server running until the program is interrupted.
func (d *player) stay() error {
	d.Printf("\nThe server stays up at %s. The same in another terminal:\n\n", d.server.URL)
	prefix := ""
	if d.server.URL != "http://127.0.0.1:8080" {
		prefix = "RECOURSE_SERVER=" + d.server.URL + " "
	}
	last := d.sagas[len(d.sagas)-1].id
	for _, line := range []string{"list", "inbox", "show " + last,
		`start booking -i '{"traveller":"p-1005","to":"LIS","depart":"2027-05-01","nights":2,"card":"4242"}' --wait 10s`} {
		d.Printf("  %s%s %s\n", prefix, invocation(), line)
	}
	d.Printf("\nCtrl-C ends it.\n")
	select {
	case <-d.Ctx.Done():
		return nil
	case <-d.server.Ended:
		return errors.New("the server ended: " + d.server.LastLine())
	}
}
