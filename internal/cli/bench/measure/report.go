package measure

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Report is the result of a session with the floor.
type Report struct {
	Session
	Runs    []Figure     `json:"runs"`
	Batches *BatchFigure `json:"batches,omitempty"`
}

// Figure is one point: medians over the rounds; latencies over all of their sagas.
type Figure struct {
	Variant     Variant `json:"variant"`
	Concurrency int     `json:"concurrency"`     // 0: an open loop
	Rate        int     `json:"rate,omitempty"`  // of the open loop
	Sagas       int     `json:"sagas,omitempty"` // of a run that starts so many
	Engine      float64 `json:"engine_per_s"`    // sagas
	Floor       float64 `json:"floor_per_s"`     // sagas
	Steps       float64 `json:"steps_per_s,omitempty"`
	Ratio       float64 `json:"ratio,omitempty"`    // median of the rounds' ratios
	NoRatio     string  `json:"no_ratio,omitempty"` // why there is no ratio
	P50         float64 `json:"p50_ms"`             // of the engine
	P99         float64 `json:"p99_ms"`             //
	P999        float64 `json:"p999_ms"`            //
	FloorP50    float64 `json:"floor_p50_ms"`       //
	FloorP99    float64 `json:"floor_p99_ms"`       //
	Commits     float64 `json:"commits_per_saga"`   //
	Commit      float64 `json:"commit_ms"`          // how long one takes
	Written     float64 `json:"wal_bytes_per_saga"`
	CPU         CPU     `json:"cpu_ms_per_saga"`
	FloorCPU    CPU     `json:"floor_cpu_ms_per_saga"` // its `engine` is the floor
	FloorCommit float64 `json:"floor_commits_per_saga"`
	FloorTook   float64 `json:"floor_commit_ms"`
	FloorWrite  float64 `json:"floor_wal_bytes_per_saga"`
	PeakMB      int64   `json:"peak_mb"` // of the engine, so far
	LedgerOK    bool    `json:"ledger_ok"`
}

// CPU is milliseconds per saga. A database that is not on this machine shows 0;
// SQLite's work is the engine's.
type CPU struct {
	Engine   float64 `json:"engine"`
	Database float64 `json:"database"`
	Stub     float64 `json:"stub"`
}

func (c *Config) report(points []point, all []samples) Report {
	r := Report{Session: Session{Workload: c.Workload, Rounds: c.Rounds}}
	var single []sample
	for i, p := range points {
		if p.batches {
			r.Batches = batchFigure(all[i].engine, single)
			continue
		}
		if p.clients == 1 {
			single = all[i].engine
		}
		r.Runs = append(r.Runs, c.figure(p, all[i]))
	}
	return r
}

func (c *Config) figure(p point, s samples) Figure {
	f := Figure{Variant: p.variant, Sagas: c.Sagas, Concurrency: p.clients, LedgerOK: true, PeakMB: peakOf(c.Engine.PID)}
	if p.clients == 0 {
		f.Rate = c.Rate
	}
	var ratios []float64
	for i := range s.engine {
		ratios = append(ratios, s.engine[i].took.PerSecond()/s.floor[i].took.PerSecond())
	}
	if f.NoRatio = s.doubtful(); f.NoRatio == "" {
		f.Ratio = round(median(ratios))
	}
	f.Engine, f.Commits, f.Written, f.CPU = sum(s.engine)
	if p.variant == Wide {
		f.Steps = round(f.Engine * wideSteps)
	}
	f.Floor, f.FloorCommit, f.FloorWrite, f.FloorCPU = sum(s.floor)
	f.Commit, f.FloorTook = commitOf(s.engine), commitOf(s.floor)
	e, fl := latencies(s.engine), latencies(s.floor)
	f.P50, f.P99, f.P999 = ms(e.Quantile(.5)), ms(e.Quantile(.99)), ms(e.Quantile(.999))
	f.FloorP50, f.FloorP99 = ms(fl.Quantile(.5)), ms(fl.Quantile(.99))
	return f
}

// mostScatter is the largest difference between the floor's rounds, relative to their median, with
// which a ratio says anything.
const mostScatter = 0.25

// doubtful returns why a ratio of these rounds would not be that of engine and floor; "": it is.
func (s samples) doubtful() string {
	for _, list := range [][]sample{s.engine, s.floor} {
		for _, one := range list {
			if one.others > mostOthers {
				return fmt.Sprintf("other programs used %.2f cores", one.others)
			}
		}
	}
	var rates []float64
	for _, one := range s.floor {
		rates = append(rates, one.took.PerSecond())
	}
	middle := median(rates) // sorts them
	if scatter := (rates[len(rates)-1] - rates[0]) / middle; scatter > mostScatter {
		return fmt.Sprintf("the floor's rounds differ by %.0f %%", 100*scatter)
	}
	return ""
}

