package machine_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/story/storytest"
	"recourse/saga"
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
