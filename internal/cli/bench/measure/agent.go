package measure

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"
)

// AgentReport is the result of a session with agents.
type AgentReport struct {
	Session
	Runs    []AgentRun    `json:"runs"`
	Targets []AgentTarget `json:"targets"`
	// Commit is the duration of a bare durable append to a table of the same store, in the same
	// run.
	Commit float64 `json:"commit_p50_ms"`
	// Others is how many cores were used by programs that bench has not started.
	Others float64 `json:"other_cores"`
}

// AgentRun is a kind of request, made to the remote service itself and through recourse in turns.
type AgentRun struct {
	What      string  `json:"what"`
	Bytes     int     `json:"prompt_bytes,omitempty"`
	AtOnce    int     `json:"at_once"`
	Times     int     `json:"times"` // each
	DirectP50 float64 `json:"direct_p50_ms"`
	DirectP99 float64 `json:"direct_p99_ms"`
	P50       float64 `json:"p50_ms"` // through recourse
	P99       float64 `json:"p99_ms"`
	Added50   float64 `json:"added_p50_ms"`
	Added99   float64 `json:"added_p99_ms"`
	Commits   float64 `json:"commits"`   // of the engine, for each
	Commit    float64 `json:"commit_ms"` // the mean duration of one
	CPU       float64 `json:"cpu_ms"`    // of the server, for each
}

// AgentTarget is a figure, and the most that it should be.
type AgentTarget struct {
	What   string  `json:"what"`
	Value  float64 `json:"value"`
	Target float64 `json:"target"`
	Unit   string  `json:"unit"`
	Met    bool    `json:"met"`
}

// AgentConfig configures a session.
type AgentConfig struct {
	Engine          Engine
	Stub            Process
	Database, Floor string        // of the engine, and for bare commits
	Times           int           // requests of each kind, on each side
	Turns           int           // of an agent that is compared; ten times as many for the storage
	Rounds          int           // of these turns
	Sessions        int           // that are idle
	Each            time.Duration // how long they are
	Progress        Progress
}

// agents is a session with agents.
type agents struct {
	AgentConfig
	engine      Process
	gone        time.Duration // the CPU time of earlier engines
	db          *database
	yard        *appender // for bare commits
	yardsticks  []time.Duration
	report      *AgentReport
	random      *rand.Rand
	asked, made atomic.Int64 // requests to the model, and calls, of which the stub gets each once
}

// Sizes of the prompts, and of the answers in tokens of four bytes.
const (
	smallPrompt  = 4 << 10
	largePrompt  = 100 << 10
	messageBytes = 2 << 10
	answerTokens = 128
)

// atOnceModel is how long the model takes in the runs with many requests at once.
const atOnceModel = 100 * time.Millisecond

// agentsAtOnce is how many sessions ask at once.
const agentsAtOnce = 32

// Agent measures the cost of sessions: it makes each request to the remote service itself and
// through recourse, in turns. It fails unless the remote service got each request once.
func Agent(ctx context.Context, cfg AgentConfig) (*AgentReport, error) {
	c := &agents{AgentConfig: cfg, random: rand.New(rand.NewPCG(1, 1)), report: &AgentReport{Session: Session{Workload: "agent", Rounds: cfg.Rounds}}}
	var err error
	if c.db, err = openDatabase(ctx, c.Database); err != nil {
		return nil, err
	}
	defer c.db.close(context.WithoutCancel(ctx))
	w, err := openWriter(ctx, c.Floor)
	if err != nil {
		return nil, err
	}
	c.yard = newAppender(w)
	if c.engine, err = c.Engine.Start(); err != nil {
		return nil, err
	}
	if _, err := do(ctx, "PUT", c.engine.URL+"/v1/actions/book", bookAction(c.Stub.URL)); err != nil {
		return nil, fmt.Errorf("publish the action: %w", err)
	}
	others := c.others()
	began := time.Now()
	parts := []struct {
		what string
		do   func(context.Context) error
	}{
		{"fresh requests", c.fresh}, {"fresh requests, 32 at once", c.freshAtOnce}, {"streams", c.streams}, {"recorded answers", c.replays},
		{"calls", c.calls}, {"turns", c.turns}, {"storage", c.storage}, {"idle sessions", c.idle},
	}
	for i, p := range parts {
		c.Progress(i, len(parts), p.what)
		if err := p.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", p.what, err)
		}
	}
	c.Progress(len(parts), len(parts), "done")
	c.report.Others = round(float64(c.others()-others) / float64(time.Since(began)))
	return c.report, c.check(ctx)
}

