package dsl

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"recourse/retry"
	"recourse/saga"
)

// expect reports that n is not the value that belongs here, and what to write.
func (p *parser) expect(n *Node, want string) {
	p.fail(n, "wrong_type", "expected "+want+", not "+n.what())
}

// known reports the keys of a map that are not in the list. what names the map. It returns whether
// all are in the list, and false if n is not a map.
func (p *parser) known(n *Node, what string, keys []string) bool {
	if n.Form != Map {
		p.expect(n, "a map with "+quoted(keys))
		return false
	}
	ok := true
	for _, e := range n.Entries {
		if !slices.Contains(keys, e.Name()) {
			p.fail(e.Key, "unknown_key", fmt.Sprintf("%s has no key %q%s", what, clip(e.Name(), 60), orOnly(e.Name(), keys)))
			ok = false
		}
	}
	return ok
}

// str reads plain text without expressions.
func (p *parser) str(n *Node, want string) (string, bool) {
	if n.IsText() {
		return n.value, true
	}
	if n.Form == Scalar && !n.IsNull() {
		p.fail(n, "wrong_type", "expected "+want+", not "+n.what()+": put quotes around it")
		return "", false
	}
	p.expect(n, want)
	return "", false
}

// oneOf reads one of a few words.
func (p *parser) oneOf(n *Node, words ...string) (string, bool) {
	if n.Form == Scalar && slices.Contains(words, n.value) {
		return n.value, true
	}
	if n.IsText() {
		p.fail(n, "unknown_value", fmt.Sprintf("expected %s, not %q%s", quoted(words), clip(n.value, 40), Suggest(n.value, words)))
	} else {
		p.expect(n, quoted(words))
	}
	return "", false
}

// boolean reads true or false. YAML 1.1's other words are text in 1.2.
func (p *parser) boolean(n *Node) bool {
	if n.Form == Scalar && n.kind == boolScalar {
		return strings.EqualFold(n.value, "true")
	}
	if n.IsText() && slices.Contains([]string{"yes", "no", "on", "off", "y", "n"}, strings.ToLower(n.value)) {
		p.fail(n, "wrong_type", fmt.Sprintf("%s is text in YAML 1.2: write true or false", n.value))
		return false
	}
	p.expect(n, "true or false")
	return false
}

// whole reads an integer within limits.
func (p *parser) whole(n *Node, least, most int64) (int64, bool) {
	if n.Form == Scalar && n.kind == numberScalar {
		if i, err := strconv.ParseInt(n.value, 10, 64); err == nil && i >= least && i <= most {
			return i, true
		}
	}
	p.expect(n, fmt.Sprintf("a whole number from %d to %d", least, most))
	return 0, false
}

// thousandths reads a decimal of at most three places exactly.
func (p *parser) thousandths(n *Node, least, most int, want string) int {
	if n.Form == Scalar && n.kind == numberScalar {
		before, after, _ := strings.Cut(n.value, ".")
		after = strings.TrimRight(after, "0")
		if len(after) <= 3 && len(before) <= 6 {
			i, err := strconv.Atoi(before + (after + "000")[:3])
			if err == nil && i >= least && i <= most {
				return i
			}
		}
	}
	p.expect(n, want)
	return 0
}

var durationForm = regexp.MustCompile(`^(?:([0-9]{1,6})d)?(?:([0-9]{1,6})h)?(?:([0-9]{1,6})m)?(?:([0-9]{1,9})s)?(?:([0-9]{1,9})ms)?$`)

// MaxDuration is the longest duration that can be written.
const MaxDuration = 3650 * 24 * time.Hour

// ParseDuration reads 500ms, 30s, 1h30m, 2d: whole numbers with the units d, h, m,
// s and ms, largest first, each at most once, up to ten years in all.
func ParseDuration(s string) (time.Duration, error) {
	m := durationForm.FindStringSubmatch(s)
	if m == nil || s == "" {
		if strings.Trim(s, "0123456789") == "" && s != "" {
			return 0, fmt.Errorf("a duration needs a unit: %ss, %sm or %sms", clip(s, 10), clip(s, 10), clip(s, 10))
		}
		return 0, fmt.Errorf(`not a duration: write whole numbers with units, largest first, as in "500ms", "30s", "1h30m" or "2d"`)
	}
	var sum time.Duration
	for i, unit := range []time.Duration{24 * time.Hour, time.Hour, time.Minute, time.Second, time.Millisecond} {
		n, _ := strconv.ParseInt("0"+m[i+1], 10, 64) // the pattern allows only digits
		if n > int64(MaxDuration/unit) {
			return 0, fmt.Errorf("a duration of more than ten years (3650d): write a shorter one")
		}
		sum += time.Duration(n) * unit
	}
	if sum > MaxDuration {
		return 0, fmt.Errorf("a duration of more than ten years (3650d): write a shorter one")
	}
	return sum, nil
}

// duration reads a constant duration of at least `least`.
func (p *parser) duration(n *Node, least time.Duration) (time.Duration, bool) {
	if n.Form != Scalar || n.IsNull() || n.kind == boolScalar {
		p.expect(n, `a duration such as "30s" or "1h30m"`)
		return 0, false
	}
	d, err := ParseDuration(n.value)
	if err != nil {
		p.fail(n, "bad_duration", err.Error())
		return 0, false
	}
	if d < least {
		p.fail(n, "bad_duration", fmt.Sprintf("the shortest allowed here is %v", least))
		return 0, false
	}
	return d, true
}

// ParseRetention reads how long ended sagas are kept: a duration of at least a minute, or forever.
func ParseRetention(s string) (time.Duration, error) {
	if s == "forever" {
		return saga.Forever, nil
	}
	d, err := ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w; or forever", err)
	case d < time.Minute:
		return 0, fmt.Errorf("the shortest retention is 1m: after it, the saga is deleted and cannot be found")
	}
	return d, nil
}

func (p *parser) retention(n *Node) time.Duration {
	if n.Form != Scalar || n.IsNull() || n.kind == boolScalar {
		p.expect(n, `a duration such as "90d", or forever`)
		return 0
	}
	d, err := ParseRetention(n.value)
	if err != nil {
		p.fail(n, "bad_duration", err.Error())
	}
	return d
}

// money reads "2.00 USD". All amounts of a definition have the same currency.
func (p *parser) money(n *Node) *retry.Money {
	if n.Form != Scalar || n.IsNull() || n.kind == boolScalar {
		p.expect(n, `an amount of money such as "2.00 USD"`)
		return nil
	}
	m, err := retry.ParseMoney(n.value)
	if err != nil {
		p.fail(n, "bad_money", err.Error())
		return nil
	}
	if p.currency == "" {
		p.currency = m.Currency
	}
	if m.Currency != p.currency {
		p.fail(n, "currency_mixed", fmt.Sprintf("%s and %s: all amounts of a definition must be in one currency", m.Currency, p.currency))
		return nil
	}
	return &m
}
