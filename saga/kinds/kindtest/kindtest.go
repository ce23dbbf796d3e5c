// Package kindtest is the test suite for step kinds: a kind is complete, its decoding reports
// errors and does not panic, and its rendering and judging are functions of their inputs.
package kindtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Suite is one kind with examples of it.
type Suite struct {
	Kind dsl.Kind
	// Good are steps without their id, as YAML flow maps: `{set: 1}`. There is at least one.
	Good []string
	// Bad are steps that are refused, with the code of the error.
	Bad map[string]string
	// Env is the environment of the good steps.
	Env expr.MapEnv
	// Answers are bodies that a kind which reads its answers accepts as success, for each good
	// step.
	Answers []string
	// Odd are other bodies that the kind must handle, with a status of 200.
	Odd []string
	// Actions finds the actions that steps may use, nil for none.
	Actions func(name string, version int) (*saga.Action, error)
}

// canary is a value that no rendering may contain. It is in the place of secrets in Env.
const canary = "canary-7c1d"

// Run runs the suite for the kind.
func Run(t *testing.T, s Suite) {
	t.Run("described", s.described)
	t.Run("good", s.good)
	t.Run("bad", s.bad)
	t.Run("any value", s.anyValue)
}

func (s Suite) described(t *testing.T) {
	k := s.Kind
	if k.Name == "" || len(k.Doc) < 40 || k.Decode == nil {
		t.Errorf("the kind %q lacks its name, its doc or its decoder", k.Name)
	}
	if !json.Valid(k.Value) {
		t.Errorf("the schema of %s is not JSON", k.Name)
	}
	for _, key := range k.Keys {
		if !json.Valid(key.Schema) {
			t.Errorf("the schema of %s is not JSON", key.Name)
		}
	}
	if len(s.Good) == 0 || len(s.Bad) == 0 {
		t.Error("the suite needs good and bad examples")
	}
}

// Parse compiles one step of the kind, given without its id.
func (s Suite) Parse(step string) (*saga.Step, *dsl.Errors) {
	step = strings.TrimSuffix(strings.TrimPrefix(step, "{"), "}")
	src := "saga: x\nsecrets: [KEY]\nsteps:\n  - {id: it, " + step + "}\n"
	def, errs := dsl.Parse("step.yaml", []byte(src), dsl.Options{Kinds: []dsl.Kind{s.Kind, inert()}, Actions: s.Actions})
	if errs != nil {
		return nil, errs
	}
	return def.ByID["it"], nil
}

// inert is a kind for the steps inside others.
func inert() dsl.Kind {
	return dsl.Kind{Name: "inert", Decode: func(*dsl.Decoder) saga.Body { return struct{}{} }}
}

func (s Suite) good(t *testing.T) {
	for _, text := range s.Good {
		t.Run(text, func(t *testing.T) {
			step, errs := s.Parse(text)
			if errs != nil {
				t.Fatalf("Parse:\n%v", errs)
			}
			first, second := s.outcome(t, step.Body), s.outcome(t, step.Body)
			if diff := cmp.Diff(first, second); diff != "" {
				t.Errorf("the same values give something else the second time:\n%s", diff)
			}
			if strings.Contains(first, canary) {
				t.Errorf("a secret's value is in %s", first)
			}
			if call, ok := step.Body.(saga.Call); ok {
				judge(t, call)
				s.calls(t, call, s.env())
			}
		})
	}
}

func (s Suite) env() expr.MapEnv {
	env := expr.MapEnv{"secrets": map[string]any{"KEY": canary}}
	maps.Copy(env, s.Env)
	return env
}

