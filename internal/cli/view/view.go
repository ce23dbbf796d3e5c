// Package view shows sagas to people: their status and cost, and a running saga live, as a tree of
// its steps that is redrawn in place on a terminal, and as lines elsewhere.
package view

import (
	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Saga is a saga whose journal is read as it grows.
type Saga struct {
	Def     *saga.Definition // nil: this program cannot compile it
	ID      uuid.UUID
	Machine *machine.Machine
	Records []journal.Record // all so far
}

// Add applies the next records.
func (w *Saga) Add(fresh []journal.Record) error {
	for _, r := range fresh {
		if err := w.Machine.Apply(r); err != nil {
			return err
		}
	}
	w.Records = append(w.Records, fresh...)
	return nil
}

// Viewer shows a saga live.
type Viewer interface {
	Update(w *Saga, fresh []journal.Record) // new records have arrived
	Tick(w *Saga)                           // time has passed
	Say(w *Saga, text string)               // a text for the user
	End(w *Saga)                            // no more records will come
}

// New returns a tree that is redrawn in place on a terminal, and lines elsewhere.
func New(a *cli.App, def *saga.Definition, machine bool) Viewer {
	switch {
	case machine:
		return silent{a}
	case a.Live && def != nil:
		return newTree(a)
	}
	return &lines{app: a, teller: story.New(def)}
}

// lines shows a saga line by line.
type lines struct {
	app    *cli.App
	teller *story.Teller
}

func (l *lines) Update(_ *Saga, fresh []journal.Record) {
	for _, r := range fresh {
		for _, line := range l.teller.Tell(r) {
			l.app.Printf("%s\n", line.Format(l.teller.Width(), l.app.Colour))
		}
	}
}

func (l *lines) Tick(*Saga)               {}
func (l *lines) Say(_ *Saga, text string) { l.app.Remark(text) }
func (l *lines) End(*Saga)                {}

// silent shows nothing: the output is machine-readable.
type silent struct{ app *cli.App }

func (silent) Update(*Saga, []journal.Record) {}
func (silent) Tick(*Saga)                     {}
func (s silent) Say(_ *Saga, text string)     { s.app.Remark(text) }
func (silent) End(*Saga)                      {}
