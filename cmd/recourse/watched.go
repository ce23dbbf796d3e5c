package main

import (
	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
)

// watched is a saga whose journal is read as it grows.
type watched struct {
	def *saga.Definition
	id  uuid.UUID
	m   *saga.Machine
	all []journal.Record
}

// add applies the next records.
func (w *watched) add(fresh []journal.Record) error {
	for _, r := range fresh {
		if err := w.m.Apply(r); err != nil {
			return err
		}
	}
	w.all = append(w.all, fresh...)
	return nil
}

// viewer shows a saga live.
type viewer interface {
	grew(w *watched, fresh []journal.Record) // new records have arrived
	tick(w *watched)                         // time has passed
	say(w *watched, text string)             // a text for the user
	end(w *watched)                          // no more records will come
}

// newViewer returns a tree that is redrawn in place on a terminal, and lines elsewhere.
func newViewer(a *cli.App, def *saga.Definition, machine bool) viewer {
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

func (l *lines) grew(_ *watched, fresh []journal.Record) {
	for _, r := range fresh {
		for _, line := range l.teller.Tell(r) {
			l.app.Printf("%s\n", line.Format(l.teller.Width(), l.app.Colour))
		}
	}
}

func (l *lines) tick(*watched)               {}
func (l *lines) say(_ *watched, text string) { l.app.Remark(text) }
func (l *lines) end(*watched)                {}

// silent shows nothing: the output is machine-readable.
type silent struct{ app *cli.App }

func (silent) grew(*watched, []journal.Record) {}
func (silent) tick(*watched)                   {}
func (s silent) say(_ *watched, text string)   { s.app.Remark(text) }
func (silent) end(*watched)                    {}
