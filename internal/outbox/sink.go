package outbox

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// Sink is an address outside that gets events.
type Sink struct {
	Name    string
	URL     string
	Secrets []string // names of the secrets that its events are signed with; none: they are not signed
	Types   []string // patterns of the types it gets of what sagas emit (see saga.MatchEvent); none: all, or nothing if it has Notify
	Notify  []string // what it is told of beside, of saga.NoticeKinds
}

// Emitted reports whether the sink takes anything that sagas emit.
func (s *Sink) Emitted() bool { return len(s.Types) > 0 || len(s.Notify) == 0 }

// gets reports whether the sink is to get an event.
func (s *Sink) gets(event json.RawMessage) bool {
	var head struct {
		Type string `json:"type"`
	}
	err := json.Unmarshal(event, &head)
	switch {
	case strings.HasPrefix(head.Type, saga.OwnEvents):
		return slices.Contains(s.Notify, saga.NoticeKind(head.Type))
	case len(s.Types) == 0:
		return s.Emitted()
	}
	return err == nil && slices.ContainsFunc(s.Types, func(p string) bool { return saga.MatchEvent(p, head.Type) })
}

// between is how long a failed delivery waits for the next: 5 s, three times as long each time, up
// to an hour: what the server tells of doubts and approvals is to come soon after an outage.
var between = retry.Policy{Initial: 5 * time.Second, Max: time.Hour, Factor: 3000, Jitter: 200}

// local is the longest wait after a failure that this server's configuration is the reason of.
const local = 5 * time.Minute

// worker delivers to one sink.
type worker struct {
	Sink
	*Outbox
	queue chan queued

	delivered, failed, dropped atomic.Int64
	failing                    atomic.Bool
}

// queued is a delivery on its way, and when somebody else may get it.
type queued struct {
	journal.Delivery
	until time.Time
}

// run delivers what is queued until the queue is closed. ctx ends requests under way.
func (w *worker) run(ctx context.Context) {
	for q := range w.queue {
		// Past its lease it may be in other hands; an answer has to come before that.
		if ctx.Err() == nil && time.Until(q.until) > w.cfg.Timeout+margin {
			w.deliver(ctx, q.Delivery)
		}
	}
}

// deliver tries once, and writes down what came of it.
func (w *worker) deliver(ctx context.Context, d journal.Delivery) {
	if !w.gets(d.Data) {
		w.done(ctx, d)
		return
	}
	r := w.post(ctx, d)
	if ctx.Err() != nil && !r.ok {
		return // this process is stopping: the event is due again when its lease is over
	}
	switch {
	case r.ok:
		w.delivered.Add(1)
		w.cfg.Delivered(w.Name, max(w.cfg.Now().Sub(d.Since), 0))
		if w.failing.Swap(false) {
			w.log.Info("sink takes events again", "sink", w.Name)
		}
		w.done(ctx, d)
	case r.gone:
		w.dropped.Add(1)
		w.log.Warn("sink wants no more events (410 Gone), so this one is dropped: take the sink out of the configuration", "sink", w.Name, "event", d.ID, "saga", d.Saga)
		w.done(ctx, d)
	default:
		w.failed.Add(1)
		wait := max(between.Delay(d.Attempts+1, rand.Uint64()), r.after)
		if r.local {
			wait = min(wait, local)
		}
		level := slog.LevelDebug
		if !w.failing.Swap(true) {
			level = slog.LevelWarn // the first of a row
		}
		w.log.Log(ctx, level, "event was not delivered; it is tried again", "sink", w.Name, "event", d.ID, "saga", d.Saga, "attempt", d.Attempts+1, "why", r.why, "after", wait)
		w.keep(ctx, "put an event off", func(ctx context.Context) error { return w.cfg.Store.EventFailed(ctx, d.ID, w.Name, wait, r.why) })
	}
}

func (w *worker) done(ctx context.Context, d journal.Delivery) {
	w.keep(ctx, "forget a delivered event", func(ctx context.Context) error { return w.cfg.Store.EventDelivered(ctx, d.ID, w.Name) })
}

// result is what came of one request.
type result struct {
	ok    bool
	gone  bool          // it is of no use to try again
	local bool          // nothing was sent
	why   string        // one line; no secrets
	after time.Duration // what the sink asks for
}

func (w *worker) post(ctx context.Context, d journal.Delivery) result {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL, bytes.NewReader(d.Data))
	if err != nil {
		return result{local: true, why: "the sink's URL cannot be used"}
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
	req.Header.Set("Content-Type", "application/cloudevents+json")
	req.Header.Set("User-Agent", w.cfg.UserAgent)
	req.Header["webhook-id"] = []string{d.ID.String()} // as the specification writes them
	req.Header["webhook-timestamp"] = []string{strconv.FormatInt(now.Unix(), 10)}
	if len(keys) > 0 {
		req.Header["webhook-signature"] = []string{sign(keys, d.ID.String(), now, d.Data)}
	}
	var connected, answered atomic.Bool
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { connected.Store(true) },
		GotFirstResponseByte: func() { answered.Store(true) },
	}))
	resp, err := w.client.Do(req)
	switch {
	case err != nil && connected.Load() && !answered.Load() && req.Context().Err() == nil:
		// Data that came before the request was sent is no answer to it either, and net/http's
		// words for that are of its insides.
		return result{why: "the connection ended without an answer to this request"}
	case err != nil:
		return result{why: w.reason(err)}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // so that the connection can be used again; what it says is of no interest
	r := result{ok: resp.StatusCode >= 200 && resp.StatusCode <= 299, gone: resp.StatusCode == http.StatusGone}
	if !r.ok {
		r.why = "it answered with the status " + strconv.Itoa(resp.StatusCode)
		r.after = retry.After(resp.Header.Get("Retry-After"), now)
	}
	return r
}

// maxWhy bounds why a delivery failed, in characters: what the sink has sent may be in it.
const maxWhy = 300

// reason says in one line why there was no answer, without the URL, which may have a password in
// it.
func (w *worker) reason(err error) string {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Sprintf("no answer within %v", w.cfg.Timeout)
	}
	why := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, err.Error()))
	if len(why) > maxWhy {
		return string(why[:maxWhy-1]) + "…"
	}
	return string(why)
}
