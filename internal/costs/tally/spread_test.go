package tally

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"recourse/retry"
)

func TestSpread(t *testing.T) {
	for _, tt := range []struct {
		name    string
		amounts []string
		want    []Bucket
	}{
		{"nothing", nil, nil},
		{"free", []string{"0", "0.00"}, nil},
		{"one", []string{"0.0015"}, []Bucket{{"0.0015", "0.0016", 1}}},
		{"between two steps", []string{"1.4", "1.45"}, []Bucket{{"1.3", "1.5", 2}}},
		{"a step is the next bucket's", []string{"1", "1.1", "1.15"}, []Bucket{{"1.0", "1.1", 1}, {"1.1", "1.2", 2}}},
		{"free ones apart", []string{"0", "95", "100"}, []Bucket{{"0", "91", 1}, {"91", "100", 1}, {"100", "110", 1}}},
		{"very far apart", []string{"0.000001", "1000"}, []Bucket{{"0.000001", "0.00001", 1}, {"0.00001", "0.0001", 0}, {"0.0001", "0.001", 0}, {"0.001", "0.01", 0}, {"0.01", "0.1", 0},
			{"0.1", "1", 0}, {"1", "10", 0}, {"10", "100", 0}, {"100", "1000", 0}, {"1000", "10000", 1}}},
		{"further than any ladder", []string{"1e-20", "1e9"}, nil},
	} {
		got := spread(amounts(t, tt.amounts))
		for i := range got { // as 1.0 is 1
			got[i].From, got[i].To = plain(t, got[i].From), plain(t, got[i].To)
		}
		for i := range tt.want {
			tt.want[i].From, tt.want[i].To = plain(t, tt.want[i].From), plain(t, tt.want[i].To)
		}
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, d)
		}
	}
}

func plain(t *testing.T, decimal string) string {
	t.Helper()
	m := amounts(t, []string{decimal})[0]
	one, err := retry.Amount("0.0000000", "")
	if err != nil {
		t.Fatal(err)
	}
	return m.Add(one).Decimal()
}

// Every amount is counted once, in the bucket that it belongs to, and there are at most twenty.
func TestSpreadCountsAll(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		decimals := rapid.SliceOfN(rapid.StringMatching(`[0-9]{1,4}(\.[0-9]{1,6})?`), 1, 50).Draw(r, "amounts")
		sorted := amounts(t, decimals)
		slices.SortFunc(sorted, retry.Money.Cmp)
		got := spread(sorted)
		if got == nil {
			if !sorted[len(sorted)-1].IsZero() {
				r.Fatalf("no buckets for %v", decimals)
			}
			return
		}
		if len(got) > mostBuckets {
			r.Fatalf("%d buckets", len(got))
		}
		counted := 0
		for i, b := range got {
			from, to := amounts(t, []string{b.From})[0], amounts(t, []string{b.To})[0]
			if i > 0 && b.From != got[i-1].To || from.Cmp(to) >= 0 {
				r.Fatalf("bucket %d is %+v after %+v", i, b, got[max(i-1, 0)])
			}
			within := 0
			for _, m := range sorted {
				if m.Cmp(from) >= 0 && m.Cmp(to) < 0 {
					within++
				}
			}
			if within != b.Sagas {
				r.Fatalf("bucket %+v has %d", b, within)
			}
			counted += b.Sagas
		}
		if counted != len(sorted) || got[len(got)-1].Sagas == 0 || got[0].Sagas == 0 {
			r.Fatalf("%d of %d counted: %+v", counted, len(sorted), got)
		}
	})
}
