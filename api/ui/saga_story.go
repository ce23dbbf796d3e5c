package ui

import (
	"bytes"
	"strings"

	"recourse/api/ui/format"
	"recourse/internal/story"
	"recourse/saga"
)

// Bounds of the story on a page: its beginning and its end. The journal's page shows the whole
// journal.
const (
	storyBegin = 60
	storyEnd   = 240
)

// storyLine is a line of a saga's story.
type storyLine struct {
	story.Line
	Offset string // time since the start
	Exact  string // the exact time
	Link   string // URL of the step
	Class  string // CSS class of its tone
	Gap    int    // number of omitted records, instead of a line
}

var tones = map[story.Tone]string{story.Good: "good", story.Bad: "bad", story.Doubt: "doubt", story.Back: "back", story.Dimmed: "dim", story.Strong: "strong"}

// story renders the journal as lines, as the command line does.
func (d *sagaPage) story(link func(string) string) (lines []storyLine) {
	teller := story.New(d.Def)
	skipped := 0
	for i, r := range d.Records {
		left := len(d.Records) > storyBegin+storyEnd && i >= storyBegin && i < len(d.Records)-storyEnd
		if left {
			skipped++
			if bytes.Contains(r.Data, []byte(`"cost":`)) { // the last line shows the sum
				teller.Tell(r)
			}
			continue
		}
		if skipped > 0 {
			lines = append(lines, storyLine{Gap: skipped})
			skipped = 0
		}
		for _, l := range teller.Tell(r) {
			l.Text = saga.VisibleText(l.Text)
			s := storyLine{Line: l, Offset: format.Offset(l.At), Exact: format.Clock(r.At), Class: tones[l.Tone]}
			if l.Path != "" && (d.Session != nil || !strings.HasSuffix(l.Path, "]")) { // otherwise it is an iteration
				s.Link = link(l.Path)
			}
			lines = append(lines, s)
		}
	}
	return lines
}
