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

// raw prints a JSON answer byte for byte, with a line break; as YAML if that was asked for.
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

// encoded prints a value as raw does.
func (a *app) encoded(v any) error {
	b, err := journal.Encode(v)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	return a.raw(b)
}

// tones of statuses.
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

// clock writes a time for people.
func clock(t time.Time) string { return t.Local().Format("2006-01-02 15:04:05") }

// age writes how long ago something was, in at most four characters.
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

// money writes what a saga cost, "" for nothing.
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

// outcome is what a command ends as that waited for a saga: an error unless it succeeded.
func outcome(id string, status saga.Status) error {
	if status == saga.Succeeded {
		return nil
	}
	if status.Terminal() {
		return exit(exitFailed, nil)
	}
	return exit(exitFailed, fmt.Errorf("saga %s has not ended: it is %s; see `recourse show %s`", id, status, id))
}
