package measure

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"
)

// Flooded is the result of an open loop of starts.
type Flooded struct {
	Accepted Took        // latencies from when each start was sent
	Late     Took        // how long after they were due they were sent
	Refused  map[int]int // by status: 429 and 503
	Last     time.Time   // when the last one was sent
}

// Flood starts rate sagas a second for d, without waiting for earlier responses or for sagas. A
// response other than 201, or 429 or 503 with Retry-After, is an error.
func (l *Load) Flood(ctx context.Context, v Variant, rate int, d time.Duration) (Flooded, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		wait sync.WaitGroup
		mu   sync.Mutex // guards f
		f    = Flooded{Refused: map[int]int{}}
	)
	n := max(int(d.Seconds()*float64(rate)), 1)
	began := time.Now()
	for i := 0; i < n && ctx.Err() == nil; i++ {
		due := began.Add(time.Duration(i) * time.Second / time.Duration(rate))
		if early := time.Until(due); early > 0 {
			time.Sleep(early)
		}
		wait.Go(func() {
			var wrote atomic.Int64 // after began; set by the transport's goroutine
			a, err := l.start(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { wrote.Store(int64(time.Since(began))) }}), v, false)
			id := ""
			if err == nil {
				id, err = a.taken()
			}
			if err != nil {
				cancel(err)
				return
			}
			left := began.Add(time.Duration(wrote.Load()))
			took := time.Since(left)
			mu.Lock()
			defer mu.Unlock()
			f.Late.All = append(f.Late.All, left.Sub(due))
			if left.After(f.Last) {
				f.Last = left
			}
			if id == "" {
				f.Refused[a.status]++
				return
			}
			f.Accepted.All, f.Accepted.ids = append(f.Accepted.All, took), append(f.Accepted.ids, id)
		})
	}
	wait.Wait()
	wall := max(f.Last.Sub(began), d)
	f.Accepted, f.Late = gather([]Took{f.Accepted}, wall), gather([]Took{f.Late}, wall)
	return f, cause(ctx)
}

// taken returns the id of the started saga, "" if the start was refused as overload allows: with
// 429 or 503 and Retry-After.
func (a *answer) taken() (id string, err error) {
	switch refused := a.status == http.StatusTooManyRequests || a.status == http.StatusServiceUnavailable; {
	case a.status == http.StatusCreated && a.saga.ID != "":
		return a.saga.ID, nil
	case refused && a.header.Get("Retry-After") != "":
		return "", nil
	case refused:
		return "", fmt.Errorf("a start was refused with %d without Retry-After, %.300s", a.status, a.body)
	}
	return "", fmt.Errorf("a start got the response %d, %.300s", a.status, a.body)
}
