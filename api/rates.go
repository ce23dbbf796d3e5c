package api

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is how many requests a principal may make: one Every so long in the long run, Burst at once.
// A zero one has no bound.
type Rate struct {
	Every time.Duration
	Burst int // 0: 1
}

// Rates bound the requests of each principal, who is a name however many keys it has.
type Rates struct {
	Each  Rate            // of everybody who is not named, each
	Names map[string]Rate // of those who are; nobody: no bound
}

// buckets are the principals' token buckets.
type buckets struct {
	mu    sync.Mutex
	rates Rates
	of    map[string]*rate.Limiter // by name; of as many as there are names of keys
}

// wait takes a token for a request, and says how long the principal has to wait if there is none;
// 0: there was one.
func (b *buckets) wait(name string, now time.Time) time.Duration {
	r, named := b.rates.Names[name]
	if !named {
		r = b.rates.Each
	}
	if r.Every <= 0 {
		return 0
	}
	b.mu.Lock() // until the token is back: a reservation that comes between would keep it
	defer b.mu.Unlock()
	l := b.of[name]
	if l == nil {
		l = rate.NewLimiter(rate.Every(r.Every), max(r.Burst, 1))
		if b.of == nil {
			b.of = make(map[string]*rate.Limiter)
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

// limited refuses a request of a principal who makes too many.
func (s *server) limited(who caller) error {
	delay := s.buckets.wait(who.name, time.Now())
	if delay == 0 {
		return nil
	}
	s.metrics.limited.WithLabelValues(who.role).Inc()
	seconds := int((delay + time.Second - 1) / time.Second)
	return fail("rate_limited", "%q makes more requests than it may; nothing was done: send it again in %d s. The server's configuration (limits) says how many", who.name, seconds).after(seconds)
}
