package saga

import (
	"testing"

	"recourse/retry"
)

func TestUsageAdd(t *testing.T) {
	cost := func(text string) retry.Money {
		m, err := retry.Total(text, "USD")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	got := Usage{Cost: cost("0.30"), Input: 3, Output: 40}.Add(Usage{Cost: cost("0.15"), Input: 2, Output: 10})
	if got.Cost.Decimal() != "0.45" || got.Input != 5 || got.Output != 50 {
		t.Errorf("the sum is %+v", got)
	}
}
