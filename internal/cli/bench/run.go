package bench

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/bench/measure"
	"recourse/internal/cli/database"
	"recourse/internal/cli/process"
)

// runner is a run of the benchmark: its databases and processes.
type runner struct {
	app       *cli.App
	dir       string
	dbs       databases
	size      size
	cheat     bool
	processes []*process.Process
}

// end stops the processes and deletes the databases, after they were checked.
func (b *runner) end() {
	for _, p := range b.processes {
		p.Kill()
	}
}

// debugListen is the only setting of the shell that the servers get: it is for profiles of them.
const debugListen = "RECOURSE_DEBUG_LISTEN"

// spawn starts a command of this program as a separate process.
func (b *runner) spawn(name string, args ...string) (*process.Process, error) {
	env := process.OwnEnv(b.app.Env)
	if debug, ok := b.app.Variables[debugListen]; ok {
		env = append(env, debugListen+"="+debug)
	}
	p, err := process.Start(b.app, b.dir, env, name, args...)
	if err == nil {
		b.processes = append(b.processes, p)
	}
	return p, err
}

// stub starts the remote service.
func (b *runner) stub(delay time.Duration) (measure.Process, error) {
	args := []string{"bench-stub", "--delay", delay.String()}
	if b.cheat {
		args = append(args, "--cheat")
	}
	p, err := b.spawn("stub", args...)
	if err != nil {
		return measure.Process{}, err
	}
	return processOf(p), nil
}

// server starts servers, one after another.
type server struct {
	*runner
	more     []string // additional flags
	profiles bool     // it serves profiles
	p        *process.Process
}

// Start implements measure.Engine.
func (e *server) Start() (measure.Process, error) {
	flags := append([]string{"serve", "--database", e.dbs.engine, "--listen", "127.0.0.1:0", "--egress-allow", "127.0.0.1", "--while-stdin", "--log-level", "warn"}, e.more...)
	debug := e.app.Variables[debugListen]
	if e.profiles && debug == "" {
		var err error
		if debug, err = freeAddress(e.app.Ctx); err != nil {
			return measure.Process{}, err
		}
		flags = append(flags, "--debug-listen", debug)
	}
	p, err := e.spawn("engine", flags...)
	if err != nil {
		return measure.Process{}, err
	}
	e.p = p
	made := processOf(p)
	made.Debug = debug
	return made, nil
}

// succession returns the flags with which a server takes over the sagas of the one before it at
// once, and not after that one's lease.
func (b *runner) succession() []string {
	if !database.IsPostgres(b.dbs.engine) { // with SQLite the file's lock shows that the node is dead
		return nil
	}
	return []string{"--state-dir", filepath.Join(b.dir, "state")}
}

// Kill implements measure.Engine.
func (e *server) Kill() { e.p.Kill() }

// compare measures the engine and the floor in turns; the floor repeats the engine's operations.
func (b *runner) compare(c measure.Config) (report, error) {
	var err error
	if c.Engine, c.Stub, err = b.sides(); err != nil {
		return nil, err
	}
	scripts, err := measure.Prepare(b.app.Ctx, c.Engine, c.Stub, c.Variants)
	if err != nil {
		return nil, err
	}
	if c.Floor, err = b.floor(c.Stub, scripts); err != nil {
		return nil, err
	}
	c.Database, c.Clients, c.Each, c.Rounds, c.Progress = b.dbs.engine, b.size.clients, b.size.each, b.size.rounds, b.app.Meter()
	r, err := measure.Run(b.app.Ctx, c)
	return &r, err
}

// floor starts the program to compare with.
func (b *runner) floor(stub measure.Process, scripts map[string]measure.Script) (measure.Process, error) {
	file := filepath.Join(b.dir, "scripts.json")
	text, err := json.Marshal(scripts)
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		return measure.Process{}, err
	}
	p, err := b.spawn("floor", "bench-floor", "--database", b.dbs.floor, "--stub", stub.URL, "--scripts", file)
	if err != nil {
		return measure.Process{}, err
	}
	return processOf(p), nil
}

