package machine_test

import (
	"encoding/json"
	"testing"

	"recourse/saga"
	"recourse/saga/machine"
)

// A saga that undoes another one has no output and no reason of its own if it succeeds. If it
// fails, it says what remains.
func TestEndOfAnUndo(t *testing.T) {
	h := byHand(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", body: {}, compensate: {http: \"DELETE http://w/a\", undo_within: 1d}}\n  - {id: b, set: 7}\n", "null")
	h.reply("a", "200 {}")
	if v := h.m.View(); v.Status != saga.Succeeded || string(v.Output) != "7" {
		t.Fatalf("%+v", v)
	}
	for _, fails := range []bool{false, true} {
		u := &hand{player: &player{t: t, def: h.def, now: h.now}}
		u.m = machine.New(h.def, h.m.ID())
		u.write(u.m.Start(machine.BeginUndo(h.m, h.records, machine.StartOptions{Reason: "wrong order"})))
		u.run()
		if fails {
			u.reply("a", "422 {}")
			u.must("a", saga.Resolve{Outcome: "skip"})
		} else {
			u.reply("a", "200 {}")
		}
		var d saga.FinishedData
		if err := json.Unmarshal(u.records[len(u.records)-1].Data, &d); err != nil {
			t.Fatal(err)
		}
		want := saga.Succeeded
		if fails {
			want = saga.Failed
		}
		if d.Status != want || d.Output != nil || (d.Reason != nil) != fails || (len(d.Residual) > 0) != fails {
			t.Errorf("fails: %v: %+v\n%s", fails, d, u.out.String())
		}
	}
}
