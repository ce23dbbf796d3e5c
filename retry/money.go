package retry

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/cockroachdb/apd/v3"
)

// Errors of money.
var (
	ErrMoney    = errors.New(`not an amount of money: write it as "2.00 USD"`)
	ErrCurrency = errors.New("amounts are of different currencies")
	ErrCode     = errors.New("not a currency: write three capitals (ISO 4217), as EUR")
)

var currencyForm = regexp.MustCompile(`^[A-Z]{3}$`)

var moneyForm = regexp.MustCompile(`^([0-9]{1,15}(?:\.[0-9]{1,12})?) ([A-Z]{3})$`)

// exact can represent any sum of amounts that ParseMoney accepts, without rounding.
var exact = apd.BaseContext.WithPrecision(60)

// Money is an exact, non-negative amount in one currency. The zero value has no currency and can be
// added to any amount. Money is a value: no method changes it.
type Money struct {
	amount   apd.Decimal
	Currency string
}

// ParseMoney parses "2.00 USD": a decimal without sign or exponent, a space, and three capitals
// (ISO 4217). It keeps the written decimal places.
func ParseMoney(s string) (Money, error) {
	m := moneyForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return Money{}, fmt.Errorf("%w, not %.40q", ErrMoney, s)
	}
	return Amount(m[1], m[2])
}

// longest is the length of the longest decimal that is parsed. Decimals may come from remote
// services, and parsing millions of digits takes minutes.
const longest = 300

// Amount returns money from a decimal and a currency. The decimal may have an exponent. It must be
// finite, not negative, and have at most 30 digits. The error is ErrMoney.
func Amount(decimal, currency string) (Money, error) {
	d, err := decimalOf(decimal)
	if err != nil || d.Form != apd.Finite || d.Sign() < 0 || d.NumDigits() > 30 || d.Exponent < -30 || d.Exponent > 15 {
		return Money{}, fmt.Errorf("%w, not %.40q", ErrMoney, decimal)
	}
	return Money{amount: *d, Currency: currency}, nil
}

// CheckCurrency returns ErrCode for a currency that ParseMoney would not accept, and for an empty
// one.
func CheckCurrency(code string) error {
	if code != "" && !currencyForm.MatchString(code) {
		return fmt.Errorf("%w, not %.40q", ErrCode, code)
	}
	return nil
}

// most is the largest number of digits that Total accepts: more than exact keeps, with the zeros of
// an exponent.
const most = 100

// Total parses a sum that Decimal has written. It may have more digits than a single amount. The
// error is ErrMoney.
func Total(decimal, currency string) (Money, error) {
	d, err := decimalOf(decimal)
	if err != nil || d.Form != apd.Finite || d.Sign() < 0 || d.NumDigits() > most || d.Exponent < -most || d.Exponent > 15 {
		return Money{}, fmt.Errorf("%w, not %.40q", ErrMoney, decimal)
	}
	return Money{amount: *d, Currency: currency}, nil
}

func decimalOf(text string) (*apd.Decimal, error) {
	if len(text) > longest {
		return nil, ErrMoney
	}
	d, _, err := apd.NewFromString(text)
	return d, err
}

// IsZero reports whether the amount is zero.
func (m Money) IsZero() bool { return m.amount.IsZero() }

// Decimal returns the amount in plain notation: "2.00".
func (m Money) Decimal() string { return m.amount.Text('f') }

// String returns "2.00 USD".
func (m Money) String() string {
	if m.Currency == "" {
		return m.Decimal()
	}
	return m.Decimal() + " " + m.Currency
}

// Add returns m + o. Their currencies must be the same, or one must be empty. Definitions are
// checked for that when they are published, so a mix is a programming error and panics.
func (m Money) Add(o Money) Money { return m.with(o, exact.Add) }

// Sub returns m − o, or zero if that is negative.
func (m Money) Sub(o Money) Money {
	r := m.with(o, exact.Sub)
	if r.amount.Sign() < 0 {
		return Money{Currency: r.Currency}
	}
	return r
}

// Cmp compares the amounts: -1, 0 or 1.
func (m Money) Cmp(o Money) int { return m.amount.Cmp(&o.amount) }

func (m Money) with(o Money, op func(d, x, y *apd.Decimal) (apd.Condition, error)) Money {
	cur := m.Currency
	if cur == "" {
		cur = o.Currency
	} else if o.Currency != "" && o.Currency != cur {
		panic(fmt.Sprintf("retry: %v: %s and %s", ErrCurrency, cur, o.Currency))
	}
	r := Money{Currency: cur}
	if _, err := op(&r.amount, &m.amount, &o.amount); err != nil {
		panic("retry: money out of range: " + err.Error())
	}
	return r
}
