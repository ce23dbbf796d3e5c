package api

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"unicode/utf8"
)

// badStrict checks the reader of bodies: what it accepts is JSON of valid text without duplicate
// fields, and a start reads the values unchanged.
func badStrict(strict func([]byte) *problem, body []byte) error {
	if p := strict(body); p != nil {
		if p.Status != 400 || len(p.Errors) != 1 || p.Errors[0].Detail == "" || p.Errors[0].Line < 1 || p.Errors[0].Column < 1 {
			return fmt.Errorf("%q: %+v", body, p)
		}
		return nil
	}
	if !json.Valid(body) || !utf8.Valid(body) || twice(json.NewDecoder(bytes.NewReader(body))) {
		return fmt.Errorf("%q passes, but is not strict JSON", body)
	}
	o := &object{}
	if o.parse(body, "", []string{"definition", "version", "input", "budget", "labels"}) != nil {
		return nil
	}
	r, err := readStart(o)
	if err != nil {
		if q := asProblem(err); q.Status != 400 || len(q.Errors) == 0 {
			return fmt.Errorf("%q: %+v", body, q)
		}
		return nil
	}
	if r.definition == "" || r.version < 0 || !bytes.Equal(r.input, o.raw("input")) || !bytes.Contains(body, r.input) {
		return fmt.Errorf("%q reads as %+v", body, r)
	}
	return nil
}

// twice finds duplicate fields with the tokens of encoding/json.
func twice(d *json.Decoder) bool {
	d.UseNumber()
	var open []map[string]bool // the fields of each enclosing object; nil for a list
	name := false              // the next token is a field's name
	for {
		tok, err := d.Token()
		if err != nil {
			return false
		}
		switch tok := tok.(type) {
		case json.Delim:
			switch tok {
			case '{':
				open = append(open, map[string]bool{})
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
		case string:
			if name {
				fields := open[len(open)-1]
				if fields[tok] {
					return true
				}
				fields[tok] = true
				name = false
				continue
			}
		}
		name = len(open) > 0 && open[len(open)-1] != nil
	}
}

func FuzzStartBody(f *testing.F) {
	for _, seed := range []string{
		`{"definition":"order","version":"v3","input":{"amount":19.10},"budget":"2.00 USD","labels":{"tier":"gold"}}`,
		`{"definition":"order","budget":{"amount":"2.00","currency":"USD","tokens":100}}`,
		`{"input":"\ud83d\ude00\u0000"}`, `{"input":1e400,"labels":null}`, `{"a":[{"b":1,"b":2}]}`, `[[[[`, `{"budget":{"amount":" "}}`, "\"\xff\"", `{"version":1}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		if err := badStrict(strictJSON, body); err != nil {
			t.Fatal(err)
		}
		if err := badFields(body); err != nil {
			t.Fatal(err)
		}
	})
}

// badFields compares the fields of a strict body with those that encoding/json reads.
func badFields(body []byte) error {
	got, p := strictFields(body)
	if p != nil {
		return nil
	}
	var want map[string]json.RawMessage
	if json.Unmarshal(body, &want) != nil {
		want = nil
	}
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%q has the fields %q, not %q", body, got, want)
	}
	return nil
}

func TestStrictFields(t *testing.T) {
	for _, body := range []string{
		``, `{}`, `null`, `[{"a":1}]`, `"a"`, ` { "a" : {"b":[ 1, {"c":2} ]} , "é" : " x " , "" : null } `, `{"\u0061\n\"b":1,"a":2}`, `{"😀":"\ud83d\ude00"}`,
	} {
		if err := badFields([]byte(body)); err != nil {
			t.Error(err)
		}
	}
}

// The checks catch a scanner that is only as strict as encoding/json, and one that accepts
// everything.
func TestFuzzStartBodyCanFail(t *testing.T) {
	lenient := func(b []byte) *problem {
		if json.Valid(b) {
			return nil
		}
		return fail("invalid_json", "no")
	}
	for _, body := range []string{`{"a":1,"a":2}`, `{"a":{"b":1,"c":[],"b":2}}`, `{"a":1,"\u0061":2}`, "\"\xff\"", `{`} {
		if badStrict(lenient, []byte(body)) == nil {
			t.Errorf("not noticed: %s", body)
		}
		if err := badStrict(strictJSON, []byte(body)); err != nil {
			t.Error(err)
		}
	}
}
