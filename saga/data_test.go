package saga

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"
)

func TestVersionText(t *testing.T) {
	for text, want := range map[string]Version{"v0": 0, "v3": 3, "v12": 12, "3": -1, "v": -1, "vx": -1, "v-1": -1, "": -1} {
		v := Version(-1)
		if err := v.UnmarshalText([]byte(text)); v != want || (err == nil) != (want >= 0) {
			t.Errorf("%q is read as %d, want %d: %v", text, v, want, err)
		}
		if want >= 0 && v.String() != text {
			t.Errorf("%q is written as %s", text, v)
		}
	}
}

// A saga of which there is nothing to say stores nothing, and what is stored is read as it was.
func TestStoredSummary(t *testing.T) {
	for _, want := range []Summary{{Cost: NoCost}, {Cost: CostView{Currency: "USD", Spent: "0.25", Reserved: "0", Wasted: "0"}}} {
		stored := want.Stored()
		if empty := reflect.DeepEqual(want, Summary{Cost: NoCost}); empty != (stored == nil) {
			t.Errorf("%+v is stored as %s", want, stored)
		}
		if got, err := ReadSummary(stored); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s is read as %+v, want %+v: %v", stored, got, want, err)
		}
	}
	if _, err := ReadSummary(json.RawMessage("[")); err == nil {
		t.Error("a summary that is no JSON is read")
	}
}

func TestOwnCost(t *testing.T) {
	kids := &ChildrenView{Spent: "0.40", Tokens: TokensView{Input: 30, Output: 4}}
	all := CostView{Currency: "USD", Spent: "1.00", Children: kids, Tokens: TokensView{Input: 100, Output: 10}}
	for _, tt := range []struct {
		name, spent, children string
		want                  string
	}{
		{"both", "1.00", "0.40", "0.60"},
		{"an unreadable sum", "much", "0.40", "much"},
		{"an unreadable part", "1.00", "some", "1.00"},
	} {
		c := all
		c.Spent, c.Children = tt.spent, &ChildrenView{Spent: tt.children, Tokens: kids.Tokens}
		want := CostView{Currency: "USD", Spent: tt.want, Tokens: TokensView{Input: 70, Output: 6}}
		if got := c.Own(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, want)
		}
	}
	alone := CostView{Spent: "1.00", Tokens: TokensView{Input: 1}}
	if got := alone.Own(); !reflect.DeepEqual(got, alone) {
		t.Errorf("without children: %+v", got)
	}
}

func TestDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", 500 * time.Millisecond: "500ms", time.Minute: "1m", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s",
		10 * time.Second: "10s", 23 * time.Hour: "23h", 24 * time.Hour: "1d", 36 * time.Hour: "36h", 72 * time.Hour: "3d", 100 * time.Minute: "1h40m", -time.Second: "-1s"} {
		if got := Duration(d); got != want {
			t.Errorf("%d ns: %s, want %s", d, got, want)
		}
	}
}

func TestDifference(t *testing.T) {
	for _, tt := range []struct{ a, b, at string }{
		{`1`, `1`, "same"}, {`1`, `1.0`, ""}, {`{}`, `[]`, ""}, {`[]`, `{}`, ""}, {`null`, `{}`, ""},
		{`[1,2]`, `[1,2]`, "same"}, {`[1,2]`, `[1,3]`, "/1"}, {`[1,2]`, `[1]`, "/1"}, {`[1]`, `[1,2]`, "/1"}, {`[]`, `[null]`, "/0"}, {`[null]`, `[]`, "/0"},
		{`{"a":{"b":[1]}}`, `{"a":{"b":[2]}}`, "/a/b/0"}, {`{"a":1}`, `{"a":1,"b":null}`, "/b"}, {`{"a/b":1}`, `{}`, "/a~1b"}, {`{"b":1,"a":1}`, `{"b":2,"a":2}`, "/a"},
	} {
		var a, b any
		if err := json.Unmarshal([]byte(tt.a), &a); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tt.b), &b); err != nil {
			t.Fatal(err)
		}
		if tt.a == `1` && tt.b != `1` {
			a, b = json.Number(tt.a), json.Number(tt.b)
		}
		at, differs := Difference(a, b)
		if !differs {
			at = "same"
		}
		if at != tt.at {
			t.Errorf("%s and %s differ at %q, want %q", tt.a, tt.b, at, tt.at)
		}
	}
}
