// Package storytest plays sagas on their machine, without an engine and with a clock of its own, so
// that tests have journals to read.
package storytest

import (
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// Begin is when a played saga starts.
var Begin = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

// Script describes the world of a played saga.
type Script struct {
	ID    string // of the saga; "" for a fixed one
	Input string // JSON; "" for null
	// Answer answers a request that is sent at the time at. An answer with the code
	// saga.Interrupted stands for the death of the process: another node writes the later records.
	Answer func(s machine.Send, at time.Time) saga.Answer
	// Person decides an inbox item; nil leaves it in the inbox.
	Person func(e saga.Entry) saga.Command
	// Commands are carried out when the journal has reached their seq. An EndTask without a path
	// ends the lease of a session's life.
	Commands map[int64]saga.Command
}

// Played is a saga that was played.
type Played struct {
	Def     *saga.Definition
	ID      uuid.UUID
	Records []journal.Record
	Machine *machine.Machine
}

// Parse compiles a definition or fails the test.
func Parse(tb testing.TB, source string) *saga.Definition {
	tb.Helper()
	def, errs := dsl.Parse("test.yaml", []byte(source), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		tb.Fatal(errs)
	}
	return def
}

// ParseSession compiles a session of the name `support` that may call these actions, or fails the
// test. sources are the actions, each followed by a line `---` except the last.
func ParseSession(tb testing.TB, sources string) *saga.Definition {
	tb.Helper()
	d := &saga.SessionData{Name: "support"}
	actions := make(map[string]*saga.Action)
	for src := range strings.SplitSeq(sources, "---\n") {
		a, errs := dsl.ParseAction("test.yaml", []byte(src), dsl.Options{Kinds: kinds.All()})
		if errs != nil {
			tb.Fatal(errs)
		}
		a.Version = 1
		actions[a.Name] = a
		d.Actions = append(d.Actions, a.Name+"@1")
	}
	def, errs := dsl.Session(d, dsl.Options{Kinds: kinds.All(), Actions: func(name string, _ int) (*saga.Action, error) {
		return actions[name], nil
	}})
	if errs != nil {
		tb.Fatal(errs)
	}
	return def
}

type player struct {
	tb    testing.TB
	s     Script
	p     *Played
	now   time.Time
	node  string
	crash int
}

// Play runs a saga until it has ended or only a person could continue it.
func Play(tb testing.TB, source string, s Script) Played {
	tb.Helper()
	return PlayDefinition(tb, Parse(tb, source), s)
}

// PlayDefinition is Play for a compiled definition.
func PlayDefinition(tb testing.TB, def *saga.Definition, s Script) Played {
	tb.Helper()
	if s.ID == "" {
		s.ID = "019aa5d0-0000-7000-8000-000000000001"
	}
	id := uuid.FromStringOrNil(s.ID)
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: []byte(s.Input)})
	if len(wrong) > 0 {
		tb.Fatal(wrong)
	}
	pl := &player{tb: tb, s: s, now: Begin, node: "node-1",
		p: &Played{Def: def, ID: id, Machine: machine.New(def, id)}}
	pl.add(pl.p.Machine.Start(data))
	for range 500 {
		if !pl.step() {
			return *pl.p
		}
	}
	tb.Fatal("the saga does not come to rest")
	return Played{}
}

// add appends a record. Each record takes ten milliseconds.
func (pl *player) add(d machine.Draft) {
	pl.tb.Helper()
	r, err := pl.p.Machine.Append(d, pl.now, pl.node)
	if err != nil {
		pl.tb.Fatal(err)
	}
	pl.p.Records = append(pl.p.Records, r)
	pl.now = pl.now.Add(10 * time.Millisecond)
}

func (pl *player) step() bool {
	pl.tb.Helper()
	if o, ok := pl.s.Commands[pl.p.Machine.Seq()]; ok {
		pl.command(o)
		return true
	}
	ds := pl.p.Machine.Decide()
	if len(ds) == 0 {
		return false
	}
	if w, ok := ds[0].(machine.WakeAt); ok && len(ds) > 1 && w.At.After(pl.now) {
		if d, ok := w.Woke.Data.(saga.WokeData); ok && d.Timer == saga.TimerFresh {
			ds = ds[1:] // the request is in time
		}
	}
	switch d := ds[0].(type) {
	case machine.Write:
		pl.add(d.Record)
	case machine.WakeAt:
		pl.now = d.At
		pl.add(d.Woke)
	case machine.Escalate:
		if pl.s.Person == nil {
			return false
		}
		pl.command(pl.s.Person(d.Entry))
	case machine.Dispatch:
		pl.dispatch(d)
	}
	return true
}

func (pl *player) dispatch(d machine.Dispatch) {
	pl.tb.Helper()
	pl.add(d.Intent)
	a := pl.s.Answer(d.Send, pl.now)
	if a.Code == saga.Interrupted {
		pl.crash++
		pl.node = "node-" + string(rune('1'+pl.crash))
	}
	const even = 1 << 63 // no jitter
	r, err := pl.p.Machine.RecordOutcome(d.Send.Path, d.Send.Way, d.Send.Attempt, a, pl.now, even)
	if err != nil {
		pl.tb.Fatal(err)
	}
	pl.add(r)
}

func (pl *player) command(o saga.Command) {
	pl.tb.Helper()
	if end, ok := o.Do.(saga.EndTask); ok && o.Path == "" {
		d, ok := pl.p.Machine.EndLife(end.Attempt, end.Result.Outcome, pl.now)
		if !ok {
			pl.tb.Fatalf("lease %d cannot end", end.Attempt)
		}
		pl.add(d)
		return
	}
	message := uuid.NewV5(pl.p.ID, o.Do.Verb()+o.Path+pl.now.String())
	r, err := pl.p.Machine.Validate(message, o)
	if err != nil {
		pl.tb.Fatal(err)
	}
	pl.add(r)
}
