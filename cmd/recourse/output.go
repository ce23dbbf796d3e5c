package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
)

// raw prints a JSON response unchanged, with a line break, or as YAML.
func (a *app) raw(body []byte) error {
	if a.yaml {
		text, err := yamlOf(body)
		if err != nil {
			return err
		}
		a.Stdout.Write(text)
		return nil
	}
	a.Stdout.Write(bytes.TrimRight(body, "\n"))
	io.WriteString(a.Stdout, "\n")
	return nil
}

// encoded prints a value in the same format as raw.
func (a *app) encoded(v any) error {
	b, err := journal.Encode(v)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return a.raw(b)
}

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

func (a *app) status(s saga.Status) string { return story.Paint(string(s), toneOf(s), a.colour) }

// clock formats a time for people.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// age formats an age in at most four characters.
func age(d time.Duration) string {
	switch {
	case d < time.Second:
		return "0s"
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// money formats a saga's cost, "" for none.
func money(c saga.CostView) string {
	if strings.Trim(c.Spent, "0.") == "" {
		return ""
	}
	return strings.TrimSpace(c.Spent + " " + c.Currency)
}

// tell prints a journal as a story.
func (a *app) tell(def *saga.Definition, records []journal.Record) error {
	return story.Write(a.Stdout, def, records, a.colour)
}

// outcome returns the error of a command that waited for a saga: nil only if the saga succeeded.
func outcome(id string, status saga.Status) error {
	if status == saga.Succeeded {
		return nil
	}
	if status.Terminal() {
		return exit(exitFailed, nil)
	}
	return exit(exitFailed, fmt.Errorf("saga %s has not ended: it is %s; see `recourse show %s`", id, status, id))
}