func (b *runner) growth() (report, error) {
	stub, err := b.stub(0)
	if err != nil {
		return nil, err
	}
	engine := &server{runner: b, more: b.succession()}
	r, ran, err := measure.Growth(b.app.Ctx, measure.GrowthConfig{Engine: engine, Stub: stub, Floor: func(s map[string]measure.Script) (measure.Process, error) { return b.floor(stub, s) },
		Database: b.dbs.engine, Ended: b.size.sagas, Clients: b.size.clients, Each: b.size.each, Rounds: b.size.rounds, Times: b.size.times, Progress: b.app.Meter()})
	if err != nil {
		return nil, err
	}
	b.size.verify = min(ran, newestVerified) // the others are copies
	return r, nil
}

// sides starts an engine and its remote service.
func (b *runner) sides() (engine, stub measure.Process, err error) {
	if stub, err = b.stub(0); err == nil {
		engine, err = (&server{runner: b}).Start()
	}
	return engine, stub, err
}

func (b *runner) long() (report, error) {
	engine, stub, err := b.sides()
	if err != nil {
		return nil, err
	}
	return measure.Long(b.app.Ctx, measure.LongConfig{Engine: engine, Stub: stub, Database: b.dbs.engine, Steps: b.size.steps, Rounds: b.size.rounds, Progress: b.app.Meter()})
}

func (b *runner) overload() (report, error) {
	engine, stub, err := b.sides()
	if err != nil {
		return nil, err
	}
	return measure.Overload(b.app.Ctx, measure.OverloadConfig{Engine: engine, Stub: stub, Clients: b.size.clients[0], Sustain: min(b.size.each, sustain), Each: b.size.each, Progress: b.app.Meter()})
}

// sustain is how long overload measures the sustainable rate.
const sustain = 4 * time.Second

func (b *runner) parked() (report, error) {
	stub, err := b.stub(0)
	if err != nil {
		return nil, err
	}
	return measure.Parked(b.app.Ctx, measure.ParkedConfig{Engine: &server{runner: b}, Stub: stub, Database: b.dbs.engine, Seed: b.seed, Sagas: b.size.sagas, Wake: b.size.wake, Progress: b.app.Meter()})
}

func (b *runner) recover() (report, error) {
	stub, err := b.stub(0)
	if err != nil {
		return nil, err
	}
	slow, err := b.stub(slowDelay)
	if err != nil {
		return nil, err
	}
	c := measure.RecoverConfig{Stub: stub, Slow: slow, Delay: slowDelay, Database: b.dbs.engine, Sagas: b.size.sagas, Progress: b.app.Meter()}
	engine := &server{runner: b}
	if database.IsPostgres(b.dbs.engine) { // with SQLite the file's lock shows that the node is dead
		c.Lease = time.Second
		engine.more = []string{"--node-lease", c.Lease.String()}
	}
	c.Engine = engine
	return measure.Recover(b.app.Ctx, c)
}

func (b *runner) list() (report, error) {
	return measure.List(b.app.Ctx, measure.ListConfig{Engine: &server{runner: b}, Database: b.dbs.engine, Seed: b.seed, Sagas: b.size.sagas, Times: b.size.times, Progress: b.app.Meter()})
}

func (b *runner) agent() (report, error) {
	stub, err := b.stub(0)
	if err != nil {
		return nil, err
	}
	engine := &server{runner: b, profiles: true, more: append(b.succession(), "--llm-base-url", stub.URL+"/v1")}
	return measure.Agent(b.app.Ctx, measure.AgentConfig{Engine: engine, Stub: stub, Database: b.dbs.engine, Floor: b.dbs.floor, Times: b.size.times, Turns: b.size.steps,
		Rounds: b.size.rounds, Sessions: b.size.sagas, Each: b.size.each, Progress: b.app.Meter()})
}

// freeAddress returns an address on loopback that nobody listens on.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
