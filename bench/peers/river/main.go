// Command river runs booking3 on River (https://riverqueue.com): a saga is a job whose three
// requests are resumable steps.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
)

// Booking is the job.
type Booking struct {
	Key  string `json:"key" river:"unique"`
	Trip string `json:"trip"`
}

// Kind implements river.JobArgs.
func (Booking) Kind() string { return "booking" }

// Booker works bookings.
type Booker struct {
	river.WorkerDefaults[Booking]
	pool *pgxpool.Pool
	stub string
	http *http.Client
	wait *waiters
}

// Work makes the three requests. A step is persisted by ResumableSetStepTx: without it River
// records steps only when an attempt ends, and a killed process would begin again. The last step
// completes the job by JobCompleteTx: River would otherwise complete it with others, up to a
// quarter of a second later.
func (b *Booker) Work(ctx context.Context, job *river.Job[Booking]) error {
	step := func(name, item string, persist func(context.Context, pgx.Tx) error) {
		river.ResumableStep(ctx, name, nil, func(ctx context.Context) error {
			if err := b.book(ctx, fmt.Sprintf("%d-%s", job.ID, name), name, job.Args.Trip, item); err != nil {
				return err
			}
			return pgx.BeginFunc(ctx, b.pool, func(tx pgx.Tx) error { return persist(ctx, tx) })
		})
	}
	done := func(ctx context.Context, tx pgx.Tx) error {
		_, err := river.ResumableSetStepTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	}
	step("flight", "seat", done)
	step("hotel", "room", done)
	ended := false
	step("car", "car", func(ctx context.Context, tx pgx.Tx) error {
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		ended = err == nil
		return err
	})
	if ended {
		b.wait.end(job.ID)
	}
	return nil
}

func (b *Booker) book(ctx context.Context, key, name, trip, item string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, b.stub+"/do/"+name, strings.NewReader(fmt.Sprintf(`{"trip":%q,"item":%q}`, trip, item)))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", key)
	resp, err := b.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusCreated {
		return fmt.Errorf("%s: status %d", name, resp.StatusCode)
	}
	return nil
}

// waiters are the requests that wait for the end of a job.
type waiters struct {
	mu    sync.Mutex
	list  map[int64]chan struct{}
	ended map[int64]bool // ended before anybody waited
}

func (w *waiters) of(id int64) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := make(chan struct{})
	if w.ended[id] {
		delete(w.ended, id)
		close(c)
		return c
	}
	w.list[id] = c
	return c
}

func (w *waiters) end(id int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c, ok := w.list[id]; ok {
		delete(w.list, id)
		close(c)
		return
	}
	w.ended[id] = true
}

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	config, err := pgxpool.ParseConfig(os.Getenv("DATABASE_URL"))
	if err != nil {
		return err
	}
	config.MaxConns = 32
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	driver := riverpgxv5.New(pool)
	migrator, err := rivermigrate.New(driver, nil)
	if err != nil {
		return err
	}
	if _, err := migrator.Migrate(ctx, rivermigrate.DirectionUp, nil); err != nil {
		return err
	}
	wait := &waiters{list: make(map[int64]chan struct{}), ended: make(map[int64]bool)}
	workers := river.NewWorkers()
	river.AddWorker(workers, &Booker{pool: pool, stub: os.Getenv("STUB_URL"), http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1024}}, wait: wait})
	client, err := river.NewClient(driver, &river.Config{
		Workers: workers,
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 512}},
		// As in River's own benchmark (cmd/river/riverbench); the default of 100 ms would be most
		// of the latency.
		FetchCooldown:     2 * time.Millisecond,
		FetchPollInterval: 20 * time.Millisecond,
		// A job of a killed process stays `running` until it is rescued, after an hour by default;
		// the rescuer looks every 30 s. It must be longer than JobTimeout, which is a minute by
		// default.
		JobTimeout:           10 * time.Second,
		RescueStuckJobsAfter: 11 * time.Second,
	})
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	start := func(r *http.Request) (int64, error) {
		var body struct{ Input struct{ Trip string } }
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return 0, err
		}
		res, err := client.Insert(r.Context(), Booking{Key: r.Header.Get("Idempotency-Key"), Trip: body.Input.Trip}, &river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true}})
		if err != nil {
			return 0, err
		}
		return res.Job.ID, nil
	}
	http.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		id, err := start(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		<-wait.of(id)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"%d","status":"succeeded"}`, id)
	})
	http.HandleFunc("POST /send", func(w http.ResponseWriter, r *http.Request) {
		id, err := start(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, `{"id":"%d"}`, id)
	})
	http.HandleFunc("GET /live", func(w http.ResponseWriter, r *http.Request) {
		var n int
		if err := pool.QueryRow(r.Context(), `SELECT count(*) FROM river_job WHERE state <> 'completed'`).Scan(&n); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprint(w, n)
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	at := "http://" + l.Addr().String()
	fmt.Printf(`{"run":"%[1]s/run","send":"%[1]s/send","live":"%[1]s/live"}`+"\n", at)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		_ = client.Stop(ctx)
		os.Exit(0)
	}()
	return http.Serve(l, nil)
}
