package bench

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
	URL string
	PID int
}

// reading is what the meters show at a moment.
type reading struct {
	program, database, stub time.Duration // CPU
	commits, written        int64
}

func (r reading) minus(o reading) reading {
	return reading{r.program - o.program, r.database - o.database, r.stub - o.stub, r.commits - o.commits, r.written - o.written}
}

// database reads the meters of the engine's and the floor's database.
type database struct {
	conn       *pgx.Conn // nil: SQLite, whose work is the programs' own
	postmaster int       // 0: not on this machine
}

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

// settings that decide whether a commit is durable.
func (d *database) durable(ctx context.Context) error {
	if d.conn == nil {
		return nil
	}
	for _, name := range []string{"fsync", "synchronous_commit", "full_page_writes"} {
		var value string
		if err := d.conn.QueryRow(ctx, `SELECT current_setting($1)`, name).Scan(&value); err != nil {
			return fmt.Errorf("meter: %w", err)
		}
		if value != "on" {
			return fmt.Errorf("the database has %s=%s: figures without durable commits mean nothing; set it to on", name, value)
		}
	}
	return nil
}

// read reads all meters; commits is where the program shows its count.
func (d *database) read(ctx context.Context, program, stub Process, commits func(context.Context) (int64, error)) (reading, error) {
	r := reading{program: cpuOf(program.PID), stub: cpuOf(stub.PID), database: d.cpu(), written: writtenBy(program.PID)}
	var err error
	if r.commits, err = commits(ctx); err != nil {
		return r, fmt.Errorf("meter: %w", err)
	}
	if d.conn != nil {
		if err := d.conn.QueryRow(ctx, `SELECT (pg_current_wal_insert_lsn() - '0/0'::pg_lsn)::bigint`).Scan(&r.written); err != nil {
			return r, fmt.Errorf("meter: %w", err)
		}
	}
	return r, nil
}

// engineCommits reads the engine's own count.
func engineCommits(p Process) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		body, err := get(ctx, p.URL+"/metrics")
		if err != nil {
			return 0, err
		}
		for lines := bufio.NewScanner(strings.NewReader(string(body))); lines.Scan(); {
			if v, ok := strings.CutPrefix(lines.Text(), "recourse_engine_commits_total "); ok {
				f, err := strconv.ParseFloat(v, 64)
				return int64(f), err
			}
		}
		return 0, fmt.Errorf("%s/metrics does not count commits", p.URL)
	}
}

func floorCommits(p Process) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		body, err := get(ctx, p.URL+"/commits")
		if err != nil {
			return 0, err
		}
		return strconv.ParseInt(string(body), 10, 64)
	}
}

func ledgerOf(ctx context.Context, stub Process) (Ledger, error) {
	var l Ledger
	body, err := get(ctx, stub.URL+"/ledger")
	if err == nil {
		err = json.Unmarshal(body, &l)
	}
	return l, err
}

func get(ctx context.Context, url string) ([]byte, error) { return do(ctx, http.MethodGet, url, "") }

func do(ctx context.Context, method, url, body string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %d %.300s", method, url, resp.StatusCode, b)
	}
	return b, err
}
