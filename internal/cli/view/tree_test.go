package view

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/story/storytest"
	"recourse/internal/test/golden"
	"recourse/internal/test/pty"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

const treeSource = `saga: tree
steps:
  - id: book
    http: POST https://air.example/bookings
    body: {}
    in_doubt: retry
    retry: {attempts: 2, jitter: 0}
    compensate: {http: "DELETE https://air.example/bookings/${output.id}"}
  - id: mail
    when: "false"
    set: x
  - id: pay
    http: POST https://pay.example/charges
    body: {}
    in_doubt: ask
  - id: later
    set: y
`

// blocksSource has nested steps, and everything that a saga can wait for.
const blocksSource = `saga: blocks
budget: {amount: 5.00 USD, on_exceed: ask}
steps:
  - id: both
    parallel:
      - {id: seat, http: POST https://air.example/seats, body: {}, cost: 0.50 USD, in_doubt: retry, compensate: {http: "DELETE https://air.example/seats/${output.id}"}}
      - {id: meal, task: kitchen.cook}
      - {id: car, sleep: 90s}
  - id: pages
    foreach: [1, 2]
    steps:
      - {id: fetch, http: POST https://air.example/pages, body: {}, in_doubt: retry}
      - {id: sure, approval: {title: Sure?, approvers: [ann]}, timeout: 2h}
  - {id: word, signal: com.shop.paid}
  - {id: child, run: other}
`

// watching draws a played saga on a screen after each record, and returns each changed screen.
func watching(t *testing.T, p storytest.Played, columns, rows int) string {
	t.Helper()
	var out bytes.Buffer
	on := &pty.Screen{Columns: columns, Rows: rows}
	a := cli.New(t.Context(), []string{"COLUMNS=" + strconv.Itoa(columns), "LINES=" + strconv.Itoa(rows)}, nil, &out, nil)
	w := &Saga{Def: p.Def, ID: p.ID, Machine: machine.New(p.Def, p.ID)}
	show := newTree(a)
	var transcript strings.Builder
	for _, r := range p.Records {
		if err := w.Add([]journal.Record{r}); err != nil {
			t.Fatal(err)
		}
		show.Now = func() time.Time { return r.At }
		show.drawn = time.Time{}
		show.Update(w, []journal.Record{r})
		on.Write(out.String())
		out.Reset()
		fmt.Fprintf(&transcript, "-- %d %s %s\n%s\n", r.Seq, r.Kind, r.Path, on.Text())
	}
	if on.Wraps > 0 || len(on.Lines) > rows || len(on.Unknown) > 0 {
		t.Errorf("%d lines wrapped, %d lines, unknown to the screen: %v", on.Wraps, len(on.Lines), on.Unknown)
	}
	return transcript.String()
}

// failing returns responses of a remote service that refuses pay and loses the first attempt of
// everything else.
func failing(s machine.Send, _ time.Time) saga.Answer {
	switch {
	case s.Path == "pay":
		return saga.Answer{Sent: true, Status: 402, Body: json.RawMessage(`{"title":"card declined"}`)}
	case s.Attempt == 1 && s.Way == journal.Do:
		return saga.Answer{Sent: true, Code: "timeout", Detail: "no response in time"}
	}
	return saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"id":"bk_1"}`)}
}

// The tree after each record: undone steps, waits and their durations.
func TestTree(t *testing.T) {
	t.Parallel()
	golden.Check(t, "tree.txt", watching(t, storytest.Play(t, treeSource, storytest.Script{Answer: failing}), 90, 24))
}

// Blocks, their lanes and iterations; waits besides timers.
func TestTreeOfBlocks(t *testing.T) {
	t.Parallel()
	p := storytest.Play(t, blocksSource, storytest.Script{Answer: func(s machine.Send, at time.Time) saga.Answer {
		switch {
		case s.Path == "child":
			return saga.Answer{Sent: true, Code: saga.Spawned}
		case s.Attempt == 1 && s.Path == "seat":
			return saga.Answer{Sent: true, Code: "timeout", Detail: "no response in time"}
		}
		return saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"id":"bk_1"}`)}
	}})
	golden.Check(t, "tree-blocks.txt", watching(t, p, 80, 24))
	t.Run("narrow", func(t *testing.T) { golden.Check(t, "tree-narrow.txt", watching(t, p, 32, 8)) })
}

