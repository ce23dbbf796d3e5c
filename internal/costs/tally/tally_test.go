package tally

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// id is the id of the saga that counts n.
func id(n int) uuid.UUID { return uuid.UUID{14: byte(n >> 8), 15: byte(n)} }

// cost is what saga n has cost: it has ended unless live says otherwise.
func cost(n int, definition, summary string, live bool) journal.Cost {
	c := journal.Cost{ID: id(n), Definition: definition, Summary: json.RawMessage(summary), CreatedAt: noon, EndedAt: noon}
	if live {
		c.EndedAt = time.Time{}
	}
	return c
}

func usd(spent string) string {
	return `{"reason":{"code":"x"},"cost":{"currency":"USD","spent":"` + spent + `","wasted":"0","reserved":"0","tokens":{"input":3,"output":1}}}`
}

func sum(t *testing.T, by By, costs ...journal.Cost) []Group {
	t.Helper()
	tally := New(by)
	for _, c := range costs {
		if err := Add(c, tally); err != nil {
			t.Fatal(err)
		}
	}
	list, left := tally.Groups(0, false)
	if left != 0 {
		t.Errorf("%d are left out", left)
	}
	return list
}

func TestGroups(t *testing.T) {
	gold := cost(4, "b", usd("1"), false)
	gold.Labels = map[string]string{"tier": "gold"}
	gold.CreatedAt = noon.Add(-24 * time.Hour).In(time.FixedZone("", 14*3600)) // is the 2nd there
	models := `{"cost":{"currency":"EUR","spent":"1.01","wasted":"0.3","tokens":{"input":9,"output":3},"models":{"m":{"input":5,"output":2,"spent":"0.02"},"n":{"input":4,"output":1,"spent":"0"}}}}`
	all := []journal.Cost{cost(1, "a", usd("0.10"), false), cost(2, "a", usd("0.2"), true), cost(3, "a", models, false), gold, cost(5, "c", "", true)}
	for _, tt := range []struct {
		by   By
		want []Group
	}{
		{ByDefinition, []Group{
			{Key: "a", Currency: "EUR", Sagas: 1, Ended: 1, Spent: "1.01", Wasted: "0.3", Median: "1.01", P90: "1.01", Max: "1.01", Tokens: Tokens{9, 3}, Outliers: []Outlier{}},
			{Key: "b", Currency: "USD", Sagas: 1, Ended: 1, Spent: "1", Wasted: "0", Median: "1", P90: "1", Max: "1", Tokens: Tokens{3, 1}, Outliers: []Outlier{}},
			{Key: "a", Currency: "USD", Sagas: 2, Ended: 1, Spent: "0.30", Wasted: "0", Median: "0.10", P90: "0.10", Max: "0.2", Tokens: Tokens{6, 2}, Outliers: []Outlier{}},
			{Key: "c", Sagas: 1, Spent: "0", Wasted: "0", Max: "0", Outliers: []Outlier{}},
		}},
		{ByDay, []Group{
			{Key: "2026-01-01", Currency: "USD", Sagas: 1, Ended: 1, Spent: "1", Wasted: "0", Median: "1", P90: "1", Max: "1", Tokens: Tokens{3, 1}, Outliers: []Outlier{}},
			{Key: "2026-01-02", Currency: "EUR", Sagas: 1, Ended: 1, Spent: "1.01", Wasted: "0.3", Median: "1.01", P90: "1.01", Max: "1.01", Tokens: Tokens{9, 3}, Outliers: []Outlier{}},
			{Key: "2026-01-02", Currency: "USD", Sagas: 2, Ended: 1, Spent: "0.30", Wasted: "0", Median: "0.10", P90: "0.10", Max: "0.2", Tokens: Tokens{6, 2}, Outliers: []Outlier{}},
			{Key: "2026-01-02", Sagas: 1, Spent: "0", Wasted: "0", Max: "0", Outliers: []Outlier{}},
		}},
		{ByModel, []Group{
			{Key: "m", Currency: "EUR", Sagas: 1, Ended: 1, Spent: "0.02", Median: "0.02", P90: "0.02", Max: "0.02", Tokens: Tokens{5, 2}, Outliers: []Outlier{}},
			{Key: "n", Currency: "EUR", Sagas: 1, Ended: 1, Spent: "0", Median: "0", P90: "0", Max: "0", Tokens: Tokens{4, 1}, Outliers: []Outlier{}},
		}},
		{"label.tier", []Group{
			{Currency: "EUR", Sagas: 1, Ended: 1, Spent: "1.01", Wasted: "0.3", Median: "1.01", P90: "1.01", Max: "1.01", Tokens: Tokens{9, 3}, Outliers: []Outlier{}},
			{Key: "gold", Currency: "USD", Sagas: 1, Ended: 1, Spent: "1", Wasted: "0", Median: "1", P90: "1", Max: "1", Tokens: Tokens{3, 1}, Outliers: []Outlier{}},
			{Currency: "USD", Sagas: 2, Ended: 1, Spent: "0.30", Wasted: "0", Median: "0.10", P90: "0.10", Max: "0.2", Tokens: Tokens{6, 2}, Outliers: []Outlier{}},
			{Sagas: 1, Spent: "0", Wasted: "0", Max: "0", Outliers: []Outlier{}},
		}},
	} {
		if d := cmp.Diff(tt.want, sum(t, tt.by, all...)); d != "" {
			t.Errorf("by %s (-want +got):\n%s", tt.by, d)
		}
	}
}

