package machine

import (
	"math"
	"testing"
)

// Whether tokens fit does not depend on an overflow of their sum.
func TestTokensFit(t *testing.T) {
	for _, tt := range []struct {
		of      tokens
		n, free int64
		want    bool
	}{
		{tokens{budget: 1000, reserved: 10}, 990, 0, true},
		{tokens{budget: 1000, reserved: 10}, 991, 0, false},
		{tokens{budget: 1000, reserved: 10}, 991, 1, true},
		{tokens{budget: 1000, reserved: 10}, math.MaxInt64, 0, false},
		{tokens{budget: math.MaxInt64, input: 5, output: 5, reserved: 10}, math.MaxInt64 - 20, 0, true},
		{tokens{budget: math.MaxInt64, input: 5, output: 5, reserved: 10}, math.MaxInt64 - 19, 0, false},
		{tokens{budget: 10, input: 20}, 0, 0, true},
		{tokens{budget: 10, input: 20}, 1, 0, false},
		{tokens{budget: 10}, -1, 0, false},
		{tokens{}, math.MaxInt64, 0, true},
	} {
		if got := tt.of.fit(tt.n, tt.free); got != tt.want {
			t.Errorf("%+v: fit(%d, %d) is %v", tt.of, tt.n, tt.free, got)
		}
	}
}
