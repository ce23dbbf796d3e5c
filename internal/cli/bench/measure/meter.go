package measure

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// Process is one of the programs under load.
type Process struct {
	URL   string
	PID   int
	Debug string // the address of its profiles; "": it serves none
}

// reading has the values of the meters at one time.
type reading struct {
	program, database, stub time.Duration // CPU
	tally
	written int64
}

// tally is the number of commits, and their total duration.
type tally struct {
	commits int64
	took    time.Duration
}

// tallyOf requests a program's tally.
type tallyOf func(context.Context) (tally, error)

func (r reading) minus(o reading) reading {
	return reading{r.program - o.program, r.database - o.database, r.stub - o.stub, tally{r.commits - o.commits, r.tally.took - o.tally.took}, r.written - o.written}
}

// database reads the meters of the database of engine and floor.
type database struct {
	conn       *pgx.Conn // nil: SQLite, which works inside the programs
	postmaster int       // 0: not on this machine
}

// openDatabase refuses a database whose commits are not durable.
func openDatabase(ctx context.Context, dsn string) (*database, error) {
	if !strings.HasPrefix(dsn, "postgres") {
		return &database{}, nil
	}
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("meter: %w", err)
	}
	d := &database{conn: conn}
	var backend int
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return nil, fmt.Errorf("meter: %w", err)
	}
	if s, err := readStat(backend); err == nil && strings.HasPrefix(s.name, "postgres") {
		d.postmaster = s.parent
	}
	if err := d.durable(ctx); err != nil {
		d.close(ctx)
		return nil, err
	}
	return d, nil
}

func (d *database) close(ctx context.Context) {
	if d.conn != nil {
		_ = d.conn.Close(ctx)
	}
}

func (d *database) cpu() time.Duration {
	if d.postmaster == 0 {
		return 0
	}
	return cpuOfFamily(d.postmaster)
}

// ahead returns how much later the clock of journals is than this process's.
func (d *database) ahead(ctx context.Context) (time.Duration, error) {
	if d.conn == nil {
		return 0, nil
	}
	var at time.Time
	if err := d.conn.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&at); err != nil {
		return 0, fmt.Errorf("meter: %w", err)
	}
	return time.Until(at), nil
}

// settings decide whether a commit is durable.
func (d *database) durable(ctx context.Context) error {
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := d.conn.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
			return fmt.Errorf("meter: %w", err)
		}
		if value != "on" {
			return fmt.Errorf("the database has %s=%s, so its commits are not durable: set it to on", name, value)
		}
	}
	return nil
}

// before reads all meters before a run. commits is where the program shows its count. Requesting it
// may count a whole table, so it happens before the CPU is read, and the run does not include
// it.
func (d *database) before(ctx context.Context, program, stub Process, commits tallyOf) (reading, error) {
	var r reading
	err := d.counts(ctx, &r, program, commits)
	d.spent(&r, program, stub)
	return r, err
}

// after reads the meters after a run, the CPU first.
func (d *database) after(ctx context.Context, program, stub Process, commits tallyOf) (reading, error) {
	var r reading
	d.spent(&r, program, stub)
	err := d.counts(ctx, &r, program, commits)
	return r, err
}

func (d *database) spent(r *reading, program, stub Process) {
	r.program, r.stub, r.database = cpuOf(program.PID), cpuOf(stub.PID), d.cpu()
}

func (d *database) counts(ctx context.Context, r *reading, program Process, commits tallyOf) (err error) {
	if r.tally, err = commits(ctx); err != nil {
		return fmt.Errorf("meter: %w", err)
	}
	r.written = writtenBy(program.PID)
	if d.conn != nil {
		r.written, err = d.wal(ctx)
	}
	return err
}