// sum takes the medians over the rounds, per saga.
func sum(list []sample) (perSecond, commits, written float64, cpu CPU) {
	over := func(of func(sample) float64) float64 {
		var v []float64
		for _, s := range list {
			v = append(v, of(s))
		}
		return round(median(v))
	}
	each := func(d func(reading) float64) func(sample) float64 {
		return func(s sample) float64 { return d(s.used) / float64(max(len(s.took.All), 1)) }
	}
	return over(func(s sample) float64 { return s.took.PerSecond() }),
		over(each(func(r reading) float64 { return float64(r.commits) })),
		over(each(func(r reading) float64 { return float64(r.written) })),
		CPU{
			Engine:   over(each(func(r reading) float64 { return r.program.Seconds() * 1000 })),
			Database: over(each(func(r reading) float64 { return r.database.Seconds() * 1000 })),
			Stub:     over(each(func(r reading) float64 { return r.stub.Seconds() * 1000 })),
		}
}

// commitOf returns the median duration of a commit over the rounds, in milliseconds.
func commitOf(list []sample) float64 {
	var v []float64
	for _, s := range list {
		v = append(v, s.used.tally.took.Seconds()*1000/float64(max(s.used.commits, 1)))
	}
	return round(median(v))
}

func latencies(list []sample) Took {
	var t Took
	for _, s := range list {
		t.All = append(t.All, s.took.All...)
	}
	slices.Sort(t.All)
	return t
}

func ms(d time.Duration) float64 { return round(float64(d) / 1e6) }

// round keeps three digits after the point.
func round(v float64) float64 { return math.Round(v*1000) / 1000 }

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	r.head(w, fmt.Sprintf("medians of %d rounds, the ledger was right after each", r.Rounds))
	head := []string{"variant", "clients", "sagas/s", "floor/s", "ratio", "p50 ms", "(floor)", "p99", "p99.9", "commits", "(floor)", "each ms", "(floor)", "written B", "(floor)", "CPU ms", "(floor)", "db ms", "(floor)", "stub ms"}
	var rows [][]string
	var doubts []string
	for _, f := range r.Runs {
		clients := fmt.Sprint(f.Concurrency)
		if f.Concurrency == 0 {
			clients = fmt.Sprintf("%d/s", f.Rate)
		}
		ratio := fmt.Sprintf("%.2f", f.Ratio)
		if f.NoRatio != "" {
			ratio = "none"
			doubts = append(doubts, fmt.Sprintf("%s, %s clients: no ratio, because %s", f.Variant, clients, f.NoRatio))
		}
		rows = append(rows, strings.Split(fmt.Sprintf("%s|%s|%.0f|%.0f|%s|%.2f|%.2f|%.2f|%.2f|%.2f|%.2f|%.2f|%.2f|%.0f|%.0f|%.3f|%.3f|%.3f|%.3f|%.3f", f.Variant, clients, f.Engine, f.Floor, ratio,
			f.P50, f.FloorP50, f.P99, f.P999, f.Commits, f.FloorCommit, f.Commit, f.FloorTook, f.Written, f.FloorWrite, f.CPU.Engine, f.FloorCPU.Engine, f.CPU.Database, f.FloorCPU.Database, f.CPU.Stub), "|"))
	}
	if err := table(w, head, rows); err != nil {
		return err
	}
	if len(doubts) > 0 {
		fmt.Fprintf(w, "\n%s\n", strings.Join(doubts, "\n"))
	}
	if b := r.Batches; b != nil {
		fmt.Fprintf(w, "\nbatches of %d by one client: %.0f sagas/s", b.Size, b.Engine)
		if b.Ratio > 0 {
			fmt.Fprintf(w, ", %.1f times as many as single starts by one client", b.Ratio)
		}
		fmt.Fprintf(w, "; %.2f ms a batch, %.3f commits, %.0f bytes written, CPU %.3f ms and %.3f ms of the database per saga\n", b.P50, b.Commits, b.Written, b.CPU.Engine, b.CPU.Database)
	}
	last := r.Runs[len(r.Runs)-1]
	if last.Steps > 0 {
		fmt.Fprintf(w, "\n%d steps a saga: %.0f steps/s\n", wideSteps, last.Steps)
	}
	_, err := fmt.Fprintf(w, "\ncommits, bytes written and CPU are per saga, `each` is how long a commit takes; CPU is of the engine (or the floor), the database and the remote service. peak memory of the engine: %d MB\n", last.PeakMB)
	return err
}
