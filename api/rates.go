package api

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is how many requests a principal may make: PerSecond in the long run, Burst at once. A zero one has no bound.
type Rate struct {
	PerSecond float64
	Burst     int // at least 1; 0: PerSecond, rounded up
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

// wait takes a token for a request, and says how long the principal has to wait if there is none; 0: there was one.
func (b *buckets) wait(name string, now time.Time) time.Duration {
	r, named := b.rates.Names[name]
	if !named {
		r = b.rates.Each
	}
	if r.PerSecond <= 0 {
		return 0
	}
	b.mu.Lock()
	l := b.of[name]
	if l == nil {
		burst := r.Burst
		if burst <= 0 {
			burst = int(math.Ceil(r.PerSecond))
		}
		l = rate.NewLimiter(rate.Limit(r.PerSecond), burst)
		if b.of == nil {
			b.of = make(map[string]*rate.Limiter)
		}
		b.of[name] = l
	}
	b.mu.Unlock()
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
	seconds := int(math.Ceil(delay.Seconds()))
	return fail("rate_limited", "%q makes more requests than it may; nothing was done: send it again in %d s. The server's configuration (limits) says how many", who.name, seconds).after(seconds)
}