// check compares the remote service's ledger with the requests that were made.
func (c *agents) check(ctx context.Context) error {
	l, err := ledgerOf(ctx, c.Stub)
	made := int(c.made.Load())
	if want := (Ledger{Requests: made, Effects: made, Asks: int(c.asked.Load())}); err == nil && l != want {
		err = fmt.Errorf("the remote service's ledger is %+v, want %+v", l, want)
	}
	return err
}

// target notes a figure and its target.
func (c *agents) target(what string, value, target float64, unit string) {
	value, target = round(value), round(target) // as people see them
	c.report.Targets = append(c.report.Targets, AgentTarget{what, value, target, unit, value <= target})
}

// postgres reports whether the engine's database is one of Postgres, which has other targets.
func (c *agents) postgres() bool { return c.db.conn != nil }

// freshTargets are the targets of a fresh request, in milliseconds.
func (c *agents) freshTargets() (p50, p99 float64) {
	if c.postgres() {
		return 8, 30
	}
	return 5, 25
}

// fresh measures requests with contents that the session has not seen before.
func (c *agents) fresh(ctx context.Context) error {
	p50, p99 := c.freshTargets()
	for _, size := range []int{smallPrompt, largePrompt} {
		a, err := c.open(ctx, 1)
		if err != nil {
			return err
		}
		run, err := c.compare(ctx, AgentRun{What: "request to a model", Bytes: size, AtOnce: 1, Times: c.Times}, a, 0, func(ctx context.Context, a *agent, body []byte, through bool) (time.Duration, error) {
			got, err := c.ask(ctx, a, body, through)
			return got.took, err
		}, func() []byte { return c.prompt(size, 0, false) })
		if err != nil {
			return err
		}
		what := fmt.Sprintf("request to a model, %d KiB: added p", size>>10)
		c.target(what+"50", run.Added50, p50, "ms")
		c.target(what+"99", run.Added99, p99, "ms")
		if err := c.commit(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// freshAtOnce measures such requests of many sessions at once: to a model that takes a while, and
// to one that answers at once, which shows the rate.
func (c *agents) freshAtOnce(ctx context.Context) error {
	for _, takes := range []time.Duration{atOnceModel, 0} {
		a, err := c.open(ctx, agentsAtOnce)
		if err != nil {
			return err
		}
		what := "request to a model that answers at once"
		if takes > 0 {
			what = "request to a model that takes " + takes.String()
		}
		run, err := c.compare(ctx, AgentRun{What: what, Bytes: smallPrompt, AtOnce: agentsAtOnce, Times: 2 * c.Times}, a, takes/agentsAtOnce, func(ctx context.Context, a *agent, body []byte, through bool) (time.Duration, error) {
			got, err := c.ask(ctx, a, body, through)
			return got.took, err
		}, func() []byte { return c.prompt(smallPrompt, takes, false) })
		if err != nil {
			return err
		}
		if takes > 0 {
			p50, p99 := c.freshTargets()
			c.target(fmt.Sprintf("%d such requests at once: added p50", agentsAtOnce), run.Added50, p50, "ms")
			c.target(fmt.Sprintf("%d such requests at once: added p99", agentsAtOnce), run.Added99, p99, "ms")
		}
		if err := c.commit(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// streams measures the time until the first text of a streamed answer.
func (c *agents) streams(ctx context.Context) error {
	a, err := c.open(ctx, 1)
	if err != nil {
		return err
	}
	c.yardsticks = nil
	run, err := c.compare(ctx, AgentRun{What: "first text of a stream", Bytes: smallPrompt, AtOnce: 1, Times: c.Times}, a, 0, func(ctx context.Context, a *agent, body []byte, through bool) (time.Duration, error) {
		if err := c.bareCommit(through); err != nil {
			return 0, err
		}
		got, err := c.ask(ctx, a, body, through)
		return got.first, err
	}, func() []byte { return c.prompt(smallPrompt, 0, true) })
	if err != nil {
		return err
	}
	c.target("first text of a stream: added p50 (one commit + 1 ms)", run.Added50, c.commitP50()+1, "ms")
	return c.commit(ctx, a)
}

// bareCommit makes a durable append of its own, as a yardstick, before a request through recourse.
func (c *agents) bareCommit(through bool) error {
	if !through {
		return nil
	}
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	e := &entry{saga: id, events: []event{{body: yardData}, {kind: eventIntent, body: yardData}}, done: make(chan error, 1)}
	began := time.Now()
	err = c.yard.append(e)
	c.yardsticks = append(c.yardsticks, time.Since(began))
	return err
}

// yardData is about as long as the data of a request's record.
var yardData = []byte(`{"data":"` + strings.Repeat("x", 800) + `"}`)

// commitP50 returns the median of the bare commits, which it notes for the report.
func (c *agents) commitP50() float64 {
	c.report.Commit = ms(quantiles(c.yardsticks).Quantile(.5))
	return c.report.Commit
}

// replays measures requests whose answers were recorded in an earlier life.
func (c *agents) replays(ctx context.Context) error {
	a, err := c.open(ctx, 1)
	if err != nil {
		return err
	}
	prompts := make([][]byte, c.Times/2+warmUps)
	for i := range prompts {
		prompts[i] = c.prompt(largePrompt, 0, false)
		if _, err := c.ask(ctx, a[0], prompts[i], true); err != nil {
			return err
		}
	}
	if err := a[0].attach(ctx); err != nil {
		return err
	}
	next := 0
	run, err := c.compare(ctx, AgentRun{What: "recorded answer", Bytes: largePrompt, AtOnce: 1, Times: c.Times / 2}, a, 0, func(ctx context.Context, a *agent, body []byte, through bool) (time.Duration, error) {
		if through {
			body = prompts[next]
			next++
			c.asked.Add(-1) // nothing is sent
		}
		got, err := c.ask(ctx, a, body, through)
		if err == nil && got.replayed != through {
			err = fmt.Errorf("an answer of an earlier life was recorded, but recourse has sent the request again")
		}
		return got.took, err
	}, func() []byte { return c.prompt(largePrompt, 0, false) })
	if err != nil {
		return err
	}
	c.target("recorded answer, 100 KiB: p50", run.P50, 3, "ms")
	c.target("recorded answer: commits of the engine", run.Commits, 0, "")
	return c.commit(ctx, a)
}

// calls measures calls of an action.
func (c *agents) calls(ctx context.Context) error {
	a, err := c.open(ctx, 1)
	if err != nil {
		return err
	}
	c.yardsticks = nil
	run, err := c.compare(ctx, AgentRun{What: "call of an action", AtOnce: 1, Times: c.Times}, a, 0, func(ctx context.Context, a *agent, body []byte, through bool) (time.Duration, error) {
		if err := c.bareCommit(through); err != nil {
			return 0, err
		}
		return c.book(ctx, a, body, through)
	}, func() []byte { return fmt.Appendf(nil, `{"trip":%q}`, randomLetters(c.random, 20)) })
	if err != nil {
		return err
	}
	c.target("call of an action: added p50 (two commits + 1.5 ms)", run.Added50, 2*c.commitP50()+1.5, "ms")
	return c.commit(ctx, a)
}

// Print writes the report for people.
func (r *AgentReport) Print(w io.Writer) error {
	r.head(w, "requests to the remote service itself and through recourse in turns; the service got each once")
	var rows [][]string
	for _, l := range r.Runs {
		size := "-"
		if l.Bytes > 0 {
			size = fmt.Sprintf("%d KiB", l.Bytes>>10)
		}
		rows = append(rows, strings.Split(fmt.Sprintf("%s|%s|%d|%d|%.2f|%.2f|%.2f|%.2f|%.2f|%.2f|%.2f|%.2f|%.2f", l.What, size, l.AtOnce, l.Times, l.DirectP50, l.P50, l.Added50, l.DirectP99, l.P99, l.Added99, l.Commits, l.Commit, l.CPU), "|"))
	}
	if err := table(w, []string{"request", "prompt", "at once", "times", "direct p50 ms", "p50", "added", "direct p99", "p99", "added", "commits", "each ms", "CPU ms"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(w)
	rows = nil
	for _, t := range r.Targets {
		met := "met"
		if !t.Met {
			met = "missed"
		}
		rows = append(rows, strings.Split(fmt.Sprintf("%s|%.3g %s|%.3g %s|%s", t.What, t.Value, t.Unit, t.Target, t.Unit, met), "|"))
	}
	if err := table(w, []string{"figure", "value", "target", ""}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\na bare durable commit took %.2f ms (p50); commits, their duration and CPU are of the server, for each request through it.\n", r.Commit)
	if r.Others > mostOthers {
		_, err = fmt.Fprintf(w, "The machine was not idle: other programs used %.1f cores.\n", r.Others)
	}
	return err
}
