package measure

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// LongReport is the result of a session of long sagas, one after another.
type LongReport struct {
	Session
	Runs []LongRun `json:"runs"`
}

// LongRun is one saga. Its times are from its journal.
type LongRun struct {
	Steps   int     `json:"steps"`
	Part    int     `json:"part_steps"`  // how many steps the first and the last part have
	First   float64 `json:"first_ms"`    // milliseconds per step
	Last    float64 `json:"last_ms"`     //
	Ratio   float64 `json:"ratio"`       // last to first
	Rate    float64 `json:"steps_per_s"` // over all
	Commits float64 `json:"commits_per_step"`
	Written float64 `json:"wal_bytes_per_step"`
	CPU     CPU     `json:"cpu_ms_per_step"`
	PeakMB  int64   `json:"peak_mb"` // of the engine, so far
}

// LongConfig configures a session.
type LongConfig struct {
	Engine, Stub  Process
	Database      string
	Steps, Rounds int
	Progress      Progress
}

// Long runs one saga of so many POSTs in each round. It fails if the remote service's
// ledger or a journal is wrong after any of them.
func Long(ctx context.Context, c LongConfig) (*LongReport, error) {
	db, err := openDatabase(ctx, c.Database)
	if err != nil {
		return nil, err
	}
	defer db.close(context.WithoutCancel(ctx))
	source := "saga: long\ndefaults: {in_doubt: retry}\nsteps:\n" + posts(c.Stub.URL, 1, c.Steps, seat)
	if err := publish(ctx, c.Engine, "long", source); err != nil {
		return nil, err
	}
	r := &LongReport{Session: Session{Workload: "long", Rounds: c.Rounds}}
	for round := range c.Rounds {
		c.Progress(round, c.Rounds, fmt.Sprintf("%d steps", c.Steps))
		run, err := c.round(ctx, db)
		if err != nil {
			return nil, err
		}
		r.Runs = append(r.Runs, run)
	}
	c.Progress(c.Rounds, c.Rounds, "done")
	return r, nil
}

func (c *LongConfig) round(ctx context.Context, db *database) (LongRun, error) {
	if _, err := do(ctx, http.MethodPost, c.Stub.URL+"/reset", ""); err != nil {
		return LongRun{}, err
	}
	before, err := db.before(ctx, c.Engine, c.Stub, engineCommits(c.Engine))
	if err != nil {
		return LongRun{}, err
	}
	saga, err := decoded[struct{ ID string }](do(ctx, http.MethodPost, c.Engine.URL+"/v1/sagas", `{"definition":"long"}`))
	if err != nil {
		return LongRun{}, err
	}
	ledger, err := awaitLedger(ctx, c.Stub, func(l Ledger) bool { return l.Effects >= c.Steps })
	if err == nil {
		err = awaitEnds(ctx, c.Engine, "long")
	}
	if err != nil {
		return LongRun{}, err
	}
	after, err := db.after(ctx, c.Engine, c.Stub, engineCommits(c.Engine))
	if err != nil {
		return LongRun{}, err
	}
	if want := (Ledger{Requests: c.Steps, Effects: c.Steps}); ledger != want {
		return LongRun{}, fmt.Errorf("the remote service's ledger is %+v, want %+v after %d steps", ledger, want, c.Steps)
	}
	journal, err := journalOf[line](ctx, c.Engine, saga.ID)
	if err != nil {
		return LongRun{}, err
	}
	run, err := c.figures(journal)
	n, used := float64(c.Steps), after.minus(before)
	run.Commits, run.Written, run.PeakMB = round(float64(used.commits)/n), round(float64(used.written)/n), peakOf(c.Engine.PID)
	run.CPU = CPU{Engine: ms(used.program / time.Duration(c.Steps)), Database: ms(used.database / time.Duration(c.Steps)), Stub: ms(used.stub / time.Duration(c.Steps))}
	return run, err
}

// line has the checked fields of a record.
type line struct {
	At   time.Time
	Kind string
}

// figures computes the times between intents. The last step ends with the saga.
func (c *LongConfig) figures(journal []line) (LongRun, error) {
	var at []time.Time
	for _, l := range journal {
		if l.Kind == "intent" || l.Kind == "finished" {
			at = append(at, l.At)
		}
	}
	if len(at) != c.Steps+1 || len(journal) != 2*c.Steps+2 {
		return LongRun{}, fmt.Errorf("the journal has %d records, want %d: started, an intent and an outcome of each step, finished", len(journal), 2*c.Steps+2)
	}
	part := max(min(1000, c.Steps/2), 1)
	each := func(from int) time.Duration { return at[from+part].Sub(at[from]) / time.Duration(part) }
	first, last := each(0), each(c.Steps-part)
	return LongRun{
		Steps: c.Steps, Part: part, First: ms(first), Last: ms(last), Ratio: round(float64(last) / float64(max(first, 1))),
		Rate: round(float64(c.Steps) / max(at[c.Steps].Sub(at[0]), time.Millisecond).Seconds()),
	}, nil
}

// Print writes the report for people.
func (r *LongReport) Print(w io.Writer) error {
	first := r.Runs[0]
	r.head(w, fmt.Sprintf("one saga of %d steps in each of %d rounds, the ledger was right after each", first.Steps, r.Rounds))
	var rows [][]string
	for i, l := range r.Runs {
		rows = append(rows, strings.Split(fmt.Sprintf("%d|%.0f|%.3f|%.3f|%.2f|%.2f|%.0f|%.3f|%.3f|%.3f", i+1, l.Rate, l.First, l.Last, l.Ratio, l.Commits, l.Written, l.CPU.Engine, l.CPU.Database, l.CPU.Stub), "|"))
	}
	part := strconv.Itoa(first.Part)
	if err := table(w, []string{"round", "steps/s", "first " + part + ", ms", "last " + part + ", ms", "ratio", "commits", "written B", "CPU ms", "db ms", "stub ms"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nall but steps/s is per step. peak memory of the engine: %d MB\n", r.Runs[len(r.Runs)-1].PeakMB)
	return err
}
