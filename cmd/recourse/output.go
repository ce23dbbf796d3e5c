package main

import (
	"fmt"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
)

// toneOf returns the tone of a status.
func toneOf(s saga.Status) story.Tone {
	switch s {
	case saga.Succeeded:
		return story.Good
	case saga.Failed:
		return story.Bad
	case saga.Stuck:
		return story.Doubt
	case saga.Undoing, saga.Compensated:
		return story.Back
	}
	return story.Plain
}

func painted(a *cli.App, s saga.Status) string { return story.Paint(string(s), toneOf(s), a.Colour) }

// money formats a saga's cost, "" for none.
func money(c saga.CostView) string {
	if strings.Trim(c.Spent, "0.") == "" {
		return ""
	}
	return strings.TrimSpace(c.Spent + " " + c.Currency)
}

// tell prints a journal as a story.
func tell(a *cli.App, def *saga.Definition, records []journal.Record) error {
	return story.Write(a.Stdout, def, records, a.Colour)
}

// outcome returns the error of a command that waited for a saga: nil only if the saga succeeded.
func outcome(id string, status saga.Status) error {
	if status == saga.Succeeded {
		return nil
	}
	if status.Terminal() {
		return cli.Exit(cli.Failed, nil)
	}
	return cli.Exit(cli.Failed, fmt.Errorf("saga %s has not ended: it is %s; see `recourse show %s`", id, status, id))
}
