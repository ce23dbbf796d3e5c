package machine_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Only a read that costs nothing and needs no care is sent before its intent is durable, and only
// if the definition says so.
func TestEarlyReads(t *testing.T) {
	const read = `http: "GET http://w/a"`
	for _, c := range []struct {
		checkpoint, step string
		want             bool
	}{
		{"", read, false},
		{"checkpoint: step\n", read, false},
		{"checkpoint: phase\n", read, true},
		{"checkpoint: decision\n", read, true},
		{"checkpoint: phase\n", `http: "POST http://w/a", body: {}`, false},
		{"checkpoint: phase\n", read + ", cost: 0.10 USD", false},
		{"checkpoint: phase\n", read + `, compensate: {http: "DELETE http://w/a"}`, false},
		{"checkpoint: phase\n", read + ", pivot: true", false},
		{"checkpoint: phase\n", read + ", in_doubt: ask", false},
		{"checkpoint: phase\n", "llm: {model: small, prompt: hello, max_tokens: 10}", false},
	} {
		d, ok := dispatched(begun(t, "saga: x\n"+c.checkpoint+"steps:\n  - {id: a, "+c.step+"}\n"))
		if !ok || d.Early != c.want {
			t.Errorf("%s%s: sent: %v, early: %v", c.checkpoint, c.step, ok, d.Early)
		}
	}
	p := begun(t, "saga: x\ncheckpoint: phase\nsteps:\n  - {id: a, http: \"POST http://w/a\", compensate: {http: \"GET http://w/undo\"}}\n  - {id: b, fail: no}\n")
	d, ok := dispatched(p)
	for d.Send.Way != journal.Undo && p.step() {
		d, ok = dispatched(p)
	}
	if !ok || d.Early {
		t.Errorf("an undo by a read: sent: %v, early: %v", ok, d.Early)
	}
}

// An early read waits until those records before it are durable that the checkpoint names.
func TestWhatEarlyReadsWaitFor(t *testing.T) {
	const src = `
saga: x
checkpoint: %s
steps:
  - {id: a, http: "GET http://w/a"}
  - {id: b, http: "GET http://w/b"}
  - {id: c, when: "steps.b.output != 1", http: "GET http://w/c"}
  - id: each
    foreach: [1]
    steps: [{id: in, http: "GET http://w/in"}]
  - {id: ok, approval: {title: Yes?}}
  - {id: go, signal: go}
`
	for checkpoint, want := range map[string]string{
		"phase":    "started, outcome a, outcome b, outcome c, decided each[0], outcome each, operator ok, signalled, outcome go, finished",
		"decision": "started, outcome b, decided each, decided each[0], operator ok, signalled, outcome go, finished",
	} {
		h := byHand(t, fmt.Sprintf(src, checkpoint), "null")
		h.reply("a", "503 {}")
		h.wait()
		for _, path := range []string{"a", "b", "c", "each[0].in"} {
			h.reply(path, "200 {}")
		}
		h.must("ok", saga.Approve{Shown: h.m.Inbox()[0].ShownHash})
		h.must("", saga.Signal{Name: "go"})
		var got []string
		m := machine.New(h.def, h.m.ID())
		for i, r := range h.records {
			if err := m.Apply(r); err != nil {
				t.Fatal(err)
			}
			if m.Waits(h.records[i : i+1]) {
				got = append(got, strings.TrimSpace(string(r.Kind)+" "+r.Path))
			}
			if i > 0 && m.Waits(h.records[i-1:i+1]) != (m.Waits(h.records[i-1:i]) || m.Waits(h.records[i:i+1])) {
				t.Errorf("%s: record %d waits otherwise after the one before it", checkpoint, r.Seq)
			}
		}
		if d := cmp.Diff(want, strings.Join(got, ", ")); d != "" {
			t.Errorf("%s (-want +got):\n%s", checkpoint, d)
		}
	}
}
