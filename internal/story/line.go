package story

import (
	"fmt"
	"strings"
	"time"
)

// Tone is the meaning of a line, which determines its colour.
type Tone int

// The tones.
const (
	Plain Tone = iota
	Good
	Bad
	Doubt  // unknown, or waiting for a person
	Back   // undoing
	Dimmed // unimportant unless something fails
	Strong
)

// Line is one line of a story.
type Line struct {
	At   time.Duration // after the saga's start
	Mark string        // one character
	Path string        // the step, or ""
	Text string
	Tone Tone
}

// codes are the SGR parameters (ECMA-48) of the tones.
var codes = map[Tone]string{Good: "32", Bad: "31", Doubt: "33", Back: "36", Dimmed: "2", Strong: "1"}

// Paint returns a text in a tone's colour, if colour is set.
func Paint(text string, t Tone, colour bool) string {
	code, ok := codes[t]
	if !colour || !ok || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Format formats the line, with steps' names padded to width.
func (l Line) Format(width int, colour bool) string {
	text := Harmless(l.Text)
	if l.Path != "" {
		text = fmt.Sprintf("%-*s  %s", width, Harmless(l.Path), text)
	}
	return fmt.Sprintf("%10s  %s", offset(l.At), Paint(strings.TrimRight(l.Mark+" "+text, " "), l.Tone, colour))
}

// offset formats the time since the saga's start.
func offset(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("+%d.%03ds", d/time.Second, d%time.Second/time.Millisecond)
	case d < 24*time.Hour:
		return fmt.Sprintf("+%d:%02d:%02d", d/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second)
	}
	return fmt.Sprintf("+%dd%02dh", d/(24*time.Hour), d%(24*time.Hour)/time.Hour)
}
