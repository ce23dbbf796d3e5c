package measure

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// RecoverReport is the result of crashes.
type RecoverReport struct {
	Session
	Runs []RecoverRun `json:"runs"`
}

// RecoverRun is one kill -9 with sagas in flight and a start on the same database.
// Milliseconds count from the start of the new process. The times of sagas are from their journals.
type RecoverRun struct {
	Sagas int     `json:"sagas"`
	Delay float64 `json:"answer_ms"` // the remote service's
	// Lease is how long the dead node's lease lasts: nothing is claimed before. 0: there is none to
	// wait for.
	Lease     float64 `json:"lease_ms"`
	Listening float64 `json:"listening_ms"` //
	First     float64 `json:"first_ms"`     // until the first saga has written a record
	Moving    float64 `json:"moving_ms"`    // until each saga has
	Ended     float64 `json:"ended_ms"`     // until each saga has ended
	Parts     Parts   `json:"parts_ms"`     // Ended, part by part
	Rate      float64 `json:"sagas_per_s"`  // from First to Moving
	// Left is the time of the remaining requests alone, as many at once as a node sends to one
	// host.
	Left   float64 `json:"left_ms"`
	Over   float64 `json:"over_ms"` // Ended without First and Left
	Again  int     `json:"again"`   // requests sent again, under the same key
	PeakMB int64   `json:"peak_mb"` // of the new process
}

// Parts are the times between one moment of a recovery and the next; they add up to its end.
type Parts struct {
	Start float64 `json:"start"` // from the process's start until it listened
	// Wait is the time until the first saga continued: on Postgres mostly the rest of the dead
	// node's lease.
	Wait   float64 `json:"wait"`
	Spread float64 `json:"spread"` // from the first saga that continued to the last
	Finish float64 `json:"finish"` // until all had ended
}

// RecoverConfig configures a session.
type RecoverConfig struct {
	Engine   Engine
	Stub     Process // responds at once
	Slow     Process // responds after Delay
	Delay    time.Duration
	Database string
	Lease    time.Duration // of the engine's node; 0: its sagas are free once it is dead
	Sagas    int           // in flight; at most 10,000, which is what a node runs at once
	Progress Progress
}

// perHost is how many requests a node has in flight to one host and port.
const perHost = 256

// slowSagas are in flight in the second part.
const slowSagas = 200

// flight describes the sagas that are in flight.
type flight struct {
	name   string
	source string
	stub   Process
	sagas  int
	posts  int // of a saga
	after  int // requests of a saga after the kill, with the one that was in flight
	delay  time.Duration
}

// Recover kills the engine with sagas in flight and starts it again, in two parts: many sagas, and
// a few whose remote service is slow. In flight means that the intent of the second step is
// durable, and there is no response. It fails if an effect is missing or exists twice.
func Recover(ctx context.Context, c RecoverConfig) (*RecoverReport, error) {
	db, err := openDatabase(ctx, c.Database)
	if err != nil {
		return nil, err
	}
	defer db.close(context.WithoutCancel(ctx))
	engine, err := c.Engine.Start()
	if err != nil {
		return nil, err
	}
	// The doubt is resolved at once: with the same key, without a delay that the definition would
	// set. Requests wait for delayed ones before them, which must not time out.
	const policy = "defaults: {in_doubt: retry, timeout: 10m, retry: {initial: 1ms, jitter: 0}}\n"
	// The many begin with a step without a request: otherwise the delayed requests would take all
	// call slots from the first steps.
	many := "saga: recover\n" + policy + "steps:\n  - {id: s1, set: seat}\n" + posts(c.Stub.URL, 2, 3, seat)
	slow := "saga: recover-slow\n" + policy + "steps:\n" + posts(c.Slow.URL, 1, 5, seat)
	r := &RecoverReport{Session: Session{Workload: "recover", Rounds: 1}}
	for i, f := range []flight{
		{name: "recover", source: many, stub: c.Stub, sagas: c.Sagas, posts: 2, after: 2},
		{name: "recover-slow", source: slow, stub: c.Slow, sagas: min(slowSagas, c.Sagas), posts: 5, after: 4, delay: c.Delay},
	} {
		c.Progress(i, 2, fmt.Sprintf("%d sagas in flight", f.sagas))
		var run RecoverRun
		if run, engine, err = c.crash(ctx, db, engine, f); err != nil {
			return nil, err
		}
		r.Runs = append(r.Runs, run)
	}
	c.Progress(2, 2, "done")
	return r, nil
}

