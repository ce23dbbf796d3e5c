package api

import (
	"context"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate limits the requests of a principal: Burst at once, and one per Every in the long run. The
// zero Rate is no limit.
type Rate struct {
	Every time.Duration
	Burst int // 0: 1
}

// Rates limit the requests of each principal. A principal is a name, however many keys it has.
type Rates struct {
	Each  Rate            // of each principal without its own rate
	Names map[string]Rate // by principal; a zero rate is no limit
}

// buckets are the principals' token buckets.
type buckets struct {
	mu    sync.Mutex
	rates Rates
	of    map[string]*rate.Limiter // by name; only names of keys and subjects appear
}

// mostBuckets is how many buckets are kept before full ones are dropped.
const mostBuckets = 10_000

// wait takes a token for a request. It returns how long the principal has to wait if there is none,
// 0 if there was one.
func (b *buckets) wait(name string, now time.Time) time.Duration {
	r, named := b.rates.Names[name]
	if !named {
		r = b.rates.Each
	}
	if r.Every <= 0 {
		return 0
	}
	b.mu.Lock() // until the token is returned, so that no concurrent reservation counts it
	defer b.mu.Unlock()
	l := b.of[name]
	if l == nil {
		l = rate.NewLimiter(rate.Every(r.Every), max(r.Burst, 1))
		if b.of == nil {
			b.of = make(map[string]*rate.Limiter)
		}
		if len(b.of) >= mostBuckets {
			// A full bucket says nothing that a new one does not.
			maps.DeleteFunc(b.of, func(_ string, l *rate.Limiter) bool { return int(l.TokensAt(now)) >= l.Burst() })
		}
		b.of[name] = l
	}
	token := l.ReserveN(now, 1)
	delay := token.DelayFrom(now)
	if delay > 0 {
		token.CancelAt(now)
	}
	return delay
}

// limited returns a problem if the caller is over its rate limit. The requests of a tool count as
// one: the request to the MCP server was counted.
func (s *server) limited(ctx context.Context, who caller) error {
	if ctx.Value(fromMCP{}) != nil {
		return nil
	}
	delay := s.buckets.wait(who.name, time.Now())
	if delay == 0 {
		return nil
	}
	s.metrics.limited.WithLabelValues(who.role).Inc()
	seconds := int((delay + time.Second - 1) / time.Second)
	return fail("rate_limited", "%q is over its rate limit; nothing was done: retry in %d s. The limits are in the server's configuration (limits)", who.name, seconds).after(seconds)
}
