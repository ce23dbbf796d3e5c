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

// exact holds any sum of amounts that ParseMoney takes, unrounded.
var exact = apd.BaseContext.WithPrecision(60)

// Money is an exact, non-negative amount in one currency. The zero value is
// nothing, in no currency, and adds to any. It is a value: no method changes it.
type Money struct {
	amount   apd.Decimal
	Currency string
}

// ParseMoney reads "2.00 USD": a decimal without sign or exponent, a space, and three
// capitals (ISO 4217). The written places are kept.
func ParseMoney(s string) (Money, error) {
	m := moneyForm.FindStringSubmatch(strings.TrimSpace(s))
	if m == nil {
		return Money{}, fmt.Errorf("%w, not %.40q", ErrMoney, s)
	}
	return Amount(m[1], m[2])
}

// longest is how long a decimal is at most that is read at all. It comes from other sides, and
// reading millions of digits takes minutes.
const longest = 300

// Amount makes money of a decimal and a currency. The decimal may have an
// exponent; it must be finite, not negative, and of at most 30 digits. The error is ErrMoney.
func Amount(decimal, currency string) (Money, error) {
	d, err := decimalOf(decimal)
	if err != nil || d.Form != apd.Finite || d.Sign() < 0 || d.NumDigits() > 30 || d.Exponent < -30 || d.Exponent > 15 {
		return Money{}, fmt.Errorf("%w, not %.40q", ErrMoney, decimal)
	}
	return Money{amount: *d, Currency: currency}, nil
}

// CheckCurrency returns ErrCode for a currency that ParseMoney would not read. None at all is none.
func CheckCurrency(code string) error {
	if code != "" && !currencyForm.MatchString(code) {
		return fmt.Errorf("%w, not %.40q", ErrCode, code)
	}
	return nil
}

// most is how many digits a sum may have that Total reads: more than exact keeps, with the zeros of
// an exponent.
const most = 100

// Total makes money of what Decimal has written of a sum, which may have more digits than the
// amounts that it is of. The error is ErrMoney.
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

// IsZero reports whether there is nothing.
func (m Money) IsZero() bool { return m.amount.IsZero() }

// Decimal writes the amount in plain notation: "2.00".
func (m Money) Decimal() string { return m.amount.Text('f') }

// String writes "2.00 USD".
func (m Money) String() string {
	if m.Currency == "" {
		return m.Decimal()
	}
	return m.Decimal() + " " + m.Currency
}

// Add returns m + o. The currencies are the same, or one is none: definitions
// are checked for it when published, so a mix is a programming error and panics.
func (m Money) Add(o Money) Money { return m.with(o, exact.Add) }

// Sub returns m − o, and nothing rather than less than nothing.
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
