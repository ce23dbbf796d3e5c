package retry

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDelay(t *testing.T) {
	const middle = uint64(1) << 63 // no jitter either way
	p := Default()
	tests := []struct {
		name    string
		policy  Policy
		attempt int
		random  uint64
		want    time.Duration
	}{
		{"first", p, 1, middle, time.Second},
		{"doubles", p, 2, middle, 2 * time.Second},
		{"doubles again", p, 4, middle, 8 * time.Second},
		{"ceiling", p, 20, middle, time.Minute},
		{"far past the ceiling", p, 1_000_000, middle, time.Minute},
		{"lowest jitter", p, 1, 0, 700 * time.Millisecond},
		{"highest jitter", p, 1, math.MaxUint64, 1300 * time.Millisecond},
		{"no jitter", Policy{Initial: time.Second, Max: time.Minute, Factor: 2000}, 1, math.MaxUint64, time.Second},
		{"factor of one", Policy{Initial: time.Second, Max: time.Minute, Factor: 1000}, 1000, middle, time.Second},
		{"initial above max", Policy{Initial: time.Hour, Max: time.Second, Factor: 2000}, 1, middle, time.Second},
		{"no delay", Policy{Factor: 2000, Jitter: 300}, 3, middle, 0},
		{"forever", Forever(), 100, middle, 5 * time.Minute},
	}
	for _, tt := range tests {
		if got := tt.policy.Delay(tt.attempt, tt.random); got != tt.want {
			t.Errorf("%s: Delay(%d) = %v, want %v", tt.name, tt.attempt, got, tt.want)
		}
	}
}

// The delay stays within the jitter of the interval, which never shrinks.
func TestDelayBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := Policy{
			Initial: time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "initial")),
			Max:     time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "max")),
			Factor:  rapid.IntRange(1000, 10_000).Draw(t, "factor"),
			Jitter:  rapid.IntRange(0, 1000).Draw(t, "jitter"),
		}
		attempt := rapid.IntRange(1, 500).Draw(t, "attempt")
		d := p.Delay(attempt, rapid.Uint64().Draw(t, "random"))
		if d < 0 || d > 2*p.Max+time.Millisecond {
			t.Fatalf("%+v: Delay(%d) = %v", p, attempt, d)
		}
		if p.interval(attempt+1) < p.interval(attempt) {
			t.Fatalf("%+v: the interval shrinks after attempt %d", p, attempt)
		}
	})
}

