package machine_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

const secondID = "01920000-0000-7000-8000-000000000002"

// goneOn starts the saga that goes on from a step of one that has ended, and plays it.
func goneOn(p *player, from, script string) *player {
	p.t.Helper()
	plan := p.m.PlanRetry(from)
	if plan.Refused != nil {
		p.t.Fatalf("%+v\n%s", plan, p.out.String())
	}
	data, _, wrong := p.m.BeginRetry(plan, p.records, machine.StartOptions{})
	if wrong != nil {
		p.t.Fatal(wrong)
	}
	next := &player{t: p.t, def: p.def, now: p.now, m: machine.New(p.def, uuid.Must(uuid.FromString(secondID)))}
	next.script = slices.DeleteFunc(strings.Split(script, "\n"), func(line string) bool { return line == "" })
	next.write(next.m.Start(data))
	for next.step() {
	}
	return next
}

const fourEffects = `saga: order
steps:
  - {id: a, http: "POST https://pay.example/a", body: {}, compensate: {http: "DELETE https://pay.example/a"}}
  - {id: b, http: "POST https://pay.example/b", body: {}, compensate: {http: "DELETE https://pay.example/b"}}
  - id: each
    foreach: [1, 2]
    steps: [{id: in, http: "POST https://pay.example/in", body: {}, compensate: {http: "DELETE https://pay.example/in/${item}"}}]
  - {id: c, http: "POST https://pay.example/c", body: {}, compensate: {http: "DELETE https://pay.example/c"}}
  - {id: d, http: "POST https://pay.example/d", body: {}, compensate: none}
  - {id: e, http: "POST https://pay.example/e", body: {}, compensate: none}
finally:
  - {id: last, set: 1}
`

// undoRefused is the script of a saga of fourEffects that fails at d. Only c is undone: the undo of
// the steps before it is refused.
var undoRefused = "d do: 422 {}\n" + refused("each[1].in") + refused("each[0].in") + refused("b") + refused("a")

func refused(path string) string {
	return path + " undo: 422 {}\norder: {\"command\":\"resolve\",\"path\":\"" + path + "\",\"outcome\":\"skip\",\"reason\":\"it may stay\"}\n"
}

// A saga that goes on from another one undoes its own effects first, and then those that it has
// taken over, the latest first.
func TestRetryUndoesInReverse(t *testing.T) {
	p := play(t, map[string]string{"definition": fourEffects, "input": "null", "script": undoRefused})
	next := goneOn(p, "c", "d do: 422 {}\n")
	var undone []string
	for _, r := range next.records {
		if r.Kind == journal.Intent && r.Way == journal.Undo {
			var d saga.IntentData
			next.decode(string(r.Data), &d)
			undone = append(undone, r.Path+" "+d.Request.URL[len("https://pay.example/"):])
		}
	}
	if want := []string{"c c", "each[1].in in/2", "each[0].in in/1", "b b", "a a"}; !slices.Equal(undone, want) || next.m.Status() != saga.Compensated {
		t.Errorf("undone: %q, want %q; %s\n%s", undone, want, next.m.Status(), next.out.String())
	}
}

// A pivot that was taken over is one: a later step that fails waits for a person. One that was
// taken over as skipped is none.
func TestRetryTakesOverThePivot(t *testing.T) {
	for when, status := range map[string]saga.Status{"true": saga.Stuck, "false": saga.Failed} {
		p := play(t, map[string]string{
			"definition": `saga: order
steps:
  - {id: a, http: "POST https://pay.example/a", body: {}, when: ` + when + `, pivot: true}
  - {id: b, http: "POST https://pay.example/b", body: {}, compensate: none}
  - {id: c, http: "POST https://pay.example/c", body: {}, compensate: none}
`, "input": "null", "script": "c do: 422 {}\n" + map[string]string{"true": `order: {"command":"compensate","reason":"enough"}` + "\n"}[when]})
		if next := goneOn(p, "c", "c do: 422 {}\n"); next.m.Status() != status {
			t.Errorf("when: %s: %s, want %s\n%s", when, next.m.Status(), status, next.out.String())
		}
	}
}

