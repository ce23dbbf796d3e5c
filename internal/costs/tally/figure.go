package tally

import (
	"math/big"
	"strconv"
	"strings"
)

// Figure formats an amount for people: cents, or three digits of an amount below one; "-" if there
// is none.
func Figure(amount string) string {
	r, ok := new(big.Rat).SetString(amount)
	if !ok {
		return "-"
	}
	_, decimals, _ := strings.Cut(amount, ".")
	if r.Cmp(big.NewRat(1, 1)) >= 0 || r.Sign() == 0 {
		return r.FloatString(min(2, len(decimals)))
	}
	zeros := len(decimals) - len(strings.TrimLeft(decimals, "0"))
	return r.FloatString(min(zeros+3, max(len(strings.TrimRight(decimals, "0")), min(2, len(decimals)))))
}

// Brief formats a count for people: 950, 12.3k, 4.5M.
func Brief(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.size {
			return big.NewRat(n, unit.size).FloatString(1) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}
