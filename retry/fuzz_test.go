package retry

import (
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
)

// badAfter says how a reader of Retry-After breaks its word, nil if it does not:
// digits are seconds, dates are what net/http takes for dates, and nothing is past the bounds.
func badAfter(read func(string, time.Time) time.Duration, header string, now time.Time) error {
	got := read(header, now)
	text := strings.TrimSpace(header)
	want := time.Duration(0)
	if n, ok := new(big.Int).SetString(text, 10); ok && strings.Trim(text, "0123456789") == "" {
		want = MaxRetryAfter
		if n.Cmp(big.NewInt(int64(MaxRetryAfter/time.Second))) < 0 {
			want = time.Duration(n.Int64()) * time.Second
		}
	} else if at, err := http.ParseTime(text); err == nil {
		want = min(max(at.Sub(now), 0), MaxRetryAfter)
	}
	if got != want {
		return fmt.Errorf("After(%q) = %v, want %v", header, got, want)
	}
	return nil
}

var fuzzNow = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func FuzzAfter(f *testing.F) {
	for header := range retryAfterCases {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		if err := badAfter(After, header, fuzzNow); err != nil {
			t.Error(err)
		}
	})
}

// Readers that make the mistakes of others are caught.
func TestFuzzAfterCanFail(t *testing.T) {
	atoi := func(header string, _ time.Time) time.Duration {
		n, _ := strconv.Atoi(header)
		return time.Duration(n) * time.Second
	}
	for header, read := range map[string]func(string, time.Time) time.Duration{
		"9223372037":                    atoi, // overflows: at once
		"99999999":                      atoi,
		"-1":                            atoi,
		"Fri, 02 Jan 2026 03:04:35 GMT": atoi,
		"7":                             func(string, time.Time) time.Duration { return 0 },
		"Thu, 01 Jan 2026 00:00:00 GMT": func(string, time.Time) time.Duration { return -time.Hour },
	} {
		if badAfter(read, header, fuzzNow) == nil {
			t.Errorf("not noticed: %q", header)
		}
	}
}

// badMoney says how a reader of money breaks its word: what it takes is written
// as it came, but for zeros in front, and is read as the same again.
func badMoney(read func(string) (Money, error), text string) error {
	m, err := read(text)
	if err != nil {
		return nil
	}
	out := m.String()
	again, err := read(out)
	if err != nil || again.Cmp(m) != 0 || again.String() != out {
		return fmt.Errorf("%q is %q, which is %q, %w", text, out, again, err)
	}
	plain := strings.TrimLeft(strings.TrimSpace(text), "0")
	if strings.HasPrefix(plain, ".") || strings.HasPrefix(plain, " ") {
		plain = "0" + plain
	}
	if plain != out || strings.HasPrefix(out, "-") || len(m.Currency) != 3 {
		return fmt.Errorf("%q is %q", text, out)
	}
	if sum := m.Add(m); sum.Cmp(m) < 0 || sum.Currency != m.Currency {
		return fmt.Errorf("%q twice is %q", text, sum)
	}
	return nil
}

func FuzzMoney(f *testing.F) {
	for _, text := range []string{"2.00 USD", "0 EUR", "007.50 USD", "123456789012345.123456789012 JPY", " 1 USD\n", "1e400 USD", "-1 USD", "1.5", ". USD", "99999999999999999999999999999999 USD"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if err := badMoney(ParseMoney, text); err != nil {
			t.Error(err)
		}
	})
}

func TestFuzzMoneyCanFail(t *testing.T) {
	float := func(text string) (Money, error) { // as a float would read it
		m, err := ParseMoney(text)
		if err != nil {
			return m, err
		}
		x, _ := strconv.ParseFloat(m.Decimal(), 64)
		return Amount(strconv.FormatFloat(x, 'f', -1, 64), m.Currency)
	}
	for _, text := range []string{"2.00 USD", "123456789012345.123456789012 JPY"} {
		if badMoney(float, text) == nil {
			t.Errorf("not noticed: %q", text)
		}
	}
}
