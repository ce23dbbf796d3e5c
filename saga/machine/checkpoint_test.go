package machine_test

import (
	"testing"

	"recourse/journal"
	"recourse/saga"
)

// Only a read that costs nothing and that nobody undoes is sent before its intent is durable, and
// only if the definition's checkpoint allows it.
func TestEarlyRequests(t *testing.T) {
	const read = `http: "GET http://w/a"`
	for _, tt := range []struct {
		name, checkpoint, step string
		want                   bool
	}{
		{"by default", "", read, false},
		{"step", "checkpoint: step\n", read, false},
		{"phase", "checkpoint: phase\n", read, true},
		{"decision", "checkpoint: decision\n", read, true},
		{"a write", "checkpoint: phase\n", `http: "POST http://w/a", compensate: none`, false},
		{"a write by default", "", `http: "POST http://w/a", compensate: none`, false},
		{"it costs", "checkpoint: phase\n", read + ", cost: 0.10 USD", false},
		{"it is undone", "checkpoint: phase\n", read + `, compensate: {http: "DELETE http://w/a"}`, false},
		{"the pivot", "checkpoint: phase\n", read + ", pivot: true", false},
		{"a person decides a doubt", "checkpoint: phase\n", read + ", in_doubt: ask", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, ok := dispatched(begun(t, "saga: x\n"+tt.checkpoint+"budget: 1.00 USD\nsteps:\n  - {id: a, "+tt.step+"}\n"))
			if !ok || d.Early != tt.want {
				t.Errorf("sent: %v, early: %v, want %v", ok, d.Early, tt.want)
			}
		})
	}
}

// An early request waits until records are durable that end a phase, or that decide something, and
// always for those of people.
func TestEarlyRequestsWait(t *testing.T) {
	const steps = `steps:
  - {id: read, http: "GET http://w/a", output: "${result.status}"}
  - {id: branch, when: steps.read.output == 200, http: "GET http://w/b"}
  - {id: ok, approval: {title: "Yes?"}, timeout: 1m, on_timeout: approve}
  - id: both
    parallel:
      - {id: in, http: "GET http://w/in"}
      - {id: other, http: "GET http://w/other"}
`
	record := func(kind journal.Kind, path string) journal.Record {
		return journal.Record{Kind: kind, Path: path, Way: journal.Do}
	}
	for _, checkpoint := range []saga.Checkpoint{saga.CheckpointPhase, saga.CheckpointDecision} {
		phase := checkpoint == saga.CheckpointPhase
		h := byHand(t, "saga: x\ncheckpoint: "+string(checkpoint)+"\n"+steps, "null")
		first := record(journal.Outcome, "read")
		if h.m.Waits([]journal.Record{first}) == phase { // it has not ended, but it is read by `when`
			t.Errorf("%s: a read that has not ended: waits: %v", checkpoint, phase)
		}
		h.reply("read", "200 {}")
		h.reply("branch", "200 {}")
		h.wait()
		h.reply("in", "200 {}")
		for _, tt := range []struct {
			name            string
			pending         []journal.Record
			phase, decision bool
		}{
			{"nothing", nil, false, false},
			{"the start", []journal.Record{record(journal.Started, "")}, true, true},
			{"a person's command", []journal.Record{record(journal.Operator, "read")}, true, true},
			{"the end", []journal.Record{record(journal.Finished, "")}, true, true},
			{"an intent", []journal.Record{record(journal.Intent, "read")}, false, false},
			{"an intent, then an outcome", []journal.Record{record(journal.Intent, "branch"), first}, true, true},
			{"a step has ended", []journal.Record{record(journal.Outcome, "branch")}, true, false},
			{"conditions read it", []journal.Record{first}, true, true},
			{"an approval", []journal.Record{record(journal.Outcome, "ok")}, true, true},
			{"a step in a block has ended", []journal.Record{record(journal.Outcome, "in")}, false, false},
			{"a step is in flight", []journal.Record{record(journal.Outcome, "other")}, false, false},
			{"a block is entered", []journal.Record{record(journal.Decided, "both")}, false, true},
		} {
			want := tt.decision
			if phase {
				want = tt.phase
			}
			if got := h.m.Waits(tt.pending); got != want {
				t.Errorf("%s, %s: waits: %v, want %v", checkpoint, tt.name, got, want)
			}
		}
	}
}
