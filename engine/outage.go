package engine

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// outage logs a failure that lasts: when it begins, once a minute, and when it is over. A failure
// that happens ten times a second must not fill the log.
type outage struct {
	what  string // "could not …"
	log   *slog.Logger
	level slog.Level

	mu     sync.Mutex
	since  time.Time // zero: none
	logged time.Time
	failed int
}

// againAfter is the interval at which an outage that lasts is logged again.
const againAfter = time.Minute

// observe takes in the result of a try. more is logged with the error.
func (o *outage) observe(err error, more ...any) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := time.Now()
	if err == nil {
		if o.failed > 1 {
			o.log.Info("recovered from: "+o.what, "after", now.Sub(o.since).Round(time.Millisecond), "failures", o.failed)
		}
		o.since, o.failed = time.Time{}, 0
		return
	}
	o.failed++
	if o.since.IsZero() {
		o.since = now
	} else if now.Sub(o.logged) < againAfter {
		return
	}
	o.logged = now
	o.log.Log(context.Background(), o.level, o.what, append([]any{"error", err, "failures", o.failed, "since", o.since.UTC().Format(time.RFC3339)}, more...)...)
}
