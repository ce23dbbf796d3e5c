package measure

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"
)

// ParkedReport is the result of a session with a database full of sleeping sagas.
type ParkedReport struct {
	Session
	Runs []ParkedRun `json:"runs"`
}

// ParkedRun is one server on such a database. Memory is that of its process.
type ParkedRun struct {
	Sagas  int     `json:"sagas"`
	Woken  int     `json:"woken"` // of them; each made one POST
	Seeded float64 `json:"seeded_per_s"`
	Ready  float64 `json:"ready_ms"` // from its start until it listened
	RSS    int64   `json:"rss_mb"`   // once it was quiet
	Heap   float64 `json:"heap_mb"`  // of it in use by Go
	Peak   int64   `json:"peak_mb"`  // until then
	Wake   float64 `json:"wake_ms"`  // from when they were due until the remote service had received all requests
	First  float64 `json:"wake_first_ms"`
	Rate   float64 `json:"woken_per_s"` // over wake_ms
	CPU    CPU     `json:"cpu_ms_per_woken"`
	PeakMB int64   `json:"peak_woken_mb"` // at the end
}

// ParkedConfig configures a session.
type ParkedConfig struct {
	Engine      Engine
	Stub        Process
	Database    string
	Seed        Seeder
	Sagas, Wake int
	Progress    Progress
}