// Each waiting step shows what it waits for, with the remaining time.
func TestWaits(t *testing.T) {
	t.Parallel()
	refused := func(machine.Send, time.Time) saga.Answer { return saga.Answer{Sent: true, Status: 401} }
	tests := []struct {
		step   string
		answer func(machine.Send, time.Time) saga.Answer
		want   string
	}{
		{`{id: a, sleep: 90s}`, nil, "continues in 2 min"},
		{`{id: a, signal: com.shop.paid}`, nil, "waits for signal com.shop.paid"},
		{`{id: a, signal: com.shop.paid, timeout: 26h}`, nil, "waits for signal com.shop.paid, for 26 h more"},
		{`{id: a, approval: {title: Sure?}}`, nil, "waits for approval"},
		{`{id: a, approval: {title: Sure?, approvers: [ann, "role:operator"]}, timeout: 5m}`, nil, "waits for approval by ann, role:operator, for 5 min more"},
		{`{id: a, task: kitchen.cook}`, nil, "waits for a worker of type kitchen.cook"},
		{`{id: a, run: other}`, nil, "waits for saga 01a1fd8c-6900-74e8-8578-100961fcb174"},
		{`{id: a, http: GET https://dear.example/, cost: 9.00 USD}`, nil, "waits for a higher budget"},
		{`{id: a, http: GET https://bare.example/}`, refused, "waits until its credentials or its configuration are fixed"},
		{`{id: a, http: POST https://bare.example/, body: {}, in_doubt: ask}`, failing, "waits for somebody to find out whether it happened"},
		{`{id: a, http: POST https://bare.example/, body: {}, in_doubt: {verify: {http: "GET https://bare.example/${key}", found: "true", after: 20s}}}`, failing, "asks the remote service in "},
	}
	for _, tt := range tests {
		t.Run(tt.want, func(t *testing.T) {
			def := storytest.Parse(t, "saga: waits\nbudget: {amount: 1.00 USD, on_exceed: ask}\nsteps: ["+tt.step+"]\n")
			w := &Saga{Def: def, ID: uuid.FromStringOrNil("019aa5d0-0000-7000-8000-000000000001")}
			w.Machine = machine.New(def, w.ID)
			data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1})
			if len(wrong) > 0 {
				t.Fatal(wrong)
			}
			m := machine.New(def, w.ID)
			for d, more := m.Start(data), true; more; d, more = following(t, m, tt.answer) {
				r, err := m.Append(d, storytest.Begin, "node")
				if err != nil {
					t.Fatal(err)
				}
				if err := w.Add([]journal.Record{r}); err != nil {
					t.Fatal(err)
				}
			}
			views, err := machine.Steps(w.Machine, w.Records)
			if err != nil {
				t.Fatal(err)
			}
			if got := w.Waits(views)["a"].Text(storytest.Begin); !strings.HasPrefix(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// following returns the next draft, unless the saga waits. Without answer no request ends.
func following(t *testing.T, m *machine.Machine, answer func(machine.Send, time.Time) saga.Answer) (machine.Draft, bool) {
	t.Helper()
	if open := m.InFlight(); len(open) > 0 && answer != nil {
		at := open[0]
		r, err := m.RecordOutcome(at.Path, at.Way, at.Number, answer(machine.Send{Path: at.Path, Way: at.Way, Attempt: at.Number}, storytest.Begin), storytest.Begin, 1<<63)
		if err != nil {
			t.Fatal(err)
		}
		return r, true
	}
	for _, d := range m.Decide() {
		switch d := d.(type) {
		case machine.Dispatch:
			return d.Intent, true
		case machine.Write:
			return d.Record, true
		}
	}
	return machine.Draft{}, false
}
