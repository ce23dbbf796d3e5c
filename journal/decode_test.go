package journal

import (
	"encoding/json"
	"testing"
)

// outer is data with records in it, as that of a fork's first record.
type outer struct {
	Name   string   `json:"name"`
	Origin []Record `json:"origin"`
}

func (o *outer) Nested() []Record { return o.Origin }

// A record that remembers decodes its data once for each type, and so do its copies and the records
// in its data.
func TestDecode(t *testing.T) {
	r := Record{Data: json.RawMessage(`{"name": "a", "origin": [{"seq": 1, "at": "2026-01-02T03:04:05Z", "data": {"name": "b"}}]}`)}
	decode := func(r Record) (o outer) {
		t.Helper()
		if err := r.Decode(&o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	if a, b := decode(r), decode(r); a.Name != "a" || &a.Origin[0] == &b.Origin[0] {
		t.Errorf("%+v and %+v", a, b)
	}
	r.Remember()
	a, b := decode(r), decode(r)
	if a.Name != "a" || &a.Origin[0] != &b.Origin[0] || a.Origin[0].Decoded == nil || decode(a.Origin[0]).Name != "b" {
		t.Errorf("%+v and %+v", a, b)
	}
	var other struct{ Origin []struct{ Seq int } }
	if err := r.Decode(&other); err != nil || other.Origin[0].Seq != 1 {
		t.Errorf("%+v, %v", other, err)
	}
	for _, data := range []string{"", "{"} {
		r := Record{Data: json.RawMessage(data)}
		r.Remember()
		var o outer
		if err := r.Decode(&o); (err != nil) != (data != "") || o.Name != "" {
			t.Errorf("%q: %+v, %v", data, o, err)
		}
	}
}