func TestRetries(t *testing.T) {
	tests := []struct {
		name      string
		on, notOn []string
		status    int
		code      string
		byDefault bool
		want      bool
	}{
		{"default yes", nil, nil, 503, "", true, true},
		{"default no", nil, nil, 404, "", false, false},
		{"named by status", []string{"404"}, nil, 404, "", false, true},
		{"named by class", []string{"5xx"}, nil, 503, "", false, true},
		{"named by code", []string{"timeout"}, nil, 0, "timeout", false, true},
		{"not named", []string{"timeout"}, nil, 503, "", true, false},
		{"excluded", nil, []string{"402"}, 402, "", true, false},
		{"exclusion wins", []string{"5xx"}, []string{"501"}, 501, "", true, false},
	}
	for _, tt := range tests {
		p := Policy{On: tt.on, NotOn: tt.notOn}
		if got := p.Retries(Names(tt.status, tt.code), tt.byDefault); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

var retryAfterCases = map[string]time.Duration{
	"":                               0,
	"0":                              0,
	"7":                              7 * time.Second,
	" 120 ":                          2 * time.Minute,
	"86400":                          24 * time.Hour,
	"86401":                          24 * time.Hour,
	"9223372037":                     24 * time.Hour, // overflows a Duration
	"99999999999999999999999999999":  24 * time.Hour,
	"000000000000000000000005":       5 * time.Second,
	"-5":                             0,
	"1.5":                            0,
	"soon":                           0,
	"Fri, 02 Jan 2026 03:04:35 GMT":  30 * time.Second,
	"Friday, 02-Jan-26 03:04:35 GMT": 30 * time.Second,
	"Fri Jan  2 03:04:35 2026":       30 * time.Second,
	"Thu, 01 Jan 2026 00:00:00 GMT":  0,
	"Fri, 02 Jan 2099 03:04:35 GMT":  24 * time.Hour,
}

func TestAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range retryAfterCases {
		if got := After(header, now); got != want {
			t.Errorf("After(%q) = %v, want %v", header, got, want)
		}
	}
}

func TestLeft(t *testing.T) {
	for _, tt := range []struct {
		attempts, made int
		want           bool
	}{{4, 0, true}, {4, 3, true}, {4, 4, false}, {4, 5, false}, {1, 0, true}, {1, 1, false}, {0, 0, true}, {0, 1_000_000, true}} {
		if got := (Policy{Attempts: tt.attempts}).Left(tt.made); got != tt.want {
			t.Errorf("of %d attempts, with %d made, one is left: %t", tt.attempts, tt.made, got)
		}
	}
}

func money(t testing.TB, s string) Money {
	t.Helper()
	m, err := ParseMoney(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestParseMoney(t *testing.T) {
	for _, good := range []string{"2.00 USD", "0 EUR", "0.005 USD", "123456789012345.123456789012 JPY"} {
		if got := money(t, good).String(); got != good {
			t.Errorf("%q became %q", good, got)
		}
	}
	for _, bad := range []string{"", "2.00", "USD", "2,00 USD", "-1 USD", "+1 USD", "1e3 USD", "1 usd", "1 US", "1  USD", "1234567890123456 USD", ".5 USD", "5. USD", "NaN USD", "1 USD EUR"} {
		if _, err := ParseMoney(bad); !errors.Is(err, ErrMoney) {
			t.Errorf("ParseMoney(%q): %v, want ErrMoney", bad, err)
		}
	}
	for _, bad := range []string{"NaN", "Infinity", "-1", "1e999999999", "1e-999", ""} {
		if _, err := Amount(bad, "USD"); !errors.Is(err, ErrMoney) {
			t.Errorf("Amount(%q): %v, want ErrMoney", bad, err)
		}
	}
}

// The cost that a remote service reports may be of any length: one that is too long is rejected
// before its digits are read, which takes minutes for millions of them.
func TestLongAmounts(t *testing.T) {
	long := strings.Repeat("0", 1000) + "1"
	if _, err := Amount(long, "USD"); !errors.Is(err, ErrMoney) {
		t.Errorf("Amount: %v, want ErrMoney", err)
	}
	if _, err := Total(long, "USD"); !errors.Is(err, ErrMoney) {
		t.Errorf("Total: %v, want ErrMoney", err)
	}
}

// Each bound of an amount and of a sum: the last decimal that is read, and the first that is not.
func TestAmountBounds(t *testing.T) {
	nines := func(n int) string { return strings.Repeat("9", n) }
	for _, tt := range []struct {
		read      func(decimal, currency string) (Money, error)
		good, bad string
	}{
		{Amount, nines(30), nines(31)},
		{Amount, "1e-30", "1e-31"},
		{Amount, "1e15", "1e16"},
		{Amount, "0", "-1"},
		{Total, nines(100), nines(101)},
		{Total, "1e-100", "1e-101"},
		{Total, "1e15", "1e16"},
		{Total, "0", "-1"},
		{Total, "0." + strings.Repeat("0", 98) + "1", "0." + strings.Repeat("0", 298) + "1"},
		{Total, strings.Repeat("0", longest-1) + "1", strings.Repeat("0", longest) + "1"},
	} {
		if _, err := tt.read(tt.good, "USD"); err != nil {
			t.Errorf("%.40s is refused: %v", tt.good, err)
		}
		if _, err := tt.read(tt.bad, "USD"); !errors.Is(err, ErrMoney) {
			t.Errorf("%.40s: %v, want ErrMoney", tt.bad, err)
		}
	}
}

// Equal amounts leave nothing, in the digits that they are written in.
func TestSubtractAll(t *testing.T) {
	if got := money(t, "2.00 USD").Sub(money(t, "2.00 USD")).String(); got != "0.00 USD" {
		t.Errorf("2.00 - 2.00 = %s", got)
	}
	if got := money(t, "2.00 USD").Sub(money(t, "2.01 USD")).String(); got != "0 USD" {
		t.Errorf("2.00 - 2.01 = %s", got)
	}
}

// What is written of any sum is read again.
func TestTotal(t *testing.T) {
	most, err := Amount("999999999999999999999999999999e15", "USD")
	if err != nil {
		t.Fatal(err)
	}
	for _, sum := range []Money{{}, most.Add(money(t, "0.000000000001 USD")), money(t, "0.10 USD").Add(money(t, "0.2 USD"))} {
		got, err := Total(sum.Decimal(), sum.Currency)
		if err != nil || got.String() != sum.String() {
			t.Errorf("%v became %v: %v", sum, got, err)
		}
	}
	for _, bad := range []string{"NaN", "Infinity", "-1", "1e999999999", "1e-999", strings.Repeat("9", 101), ""} {
		if _, err := Total(bad, "USD"); !errors.Is(err, ErrMoney) {
			t.Errorf("Total(%q): %v, want ErrMoney", bad, err)
		}
	}
}

func TestMoneyIsExact(t *testing.T) {
	sum := money(t, "0.10 USD").Add(money(t, "0.20 USD"))
	if sum.Cmp(money(t, "0.3 USD")) != 0 || sum.String() != "0.30 USD" {
		t.Errorf("0.10 + 0.20 = %v", sum)
	}
	if got := money(t, "0.10 USD").Sub(money(t, "0.30 USD")); !got.IsZero() {
		t.Errorf("less than nothing: %v", got)
	}
	if got := (Money{}).Add(money(t, "1 EUR")); got.Currency != "EUR" {
		t.Errorf("nothing + 1 EUR = %v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("adding dollars to euros did not panic")
		}
	}()
	money(t, "1 EUR").Add(money(t, "1 USD"))
}

// Whatever attempts do, at every moment spent + reserved stays within the budget
// as long as only what fits is reserved and no attempt costs more than it reserved.
func TestAccountHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cents := func(name string, most int) Money {
			m, err := Amount("0."+string(rune('0'+rapid.IntRange(0, most).Draw(t, name))), "USD")
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		budget, err := Amount("2.5", "USD")
		if err != nil {
			t.Fatal(err)
		}
		a := Account{Budget: &budget}
		var open []Money
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if len(open) > 0 && rapid.Bool().Draw(t, "settle") {
				r := open[0]
				open = open[1:]
				spent := cents("spent", 9)
				if spent.Cmp(r) > 0 {
					spent = r
				}
				a.Settle(r, spent, rapid.Bool().Draw(t, "failed"))
			} else if r := cents("reserve", 9); a.Fits(r) {
				a.Reserve(r)
				open = append(open, r)
			}
			if a.Spent.Add(a.Reserved).Cmp(budget) > 0 || a.Wasted.Cmp(a.Spent) > 0 {
				t.Fatalf("spent %v, reserved %v, wasted %v of %v", a.Spent, a.Reserved, a.Wasted, budget)
			}
		}
	})
}

func TestNoBudgetFitsAll(t *testing.T) {
	a := Account{}
	if !a.Fits(money(t, "999999 USD")) {
		t.Error("without a budget something does not fit")
	}
}

func TestCheckCurrency(t *testing.T) {
	for code, want := range map[string]error{"": nil, "EUR": nil, "eur": ErrCode, "EU": ErrCode, "EURO!": ErrCode} {
		if err := CheckCurrency(code); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", code, err, want)
		}
	}
}
