// Package format writes values for the page: statuses, durations, amounts, JSON, lines of text.
package format

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"recourse/journal"
)

// marks are the symbols of statuses, of sagas and of steps, because not everyone can tell colours
// apart.
var marks = map[string]string{
	"running": "▶", "waiting": "…", "paused": "‖", "compensating": "←", "stuck": "!", "succeeded": "✓", "compensated": "↺", "failed": "✗",
	"pending": "·", "not_reached": "–", "skipped": "–", "in_doubt": "?", "held": "!", "undoing": "←", "undone": "↺", "undo_failed": "✗",
}

// Mark returns the symbol of a status; "" if it has none.
func Mark(status any) string { return marks[fmt.Sprint(status)] }

// ClassMark returns the symbol of an attempt's class.
func ClassMark(class journal.Class) string {
	switch class {
	case journal.Refused:
		return "✗"
	case journal.Transient:
		return "~"
	}
	return Mark(class)
}

// Say formats a status, a kind or a code as words.
func Say(word any) string { return strings.ReplaceAll(fmt.Sprint(word), "_", " ") }

// Money formats an amount with its currency; "" for none.
func Money(amount, currency string) string {
	if strings.Trim(amount, "0.") == "" {
		return ""
	}
	return strings.TrimSpace(amount + " " + currency)
}

// Short returns the end of a saga's id, which differs between sagas that started together.
func Short(id string) string {
	if len(id) != 36 {
		return id
	}
	return id[:8] + "…" + id[len(id)-6:]
}

// StepName returns a step's path without the blocks around it, except its iteration: "[3] fetch"
// for pages[3].fetch. The path of a session's call, such as refund[0], stays.
func StepName(path string) string {
	if strings.HasSuffix(path, "]") {
		return path
	}
	i := strings.LastIndexByte(path, '[')
	if i < 0 {
		return path
	}
	index, rest, _ := strings.Cut(path[i:], ".")
	return strings.TrimSpace(index + " " + rest)
}

// Cut shortens a text to n characters.
func Cut(n int, text any) string {
	s := fmt.Sprint(text)
	if raw, ok := text.(json.RawMessage); ok {
		s = string(raw)
	}
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// Took formats a duration.
func Took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "0 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute && d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Minute:
		return fmt.Sprintf("%d.%d s", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Hour:
		return parts(d, "min", time.Minute, "s", time.Second)
	case d < 48*time.Hour:
		return parts(d, "h", time.Hour, "min", time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// parts formats a duration in two units, in one if the second is zero.
func parts(d time.Duration, large string, one time.Duration, small string, other time.Duration) string {
	text := fmt.Sprintf("%d %s", d/one, large)
	if rest := d % one / other; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, small)
	}
	return text
}

// Plural returns "1 saga", "2 sagas".
func Plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// Offset formats the time since the saga's start.
func Offset(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("+%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("+%d.%03d s", d/time.Second, d%time.Second/time.Millisecond)
	}
	return "+" + Took(d)
}

// Clock formats a time for titles.
func Clock(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05.000") + " UTC" }

// Lines splits a text into lines; a line break at its end adds no empty line.
func Lines(text string) []string {
	text = strings.TrimSuffix(strings.ReplaceAll(text, "\r\n", "\n"), "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}

// FirstLines returns the first n lines of a text, and how many lines follow.
func FirstLines(text string, n int) (first string, more int) {
	at := 0
	for range n {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return text, 0
		}
		at += i + 1
	}
	rest := strings.TrimSuffix(text[at:], "\n")
	if rest == "" {
		return text, 0
	}
	return text[:at], strings.Count(rest, "\n") + 1
}
