package ui

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"recourse/internal/story"
)

// Bounds of the story on a page: its beginning and its end. The journal's page has it all.
const (
	storyBegin = 60
	storyEnd   = 240
)

// storyLine is a line of a saga's story.
type storyLine struct {
	story.Line
	Offset string // since the start
	Exact  string // when
	Link   string // of the step
	Class  string // of its tone
	Gap    int    // instead of a line: records that are left out
}

var tones = map[story.Tone]string{story.Good: "good", story.Bad: "bad", story.Doubt: "doubt", story.Back: "back", story.Dimmed: "dim", story.Strong: "strong"}

// story tells the journal in lines, as the command line does.
func (d *sagaPage) story(link func(string) string) (lines []storyLine) {
	teller := story.New(d.Def)
	skipped := 0
	for i, r := range d.Records {
		left := len(d.Records) > storyBegin+storyEnd && i >= storyBegin && i < len(d.Records)-storyEnd
		if left {
			skipped++
			if bytes.Contains(r.Data, []byte(`"cost":`)) { // the last line has the sum
				teller.Tell(r)
			}
			continue
		}
		if skipped > 0 {
			lines = append(lines, storyLine{Gap: skipped})
			skipped = 0
		}
		for _, l := range teller.Tell(r) {
			s := storyLine{Line: l, Offset: offset(l.At), Exact: clock(r.At), Class: tones[l.Tone]}
			if l.Path != "" && !strings.HasSuffix(l.Path, "]") {
				s.Link = link(l.Path)
			}
			lines = append(lines, s)
		}
	}
	return lines
}

// offset writes how long after its start something happened.
func offset(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("+%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("+%d.%03d s", d/time.Second, d%time.Second/time.Millisecond)
	}
	return "+" + took(d)
}
