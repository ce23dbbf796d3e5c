package ui

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
)

func TestPairs(t *testing.T) {
	tests := []struct {
		name, shown string
		want        []pair
	}{
		{"simple values, as they are written", `{"b":"x\ny","a":12345678901234567890,"c":null}`, []pair{{Name: "b", Value: "x\ny"}, {Name: "a", Value: "12345678901234567890"}, {Name: "c", Value: "null"}}},
		{"an object within", `{"read":{"summary":"broken","by":{"model":"m"}}}`, []pair{{Name: "read · summary", Value: "broken"}, {Name: "read · by · model", Value: "m"}}},
		{"a list", `{"reasons":["one",2]}`, []pair{{Name: "reasons", List: []string{"one", "2"}}}},
		{"nothing in it", `{"reasons":[],"read":{}}`, []pair{{Name: "reasons", Value: "[]"}, {Name: "read", Value: "{}"}}},
		{"objects in a list are JSON", `{"lines":[{"sku":"a"}]}`, nil},
		{"too deep is JSON", `{"a":{"b":{"c":{"d":1}}}}`, nil},
		{"no object is JSON", `[1]`, nil},
		{"nothing is shown", ``, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := entryForms{entry: entry{Entry: saga.Entry{Shown: json.RawMessage(tt.shown)}}}
			if d := cmp.Diff(tt.want, f.Pairs()); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestExpires(t *testing.T) {
	x := newSite(t)
	x.publish("saga: dated\nsteps:\n  - {id: ok, approval: {title: Pay?}, timeout: 1h}\n  - {id: then, set: 1}\n")
	id := x.start("dated", `null`)
	x.waits(id)
	var list struct {
		Data []entry `json:"data"`
	}
	if err := json.Unmarshal([]byte(x.rest("GET", "/v1/inbox", "").want(200).body), &list); err != nil {
		t.Fatal(err)
	}
	f := entryForms{entry: list.Data[0]}
	// The hour counts from the latest time that the database's clock can have shown.
	if got, want := f.Expires(), f.Since.Add(time.Hour); got.Before(want) || got.Sub(want) > time.Minute || f.About() != "Approve or reject it, with the hash of what is shown here." {
		t.Errorf("%q expires at %s, want %s", f.About(), got, want)
	}
	x.page("/inbox").want(200).has("Expires").lacks("It expires at")
	f.ExpiresAt = nil
	if !f.Expires().IsZero() || f.About() != f.Detail {
		t.Errorf("%s expires at %s", f.About(), f.Expires())
	}
}
