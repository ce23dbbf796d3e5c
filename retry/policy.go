// Package retry computes the delay before a retry: from a policy ([Policy]), and from the
// Retry-After header of a response ([After]). It also has exact amounts of money, and the account
// that compares a saga's cost with its budget. It has no clock and no random numbers: both are
// parameters.
package retry

import (
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Policy says how often and how soon a step is retried.
type Policy struct {
	Attempts int           // the highest number of attempts; 0: no limit
	Initial  time.Duration // the delay after the first attempt
	Max      time.Duration // the longest delay
	Factor   int           // growth per attempt, in thousandths: 2000 doubles
	Jitter   int           // ± share of the delay, in thousandths: 300 is ±30 %
	On       []string      // if not empty, only these failures are retried
	NotOn    []string      // these failures are not retried
}

// Default is four attempts, 1 s doubling up to 60 s, ±30 %.
func Default() Policy {
	return Policy{Attempts: 4, Initial: time.Second, Max: time.Minute, Factor: 2000, Jitter: 300}
}

// Forever is the default of compensations: unlimited attempts, up to five minutes apart.
func Forever() Policy {
	p := Default()
	p.Attempts, p.Max = 0, 5*time.Minute
	return p
}

// Left reports whether another attempt is allowed after so many.
func (p Policy) Left(attempts int) bool { return p.Attempts == 0 || attempts < p.Attempts }

// Delay returns how long to wait after an attempt (1, 2, …). random is uniformly distributed over
// all of uint64 and determines the jitter. The result is in whole milliseconds, never negative, and
// never above Max plus its jitter.
func (p Policy) Delay(attempt int, random uint64) time.Duration {
	d := p.interval(attempt)
	spread := int64(d) / 1000 * int64(p.Jitter)
	if spread > 0 {
		// The high half of a 128-bit product is uniform in [0, 2·spread].
		hi, _ := bits.Mul64(random, uint64(2*spread+1))
		d += time.Duration(int64(hi) - spread)
	}
	return max(d, 0).Round(time.Millisecond)
}

// interval returns the delay without jitter. backoff computes the growth, but not the jitter,
// because it would use the global source of random numbers.
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
			break // at the maximum, or with a factor of one
		}
		d = min(next, p.Max)
	}
	return d
}

// Retries reports whether a failure with these names is retried. A name is a status ("429"), a
// class of statuses ("5xx"), or a code ("timeout"). byDefault is the result if the policy names
// none of them.
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

// Names returns the names of a failure in `on` and `not_on`: its status, its status's class, and
// its code.
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
