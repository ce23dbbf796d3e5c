package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"recourse/internal/bench"
	"recourse/internal/cli"
	"recourse/internal/cli/database"
	"recourse/internal/cli/process"
)

// benching is a run of the benchmark: its databases and processes.
type benching struct {
	app       *cli.App
	dir       string
	dbs       benchDatabases
	size      benchSize
	cheat     bool
	processes []*process.Process
}

// end stops the processes and deletes the databases, after they were checked.
func (b *benching) end() {
	for _, p := range b.processes {
		p.Kill()
	}
}

// spawn starts a command of this program as a separate process.
func (b *benching) spawn(name string, args ...string) (*process.Process, error) {
	p, err := process.Start(b.app, b.dir, b.app.Env, name, args...)
	if err == nil {
		b.processes = append(b.processes, p)
	}
	return p, err
}

// stub starts the remote service.
func (b *benching) stub(delay time.Duration) (bench.Process, error) {
	args := []string{"bench-stub", "--delay", delay.String()}
	if b.cheat {
		args = append(args, "--cheat")
	}
	p, err := b.spawn("stub", args...)
	if err != nil {
		return bench.Process{}, err
	}
	return of(p), nil
}

// benchEngine starts servers, one after another.
type benchEngine struct {
	*benching
	more []string // additional flags
	p    *process.Process
}

// Start implements bench.Engine.
func (e *benchEngine) Start() (bench.Process, error) {
	p, err := e.spawn("engine", append([]string{"serve", "--database", e.dbs.engine, "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1", "--while-stdin", "--log-level", "warn"}, e.more...)...)
	if err != nil {
		return bench.Process{}, err
	}
	e.p = p
	return of(p), nil
}

// Kill implements bench.Engine.
func (e *benchEngine) Kill() { e.p.Kill() }

// compare measures the engine and the floor in turns; the floor repeats the engine's operations.
func (b *benching) compare(c bench.Config) (benchReport, error) {
	var err error
	if c.Engine, c.Stub, err = b.sides(); err != nil {
		return nil, err
	}
	scripts, err := bench.Prepare(b.app.Ctx, c.Engine, c.Stub, c.Variants)
	if err != nil {
		return nil, err
	}
	file := filepath.Join(b.dir, "scripts.json")
	text, err := json.Marshal(scripts)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return nil, err
	}
	floor, err := b.spawn("floor", "bench-floor", "--database", b.dbs.floor, "--stub", c.Stub.URL, "--scripts", file)
	if err != nil {
		return nil, err
	}
	c.Floor, c.Database, c.Clients, c.Each, c.Rounds, c.Progress = of(floor), b.dbs.engine, b.size.clients, b.size.each, b.size.rounds, b.app.Meter()
	r, err := bench.Run(b.app.Ctx, c)
	return &r, err
}

// sides starts an engine and its remote service.
func (b *benching) sides() (engine, stub bench.Process, err error) {
	if stub, err = b.stub(0); err == nil {
		engine, err = (&benchEngine{benching: b}).Start()
	}
	return engine, stub, err
}

func (b *benching) long() (benchReport, error) {
	engine, stub, err := b.sides()
	if err != nil {
		return nil, err
	}
	return bench.Long(b.app.Ctx, bench.LongConfig{Engine: engine, Stub: stub, Database: b.dbs.engine, Steps: b.size.steps, Rounds: b.size.rounds, Progress: b.app.Meter()})
}

func (b *benching) overload() (benchReport, error) {
	engine, stub, err := b.sides()
	if err != nil {
		return nil, err
	}
	return bench.Overload(b.app.Ctx, bench.OverloadConfig{Engine: engine, Stub: stub, Clients: b.size.clients[0], Sustain: min(b.size.each, sustain), Each: b.size.each, Progress: b.app.Meter()})
}

// sustain is how long overload measures the sustainable rate.
const sustain = 4 * time.Second

func (b *benching) parked() (benchReport, error) {
	stub, err := b.stub(0)
	if err != nil {
		return nil, err
	}
	return bench.Parked(b.app.Ctx, bench.ParkedConfig{Engine: &benchEngine{benching: b}, Stub: stub, Database: b.dbs.engine, Seed: b.seed, Sagas: b.size.sagas, Wake: b.size.wake, Progress: b.app.Meter()})
}

func (b *benching) recover() (benchReport, error) {
	stub, err := b.stub(0)
	if err != nil {
		return nil, err
	}
	slow, err := b.stub(slowDelay)
	if err != nil {
		return nil, err
	}
	c := bench.RecoverConfig{Stub: stub, Slow: slow, Delay: slowDelay, Database: b.dbs.engine, Sagas: b.size.sagas, Progress: b.app.Meter()}
	engine := &benchEngine{benching: b}
	if database.IsPostgres(b.dbs.engine) { // with SQLite the file's lock shows that the node is dead
		c.Lease = time.Second
		engine.more = []string{"--node-lease", c.Lease.String()}
	}
	c.Engine = engine
	return bench.Recover(b.app.Ctx, c)
}

func (b *benching) list() (benchReport, error) {
	return bench.List(b.app.Ctx, bench.ListConfig{Engine: &benchEngine{benching: b}, Database: b.dbs.engine, Seed: b.seed, Sagas: b.size.sagas, Times: b.size.times, Progress: b.app.Meter()})
}
