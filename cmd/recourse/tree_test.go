package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"recourse/internal/story/storytest"
	"recourse/journal"
	"recourse/saga"
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

// The tree, as it is after each record, with the lines that it goes back over.
func TestTree(t *testing.T) {
	p := storytest.Play(t, treeSource, storytest.Script{Answer: func(s saga.Send, _ time.Time) saga.Answer {
		switch {
		case s.Path == "pay":
			return saga.Answer{Sent: true, Status: 402, Body: json.RawMessage(`{"title":"card declined"}`)}
		case s.Attempt == 1 && s.Way == journal.Do:
			return saga.Answer{Sent: true, Code: "timeout", Detail: "no answer in time"}
		}
		return saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"id":"bk_1"}`)}
	}})
	var out bytes.Buffer
	a := &app{Main: Main{Stdout: &out}, env: map[string]string{"COLUMNS": "90"}}
	l := &local{app: a, def: p.Def, id: p.ID, m: saga.New(p.Def, p.ID)}
	show := tree(a)
	for _, r := range p.Records {
		if err := l.m.Apply(r); err != nil {
			t.Fatal(err)
		}
		l.all = append(l.all, r)
		show(l, []journal.Record{r})
	}
	golden(t, "tree", strings.ReplaceAll(out.String(), "\x1b", "ESC"))
}