// Of costs 0.01 to 0.20 the median is 0.10: what costs more than 0.30 is an outlier, live ones too,
// and ten are named.
func TestOutliers(t *testing.T) {
	var all []journal.Cost
	for n := 1; n <= 20; n++ {
		all = append(all, cost(n, "a", usd(fmt.Sprintf("0.%02d", n)), false))
	}
	for n := 100; n <= 111; n++ {
		all = append(all, cost(n, "a", usd(fmt.Sprintf("0.%d", n)), true)) // 0.100 to 0.111, in flight
	}
	got := sum(t, ByDefinition, all...)[0]
	if got.Median != "0.10" || got.P90 != "0.18" || got.Max != "0.20" || got.Ended != 20 || len(got.Outliers) != 0 {
		t.Errorf("without outliers: %+v", got)
	}
	for n := 200; n <= 211; n++ {
		all = append(all, cost(n, "a", usd(fmt.Sprintf("0.30%d", n-200)), true)) // 0.300 is none; 0.301 to 0.3011
	}
	got = sum(t, ByDefinition, all...)[0]
	want := []Outlier{{id(209).String(), "0.309"}, {id(208).String(), "0.308"}, {id(207).String(), "0.307"}, {id(206).String(), "0.306"}, {id(205).String(), "0.305"},
		{id(204).String(), "0.304"}, {id(203).String(), "0.303"}, {id(202).String(), "0.302"}, {id(211).String(), "0.3011"}, {id(201).String(), "0.301"}}
	if d := cmp.Diff(want, got.Outliers); d != "" || got.Max != "0.309" {
		t.Errorf("max %s, outliers (-want +got):\n%s", got.Max, d)
	}
	free := sum(t, ByDefinition, cost(1, "a", usd("0"), false), cost(2, "a", usd("0.00"), false), cost(3, "a", usd("5"), false))[0]
	if free.Median != "0" && free.Median != "0.00" || len(free.Outliers) != 0 {
		t.Errorf("of a median of nothing: %+v", free)
	}
}

func TestGroupsLeftOut(t *testing.T) {
	tally := New(ByDay)
	for n := range 5 {
		c := cost(n, "a", usd(fmt.Sprint(n%3)), false)
		c.CreatedAt = noon.AddDate(0, 0, n)
		if err := Add(c, tally); err != nil {
			t.Fatal(err)
		}
	}
	list, left := tally.Groups(3, false)
	var keys []string
	for _, g := range list {
		keys = append(keys, g.Key)
	}
	if d := cmp.Diff([]string{"2026-01-03", "2026-01-04", "2026-01-06"}, keys); d != "" {
		t.Errorf("days that are left (-want +got):\n%s", d)
	}
	if left != 2 {
		t.Errorf("%d are left out, want 2", left)
	}
}

func TestUnreadable(t *testing.T) {
	for _, summary := range []string{`{`, usd("-1"), usd("1e99"), usd("x"), `{"cost":{"spent":"1","wasted":"?"}}`} {
		tally := New(ByDefinition)
		if err := Add(cost(1, "a", summary, false), tally); !errors.Is(err, saga.ErrUnreadable) {
			t.Errorf("%s: %v", summary, err)
		}
		if list, _ := tally.Groups(0, false); len(list) != 0 {
			t.Errorf("%s was counted: %+v", summary, list)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		amounts []string
		want    string
	}{
		{nil, ""},
		{[]string{"3"}, "3"},
		{[]string{"3", "1"}, "1"},
		{[]string{"10", "9.5", "0"}, "9.5"},
		{[]string{"0.1", "0.10", "9007199254740993", "9007199254740992.9"}, "0.10"},
	} {
		got, ok := Median(amounts(t, tt.amounts))
		if want := tt.want; ok != (want != "") || ok && got.Cmp(amounts(t, []string{want})[0]) != 0 {
			t.Errorf("%v: %s, %v", tt.amounts, got, ok)
		}
	}
}

func amounts(t *testing.T, decimals []string) (list []retry.Money) {
	t.Helper()
	for _, d := range decimals {
		m, err := retry.Amount(d, "USD")
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, m)
	}
	return list
}

// Costs that remote services report may add up to more digits than one amount may have: one such
// saga hides no other's cost.
func TestManyDigits(t *testing.T) {
	const spent = "999999999999999999999999999999000000000000001.000000000001"
	got := sum(t, ByDefinition, cost(1, "a", usd(spent), false), cost(2, "a", usd("1"), false))
	if len(got) != 1 || got[0].Sagas != 2 || got[0].Max != spent || got[0].Spent != "999999999999999999999999999999000000000000002.000000000001" {
		t.Errorf("%+v", got)
	}
}

// A currency with many groups does not displace the groups of another one.
func TestGroupsLeftOutOfCurrencies(t *testing.T) {
	tally := New(ByDefinition)
	costs := []journal.Cost{cost(0, "dear", usd("900"), false)}
	for n := range 3 {
		costs = append(costs, cost(n+1, fmt.Sprint("cheap", n), strings.ReplaceAll(usd(fmt.Sprint(n)), "USD", "EUR"), false))
	}
	for _, c := range costs {
		if err := Add(c, tally); err != nil {
			t.Fatal(err)
		}
	}
	list, left := tally.Groups(2, false)
	if len(list) != 2 || list[0].Key != "cheap2" || list[1].Key != "dear" || left != 2 {
		t.Errorf("%+v, and %d left out", list, left)
	}
}
