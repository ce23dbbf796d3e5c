package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"recourse/internal/bench"
	"recourse/internal/invariant"
	"recourse/journal"
)

// benching is a session: its databases and the processes on them.
type benching struct {
	app       *app
	dir       string
	dbs       benchDatabases
	size      benchSize
	cheat     bool
	processes []*process
}

// end ends what was started. What it left behind has been looked at, and goes.
func (b *benching) end() {
	for _, p := range b.processes {
		p.kill()
	}
}

// spawn starts one of this program's commands as a process.
func (b *benching) spawn(name string, args ...string) (*process, error) {
	p, err := b.app.spawn(b.dir, b.app.Env, name, args...)
	if err == nil {
		b.processes = append(b.processes, p)
	}
	return p, err
}

// stub starts the other side.
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

// benchEngine starts servers, one after the other.
type benchEngine struct {
	*benching
	more []string // flags
	p    *process
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
func (e *benchEngine) Kill() { e.p.kill() }

// compare has the engine show the floor what to do, and measures both in turns.
func (b *benching) compare(c bench.Config) (benchReport, error) {
	var err error
	if c.Engine, c.Stub, err = b.sides(); err != nil {
		return nil, err
	}
	scripts, err := bench.Prepare(b.app.ctx, c.Engine, c.Stub, c.Variants)
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
	c.Floor, c.Database, c.Clients, c.Each, c.Rounds, c.Progress = of(floor), b.dbs.engine, b.size.clients, b.size.each, b.size.rounds, b.app.meter()
	r, err := bench.Run(b.app.ctx, c)
	return &r, err
}

// sides starts an engine and its other side.
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
	return bench.Long(b.app.ctx, bench.LongConfig{Engine: engine, Stub: stub, Database: b.dbs.engine, Steps: b.size.steps, Rounds: b.size.rounds, Progress: b.app.meter()})
}

func (b *benching) overload() (benchReport, error) {
	engine, stub, err := b.sides()
	if err != nil {
		return nil, err
	}
	return bench.Overload(b.app.ctx, bench.OverloadConfig{Engine: engine, Stub: stub, Clients: b.size.clients[0], Sustain: min(b.size.each, sustain), Each: b.size.each, Progress: b.app.meter()})
}

// sustain is how long overload looks for the rate that is sustained.
const sustain = 4 * time.Second

func (b *benching) parked() (benchReport, error) {
	stub, err := b.stub(0)
	if err != nil {
		return nil, err
	}
	return bench.Parked(b.app.ctx, bench.ParkedConfig{Engine: &benchEngine{benching: b}, Stub: stub, Database: b.dbs.engine, Seed: b.seed, Sagas: b.size.sagas, Wake: b.size.wake, Progress: b.app.meter()})
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
	c := bench.RecoverConfig{Stub: stub, Slow: slow, Delay: slowDelay, Database: b.dbs.engine, Sagas: b.size.sagas, Progress: b.app.meter()}
	engine := &benchEngine{benching: b}
	if isPostgres(b.dbs.engine) { // else the file's lock tells that the node is dead
		c.Lease = time.Second
		engine.more = []string{"--node-lease", c.Lease.String()}
	}
	c.Engine = engine
	return bench.Recover(b.app.ctx, c)
}

func (b *benching) list() (benchReport, error) {
	return bench.List(b.app.ctx, bench.ListConfig{Engine: &benchEngine{benching: b}, Database: b.dbs.engine, Seed: b.seed, Sagas: b.size.sagas, Times: b.size.times, Progress: b.app.meter()})
}

// verified checks the newest sagas of a database, 0 for all, as `recourse verify --database` does.
// It returns how many were checked; 0: all.
func (a *app) verified(database string, newest int) (int, error) {
	v := &verifying{app: a, cmd: &verifyCmd{Database: database}, missing: make(map[string]*missing)}
	if newest > 0 {
		since, err := v.before(newest)
		if err != nil {
			return 0, err
		}
		v.cmd.Since = since
	}
	if err := v.database(invariant.Config{Now: time.Now()}); err != nil {
		return 0, err
	}
	if found := v.checker.End(); len(found) > 0 {
		return 0, fmt.Errorf("%s, the first: %s", count(len(found), "violation"), found[0])
	}
	if v.cmd.Since == "" {
		return 0, nil
	}
	return v.checker.Totals().Sagas, nil
}

// before is a time since which at least the n newest sagas were started, "" if there are no more.
func (v *verifying) before(n int) (string, error) {
	store, err := openReader(v.app.ctx, v.cmd.Database)
	if err != nil {
		return "", err
	}
	defer store.Close()
	found, err := store.Sagas(v.app.ctx, journal.Filter{Limit: n})
	if err != nil || len(found.Heads) < n {
		return "", err
	}
	return journal.IDTime(found.Heads[n-1].ID).Add(-time.Millisecond).Format(time.RFC3339Nano), nil
}
