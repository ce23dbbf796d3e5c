package measure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Load starts sagas on a server, and waits for their ends if the variant has one.
type Load struct {
	client *http.Client
	url    string // of starts
	run    string // distinguishes this run's keys
	n      atomic.Int64
}

// NewLoad returns a load for the server at url, with up to connections at once.
func NewLoad(url string, connections int) *Load {
	t := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true}
	return &Load{client: &http.Client{Transport: t, Timeout: time.Minute}, url: url + "/v1/sagas", run: strconv.FormatInt(time.Now().UnixNano(), 36)}
}

// Took has the sorted latencies of a run, and its duration.
type Took struct {
	All  []time.Duration
	Wall time.Duration
	ids  []string // of the sagas
}

// distinct returns an error unless every start got an id of its own. It sorts the ids.
func (t Took) distinct() error {
	slices.Sort(t.ids)
	if n := len(slices.Compact(slices.Clone(t.ids))); n != len(t.All) {
		return fmt.Errorf("%d starts got only %d different ids", len(t.All), n)
	}
	return nil
}

// PerSecond returns the rate.
func (t Took) PerSecond() float64 { return float64(len(t.All)) / t.Wall.Seconds() }

// Quantile returns a latency, q from 0 to 1.
func (t Took) Quantile(q float64) time.Duration {
	if len(t.All) == 0 {
		return 0
	}
	return t.All[min(int(q*float64(len(t.All))), len(t.All)-1)]
}

// Closed makes so many clients start sagas for d, one after another. Each client finishes its last
// one.
func (l *Load) Closed(ctx context.Context, v Variant, clients int, d time.Duration) (Took, error) {
	end := time.Now().Add(d)
	return l.closed(ctx, v, clients, func(at time.Time) bool { return at.Before(end) })
}

// Times makes so many clients start n sagas in total.
func (l *Load) Times(ctx context.Context, v Variant, clients, n int) (Took, error) {
	var begun atomic.Int64
	return l.closed(ctx, v, clients, func(time.Time) bool { return begun.Add(1) <= int64(n) })
}

// closed makes clients start sagas for as long as more returns true.
func (l *Load) closed(ctx context.Context, v Variant, clients int, more func(at time.Time) bool) (Took, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	took := make([]Took, clients)
	var wait sync.WaitGroup
	for i := range clients {
		wait.Go(func() {
			for at := time.Now(); more(at) && ctx.Err() == nil; {
				id, err := l.one(ctx, v)
				if err != nil {
					cancel(err)
					return
				}
				now := time.Now()
				took[i].All, took[i].ids = append(took[i].All, now.Sub(at)), append(took[i].ids, id)
				at = now
			}
		})
	}
	wait.Wait()
	return gather(took, time.Since(began)), cause(ctx)
}

// Open starts rate sagas a second for d, whether or not the earlier ones have ended. Latencies
// count from when each start was due.
func (l *Load) Open(ctx context.Context, v Variant, rate int, d time.Duration) (Took, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	n := int(d.Seconds() * float64(rate))
	took := make([]Took, n)
	began := time.Now()
	var wait sync.WaitGroup
	for i := range n {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if pause := time.Until(due); pause > 0 {
			time.Sleep(pause)
		}
		wait.Go(func() {
			id, err := l.one(ctx, v)
			if err != nil {
				cancel(err)
				return
			}
			took[i] = Took{All: []time.Duration{time.Since(due)}, ids: []string{id}}
		})
	}
	wait.Wait()
	return gather(took, time.Since(began)), cause(ctx)
}

func cause(ctx context.Context) error {
	if err := context.Cause(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return ctx.Err()
}

func gather(took []Took, wall time.Duration) Took {
	sum := Took{Wall: wall}
	for _, t := range took {
		sum.All, sum.ids = append(sum.All, t.All...), append(sum.ids, t.ids...)
	}
	slices.Sort(sum.All)
	return sum
}

// one starts a saga, waits for its end if the variant has one, and returns its id. A start that
// found an earlier saga would be answered with 200; distinct would see it.
func (l *Load) one(ctx context.Context, v Variant) (string, error) {
	a, err := l.start(ctx, v, v != Start)
	if err == nil && (a.status > http.StatusCreated || a.saga.Status != v.Ends()) {
		err = fmt.Errorf("a start got the response %d, %.300s", a.status, a.body)
	}
	return a.saga.ID, err
}

// answer is the response to a start.
type answer struct {
	status int
	header http.Header
	body   []byte
	saga   struct{ ID, Status string } // the fields found in the body
}

// text returns the first text under a name: a saga's id and status come before anything that could
// hold such names, and reading all of the answer would distort the measurement.
func text(body []byte, name string) string {
	_, rest, _ := bytes.Cut(body, []byte(`"`+name+`":"`))
	value, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(value)
}

// start sends one start, under a key of its own; wait is whether the answer is to come at the
// saga's end.
func (l *Load) start(ctx context.Context, v Variant, wait bool) (a answer, err error) {
	n := l.n.Add(1)
	body := fmt.Appendf(nil, `{"definition":%q,"input":{"trip":"%s-%d"}}`, v.Name(), l.run, n)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url, bytes.NewReader(body))
	if err != nil {
		return a, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", l.run+"-"+strconv.FormatInt(n, 10))
	if wait {
		r.Header.Set("Prefer", "wait=30")
	}
	resp, err := l.client.Do(r)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	a.status, a.header = resp.StatusCode, resp.Header
	if a.body, err = io.ReadAll(resp.Body); err == nil {
		a.saga.ID, a.saga.Status = text(a.body, "id"), text(a.body, "status")
	}
	return a, err
}
