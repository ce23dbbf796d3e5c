package emit_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
	"recourse/saga/kinds/emit"
)

func parse(step string, sinks []emit.Sink, stored bool) (*saga.Definition, *dsl.Errors) {
	return dsl.Parse("t", []byte("saga: x\nsteps:\n  - {id: a, "+step+"}\n"), dsl.Options{Kinds: []dsl.Kind{emit.Kind(sinks)}, Stored: stored})
}

func TestSinks(t *testing.T) {
	some := []emit.Sink{{Name: "audit"}, {Name: "crm", Types: []string{"a", "b.*"}}}
	none := []emit.Sink{}
	for _, tt := range []struct {
		step   string
		sinks  []emit.Sink
		stored bool
		want   []string
		err    string // part of it
	}{
		{"emit: a", some, false, []string{"audit", "crm"}, ""},
		{"emit: b", some, false, []string{"audit"}, ""},
		{"emit: b.c", some, false, []string{"audit", "crm"}, ""},
		{"emit: b, to: crm", some, false, nil, ""},
		{"emit: a", nil, false, nil, ""},
		{"emit: a", none, false, nil, ""},
		{"emit: a, to: crm", some, false, []string{"crm"}, ""},
		{"emit: a, to: [crm, audit]", some, false, []string{"crm", "audit"}, ""},
		{"emit: a, to: other", nil, false, []string{"other"}, ""},
		{"emit: a, to: crn", some, false, nil, `did you mean "crm"`},
		{"emit: a, to: elsewhere", some, false, nil, "it has audit, crm"},
		{"emit: a, to: crm", none, false, nil, "it has none"},
		{"emit: a, to: gone", some, true, []string{"gone"}, ""},
	} {
		def, errs := parse(tt.step, tt.sinks, tt.stored)
		switch {
		case tt.err != "":
			if errs == nil || errs.List[0].Code != "unknown_sink" || !strings.Contains(errs.Error(), tt.err) {
				t.Errorf("%s with %v: %v, want unknown_sink with %q", tt.step, tt.sinks, errs, tt.err)
			}
		case errs != nil:
			t.Errorf("%s with %v: %v", tt.step, tt.sinks, errs)
		default:
			_, _, to, err := def.ByID["a"].Body.(saga.Announce).Announce(expr.MapEnv{})
			if err != nil || !slices.Equal(to, tt.want) {
				t.Errorf("%s with %v goes to %q, %v; want %q", tt.step, tt.sinks, to, err, tt.want)
			}
		}
	}
}

func TestAnnounce(t *testing.T) {
	for _, tt := range []struct{ input, kind, data, fails string }{
		{`{"s":"paid","n":9007199254740993}`, "shop.paid", `{"n":9007199254740993}`, ""},
		{`{"s":"two words","n":1}`, "", "", "bad_event"},
		{`{"s":"` + strings.Repeat("x", emit.MaxType) + `","n":1}`, "", "", "bad_event"},
		{`{"s":"a","n":"` + strings.Repeat("x", emit.MaxData) + `"}`, "", "", "event_too_large"},
	} {
		def, errs := parse(`emit: "shop.${input.s}", data: {n: "${input.n}"}`, nil, false)
		if errs != nil {
			t.Fatal(errs)
		}
		kind, data, _, err := def.ByID["a"].Body.(saga.Announce).Announce(expr.MapEnv{"input": expr.Raw(tt.input)})
		var f *saga.Failure
		if tt.fails != "" {
			if !errors.As(err, &f) || f.Code != tt.fails {
				t.Errorf("%.40s: %v, want %s", tt.input, err, tt.fails)
			}
		} else if err != nil || kind != tt.kind || string(data) != tt.data {
			t.Errorf("%s: %s %s %v", tt.input, kind, data, err)
		}
	}
}

// The types of the server's own events cannot be emitted: they tell what sagas did, and nobody else
// may.
func TestOwnEventsAreReserved(t *testing.T) {
	if _, errs := parse("emit: recourse.saga.failed", nil, false); errs == nil || errs.List[0].Code != "bad_event" || !strings.Contains(errs.Error(), "the server's own") {
		t.Errorf("published: %v", errs)
	}
	def, errs := parse(`emit: "${input.s}"`, nil, false)
	if errs != nil {
		t.Fatal(errs)
	}
	_, _, _, err := def.ByID["a"].Body.(saga.Announce).Announce(expr.MapEnv{"input": expr.Raw(`{"s":"recourse.saga.failed"}`)})
	if f := (*saga.Failure)(nil); !errors.As(err, &f) || f.Code != "bad_event" {
		t.Errorf("emitted: %v", err)
	}
}