// crash brings sagas into flight, kills the engine, and returns the one started after it.
func (c *RecoverConfig) crash(ctx context.Context, db *database, engine Process, f flight) (RecoverRun, Process, error) {
	ids, err := f.launch(ctx, engine)
	if err != nil {
		return RecoverRun{}, engine, err
	}
	c.Engine.Kill()
	if _, err := do(ctx, http.MethodPost, f.stub.URL+"/go", ""); err != nil {
		return RecoverRun{}, engine, err
	}
	began := time.Now()
	if engine, err = c.Engine.Start(); err != nil {
		return RecoverRun{}, engine, err
	}
	listening := time.Since(began)
	want := f.posts * f.sagas
	if _, err = awaitLedger(ctx, f.stub, func(l Ledger) bool { return l.Effects >= want }); err == nil {
		err = awaitEnds(ctx, engine, f.name)
	}
	if err != nil {
		return RecoverRun{}, engine, err
	}
	// The ledger is complete only now: a request may have been sent more than twice.
	l, err := ledgerOf(ctx, f.stub)
	if err != nil {
		return RecoverRun{}, engine, err
	}
	if right := (Ledger{Requests: want + l.Again, Effects: want, Again: l.Again}); l != right {
		return RecoverRun{}, engine, fmt.Errorf("the remote service's ledger is %+v, want %+v after %d sagas", l, right, f.sagas)
	}
	ahead, err := db.ahead(ctx)
	if err != nil {
		return RecoverRun{}, engine, err
	}
	run, err := f.times(ctx, engine, ids, began.Add(ahead))
	run.Parts = Parts{Start: min(ms(listening), run.First), Wait: round(max(run.First-ms(listening), 0)), Spread: round(run.Moving - run.First), Finish: round(run.Ended - run.Moving)}
	run.Sagas, run.Delay, run.Lease, run.Listening, run.Again, run.PeakMB = f.sagas, ms(f.delay), ms(c.Lease), ms(listening), l.Again, peakOf(engine.PID)
	return run, engine, err
}

// launched is a saga in flight.
type launched struct {
	id  string
	seq int // of the intent without an outcome
}

// launch starts the sagas and returns when the second step's intent of each is durable.
func (f *flight) launch(ctx context.Context, engine Process) ([]launched, error) {
	if err := publish(ctx, engine, f.name, f.source); err != nil {
		return nil, err
	}
	if _, err := do(ctx, http.MethodPost, f.stub.URL+"/hold?path=/do/s2", ""); err != nil {
		return nil, err
	}
	list := make([]launched, f.sagas)
	err := each(ctx, f.sagas, func(ctx context.Context, i int) error {
		saga, err := decoded[struct{ ID string }](do(ctx, http.MethodPost, engine.URL+"/v1/sagas", fmt.Sprintf(`{"definition":%q}`, f.name)))
		list[i].id = saga.ID
		return err
	})
	if err != nil {
		return nil, err
	}
	if _, err := awaitLedger(ctx, f.stub, func(l Ledger) bool { return l.Held >= min(f.sagas, perHost) }); err != nil {
		return nil, fmt.Errorf("not all sagas are in flight: %w", err)
	}
	return list, each(ctx, f.sagas, func(ctx context.Context, i int) error {
		journal, err := journalOf[line](ctx, engine, list[i].id)
		if list[i].seq = len(journal); err != nil {
			return err
		}
		intents := f.posts - f.after + 1
		for _, l := range journal {
			if l.Kind == "intent" {
				intents--
			}
		}
		if last := journal[len(journal)-1]; intents != 0 || last.Kind != "intent" {
			return fmt.Errorf("saga %s is not in flight: its last record is %s", list[i].id, last.Kind)
		}
		return nil
	})
}

