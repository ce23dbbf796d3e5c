package costs

import (
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/costs/tally"
)

func TestCharts(t *testing.T) {
	at := func(day int) time.Time { return time.Date(2026, 1, day, 12, 0, 0, 0, time.UTC) }
	day := func(name, spent, wasted string) tally.Group {
		return tally.Group{Key: name, Currency: "USD", Sagas: 1, Spent: spent, Wasted: wasted}
	}
	list := Days([]tally.Group{day("2026-01-02", "2.00", "0.5"), day("2026-01-04", "0.01", "0")}, at(1), at(4))
	type place struct{ X, Y, Height, LowY, Low int }
	var got []place
	for _, b := range list[0].Bars {
		got = append(got, place{b.X, b.Y, b.Height, b.LowY, b.Low})
	}
	want := []place{{10, 100, 0, 100, 0}, {110, 0, 100, 75, 25}, {210, 100, 0, 100, 0}, {310, 99, 1, 100, 0}}
	if d := cmp.Diff(want, got); d != "" || list[0].Width != 400 || list[0].First != "2026-01-01" || list[0].Last != "2026-01-04" || list[0].Highest != "2.00" {
		t.Errorf("%+v (-want +got):\n%s", list[0], d)
	}
	s := SpreadOf(tally.Group{Currency: "USD", Median: "1.5", Max: "7", Buckets: []tally.Bucket{{From: "0", To: "1", Sagas: 1}, {From: "1", To: "2", Sagas: 4}, {From: "2", To: "5"}, {From: "5", To: "10", Sagas: 2}}})
	lines := []upright{{150, "median: 1.5 USD", "median"}, {283, "three times the median: 4.5 USD", "above"}}
	if d := cmp.Diff(lines, s.Lines); d != "" || s.Bars[2].Over || !s.Bars[3].Over || s.Bars[0].Height != 25 || s.Bars[3].Height != 50 {
		t.Errorf("%+v, lines (-want +got):\n%s", s.Bars, d)
	}
	s = SpreadOf(tally.Group{Currency: "USD", Median: "0", Max: "1", Buckets: []tally.Bucket{{From: "0", To: "1", Sagas: 9}, {From: "1", To: "2", Sagas: 1}}})
	if s.Bars[1].Over || s.Bars[0].Over {
		t.Errorf("of a median of nothing: %+v", s.Bars)
	}
	s = SpreadOf(tally.Group{Currency: "USD", Median: "1", Max: "1", Buckets: []tally.Bucket{{From: "1", To: "2", Sagas: 9}}})
	if len(s.Lines) != 1 {
		t.Errorf("lines beyond the buckets: %+v", s.Lines)
	}
}

func TestShares(t *testing.T) {
	for _, tt := range []struct{ part, whole, want string }{{"0", "5", ""}, {"1", "0", ""}, {"", "1", ""}, {"1", "3", "33%"}, {"0.001", "1", "<1%"}, {"2", "2", "100%"}, {"0.015", "1", "2%"}} {
		if got := Percent(tt.part, tt.whole); got != tt.want {
			t.Errorf("%s of %s: %q, want %q", tt.part, tt.whole, got, tt.want)
		}
	}
	if got := tall(big.NewRat(1, 1000)); got != 1 {
		t.Errorf("a little is %d tall", got)
	}
}

// The tokens of sagas without costs, whose models have no price, are not left out.
func TestTotalsOfFreeModels(t *testing.T) {
	t.Parallel()
	list := Totals([]tally.Group{
		{Key: "2026-11-21", Currency: "USD", Sagas: 2, Spent: "1.50", Wasted: "0", Tokens: tally.Tokens{Input: 10, Output: 1}},
		{Key: "2026-11-21", Sagas: 3, Spent: "0", Wasted: "0", Tokens: tally.Tokens{Input: 700, Output: 70}},
	})
	if len(list) != 1 || list[0].Sagas != 5 || list[0].Spent != "1.50" || list[0].Tokens != (tally.Tokens{Input: 710, Output: 71}) {
		t.Errorf("%+v", list)
	}
}
