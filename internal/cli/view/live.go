package view

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"recourse/internal/cli"
	"recourse/internal/story"
	"recourse/journal"
)

// Redraw is the minimum time between two frames; a countdown needs one frame per second.
const (
	Redraw    = 50 * time.Millisecond
	countdown = time.Second
)

// Tree shows a saga as its steps, redrawn in place as they change.
type Tree struct {
	app    *cli.App
	Now    func() time.Time // the clock of the journal
	widths []int            // widths of the drawn lines
	drawn  time.Time
	dirty  bool
	note   string
}

func newTree(a *cli.App) *Tree { return &Tree{app: a, Now: time.Now} }

// Update implements Viewer.
func (t *Tree) Update(w *Saga, _ []journal.Record) {
	t.dirty = true
	t.Tick(w)
}

// Tick implements Viewer.
func (t *Tree) Tick(w *Saga) {
	if since := t.Now().Sub(t.drawn); t.dirty && since >= Redraw || since >= countdown {
		t.draw(w)
	}
}

// Say implements Viewer.
func (t *Tree) Say(w *Saga, text string) {
	t.note = text
	t.draw(w)
}

// End implements Viewer.
func (t *Tree) End(w *Saga) {
	if t.dirty {
		t.draw(w)
	}
}

// draw replaces the frame before.
func (t *Tree) draw(w *Saga) {
	if len(w.Records) == 0 {
		return
	}
	columns, height := t.app.Columns(), t.app.Rows()
	rows, err := drawing(w, t.Now(), columns)
	if err != nil {
		return // the machine has applied the records, so they can be read
	}
	if t.note != "" {
		for line := range strings.SplitSeq(cli.Wrap(t.note, "  ", columns-1, 3), "\n") {
			rows = append(rows, Row{Text: line, Tone: story.Doubt})
		}
	}
	var b strings.Builder
	if up := min(t.height(columns), height-1); up > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", up)
	}
	t.widths = t.widths[:0]
	for _, r := range windowed(rows, height-1) {
		text := story.Short(r.Text, columns-1) // some terminals wrap a line that fills the last column
		t.widths = append(t.widths, utf8.RuneCountInString(text))
		fmt.Fprintf(&b, "\r%s\x1b[K\n", story.Paint(text, r.Tone, t.app.Colour))
	}
	b.WriteString("\x1b[J")
	t.app.Printf("%s", b.String())
	t.dirty, t.drawn = false, t.Now()
}

// height returns the number of terminal lines of the frame, which grows if the terminal becomes
// narrower.
func (t *Tree) height(columns int) int {
	n := 0
	for _, width := range t.widths {
		n += max((width+columns-1)/columns, 1)
	}
	return n
}

// windowed shortens a frame that is higher than the terminal: it omits steps far from active ones.
func windowed(rows []Row, height int) []Row {
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
		if r.Moves && moves < 0 {
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
	out := append([]Row{}, rows[:first]...)
	out = append(out, left(from-first, "above"))
	out = append(out, rows[from:from+room]...)
	out = append(out, left(last+1-from-room, "below"))
	return append(out, rows[last+1:]...)
}

func left(n int, where string) Row {
	if n == 0 {
		return Row{}
	}
	return Row{Text: fmt.Sprintf("  … %s %s", cli.Count(n, "step"), where), Tone: story.Dimmed}
}
