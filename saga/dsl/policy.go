package dsl

import (
	"fmt"
	"regexp"
	"strconv"
	"time"

	"recourse/retry"
	"recourse/saga"
)

// defaults are the values that the top-level key `defaults` sets for all steps.
type defaults struct {
	retry   retry.Policy
	timeout time.Duration // 0: the kind's timeout
	inDoubt *Node
	hold    bool          // on_error: hold
	holdFor time.Duration // 0: until a person resumes the saga
}

func (p *parser) setDefaults(n *Node) {
	p.known(n, "defaults", []string{"retry", "timeout", "in_doubt", "on_error", "hold_for"})
	if v := n.Get("retry"); v != nil {
		p.defaults.retry = p.retry(v, retry.Default())
	}
	if v := n.Get("timeout"); v != nil {
		p.defaults.timeout, _ = p.duration(v, time.Millisecond)
	}
	if v := n.Get("in_doubt"); v != nil {
		if _, ok := p.oneOf(v, "retry", "ask", "fail"); ok {
			p.defaults.inDoubt = v
		}
	}
	if v := n.Get("on_error"); v != nil {
		word, _ := p.oneOf(v, "fail", "hold")
		p.defaults.hold = word == "hold"
	}
	if v := n.Get("hold_for"); v != nil {
		p.defaults.holdFor, _ = p.duration(v, time.Second)
	}
}

// retry reads n, none, forever or a map. A map changes the parts of base that it names.
func (p *parser) retry(n *Node, base retry.Policy) retry.Policy {
	if n.Form == Scalar {
		return p.retryWord(n, base)
	}
	p.known(n, "retry", []string{"attempts", "initial", "factor", "max", "jitter", "on", "not_on"})
	r := base
	if v := n.Get("attempts"); v != nil {
		i, _ := p.whole(v, 1, 1_000_000)
		r.Attempts = int(i)
	}
	if v := n.Get("initial"); v != nil {
		r.Initial, _ = p.duration(v, time.Millisecond)
	}
	if v := n.Get("max"); v != nil {
		r.Max, _ = p.duration(v, time.Millisecond)
	}
	if v := n.Get("factor"); v != nil {
		r.Factor = p.thousandths(v, 1000, 100_000, "a number from 1 to 100 with at most three places, such as 2 or 1.5")
	}
	if v := n.Get("jitter"); v != nil {
		r.Jitter = p.thousandths(v, 0, 1000, "a number from 0 to 1 with at most three places, such as 0.3")
	}
	if v := n.Get("on"); v != nil {
		r.On = p.reasons(v)
	}
	if v := n.Get("not_on"); v != nil {
		r.NotOn = p.reasons(v)
	}
	if v := n.Get("initial"); v != nil && r.Max < r.Initial {
		if n.Get("max") != nil {
			p.fail(v, "bad_retry", fmt.Sprintf("initial (%v) is longer than max (%v)", r.Initial, r.Max))
		} else {
			r.Max = r.Initial
		}
	}
	return r
}

func (p *parser) retryWord(n *Node, base retry.Policy) retry.Policy {
	if n.kind == numberScalar {
		i, _ := p.whole(n, 1, 1_000_000)
		base.Attempts = int(i)
		return base
	}
	word, _ := p.oneOf(n, "none", "forever")
	switch word {
	case "none":
		base.Attempts = 1
	case "forever":
		base.Attempts = 0
		base.Max = retry.Forever().Max
	}
	return base
}

var statusOrClass = regexp.MustCompile(`^([45]xx|[1-5][0-9][0-9])$`)

// reasons are the codes that retry.on and not_on may name, in addition to statuses.
var reasons = []string{"timeout", "connection", "dns", "tls", "body_cut", "body_invalid", "body_too_large", "interrupted", "task_failed", "heartbeat_lost"}

// reasons reads names of failures: a status, 4xx or 5xx, or a code.
func (p *parser) reasons(n *Node) []string {
	items := n.Items
	if n.Form == Scalar {
		items = []*Node{n}
	}
	if len(items) == 0 {
		p.expect(n, "a list of statuses (429), classes (5xx) and codes (timeout)")
	}
	var out []string
	for _, item := range items {
		switch {
		case item.Form == Scalar && statusOrClass.MatchString(item.value), item.IsText() && contains(reasons, item.value):
			out = append(out, item.value)
		case item.Form == Scalar && !item.IsNull():
			p.fail(item, "unknown_value", fmt.Sprintf("%q is no status (429), class (4xx, 5xx) or code (%s)%s", clip(item.value, 40), quoted(reasons), Suggest(item.value, append([]string{"4xx", "5xx"}, reasons...))))
		default:
			p.expect(item, "a status, 4xx, 5xx or a code")
		}
	}
	return out
}

// statuses reads the list of statuses that count as success.
func (p *parser) statuses(n *Node) []saga.StatusRange {
	items := n.Items
	if n.Form == Scalar {
		items = []*Node{n}
	}
	if len(items) == 0 {
		p.expect(n, `a status (201), a class ("2xx") or a list of them`)
	}
	var out []saga.StatusRange
	for _, item := range items {
		if item.Form == Scalar && len(item.value) == 3 && item.value[0] >= '1' && item.value[0] <= '5' {
			from := int(item.value[0]-'0') * 100
			if item.value[1:] == "xx" {
				out = append(out, saga.StatusRange{From: from, To: from + 99})
				continue
			}
			if rest, ok := p.twoDigits(item.value[1:]); ok && (item.kind == numberScalar || item.IsText()) {
				out = append(out, saga.StatusRange{From: from + rest, To: from + rest})
				continue
			}
		}
		p.expect(item, `a status from 100 to 599 or a class such as "2xx"`)
	}
	return out
}

// twoDigits reads the last two digits of a status. A published definition may have others in place
// of them, which were read as this one reads them.
func (p *parser) twoDigits(text string) (n int, ok bool) {
	if p.options.Stored {
		_, err := fmt.Sscanf(text, "%02d", &n)
		return n, err == nil
	}
	v, err := strconv.ParseUint(text, 10, 8)
	return int(v), err == nil
}

// expectation reads {status, schema, that, refused, error}.
func (p *parser) expectation(n *Node, s *scope) saga.Expect {
	var e saga.Expect
	s.result = nil // the action's expectation, which this one replaces
	p.known(n, "expect", []string{"status", "schema", "that", "refused", "error"})
	if v := n.Get("status"); v != nil {
		e.Status = p.statuses(v)
	}
	if v := n.Get("refused"); v != nil { // evaluated before the schema, which does not type it
		e.Refused = p.condition(v, s, OnResult)
	}
	if v := n.Get("schema"); v != nil {
		if schema := p.answerSchema(v); schema != nil {
			e.Schema, s.result = schema, schema.answer()
		}
	}
	if v := n.Get("that"); v != nil {
		e.That = p.condition(v, s, OnResult)
	}
	if v := n.Get("error"); v != nil {
		if word, ok := p.str(v, "an error code"); ok && !stepName.MatchString(word) {
			p.fail(v, "bad_name", "an error code is a small letter, then small letters, digits or _")
		} else {
			e.Error = word
		}
		if n.Get("that") == nil && n.Get("refused") == nil {
			p.fail(v, "missing_key", "error names the failure of that, or of refused: add one, or remove error")
		}
	}
	return e
}