// wal returns how many bytes a Postgres has written to its WAL.
func (d *database) wal(ctx context.Context) (n int64, err error) {
	if err = d.conn.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint`).Scan(&n); err != nil {
		err = fmt.Errorf("meter: %w", err)
	}
	return n, err
}

// engineCommits reads the engine's own count.
func engineCommits(p Process) tallyOf {
	return func(ctx context.Context) (tally, error) {
		n, err := metricOf(ctx, p, "recourse_engine_commits_total")
		if err != nil {
			return tally{}, err
		}
		took, err := metricOf(ctx, p, "recourse_engine_commit_seconds_sum")
		return tally{int64(n), time.Duration(took * float64(time.Second))}, err
	}
}

// metricOf reads one of an engine's metrics.
func metricOf(ctx context.Context, p Process, name string) (float64, error) {
	body, err := get(ctx, p.URL+"/metrics")
	if err != nil {
		return 0, err
	}
	for lines := bufio.NewScanner(strings.NewReader(string(body))); lines.Scan(); {
		if v, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(v, 64)
		}
	}
	return 0, fmt.Errorf("%s/metrics has no %s", p.URL, name)
}

func floorCommits(p Process) tallyOf {
	return func(ctx context.Context) (t tally, err error) {
		body, err := get(ctx, p.URL+"/commits")
		if err == nil {
			_, err = fmt.Sscan(string(body), &t.commits, &t.took)
		}
		return t, err
	}
}

func ledgerOf(ctx context.Context, stub Process) (Ledger, error) {
	return decoded[Ledger](get(ctx, stub.URL+"/ledger"))
}

// awaitLedger requests the ledger every few milliseconds until it is as wanted, and
// fails if it has not changed for a minute.
func awaitLedger(ctx context.Context, stub Process, want func(Ledger) bool) (Ledger, error) {
	var last Ledger
	for moved := time.Now(); ; {
		l, err := ledgerOf(ctx, stub)
		if err != nil || want(l) {
			return l, err
		}
		if l != last {
			last, moved = l, time.Now()
		}
		if time.Since(moved) > time.Minute {
			return l, fmt.Errorf("the remote service has received nothing for a minute; its ledger is %+v", l)
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return l, err
		}
	}
}

// awaitEnds waits until no saga of the definition is live.
func awaitEnds(ctx context.Context, engine Process, definition string) error {
	for until := time.Now().Add(time.Minute); ; {
		st, err := statsOf(ctx, engine)
		if err != nil || st.Live[definition] == 0 {
			return err
		}
		if time.Now().After(until) {
			return fmt.Errorf("%d sagas of %s have not ended, a minute after their last request", st.Live[definition], definition)
		}
		if err := pause(ctx, 20*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits for d, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// stats has an engine's counts of its sagas.
type stats struct {
	Sagas map[string]int // by status
	Live  map[string]int // by definition
	At    time.Time      `json:"counted_at"`
}

// statsOf requests the counts until they are newer than before: a server caches the counts of many
// sagas.
func statsOf(ctx context.Context, engine Process) (stats, error) {
	for asked := time.Now().Truncate(time.Millisecond); ; {
		st, err := decoded[stats](get(ctx, engine.URL+"/v1/stats"))
		if err != nil || !st.At.Before(asked) {
			return st, err
		}
		if time.Since(asked) > 2*time.Minute {
			return st, fmt.Errorf("the server has not refreshed its counts of sagas for two minutes; the last are from %s", st.At)
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return st, err
		}
	}
}

// journalOf reads a saga's whole journal, a page at a time.
func journalOf[T any](ctx context.Context, engine Process, id string) ([]T, error) {
	var all []T
	for cursor := "0"; cursor != ""; {
		page, err := decoded[struct {
			Data []T
			Next string `json:"next_cursor"`
		}](get(ctx, engine.URL+"/v1/sagas/"+id+"/journal?limit=1000&cursor="+cursor))
		if err != nil {
			return nil, fmt.Errorf("the journal of %s: %w", id, err)
		}
		all, cursor = append(all, page.Data...), page.Next
	}
	return all, nil
}

// publish publishes a definition.
func publish(ctx context.Context, engine Process, name, source string) error {
	if _, err := do(ctx, http.MethodPut, engine.URL+"/v1/definitions/"+name, source); err != nil {
		return fmt.Errorf("publish %s: %w", name, err)
	}
	return nil
}

// decoded reads the JSON of a response.
func decoded[T any](body []byte, err error) (v T, _ error) {
	if err == nil {
		err = json.Unmarshal(body, &v)
	}
	return v, err
}

// atOnce is how many requests each has in flight.
const atOnce = 64

// client is for all requests but the load.
var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: atOnce, DisableCompression: true}}

func get(ctx context.Context, url string) ([]byte, error) { return do(ctx, http.MethodGet, url, "") }

func do(ctx context.Context, method, url, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	return bodyOf(r)
}

// bodyOf sends a request and returns the response's body. A status that is no success is an error.
func bodyOf(r *http.Request) ([]byte, error) {
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %d %.300s", r.Method, r.URL, resp.StatusCode, b)
	}
	return b, err
}