// times reads from the journals when the sagas continued. began is when the new process
// was started, by the journals' clock.
func (f *flight) times(ctx context.Context, engine Process, list []launched, began time.Time) (RecoverRun, error) {
	moved, ended := make([]time.Time, len(list)), make([]time.Time, len(list))
	err := each(ctx, len(list), func(ctx context.Context, i int) error {
		journal, err := journalOf[line](ctx, engine, list[i].id)
		if err != nil {
			return err
		}
		last := journal[len(journal)-1]
		if len(journal) <= list[i].seq || last.Kind != "finished" {
			return fmt.Errorf("saga %s did not end: its last record is %s", list[i].id, last.Kind)
		}
		moved[i], ended[i] = journal[list[i].seq].At, last.At
		return nil
	})
	if err != nil {
		return RecoverRun{}, err
	}
	first, all, end := slices.MinFunc(moved, time.Time.Compare), slices.MaxFunc(moved, time.Time.Compare), slices.MaxFunc(ended, time.Time.Compare)
	rounds := max(f.after, (f.sagas*f.after+perHost-1)/perHost)
	left := time.Duration(rounds) * f.delay
	return RecoverRun{
		First: ms(first.Sub(began)), Moving: ms(all.Sub(began)), Ended: ms(end.Sub(began)), Left: ms(left), Over: ms(end.Sub(first) - left),
		Rate: round(float64(len(list)) / max(all.Sub(first), time.Millisecond).Seconds()),
	}, nil
}

// each calls f for 0 to n-1, many at once, until one fails.
func each(ctx context.Context, n int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wait sync.WaitGroup
	for range min(n, atOnce) {
		wait.Go(func() {
			for i := next.Add(1); i <= int64(n) && ctx.Err() == nil; i = next.Add(1) {
				if err := f(ctx, int(i-1)); err != nil {
					cancel(err)
				}
			}
		})
	}
	wait.Wait()
	return cause(ctx)
}

// Print writes the report for people.
func (r *RecoverReport) Print(w io.Writer) error {
	r.head(w, "kill -9 with sagas in flight, then a start on the same database; every effect was there once")
	var rows [][]string
	for _, l := range r.Runs {
		rows = append(rows, strings.Split(fmt.Sprintf("%d|%.0f|%.0f|%.0f|%.0f|%.0f|%.0f|%.0f|%.0f|%d|%d", l.Sagas, l.Delay, l.Listening, l.First, l.Moving, l.Ended, l.Rate, l.Left, l.Over, l.Again, l.PeakMB), "|"))
	}
	if err := table(w, []string{"sagas", "answers take", "listening", "first moved", "all moved", "all ended", "sagas/s", "work left", "beyond it", "sent again", "peak MB"}, rows); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nmilliseconds from the start of the new process; sagas/s is from the first that wrote a record to the last. Work left is what the requests that are left take\nby themselves, 256 at once; beyond it is the rest of the time from the first that moved to the end of all.")
	waiting := "until the first saga moved"
	if lease := r.Runs[0].Lease; lease > 0 {
		waiting = fmt.Sprintf("until the dead node's lease of %.0f ms had run out and the first saga moved", lease)
	}
	fmt.Fprintln(w)
	for _, l := range r.Runs {
		fmt.Fprintf(w, "%d sagas, %.0f ms: %.0f from the process's start until it listened, %.0f more %s, %.0f from that one to the last, %.0f until all had ended.\n", l.Sagas, l.Ended, l.Parts.Start, l.Parts.Wait, waiting, l.Parts.Spread, l.Parts.Finish)
	}
	return nil
}
