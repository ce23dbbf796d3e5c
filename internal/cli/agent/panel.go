package agent

import (
	"fmt"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/story"
	"recourse/saga/machine"
)

// Heights of terminals and panels, in lines.
const (
	leastRows  = 12 // a lower terminal has no panel
	mostHeight = 10
)

// panel shows the calls in the last lines of a terminal. The output of the agent's process, which
// has the terminal itself, scrolls in the lines above: they are the terminal's scrolling region
// (DECSTBM). Each change is one write, so that it does not mix with the output of the process.
type panel struct {
	app           *cli.App
	columns, rows int // of the terminal when the region was set; 0: it is not set
	height        int
	session       *session // the last one that was shown
	calls         []machine.CallView
}

func (p *panel) show(v *session, calls []machine.CallView) {
	p.session, p.calls = v, calls
	var b strings.Builder
	if columns, rows := p.app.Columns(), p.app.Rows(); columns != p.columns || rows != p.rows {
		p.release(&b)
		p.columns, p.rows, p.height = columns, rows, min(rows/3, mostHeight)
		// Make room, and keep the cursor in the region.
		fmt.Fprintf(&b, "%s\x1b7\x1b[1;%dr\x1b8\x1b[%dA", strings.Repeat("\n", p.height), rows-p.height, p.height)
	}
	b.WriteString("\x1b7")
	lines := frame(v, calls, p.columns-1, p.height)
	for i := range p.height {
		fmt.Fprintf(&b, "\x1b[%d;1H\x1b[2K", p.rows-p.height+1+i)
		if i < len(lines) {
			b.WriteString(story.Paint(lines[i].Text, lines[i].Tone, p.app.Colour))
		}
	}
	b.WriteString("\x1b8")
	p.app.Printf("%s", b.String())
}

// release gives the whole terminal back, and clears it below the cursor.
func (p *panel) release(b *strings.Builder) {
	if p.rows > 0 {
		b.WriteString("\x1b7\x1b[r\x1b8\x1b[J")
	}
	p.columns, p.rows = 0, 0
}

// lines ends the panel, and returns a viewer that continues with lines.
func (p *panel) lines(note func(format string, args ...any)) *callLines {
	p.end()
	l := &callLines{note: note, said: make(map[string]string, len(p.calls))}
	for _, c := range p.calls {
		l.said[c.Path] = news(c)
	}
	return l
}

// end prints the last state as text.
func (p *panel) end() {
	if p.session == nil {
		return
	}
	var b strings.Builder
	p.release(&b)
	for _, row := range frame(p.session, p.calls, p.app.Columns()-1, mostHeight) {
		b.WriteString(story.Paint(row.Text, row.Tone, p.app.Colour) + "\n")
	}
	p.app.Printf("%s", b.String())
}
