package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"recourse/internal/cli"
	"recourse/internal/story"
	"recourse/journal"
)

// redraw is the minimum time between two frames; a countdown needs one frame per second.
const (
	redraw    = 50 * time.Millisecond
	countdown = time.Second
)

// tree shows a saga as its steps, redrawn in place as they change.
type tree struct {
	app    *cli.App
	now    func() time.Time // the clock of the journal
	widths []int            // widths of the drawn lines
	drawn  time.Time
	dirty  bool
	note   string
}

func newTree(a *cli.App) *tree { return &tree{app: a, now: time.Now} }

func (t *tree) grew(w *watched, _ []journal.Record) {
	t.dirty = true
	t.tick(w)
}

func (t *tree) tick(w *watched) {
	if since := t.now().Sub(t.drawn); t.dirty && since >= redraw || since >= countdown {
		t.draw(w)
	}
}

func (t *tree) say(w *watched, text string) {
	t.note = text
	t.draw(w)
}

func (t *tree) end(w *watched) {
	if t.dirty {
		t.draw(w)
	}
}

// draw replaces the frame before.
func (t *tree) draw(w *watched) {
	if len(w.all) == 0 {
		return
	}
	columns, height := t.app.Columns(), t.app.Rows()
	rows, err := drawing(w, t.now(), columns)
	if err != nil {
		return // the machine has applied the records, so they can be read
	}
	if t.note != "" {
		for line := range strings.SplitSeq(cli.Wrap(t.note, "  ", columns-1, 3), "\n") {
			rows = append(rows, row{text: line, tone: story.Doubt})
		}
	}
	var b strings.Builder
	if up := min(t.height(columns), height-1); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	t.widths = t.widths[:0]
	for _, r := range windowed(rows, height-1) {
		text := story.Short(r.text, columns-1) // some terminals wrap a line that fills the last column
		t.widths = append(t.widths, utf8.RuneCountInString(text))
		fmt.Fprintf(&b, "\r%s\x1b[K\n", story.Paint(text, r.tone, t.app.Colour))
	}
	b.WriteString("\x1b[J")
	t.app.Printf("%s", b.String())
	t.dirty, t.drawn = false, t.now()
}

// height returns the number of terminal lines of the frame, which grows if the terminal becomes
// narrower.
func (t *tree) height(columns int) int {
	n := 0
	for _, width := range t.widths {
		n += max((width+columns-1)/columns, 1)
	}
	return n
}

// windowed shortens a frame that is higher than the terminal: it omits steps far from active ones.
func windowed(rows []row, height int) []row {
	if len(rows) <= height {
		return rows
	}
	first, last, moves := -1, 0, -1
	for i, r := range rows {
		if !r.step {
			continue
		}
		if first < 0 {
			first = i
		}
		if r.moves && moves < 0 {
			moves = i
		}
		last = i
	}
	room := height - (len(rows) - (last - first + 1)) - 2
	if room < 1 {
		return rows[:max(height, 0)]
	}
	if moves < 0 {
		moves = last
	}
	from := min(max(moves-room/3, first), last+1-room)
	out := append([]row{}, rows[:first]...)
	out = append(out, left(from-first, "above"))
	out = append(out, rows[from:from+room]...)
	out = append(out, left(last+1-from-room, "below"))
	return append(out, rows[last+1:]...)
}

func left(n int, where string) row {
	if n == 0 {
		return row{}
	}
	return row{text: fmt.Sprintf("  … %s %s", cli.Count(n, "step"), where), tone: story.Dimmed}
}
