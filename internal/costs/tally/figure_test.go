package tally

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFigures(t *testing.T) {
	got := map[string]string{}
	want := map[string]string{"": "-", "0": "0", "0.00": "0.00", "5": "5", "5.1": "5.1", "1234.5678": "1234.57", "0.999": "0.999", "0.9999": "1.000", "0.05": "0.05", "0.50": "0.50", "0.5": "0.5",
		"0.00012345": "0.000123", "0.100000": "0.10", "9007199254740993.10": "9007199254740993.10"}
	for amount := range want {
		got[amount] = Figure(amount)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("amounts (-want +got):\n%s", d)
	}
	counts := []string{Brief(0), Brief(950), Brief(12_345), Brief(4_500_000), Brief(7_000_000_000)}
	if d := cmp.Diff([]string{"0", "950", "12.3k", "4.5M", "7.0G"}, counts); d != "" {
		t.Errorf("counts (-want +got):\n%s", d)
	}
}
