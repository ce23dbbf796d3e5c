package expr

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// Limits of arithmetic. A literal beyond them can be copied and compared, but not computed with.
const (
	MaxDigits   = 1000   // significant digits of an operand or a result
	MaxExponent = 10_000 // of the value written as d.ddd × 10^n, either sign
	divDigits   = 34     // digits of a quotient that does not end, as IEEE 754 decimal128
)

// Plain notation is used for values between 10^minPlain and 10^maxPlain.
const (
	minPlain = -20
	maxPlain = 40
)

// literal is a JSON number split into parts: ± 0.digits × 10^exp, digits without leading or
// trailing zeros ("" is zero). Equal values have equal parts.
type literal struct {
	neg    bool
	digits string
	exp    int64
}

func errTooLarge() *EvalError {
	return fail(CodeNumberTooLarge, "the number has more than %d digits or an exponent beyond %d; copy it as it is, or compute with less", MaxDigits, MaxExponent)
}

// isLiteral reports whether text is a number as RFC 8259 §6 writes it.
func isLiteral(text string) bool {
	t := strings.TrimPrefix(text, "-")
	whole := digitRun(t)
	if whole == 0 || (whole > 1 && t[0] == '0') {
		return false
	}
	if t = t[whole:]; strings.HasPrefix(t, ".") {
		frac := digitRun(t[1:])
		if frac == 0 {
			return false
		}
		t = t[1+frac:]
	}
	if t != "" && (t[0] == 'e' || t[0] == 'E') {
		if t = t[1:]; t != "" && (t[0] == '+' || t[0] == '-') {
			t = t[1:]
		}
		return t != "" && digitRun(t) == len(t)
	}
	return t == ""
}

func digitRun(t string) int {
	i := 0
	for i < len(t) && t[i] >= '0' && t[i] <= '9' {
		i++
	}
	return i
}

func checkLiteral(n json.Number) error {
	if !isLiteral(string(n)) {
		return fail(CodeBadValue, "a number in the data is not a JSON number")
	}
	return nil
}

// parseLiteral splits n without expanding its exponent.
func parseLiteral(n json.Number) (literal, error) {
	if err := checkLiteral(n); err != nil {
		return literal{}, err
	}
	text := string(n)
	var l literal
	text, l.neg = strings.CutPrefix(text, "-")
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		exp, err := strconv.ParseInt(text[i+1:], 10, 64)
		if err != nil || exp > 1<<60 || exp < -1<<60 {
			return literal{}, errTooLarge()
		}
		l.exp, text = exp, text[:i]
	}
	whole, frac, _ := strings.Cut(text, ".")
	l.exp += int64(len(whole))
	digits := whole + frac
	trimmed := strings.TrimLeft(digits, "0")
	l.exp -= int64(len(digits) - len(trimmed))
	if l.digits = strings.TrimRight(trimmed, "0"); l.digits == "" {
		return literal{}, nil
	}
	return l, nil
}

// key is equal for equal numbers.
func (l literal) key() string {
	sign := "+"
	if l.neg {
		sign = "-"
	}
	return sign + l.digits + "e" + strconv.FormatInt(l.exp, 10)
}

func (l literal) sign() int {
	switch {
	case l.digits == "":
		return 0
	case l.neg:
		return -1
	}
	return 1
}

// compareLiterals orders two numbers by value: -1, 0 or 1.
func compareLiterals(a, b literal) int {
	sa, sb := a.sign(), b.sign()
	switch {
	case sa < sb:
		return -1
	case sa > sb:
		return 1
	case a.exp > b.exp:
		return sa
	case a.exp < b.exp:
		return -sa
	}
	return sa * strings.Compare(a.digits, b.digits)
}

// literal is parseLiteral for numbers from data, which may have millions of digits: reading them
// costs fuel.
func (s *state) literal(n json.Number) (literal, error) {
	if err := s.burn(len(n) / unitScanned); err != nil {
		return literal{}, err
	}
	return parseLiteral(n)
}

func (s *state) compareNumbers(a, b json.Number) (int, error) {
	la, err := s.literal(a)
	if err != nil {
		return 0, err
	}
	lb, err := s.literal(b)
	if err != nil {
		return 0, err
	}
	return compareLiterals(la, lb), nil
}

// decimalOf reads a literal for arithmetic; trailing zeros count (19.10 has
// the exponent -2).
func decimalOf(n json.Number) (*apd.Decimal, error) {
	l, err := parseLiteral(n)
	if err != nil {
		return nil, err
	}
	if len(n) > 2*MaxDigits || l.exp > MaxExponent || l.exp < -MaxExponent {
		return nil, errTooLarge()
	}
	if l.digits == "" { // 0e999999999 is zero
		text, _, _ := strings.Cut(strings.ToLower(string(n)), "e")
		n = json.Number(text)
	}
	d, _, err := apd.NewFromString(string(n))
	if err != nil || d.NumDigits() > MaxDigits {
		return nil, errTooLarge()
	}
	return d, nil
}

// numberOf writes a result in canonical form, in plain notation if that is short enough.
func numberOf(d *apd.Decimal) (json.Number, error) {
	if d.Form != apd.Finite {
		return "", errTooLarge()
	}
	digits, exp := d.Coeff.String(), int64(d.Exponent)
	top := int64(len(digits)) + exp - 1 // the exponent of the first digit
	if d.IsZero() {
		if exp > 0 || exp < minPlain {
			return "0", nil
		}
		return json.Number(plainDigits("", digits, exp)), nil
	}
	if len(digits) > MaxDigits || top > MaxExponent || top < -MaxExponent {
		return "", errTooLarge()
	}
	sign := ""
	if d.Negative {
		sign = "-"
	}
	if (exp <= 0 && top >= minPlain) || (exp > 0 && top < maxPlain) {
		return json.Number(plainDigits(sign, digits, exp)), nil
	}
	if len(digits) > 1 {
		digits = digits[:1] + "." + digits[1:]
	}
	return json.Number(sign + digits + "e" + strconv.FormatInt(top, 10)), nil
}

// plainDigits writes sign digits × 10^exp without an exponent.
func plainDigits(sign, digits string, exp int64) string {
	if exp >= 0 {
		return sign + digits + strings.Repeat("0", int(exp))
	}
	point := int64(len(digits)) + exp
	if point <= 0 {
		return sign + "0." + strings.Repeat("0", int(-point)) + digits
	}
	return sign + digits[:point] + "." + digits[point:]
}
