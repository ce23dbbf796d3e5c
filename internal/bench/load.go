package bench

import (
	"bytes"
	"context"
	"encoding/json"
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

// Load starts sagas at a server and waits for their ends.
type Load struct {
	client *http.Client
	url    string
	run    string // what sets this run's keys apart
	n      atomic.Int64
}

// NewLoad returns a load for the server at url, with up to connections at once.
func NewLoad(url string, connections int) *Load {
	t := &http.Transport{MaxIdleConnsPerHost: connections, MaxConnsPerHost: connections, DisableCompression: true}
	return &Load{client: &http.Client{Transport: t, Timeout: time.Minute}, url: url, run: strconv.FormatInt(time.Now().UnixNano(), 36)}
}

// Took are the latencies of a run, sorted, and how long it took.
type Took struct {
	All  []time.Duration
	Wall time.Duration
}

// PerSecond is the rate.
func (t Took) PerSecond() float64 { return float64(len(t.All)) / t.Wall.Seconds() }

// Quantile returns a latency, q from 0 to 1.
func (t Took) Quantile(q float64) time.Duration {
	if len(t.All) == 0 {
		return 0
	}
	return t.All[min(int(q*float64(len(t.All))), len(t.All)-1)]
}

// Closed has so many clients start one saga after the other for d. Each finishes
// its last one.
func (l *Load) Closed(ctx context.Context, v Variant, clients int, d time.Duration) (Took, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	began := time.Now()
	end := began.Add(d)
	took := make([][]time.Duration, clients)
	var wait sync.WaitGroup
	for i := range clients {
		wait.Go(func() {
			for at := time.Now(); at.Before(end) && ctx.Err() == nil; {
				if err := l.one(ctx, v); err != nil {
					cancel(err)
					return
				}
				now := time.Now()
				took[i] = append(took[i], now.Sub(at))
				at = now
			}
		})
	}
	wait.Wait()
	return gather(took, time.Since(began)), cause(ctx)
}

// Open starts rate sagas a second for d, whether or not the earlier ones have
// ended; latencies count from when each was to start.
func (l *Load) Open(ctx context.Context, v Variant, rate int, d time.Duration) (Took, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	n := int(d.Seconds() * float64(rate))
	took := make([][]time.Duration, n)
	began := time.Now()
	var wait sync.WaitGroup
	for i := range n {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if pause := time.Until(due); pause > 0 {
			time.Sleep(pause)
		}
		wait.Go(func() {
			if err := l.one(ctx, v); err != nil {
				cancel(err)
				return
			}
			took[i] = []time.Duration{time.Since(due)}
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

func gather(took [][]time.Duration, wall time.Duration) Took {
	all := slices.Concat(took...)
	slices.Sort(all)
	return Took{All: all, Wall: wall}
}

// one starts a saga and waits for its end.
func (l *Load) one(ctx context.Context, v Variant) error {
	n := l.n.Add(1)
	body := fmt.Appendf(nil, `{"definition":%q,"input":{"trip":"%s-%d"}}`, v.Name(), l.run, n)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, l.url+"/v1/sagas", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", l.run+"-"+strconv.FormatInt(n, 10))
	r.Header.Set("Prefer", "wait=30")
	resp, err := l.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var saga struct{ Status string }
	if err := json.Unmarshal(b, &saga); err != nil || resp.StatusCode != http.StatusCreated || saga.Status != v.Ends() {
		return fmt.Errorf("a start was answered %d, %.300s", resp.StatusCode, b)
	}
	return nil
}
