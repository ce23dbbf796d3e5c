package expr

import (
	"encoding/json"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

func fnAbs(c *call) (any, error) {
	n, err := c.number(0)
	if err != nil {
		return nil, err
	}
	if text, neg := strings.CutPrefix(string(n), "-"); neg {
		return json.Number(text), checkLiteral(n)
	}
	return n, checkLiteral(n)
}

// toInteger rounds to an integer unless the number is one already.
func toInteger(c *call, how apd.Rounder) (any, error) {
	n, err := c.number(0)
	if err != nil {
		return nil, err
	}
	return quantize(n, 0, how)
}

func fnFloor(c *call) (any, error) { return toInteger(c, apd.RoundFloor) }
func fnCeil(c *call) (any, error)  { return toInteger(c, apd.RoundCeiling) }

// fnRound rounds halves away from zero, as SQL's numeric does.
func fnRound(c *call) (any, error) {
	const bound = 100
	n, err := c.number(0)
	if err != nil {
		return nil, err
	}
	places := 0
	if len(c.args) == 2 {
		v, err := c.open(c.args[1])
		if err != nil {
			return nil, err
		}
		if places, err = smallInt(v, "round: the number of places"); err != nil {
			return nil, err
		}
	}
	if places < -bound || places > bound {
		return nil, fail(CodeBadValue, "round: the number of places must be from -%d to %d", bound, bound)
	}
	return quantize(n, int32(places), apd.RoundHalfUp)
}

// fnInt drops the digits after the point of a number, or of text that is a number.
func fnInt(c *call) (any, error) {
	n, err := toNumber(c)
	if err != nil {
		return nil, err
	}
	return quantize(n, 0, apd.RoundDown)
}

func fnNumber(c *call) (any, error) { return toNumber(c) }

// toNumber reads the argument: a number, or text that is a JSON number, kept
// as it is written.
func toNumber(c *call) (json.Number, error) {
	v, err := c.open(c.args[0])
	if err != nil {
		return "", err
	}
	if n, ok := v.(json.Number); ok {
		if err := c.burn(len(n) / unitScanned); err != nil {
			return "", err
		}
		return n, checkLiteral(n)
	}
	text, _ := v.(string)
	t := strings.TrimSpace(text)
	if !isLiteral(t) {
		return "", fail(CodeBadValue, "%s: the text is not a number such as -12.50 or 1e6", c.name)
	}
	return json.Number(t), c.burnBytes(len(t))
}

// allNumbers gives the arguments, or the elements of the one list among them.
func allNumbers(c *call) ([]json.Number, error) {
	items := c.args
	if len(items) == 1 {
		first, err := c.open(items[0])
		if err != nil {
			return nil, err
		}
		list, ok := first.([]any)
		if !ok {
			list = []any{first}
		}
		items = list
	}
	opened, err := c.opened(items)
	if err != nil {
		return nil, err
	}
	out := make([]json.Number, len(opened))
	for i, v := range opened {
		n, ok := v.(json.Number)
		if !ok {
			return nil, fail(CodeWrongType, "%s takes numbers, not %s", c.name, kind(v))
		}
		out[i] = n
	}
	return out, nil
}

// extreme gives the least (sign -1) or greatest (sign 1) number; of equal ones
// the first.
func extreme(c *call, sign int) (any, error) {
	nums, err := allNumbers(c)
	if err != nil {
		return nil, err
	}
	if len(nums) == 0 {
		return nil, fail(CodeBadValue, "%s: the list is empty", c.name)
	}
	best, err := c.literal(nums[0])
	if err != nil {
		return nil, err
	}
	at := 0
	for i, n := range nums[1:] {
		l, err := c.literal(n)
		if err != nil {
			return nil, err
		}
		if compareLiterals(l, best) == sign {
			best, at = l, i+1
		}
	}
	return nums[at], nil
}

func fnMin(c *call) (any, error) { return extreme(c, -1) }
func fnMax(c *call) (any, error) { return extreme(c, 1) }

func fnSum(c *call) (any, error) {
	nums, err := allNumbers(c)
	if err != nil {
		return nil, err
	}
	total := json.Number("0")
	for _, n := range nums {
		if total, err = arithmetic("+", total, n); err != nil {
			return nil, err
		}
	}
	return total, nil
}