// outcome calls the methods of a body of any shape, and writes down their results.
func (s Suite) outcome(t *testing.T, body saga.Body) string {
	t.Helper()
	env := s.env()
	var v any
	var err error
	switch b := body.(type) {
	case saga.Value:
		v, err = b.Eval(env)
	case saga.Wait:
		v, err = b.Due(env, time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	case saga.Block:
		v, err = entered(b, env)
	case saga.Await:
		v, err = awaited(b, env)
	case saga.Announce:
		var to []string
		var data json.RawMessage
		var kind string
		kind, data, to, err = b.Announce(env)
		v = fmt.Sprintf("%s %s %q", kind, data, to)
	case saga.Call:
		var r saga.Request
		r, err = b.Request(env)
		v = written(t, r)
	default:
		t.Fatalf("%T has none of the shapes that the machine knows", body)
	}
	return fmt.Sprintf("%+v, %v", v, err)
}

// written returns a request as its intent records it.
func written(t *testing.T, r saga.Request) string {
	t.Helper()
	b, err := journal.Encode(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// entered writes down how a block runs.
func entered(b saga.Block, env expr.Env) (string, error) {
	e, err := b.Enter(env)
	if err != nil {
		return "", err
	}
	l, err := b.Layout(e)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(e)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s: %d groups, loop %v, %d at once", text, len(l.Groups), l.Loop != nil, l.Limit), nil
}

// awaited writes down what a step waits for.
func awaited(b saga.Await, env expr.Env) (string, error) {
	a, err := b.Await(env)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(a)
	return string(text), err
}

// judge checks that a call gives each answer one of the classes, describes each failure, and is
// never in doubt about a request without effect.
func judge(t *testing.T, call saga.Call) {
	t.Helper()
	known := map[journal.Class]bool{journal.Succeeded: true, journal.Refused: true, journal.Transient: true, journal.InDoubt: true, journal.Held: true}
	for status := range 600 {
		for _, code := range []string{"", "timeout", "connection", "dns", "tls", "egress_denied", "secret_missing", "body_cut", "body_too_large", "body_invalid", "redirect", "interrupted", "not_sent"} {
			for _, sent := range []bool{false, true} {
				if !sent && status > 0 || status > 0 && status < 200 {
					continue
				}
				v := call.Judge(saga.Request{}, saga.Answer{Sent: sent, Status: status, Code: code, Body: json.RawMessage(`{"a":1}`)})
				at := fmt.Sprintf("status %d, code %q, sent %v: %+v", status, code, sent, v)
				if !known[v.Class] {
					t.Fatalf("%s: no such class", at)
				}
				if (v.Class == journal.Succeeded) != (v.Error == nil) || v.Error != nil && (v.Error.Code == "" || v.Error.Title == "") {
					t.Fatalf("%s: success has no error, anything else has one with words", at)
				}
				if v.Class == journal.InDoubt && (call.ReadOnly() || !sent) {
					t.Fatalf("%s: nothing can have happened, so nothing is in doubt", at)
				}
			}
		}
	}
}

func (s Suite) bad(t *testing.T) {
	for text, code := range s.Bad {
		t.Run(text, func(t *testing.T) {
			_, errs := s.Parse(text)
			if errs == nil {
				t.Fatalf("Parse accepts it, want %s", code)
			}
			for _, e := range errs.List {
				if e.Code == code {
					return
				}
			}
			t.Errorf("no error %s in\n%v", code, errs)
		})
	}
}

// anyValue puts each form of YAML into each of the kind's places.
func (s Suite) anyValue(t *testing.T) {
	forms := []string{"", "~", "true", "3", "-1.5e3", "0x1F", `""`, "text", "[]", "[1, [a]]", "{}", "{a: {b: [c]}}", "${", "${input}", `"\u0000"`}
	valid := strings.TrimSuffix(strings.TrimPrefix(s.Good[0], "{"), "}")
	for _, form := range forms {
		if _, errs := s.Parse("{" + s.Kind.Name + ": " + form + "}"); errs != nil && len(errs.List) == 0 {
			t.Errorf("%s: %s: refused without a reason", s.Kind.Name, form)
		}
		for _, key := range s.Kind.Keys {
			if _, errs := s.Parse("{" + valid + ", " + key.Name + ": " + form + "}"); errs != nil && len(errs.List) == 0 {
				t.Errorf("%s: %s: refused without a reason", key.Name, form)
			}
		}
	}
	if _, errs := s.Parse("{" + valid + ", no_such_key: 1}"); errs == nil || errs.List[0].Code != "unknown_key" {
		t.Errorf("an unknown key gives %v, want unknown_key", errs)
	}
}
