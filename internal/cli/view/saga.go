package view

import (
	"fmt"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
)

// Tone returns the tone of a status.
func Tone(s saga.Status) story.Tone {
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

// Status returns a status in its tone.
func Status(a *cli.App, s saga.Status) string { return story.Paint(string(s), Tone(s), a.Colour) }

// Money formats a saga's cost, "" for none.
func Money(c saga.CostView) string {
	if strings.Trim(c.Spent, "0.") == "" {
		return ""
	}
	return strings.TrimSpace(c.Spent + " " + c.Currency)
}

// PrintStory prints a journal as a story.
func PrintStory(a *cli.App, def *saga.Definition, records []journal.Record) error {
	return story.Write(a.Stdout, def, records, a.Colour)
}

// Outcome returns the error of a command that waited for a saga: nil only if the saga succeeded.
// show is the command that shows the saga.
func Outcome(id string, status saga.Status, show string) error {
	if status == saga.Succeeded {
		return nil
	}
	if status.Terminal() {
		return cli.Exit(cli.Failed, nil)
	}
	return cli.Exit(cli.Failed, fmt.Errorf("saga %s has not ended: it is %s; see %s", id, status, show))
}
