package machine_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/story/storytest"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

func TestUndoable(t *testing.T) {
	const source = `
saga: turning
steps:
  - {id: a, http: POST https://a.example/a, compensate: {http: "DELETE https://a.example/a"}}
  - {id: b, http: POST https://a.example/b, compensate: none}
  - {id: c, http: POST https://a.example/c, pivot: true, in_doubt: retry, compensate: {http: "DELETE https://a.example/c"}}
  - {id: last, sleep: 1h}
`
	p := storytest.Play(t, source, storytest.Script{Answer: func(machine.Send, time.Time) saga.Answer {
		return saga.Answer{Sent: true, Status: 201, Body: json.RawMessage(`{}`)}
	}})
	type turn struct{ Undo, Left []string }
	at := func(records int, forced bool) (got turn) {
		m, err := machine.Replay(p.Def, p.ID, p.Records[:records])
		if err != nil {
			t.Fatal(err)
		}
		undo, left := m.Undoable(forced)
		again, _ := m.Undoable(forced)
		if d := cmp.Diff(undo, again); d != "" {
			t.Errorf("asked again (-was +is):\n%s", d)
		}
		got.Undo = undo
		for _, l := range left {
			got.Left = append(got.Left, l.Path)
		}
		return got
	}
	tests := []struct {
		name    string
		records int
		forced  bool
		want    turn
	}{
		{"nothing has happened", 1, false, turn{}},
		{"a is in flight", 2, false, turn{}},
		{"before the pivot", 5, false, turn{[]string{"a"}, []string{"b"}}},
		{"past the pivot nothing is undone", 7, false, turn{nil, []string{"a", "b", "c"}}},
		{"but by force", 7, true, turn{[]string{"c", "a"}, []string{"b"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if d := cmp.Diff(tt.want, at(tt.records, tt.forced)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

// undoLater starts the saga that undoes one which has succeeded. It has the same id here.
func (h *hand) undoLater(reason string) *hand {
	h.t.Helper()
	u := &hand{player: &player{t: h.t, def: h.def, now: h.now}}
	u.m = machine.New(h.def, h.m.ID())
	u.write(u.m.Start(machine.BeginUndo(h.m, h.records, machine.StartOptions{Reason: reason})))
	u.run()
	return u
}

// The plan of a later undo has the steps to undo and the time until which that is possible, or says
// of each step why not.
func TestPlanUndo(t *testing.T) {
	step := func(id, undo string) string {
		return "  - {id: " + id + ", http: \"POST http://w/" + id + "\", body: {}, in_doubt: fail, on_error: continue, compensate: " + undo + "}\n"
	}
	within := func(id, window string) string {
		return step(id, `{http: "DELETE http://w/`+id+`", undo_within: `+window+`}`)
	}
	const (
		none  = "none"
		reads = `{http: "DELETE http://w/${output.id}", undo_within: 1d}`
		open  = `{http: "DELETE http://w/x"}`
		pivot = "  - {id: seal, http: \"PUT http://w/seal\", body: {}, pivot: true, compensate: none}\n"
		day   = 24 * time.Hour
	)
	for _, tt := range []struct {
		name, steps string
		script      []string
		after       time.Duration // since the end of the first step
		undo        string
		stays       int
		refused     string
		until       time.Duration // of the plan, since the end of the first step; 0: none
		saga        bool          // until is that of the saga, too
	}{
		{"in flight", within("a", "1d"), nil, 0, "", 0, "terminal", 0, false},
		{"it failed", within("a", "1d") + "  - {id: f, fail: no}\n", []string{"a 200 {}", "a 200 {}"}, 0, "", 0, "terminal", 0, false},
		{"within", within("a", "1d"), []string{"a 200 {}"}, day - time.Millisecond, "a", 0, "", day, true},
		{"over", within("a", "1d"), []string{"a 200 {}"}, day, "a", 0, "a undo_window_over", day, true},
		{"the first window", within("a", "1d") + within("b", "2d"), []string{"a 200 {}", "b 200 {}"}, 0, "b a", 0, "", day, true},
		{"the first window of the last", within("a", "2d") + within("b", "1d"), []string{"a 200 {}", "b 200 {}"}, 0, "b a", 0, "", day + 10*time.Millisecond, true},
		{"one without a window", step("a", open) + within("b", "1d"), []string{"a 200 {}", "b 200 {}"}, 0, "b a", 0, "a no_undo_window", day + 10*time.Millisecond, false},
		{"none without a window", step("a", open), []string{"a 200 {}"}, 0, "a", 0, "a no_undo_window", 0, false},
		{"one that stays", step("n", none) + within("a", "1d"), []string{"n 200 {}", "a 200 {}"}, 0, "a", 1, "", day + 10*time.Millisecond, true},
		{"one stays, and another is over", step("n", none) + within("a", "1d"), []string{"n 200 {}", "a 200 {}"}, day + 10*time.Millisecond, "a", 1, "a undo_window_over", day + 10*time.Millisecond, true},
		{"all stay", step("n", none), []string{"n 200 {}"}, 0, "", 1, "nothing_to_undo", 0, false},
		{"past the pivot", within("a", "1d") + pivot, []string{"a 200 {}", "seal 200 {}"}, 0, "a", 1, "seal past_pivot", day, false},
		{"past the pivot, and all stay", pivot, []string{"seal 200 {}"}, 0, "", 1, "nothing_to_undo", 0, false},
		{"in doubt", within("a", "1d"), []string{"a timeout"}, 0, "a", 0, "", day, true},
		{"in doubt, and the undo needs the output", step("a", reads), []string{"a timeout"}, 0, "a", 0, "a undo_in_doubt", day, false},
		{"the undo needs the output", step("a", reads), []string{`a 200 {"id":5}`}, 0, "a", 0, "", day, true},
		{"no compensation is declared", "  - {id: a, http: \"POST http://w/a\", body: {}, in_doubt: fail}\n" + within("b", "1d"), []string{"a 200 {}", "b 200 {}"}, 0, "b", 0, "a not_undoable", day + 10*time.Millisecond, false},
		{"a child", "  - {id: a, run: kid}\n", []string{"a 200 {}"}, 0, "a", 0, "a undo_children", 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := byHand(t, "saga: x\nsteps:\n"+tt.steps, "null")
			h.play(tt.script...)
			first := h.now
			if len(tt.script) > 1 {
				first = first.Add(-10 * time.Millisecond)
			}
			p := h.m.PlanUndo(first.Add(tt.after))
			var undo, refused []string
			for _, s := range p.Steps {
				undo = append(undo, s.Path)
				if (s.Request == nil) != (tt.refused != "") {
					t.Errorf("the request of %s is %+v", s.Path, s.Request)
				}
			}
			for _, r := range p.Refused {
				refused = append(refused, strings.TrimSpace(r.Path+" "+r.Code))
				if named := strings.HasPrefix(r.Text(), "step "+r.Path+": "); named != (r.Path != "") {
					t.Errorf("it is refused with %q", r.Text())
				}
			}
			var until, ofSaga time.Time
			if tt.until != 0 {
				until = first.Add(tt.until)
			}
			if tt.saga {
				ofSaga = until
			}
			if got := strings.Join(undo, " "); got != tt.undo || strings.Join(refused, ", ") != tt.refused || len(p.Stays) != tt.stays || !p.Until.Equal(until) {
				t.Errorf("undone: %s, until %v (want %v), %+v stay, refused: %+v\n%s", got, p.Until, until, p.Stays, p.Refused, h.out.String())
			}
			if got := h.m.UndoUntil(); !got.Equal(ofSaga) {
				t.Errorf("the saga can be undone until %v, want %v", got, ofSaga)
			}
		})
	}
}

// The plan of an undo shows each request. It has a note instead if the request cannot be rendered
// now, and also if it depends on a condition.
func TestNotesOfAnUndo(t *testing.T) {
	h := byHand(t, `saga: x
steps:
  - {id: a, http: "POST http://w/a", body: {}, compensate: {http: "DELETE http://w/a", undo_within: 1d}}
  - {id: b, http: "POST http://w/b", body: {}, compensate: {http: "DELETE http://w/b", when: output.ok, undo_within: 1d}}
  - {id: c, http: "POST http://w/c", body: {}, compensate: {http: "DELETE http://w/${output.id}", undo_within: 1d}}
`, "null")
	h.play("a 200 {}", `b 200 {"ok":true}`, "c 200 {}")
	var got []string
	for _, s := range h.m.PlanUndo(h.now).Steps {
		text := s.Path + " " + s.Kind
		if s.Request != nil {
			text += " " + s.Request.URL
		}
		note, _, _ := strings.Cut(s.Note, ": ")
		got = append(got, text+": "+note)
	}
	want := []string{"c http: `request` could not be evaluated", "b http http://w/b: only if its `when` holds", "a http http://w/a: "}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	for _, c := range []struct {
		path string
		way  journal.Way
		want string
	}{{"a", journal.Do, "http"}, {"a", journal.Undo, "http"}, {"none", journal.Do, ""}, {"none", journal.Undo, ""}} {
		if got := h.m.StepKind(c.path, c.way); got != c.want {
			t.Errorf("the kind of %s %s is %q", c.path, c.way, got)
		}
	}
	h = byHand(t, "saga: x\nsteps:\n  - {id: a, set: 1}\n", "null")
	if do, undo := h.m.StepKind("a", journal.Do), h.m.StepKind("a", journal.Undo); do != "set" || undo != "" {
		t.Errorf("the kind of a is %q, and that of its compensation is %q", do, undo)
	}
}

// A saga undoes another one only if that has succeeded, does not undo a third one, and its window
// is not over.
func TestBeginningOfAnUndo(t *testing.T) {
	const src = "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", body: {}, compensate: {http: \"DELETE http://w/a\", undo_within: 1h}}\n"
	done := byHand(t, src, "null")
	done.reply("a", "200 {}")
	if id := done.m.UndoOf(); !id.IsNil() || done.m.BegunLate() {
		t.Errorf("a saga undoes %s", id)
	}
	for after, late := range map[time.Duration]bool{time.Hour - time.Millisecond: false, time.Hour: true} {
		h := *done.player
		h.now = h.now.Add(after)
		u := (&hand{player: &h}).undoLater("")
		if u.m.UndoOf() != done.m.ID() || u.m.BegunLate() != late || !u.m.UndoUntil().Equal(done.m.UndoUntil()) {
			t.Errorf("after %v it undoes %s, late: %v, until %v", after, u.m.UndoOf(), u.m.BegunLate(), u.m.UndoUntil())
		}
		if r := u.m.PlanUndo(h.now).Refused; len(r) != 1 || r[0].Code != "undo_of_undo" {
			t.Errorf("its own undo is refused with %+v", r)
		}
	}
	undone := done.undoLater("")
	undone.reply("a", "200 {}")
	flying, failed := byHand(t, src, "null"), byHand(t, src, "null")
	failed.reply("a", "422 {}")
	broken := slices.Clone(done.records)
	broken[1].Data = json.RawMessage("[]")
	for name, c := range map[string]struct {
		of     string
		origin []journal.Record
		want   error
	}{
		"of no saga":        {"x", done.records, saga.ErrUnreadable},
		"of one in flight":  {parentID, flying.records, machine.ErrImpossible},
		"of a failed one":   {parentID, failed.records, machine.ErrImpossible},
		"of an undo":        {parentID, undone.records, machine.ErrImpossible},
		"of an unreadable":  {parentID, broken, saga.ErrUnreadable},
		"without a journal": {parentID, nil, machine.ErrImpossible},
	} {
		d := machine.BeginUndo(done.m, c.origin, machine.StartOptions{})
		d.UndoOf = c.of
		m := machine.New(done.def, done.m.ID())
		if _, err := m.Append(m.Start(d), done.now, ""); !errors.Is(err, c.want) {
			t.Errorf("an undo %s: %v, want %v", name, err, c.want)
		}
	}
	d := machine.BeginUndo(done.m, done.records, machine.StartOptions{})
	d.Budget = &saga.BudgetData{Amount: "much", Currency: "USD"}
	m := machine.New(done.def, done.m.ID())
	if _, err := m.Append(m.Start(d), done.now, ""); err == nil {
		t.Error("an undo with an unreadable budget begins")
	}
}

// A later undo of a session is refused because of a step of which the agent has said that nothing
// undoes it, and not because of others.
func TestPlanUndoOfOwnSteps(t *testing.T) {
	for effect, code := range map[saga.OwnEffect]string{saga.NoEffect: "nothing_to_undo", saga.Irreversible: "irreversible"} {
		def, errs := dsl.Session(&saga.SessionData{Name: "s", Actions: []string{"look@1"}}, dsl.Options{Kinds: kinds.All(), Actions: actionsOf("action: look\nagents: auto\nhttp: GET http://w/look\n")})
		if errs != nil {
			t.Fatal(errs)
		}
		h := started(t, def, parentID, machine.StartOptions{})
		h.must("", saga.Attach{Token: "x"}, saga.BeginStep{Life: 1, ID: "note", OwnData: saga.OwnData{Effect: effect}},
			saga.FinishStep{Life: 1, ID: "note", Attempt: 1, Status: saga.OwnSucceeded}, saga.CommitSession{Life: 1})
		if p := h.m.PlanUndo(h.now); len(p.Refused) != 1 || p.Refused[0].Code != code {
			t.Errorf("%s: %s, %+v", effect, h.m.Status(), p)
		}
	}
}
