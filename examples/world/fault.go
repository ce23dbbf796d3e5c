package world

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ErrRule is wrapped by all errors about invalid rules.
var ErrRule = errors.New("bad fault rule")

// Values of Do.Before and Do.After.
const (
	FaultDrop  = "drop"  // before, after: close the connection without a byte
	FaultReset = "reset" // before, after: the same, with a TCP reset
	FaultHang  = "hang"  // before, after: no response until the client disconnects
	// FaultStatus, before or after, responds with Do.Status, and with Do.RetryAfter, Do.Redirect
	// and Do.Body.
	FaultStatus   = "status"
	FaultCut      = "cut"       // after: half of the body that Content-Length promises, then close
	FaultTruncate = "truncate"  // after: half of the body, with a matching Content-Length
	FaultGarbage  = "garbage"   // after: 200 with Content-Type JSON, and a body that is not JSON
	FaultOversize = "oversize"  // after: valid JSON of more than Do.MiB MiB
	FaultGzipBomb = "gzip_bomb" // after: a small gzip body that inflates to JSON of more than Do.MiB MiB
	FaultSlow     = "slow"      // after: a byte of the body every Do.SlowMS ms
)

var (
	beforeFaults = []string{FaultDrop, FaultReset, FaultHang, FaultStatus}
	afterFaults  = []string{FaultDrop, FaultReset, FaultHang, FaultStatus, FaultCut, FaultTruncate, FaultGarbage,
		FaultOversize, FaultGzipBomb, FaultSlow}
)

const (
	defaultMiB = 16
	maxMiB     = 1024
)

// Rule injects a fault into some requests. The zero Match matches every request to a service,
// except control paths.
type Rule struct {
	Match Match `json:"match"`
	Skip  int   `json:"skip,omitempty"`  // number of matching requests that pass first
	Times int   `json:"times,omitempty"` // number of requests with the fault after that; 0 for all
	Do    Do    `json:"do"`
}

// Match selects requests: every set field must match.
type Match struct {
	Method       string `json:"method,omitempty"`
	PathPrefix   string `json:"path_prefix,omitempty"` // prefix of the path without the query, such as /pay/charges
	BodyContains string `json:"body_contains,omitempty"`
	Key          string `json:"key,omitempty"` // the idempotency key, from header or body
}

// Do is the effect of a rule on a request. At most one of Before and After is set. Delays continue
// when the client disconnects: a request without a client may still take effect.
type Do struct {
	LateMS     int    `json:"late_ms,omitempty"`     // the network delays the request: its key is still free
	DelayMS    int    `json:"delay_ms,omitempty"`    // the service delays the effect: its key is in flight, 409
	Before     string `json:"before,omitempty"`      // a fault instead of the effect
	After      string `json:"after,omitempty"`       // a fault instead of the response, after the effect
	Status     int    `json:"status,omitempty"`      // for FaultStatus; 307 if there is a Redirect
	RetryAfter string `json:"retry_after,omitempty"` // for FaultStatus: the header, unchecked
	Body       string `json:"body,omitempty"`        // for FaultStatus: the body; by default a problem
	// Redirect is the Location of FaultStatus. Without Before and After it implies before: status.
	Redirect string `json:"redirect,omitempty"`
	GzipBomb bool   `json:"gzip_bomb,omitempty"` // the same as after: gzip_bomb
	MiB      int    `json:"mib,omitempty"`       // for FaultOversize and FaultGzipBomb; 16
	SlowMS   int    `json:"slow_ms,omitempty"`   // for FaultSlow
	// Duplicate is how many times more the network delivers the request, before the response.
	Duplicate int `json:"duplicate,omitempty"`
}

// FaultState is a rule and its counts.
type FaultState struct {
	Rule    Rule `json:"rule"`
	Matched int  `json:"matched"` // matching requests that no earlier rule handled
	Fired   int  `json:"fired"`   // those with the fault
}