// A start that goes on from a saga from which nothing can go on is refused, and so is one that
// takes over what is no outcome of a step of the top level.
func TestImpossibleRetries(t *testing.T) {
	p := play(t, map[string]string{"definition": fourEffects, "input": "null", "script": undoRefused})
	plan := p.m.PlanRetry("d")
	good, _, wrong := p.m.BeginRetry(plan, p.records, machine.StartOptions{})
	if wrong != nil || !slices.Equal(plan.Reused, []string{"a", "b", "each"}) {
		t.Fatalf("%+v, %v", plan, wrong)
	}
	again := goneOn(p, "c", "d do: 422 {}\n")
	done := play(t, map[string]string{"definition": fourEffects, "input": "null"})
	for name, c := range map[string]struct {
		change func(d *saga.StartedData)
		want   error
	}{
		"nothing is wrong":        {func(*saga.StartedData) {}, nil},
		"no id":                   {func(d *saga.StartedData) { d.RetryOf = "x" }, saga.ErrUnreadable},
		"it has not ended":        {func(d *saga.StartedData) { d.Origin = d.Origin[:len(d.Origin)-1] }, machine.ErrImpossible},
		"it has succeeded":        {func(d *saga.StartedData) { d.Origin = done.records }, machine.ErrImpossible},
		"its journal is no other": {func(d *saga.StartedData) { d.Origin = d.Origin[1:] }, machine.ErrImpossible},
		"no step":                 {func(d *saga.StartedData) { d.Reused = append(slices.Clone(d.Reused), "none") }, machine.ErrImpossible},
		"a step in a block":       {func(d *saga.StartedData) { d.Reused = append(slices.Clone(d.Reused), "each[0].in") }, machine.ErrImpossible},
		"a step of finally":       {func(d *saga.StartedData) { d.Reused = append(slices.Clone(d.Reused), "last") }, machine.ErrImpossible},
		"a step that failed":      {func(d *saga.StartedData) { d.Reused = append(slices.Clone(d.Reused), "d") }, machine.ErrImpossible},
		"a step that never began": {func(d *saga.StartedData) { d.Reused = append(slices.Clone(d.Reused), "e") }, machine.ErrImpossible},
	} {
		t.Run(name, func(t *testing.T) {
			d := good
			c.change(&d)
			m := machine.New(p.def, uuid.Must(uuid.FromString(secondID)))
			if _, err := m.Append(m.Start(d), p.now, "node-1"); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
	if again.m.Status() != saga.Compensated {
		t.Errorf("%s", again.m.Status())
	}
}

// A refusal of a retry names the step from which the saga can be retried instead.
func TestRetryFromAnotherStep(t *testing.T) {
	m := play(t, map[string]string{"definition": fourEffects, "input": "null", "script": undoRefused}).m
	for from, want := range map[string]string{
		"each[0].in": "step each[0].in is a part of step each: retry from that one",
		"last":       "no step \"last\" can be retried from: name a step of the definition's `steps`",
		"none":       "no step \"none\" can be retried from: name a step of the definition's `steps`",
	} {
		if r := m.PlanRetry(from).Refused; len(r) != 1 || r[0].Code != machine.CodeNoSuchStep || r[0].Detail != want {
			t.Errorf("%s: %+v, want %s", from, r, want)
		}
	}
}

// A step that reads a step in a block runs again with that block.
func TestRetryReadsABlock(t *testing.T) {
	p := play(t, map[string]string{
		"definition": `saga: order
steps:
  - {id: a, set: 1}
  - id: way
    switch:
      - steps: [{id: hold, http: POST https://pay.example/holds, body: {}, compensate: {http: DELETE https://pay.example/holds/1}}]
  - {id: note, set: "${steps.hold.output.id}"}
  - {id: pay, http: POST https://pay.example/pays, body: {}, compensate: none}
`, "input": "null", "script": "hold do: 200 {\"id\":1}\npay do: 422 {}\n"})
	plan := p.m.PlanRetry("pay")
	want := []machine.RetryAgain{{Path: "way", Why: "it was undone"}, {Path: "note", Why: "it reads the result of way, which runs again"}}
	if !slices.Equal(plan.Reused, []string{"a"}) || !slices.Equal(plan.Again, want) || plan.Refused != nil {
		t.Errorf("%+v", plan)
	}
}

// The reason why a step cannot run again says whether its effect is certain.
func TestRetryFromAnEffect(t *testing.T) {
	for script, want := range map[string]string{
		"pay do: timeout\n": "it has happened, and was not undone",
		"pay do: timeout\npay do: 422 {}\norder: {\"command\":\"resolve\",\"path\":\"pay\",\"outcome\":\"skip\",\"reason\":\"x\"}\n": "it may have happened, and was not undone",
	} {
		m := play(t, map[string]string{
			"definition": `saga: order
steps:
  - {id: pay, http: POST https://pay.example/pays, body: {}, in_doubt: retry, compensate: none, on_error: continue}
  - {id: no, fail: at the end}
`, "input": "null", "script": script}).m
		if r := m.PlanRetry("pay").Refused; len(r) != 1 || r[0].Code != machine.CodeEffectStays || !strings.HasPrefix(r[0].Detail, want) {
			t.Errorf("%q: %+v, want %s", script, r, want)
		}
	}
}

// An approval that nobody decided before the saga was cancelled has no outcome to take over.
func TestRetryAfterAnUndecidedApproval(t *testing.T) {
	m := play(t, map[string]string{
		"definition": `saga: order
steps:
  - {id: a, set: 1}
  - {id: ok, approval: {title: Go?}}
  - {id: pay, http: POST https://pay.example/pays, body: {}, compensate: none}
`, "input": "null", "script": "order: {\"command\":\"cancel\"}\n"}).m
	if r := m.PlanRetry("pay").Refused; len(r) != 1 || r[0].Path != "ok" || r[0].Code != machine.CodeNoOutcome {
		t.Errorf("%+v", r)
	}
	if got := m.RetrySteps(10); !slices.Equal(got, []string{"ok"}) {
		t.Errorf("it can go on from %q, want ok", got)
	}
}
