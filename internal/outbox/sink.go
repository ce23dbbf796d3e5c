package outbox

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/journal"
	"recourse/retry"
)

// Sink is an outside address that gets events. What it gets is decided when an event is written, by
// the node that writes it: Types and Notify do not change what is delivered.
type Sink struct {
	Name    string
	URL     string
	Secrets []string // names of the secrets that sign its events; none: no signature
	// Types are patterns of the types of emitted events that the sink gets (see saga.MatchEvent).
	// None: all, or no events if it has Notify.
	Types  []string
	Notify []string // the notifications that it gets, of notify.Kinds
}

// Emitted reports whether the sink gets events that sagas emit.
func (s *Sink) Emitted() bool { return len(s.Types) > 0 || len(s.Notify) == 0 }

// backoff is the delay after a failed delivery: 5 s, then three times as long each time, up to an
// hour. Notifications of doubts and approvals must arrive soon after an outage.
var backoff = retry.Policy{Initial: 5 * time.Second, Max: time.Hour, Factor: 3000, Jitter: 200}

// local bounds the delay after a failure that this server's configuration causes.
const local = 5 * time.Minute

// worker delivers to one sink.
type worker struct {
	Sink
	*Outbox
	queue chan queued
	held  atomic.Int64 // bytes of the events that are queued or in delivery

	delivered, failed, dropped atomic.Int64
	failing                    atomic.Bool
}

// queued is an event to deliver, and the time at which another node may claim it.
type queued struct {
	journal.Delivery
	until time.Time
}

// run delivers the queued events until the queue is closed. ctx ends requests in flight.
func (w *worker) run(ctx context.Context) {
	for q := range w.queue {
		// After its lease another node may claim it, so the response must arrive before.
		if ctx.Err() == nil && time.Until(q.until) > w.cfg.Timeout+margin {
			w.deliver(ctx, q.Delivery)
		}
		w.held.Add(-int64(len(q.Data)))
	}
}

// deliver tries once, and records the result.
func (w *worker) deliver(ctx context.Context, d journal.Delivery) {
	r := w.post(ctx, d)
	if ctx.Err() != nil && !r.ok {
		return // this process is stopping: the event is due again when its lease ends
	}
	switch {
	case r.ok:
		w.delivered.Add(1)
		w.cfg.Delivered(w.Name, max(w.cfg.Now().Sub(d.Since), 0))
		if w.failing.Swap(false) {
			w.log.Info("recovered: sink accepts events again", "sink", w.Name)
		}
		w.done(ctx, d)
	case r.gone:
		w.dropped.Add(1)
		w.log.Warn("sink responded 410 Gone, so the event was dropped: remove the sink from the configuration", "sink", w.Name, "event", d.ID, "saga", d.Saga)
		w.done(ctx, d)
	default:
		w.failed.Add(1)
		wait := max(backoff.Delay(d.Attempts+1, rand.Uint64()), r.after)
		if r.local {
			wait = min(wait, local)
		}
		level := slog.LevelDebug
		if !w.failing.Swap(true) {
			level = slog.LevelWarn // the first failure in a row
		}
		w.log.Log(ctx, level, "could not deliver an event; the node will retry", "sink", w.Name, "event", d.ID, "saga", d.Saga, "attempt", d.Attempts+1, "why", r.why, "after", wait)
		w.record(ctx, "postpone an event", func(ctx context.Context) error { return w.cfg.Store.EventFailed(ctx, d.ID, w.Name, wait, r.why) })
	}
}

func (w *worker) done(ctx context.Context, d journal.Delivery) {
	w.record(ctx, "record a delivery", func(ctx context.Context) error { return w.cfg.Store.EventDelivered(ctx, d.ID, w.Name) })
}

// result is the result of one request.
type result struct {
	ok    bool
	gone  bool          // retries are useless
	local bool          // nothing was sent
	why   string        // one line; no secrets
	after time.Duration // the delay that the sink asks for
}

func (w *worker) post(ctx context.Context, d journal.Delivery) result {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	u, f := egress.ParseURL(w.URL)
	if f != nil {
		return result{local: true, why: "the sink's URL cannot be used: " + f.Why}
	}
	var keys [][]byte
	for _, name := range w.Secrets {
		text, err := w.cfg.Secret(name)
		if err != nil {
			return result{local: true, why: err.Error()}
		}
		key, err := readSecret(text)
		if err != nil {
			return result{local: true, why: "secret " + name + ": " + err.Error()}
		}
		keys = append(keys, key)
	}
	now := w.cfg.Now()
	header := http.Header{
		"Content-Type":      {"application/cloudevents+json"},
		"webhook-id":        {d.ID.String()}, // with the capitalization of the specification
		"webhook-timestamp": {strconv.FormatInt(now.Unix(), 10)},
	}
	if len(keys) > 0 {
		header["webhook-signature"] = []string{sign(keys, d.ID.String(), now, d.Data)}
	}
	resp, f := w.sender.Send(ctx, egress.Request{Method: http.MethodPost, URL: u, Header: header, Body: d.Data})
	switch {
	case f != nil && f.Code == egress.CodeTimeout:
		return result{why: fmt.Sprintf("no response within %v", w.cfg.Timeout)}
	case f != nil:
		return result{why: httptext.Clip(httptext.Printable(f.Why), maxWhy)}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be reused
	r := result{ok: resp.StatusCode >= 200 && resp.StatusCode <= 299, gone: resp.StatusCode == http.StatusGone}
	if !r.ok {
		r.why = "the sink responded with status " + strconv.Itoa(resp.StatusCode)
		r.after = retry.After(resp.Header.Get("Retry-After"), now)
	}
	return r
}

// maxWhy bounds the reason of a failure, in bytes: it may contain data from the sink.
const maxWhy = 300
