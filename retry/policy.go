// Package retry turns a policy into delays and a budget into arithmetic. It has
// no clock and no randomness: both are handed in.
package retry

import (
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Policy is how often and how fast a step is tried.
type Policy struct {
	Attempts int           // the most attempts there are; 0: no end
	Initial  time.Duration // the delay after the first attempt
	Max      time.Duration // the longest delay
	Factor   int           // growth per attempt, in thousandths: 2000 doubles
	Jitter   int           // ± share of the delay, in thousandths: 300 is ±30 %
	On       []string      // when not empty, only these are retried
	NotOn    []string      // these are not
}

// Default is four attempts, 1 s doubling up to 60 s, ±30 %.
func Default() Policy {
	return Policy{Attempts: 4, Initial: time.Second, Max: time.Minute, Factor: 2000, Jitter: 300}
}

// Forever is the default of compensations: no end, up to five minutes apart.
func Forever() Policy {
	p := Default()
	p.Attempts, p.Max = 0, 5*time.Minute
	return p
}

// Left reports whether another attempt is allowed after so many.
func (p Policy) Left(attempts int) bool { return p.Attempts == 0 || attempts < p.Attempts }

// Delay returns how long to wait after attempt (1, 2, …), with chance, any
// number drawn evenly from all of uint64, choosing the place within the jitter.
// The result is whole milliseconds, never negative, and never above Max plus its jitter.
func (p Policy) Delay(attempt int, chance uint64) time.Duration {
	d := p.interval(attempt)
	spread := int64(d) / 1000 * int64(p.Jitter)
	if spread > 0 {
		// High half of a 128-bit product: an even draw from [0, 2·spread].
		hi, _ := bits.Mul64(chance, uint64(2*spread+1))
		d += time.Duration(int64(hi) - spread)
	}
	return max(d, 0).Round(time.Millisecond)
}

// interval is the delay without jitter. The growth is backoff's; the jitter is
// ours, because backoff draws it from the global source.
func (p Policy) interval(attempt int) time.Duration {
	if p.Initial <= 0 {
		return 0
	}
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(p.Initial),
		backoff.WithRandomizationFactor(0),
		backoff.WithMultiplier(float64(p.Factor)/1000),
		backoff.WithMaxInterval(p.Max),
		backoff.WithMaxElapsedTime(0),
	)
	d := min(p.Initial, p.Max)
	for i := 1; i <= attempt; i++ {
		next := b.NextBackOff()
		if i > 1 && next == d {
			break // at the ceiling, or a factor of one
		}
		d = min(next, p.Max)
	}
	return d
}

// Retries reports whether a failure that goes by these names is to be retried:
// a name is a status ("429"), a class of statuses ("5xx"), or a code ("timeout").
// byDefault is what holds when the policy names none of them.
func (p Policy) Retries(names []string, byDefault bool) bool {
	hit := func(list []string) bool {
		return slices.ContainsFunc(list, func(s string) bool { return slices.Contains(names, s) })
	}
	if hit(p.NotOn) {
		return false
	}
	if len(p.On) > 0 {
		return hit(p.On)
	}
	return byDefault
}

// Names lists what a failure goes by in `on` and `not_on`: its status, its
// status's class, and its code.
func Names(status int, code string) []string {
	var names []string
	if status > 0 {
		names = append(names, strconv.Itoa(status), strconv.Itoa(status/100)+"xx")
	}
	if code != "" {
		names = append(names, code)
	}
	return names
}