// Parked fills a database with sagas that sleep for a day, but a few of them only for a short time.
// It starts a server on it, and measures it while it is idle and while the few wake. It fails
// unless exactly these woke, and each had its effect once.
func Parked(ctx context.Context, c ParkedConfig) (*ParkedReport, error) {
	db, err := openDatabase(ctx, c.Database)
	if err != nil {
		return nil, err
	}
	defer db.close(context.WithoutCancel(ctx))
	seeded, due, err := c.fill(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	engine, err := c.Engine.Start()
	if err != nil {
		return nil, err
	}
	run := ParkedRun{Sagas: c.Sagas, Woken: c.Wake, Seeded: seeded.PerSecond(), Ready: ms(time.Since(began))}
	c.Progress(1, 3, "the server comes to rest")
	if err := c.rest(ctx, engine, &run); err != nil {
		return nil, err
	}
	before, err := db.before(ctx, engine, c.Stub, engineCommits(engine))
	if err != nil {
		return nil, err
	}
	ahead, err := db.ahead(ctx)
	if err != nil {
		return nil, err
	}
	due = due.Add(-ahead)
	if !time.Now().Before(due) {
		return nil, fmt.Errorf("the server became idle only %s after the %d sagas were due, but they must wake while it is idle; use a machine with less load", time.Since(due).Round(time.Millisecond), c.Wake)
	}
	c.Progress(2, 3, "until the sagas are due")
	if err := pause(ctx, time.Until(due)); err != nil {
		return nil, err
	}
	if err := c.wake(ctx, due, &run); err != nil {
		return nil, err
	}
	after, err := db.after(ctx, engine, c.Stub, engineCommits(engine))
	if err != nil {
		return nil, err
	}
	used, n := after.minus(before), time.Duration(c.Wake)
	run.CPU = CPU{Engine: ms(used.program / n), Database: ms(used.database / n), Stub: ms(used.stub / n)}
	run.PeakMB = peakOf(engine.PID)
	c.Progress(3, 3, "done")
	return &ParkedReport{Session: Session{Workload: "parked", Rounds: 1}, Runs: []ParkedRun{run}}, c.check(ctx, engine)
}

// fill returns when the few are due, by the database's clock. They are seeded last, because then it
// is known how long the seeding takes.
func (c *ParkedConfig) fill(ctx context.Context) (s Seeded, due time.Time, err error) {
	began := time.Now()
	s, err = c.Seed(ctx, Seeding{
		Definitions: map[string]string{"parked": "saga: parked\ninput: {until: string}\ndefaults: {in_doubt: retry}\nsteps:\n  - id: pause\n    sleep: ${input.until}\n" + posts(c.Stub.URL, 1, 1, seat)},
		Sagas:       c.Sagas,
		Of: func(i int, now time.Time) Seed {
			if i < c.Sagas-c.Wake {
				return Seed{Definition: "parked", Input: `{"until":"1d"}`}
			}
			if due.IsZero() {
				// Time to seed these, for the server to start and to come to rest, and to read its
				// memory.
				perSaga := time.Since(began) / time.Duration(max(i, 1))
				if i < 1000 {
					perSaga = time.Millisecond
				}
				due = now.Add(5*time.Second + 2*perSaga*time.Duration(c.Wake) + time.Duration(c.Sagas)*10*time.Microsecond).Truncate(time.Millisecond)
			}
			return Seed{Definition: "parked", Input: `{"until":"` + due.UTC().Format(time.RFC3339Nano) + `"}`}
		},
		Progress: c.Progress,
	})
	return s, due, err
}

// rest waits until the server is almost idle, and reads its memory.
func (c *ParkedConfig) rest(ctx context.Context, engine Process, run *ParkedRun) error {
	const interval, little = 500 * time.Millisecond, 2 * tick
	for last, quiet := cpuOf(engine.PID), 0; quiet < 2; {
		if err := pause(ctx, interval); err != nil {
			return err
		}
		now := cpuOf(engine.PID)
		if quiet++; now-last > little {
			quiet = 0
		}
		last = now
	}
	run.RSS, run.Peak = residentOf(engine.PID), peakOf(engine.PID)
	heap, err := metricOf(ctx, engine, "go_memstats_heap_inuse_bytes")
	run.Heap = round(heap / (1 << 20))
	return err
}

func (c *ParkedConfig) wake(ctx context.Context, due time.Time, run *ParkedRun) error {
	var first time.Time
	_, err := awaitLedger(ctx, c.Stub, func(l Ledger) bool {
		if first.IsZero() && l.Effects > 0 {
			first = time.Now()
		}
		return l.Effects >= c.Wake
	})
	took := time.Since(due)
	run.Wake, run.First, run.Rate = ms(took), ms(first.Sub(due)), round(float64(c.Wake)/took.Seconds())
	return err
}

// check compares the final state with the right one.
func (c *ParkedConfig) check(ctx context.Context, engine Process) error {
	sleeping := c.Sagas - c.Wake
	var st stats
	for until := time.Now().Add(time.Minute); st.Sagas["succeeded"] < c.Wake && time.Now().Before(until); {
		var err error
		if st, err = statsOf(ctx, engine); err != nil {
			return err
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
	if st.Sagas["succeeded"] != c.Wake || st.Sagas["waiting"] != sleeping {
		return fmt.Errorf("sagas by status: %v, want %d that succeeded and %d that wait", st.Sagas, c.Wake, sleeping)
	}
	l, err := ledgerOf(ctx, c.Stub)
	if want := (Ledger{Requests: c.Wake, Effects: c.Wake}); err == nil && l != want {
		err = fmt.Errorf("the remote service's ledger is %+v, want %+v", l, want)
	}
	return err
}

// Print writes the report for people.
func (r *ParkedReport) Print(w io.Writer) error {
	l := r.Runs[0]
	r.head(w, fmt.Sprintf("%d sleeping sagas, %d of which woke: each had its effect once", l.Sagas, l.Woken))
	rows := [][]string{strings.Split(fmt.Sprintf("%d|%d|%.0f|%.0f|%d|%.1f|%d|%.0f|%.0f|%.0f|%.3f|%.3f|%d", l.Sagas, l.Woken, l.Seeded, l.Ready, l.RSS, l.Heap, l.Peak, l.First, l.Wake, l.Rate, l.CPU.Engine, l.CPU.Database, l.PeakMB), "|")}
	if err := table(w, []string{"sagas", "woken", "seeded/s", "ready ms", "RSS MB", "Go heap MB", "peak MB", "first ms", "wake ms", "woken/s", "CPU ms", "db ms", "peak after MB"}, rows); err != nil {
		return err
	}
	_, err := fmt.Fprintln(w, "\nmemory is of the server's process, once it was quiet and (last) after the waking; first, wake and the rate count from when the sagas were due; CPU is per saga woken, of the engine and the database.")
	return err
}