// normal returns the rule with its shorthands expanded, or an error that wraps ErrRule.
func (r Rule) normal() (Rule, error) {
	d := &r.Do
	if d.GzipBomb && d.After == "" {
		d.After = FaultGzipBomb
	}
	if d.Redirect != "" {
		if d.Before == "" && d.After == "" {
			d.Before = FaultStatus
		}
		if d.Status == 0 {
			d.Status = 307
		}
	}
	if d.MiB == 0 && (d.After == FaultOversize || d.After == FaultGzipBomb) {
		d.MiB = defaultMiB
	}
	return r, r.check()
}

func (r Rule) check() error {
	d := r.Do
	status := d.Before == FaultStatus || d.After == FaultStatus
	wrong := []struct {
		is  bool
		say string
	}{
		{r.Skip < 0 || r.Times < 0 || d.LateMS < 0 || d.DelayMS < 0 || d.SlowMS < 0 || d.Duplicate < 0, "counts and times must not be negative"},
		{d == (Do{}), "do is empty: say what happens to the requests that match"},
		{d.Before != "" && !slices.Contains(beforeFaults, d.Before), "before must be one of " + strings.Join(beforeFaults, ", ")},
		{d.After != "" && !slices.Contains(afterFaults, d.After), "after must be one of " + strings.Join(afterFaults, ", ")},
		{d.Before != "" && d.After != "", "before and after exclude each other: add two rules"},
		{d.GzipBomb && d.After != FaultGzipBomb, "gzip_bomb is an after fault itself: leave after out"},
		{status && (d.Status < 200 || d.Status > 599), "status must be from 200 to 599"},
		{!status && (d.Status != 0 || d.RetryAfter != "" || d.Body != "" || d.Redirect != ""), "status, retry_after, body and redirect need before: status or after: status"},
		{d.Duplicate > 0 && d.Before != "", "duplicate needs a request that is carried out: leave before out"},
		{d.MiB < 0 || d.MiB > maxMiB, fmt.Sprintf("mib must be from 1 to %d", maxMiB)},
		{d.MiB != 0 && d.After != FaultOversize && d.After != FaultGzipBomb, "mib needs after: oversize or gzip_bomb"},
		{(d.SlowMS != 0) != (d.After == FaultSlow), "after: slow and slow_ms need each other"},
	}
	for _, w := range wrong {
		if w.is {
			return fmt.Errorf("%w: %s", ErrRule, w.say)
		}
	}
	return nil
}

// String returns the fault's name in the ledger, such as "delay=50ms after=drop".
func (d Do) String() string {
	var parts []string
	add := func(set bool, format string, v any) {
		if set {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add(d.LateMS > 0, "late=%s", time.Duration(d.LateMS)*time.Millisecond)
	add(d.DelayMS > 0, "delay=%s", time.Duration(d.DelayMS)*time.Millisecond)
	add(d.Before != "", "before=%s", d.Before)
	add(d.After != "", "after=%s", d.After)
	add(d.Status != 0, "status=%d", d.Status)
	add(d.Duplicate > 0, "duplicate=%d", d.Duplicate)
	return strings.Join(parts, " ")
}

// fault returns Before or After; "" for none.
func (d Do) fault() string { return d.Before + d.After }

// matches reports whether the rule applies to this request.
func (m Match) matches(c *call) bool {
	return (m.Method == "" || strings.EqualFold(m.Method, c.method)) &&
		strings.HasPrefix(c.path, m.PathPrefix) &&
		(m.BodyContains == "" || strings.Contains(string(c.body), m.BodyContains)) &&
		(m.Key == "" || m.Key == c.key)
}

// choose counts the request and returns the effect of the first rule that fires; the zero Do if
// none does.
func choose(rules []*FaultState, c *call) Do {
	for _, f := range rules {
		if !f.Rule.Match.matches(c) {
			continue
		}
		f.Matched++
		if f.Matched <= f.Rule.Skip || f.Rule.Times > 0 && f.Fired >= f.Rule.Times {
			continue
		}
		f.Fired++
		return f.Rule.Do
	}
	return Do{}
}
