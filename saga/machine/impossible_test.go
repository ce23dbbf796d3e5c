package machine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// A record that no machine would have written there is refused.
func TestImpossibleRecords(t *testing.T) {
	const src = `
saga: x
steps:
  - {id: pay, http: "POST http://w/pay", body: {}, compensate: none}
  - id: each
    foreach: [0, 1]
    steps: [{id: a, http: "GET http://w/a"}]
  - id: closing
    on_error: continue
    foreach: [0, 1]
    max_parallel: 2
    steps: [{id: b, http: "GET http://w/b"}]
  - id: both
    parallel:
      - {id: ok, approval: {title: Yes?}}
      - {id: go, signal: go}
      - {id: c, http: "GET http://w/c"}
`
	h := byHand(t, src, "null")
	for _, path := range []string{"pay", "each[0].a", "each[1].a"} {
		h.reply(path, "200 {}")
	}
	h.reply("closing[1].b", "422 {}")
	h.reply("closing[0].b", "200 {}")
	if h.m.Status() != saga.Running || len(h.m.Inbox()) != 1 {
		t.Fatalf("%s\n%s", h.m.Status(), h.out.String())
	}
	whole := len(h.records)
	// Both iterations are over, and the block is about to fail.
	failing := slices.IndexFunc(h.records, func(r journal.Record) bool { return r.Kind == journal.Outcome && r.Path == "closing" })
	approve, done := saga.CommandData{Kind: "approve"}, saga.OutcomeData{Next: saga.NextDone}
	for name, c := range map[string]struct {
		after int // records
		r     journal.Record
		data  any
		want  string // in the error; "": it is applied
	}{
		"a record is missing":            {whole, journal.Record{Seq: int64(whole) + 2, Kind: journal.Paused}, saga.CommandData{}, fmt.Sprintf("expected seq %d", whole+1)},
		"it starts again":                {whole, journal.Record{Kind: journal.Started}, saga.StartedData{}, "started comes first"},
		"it is read again":               {whole, journal.Record{Kind: journal.Woke, Path: "pay", Way: journal.Do}, saga.WokeData{Timer: saga.TimerFresh}, "woke while done"},
		"an approval of no step":         {whole, journal.Record{Kind: journal.Operator, Path: "none"}, approve, "does not wait for an approval"},
		"an approval of a request":       {whole, journal.Record{Kind: journal.Operator, Path: "pay"}, approve, "does not wait for an approval"},
		"an approval of a signal":        {whole, journal.Record{Kind: journal.Operator, Path: "go"}, approve, "does not wait for an approval"},
		"an undo of no step":             {whole, journal.Record{Kind: journal.Compensating}, saga.CompensatingData{Plan: []string{"none"}}, "cannot be undone"},
		"an undo of what has none":       {whole, journal.Record{Kind: journal.Compensating}, saga.CompensatingData{Plan: []string{"pay"}}, "cannot be undone"},
		"an iteration of nothing":        {whole, journal.Record{Kind: journal.Decided, Path: "0]"}, saga.DecidedData{}, "names no iteration"},
		"an iteration of no step":        {whole, journal.Record{Kind: journal.Decided, Path: "none[0]"}, saga.DecidedData{}, "is no loop that runs"},
		"an iteration of a request":      {whole, journal.Record{Kind: journal.Decided, Path: "pay[0]"}, saga.DecidedData{}, "is no loop that runs"},
		"an iteration of branches":       {whole, journal.Record{Kind: journal.Decided, Path: "both[0]"}, saga.DecidedData{}, "is no loop that runs"},
		"an iteration of an ended loop":  {whole, journal.Record{Kind: journal.Decided, Path: "each[0]"}, saga.DecidedData{}, "is no loop that runs"},
		"an iteration of a failing loop": {failing, journal.Record{Kind: journal.Decided, Path: "closing[0]"}, saga.DecidedData{}, "is no loop that runs"},
		// This one is possible, and takes no signal from another step.
		"a wait without its signal": {whole, journal.Record{Kind: journal.Outcome, Path: "go", Way: journal.Do, Class: journal.Succeeded}, done, ""},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := machine.Replay(h.def, h.m.ID(), h.records[:c.after])
			if err != nil {
				t.Fatal(err)
			}
			if c.r.Seq == 0 {
				c.r.Seq = m.Seq() + 1
			}
			c.r.Data = saga.Encode(c.data)
			err = m.Apply(c.r)
			if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, machine.ErrImpossible) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

// A start whose budget cannot be read is refused.
func TestUnreadableStart(t *testing.T) {
	d := saga.StartedData{Definition: "x", Budget: &saga.BudgetData{Amount: "much", Currency: "USD"}}
	m := machine.New(parsed(t, "saga: x\nsteps:\n  - {id: a, set: 1}\n"), uuid.Must(uuid.FromString(parentID)))
	if err := m.Apply(journal.Record{Seq: 1, Kind: journal.Started, Data: saga.Encode(d)}); !errors.Is(err, saga.ErrUnreadable) {
		t.Errorf("got %v", err)
	}
}
