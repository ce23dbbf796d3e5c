package timeline

import (
	"fmt"
	"html"
	"html/template"
	"strings"
	"time"

	"recourse/api/ui/format"
	"recourse/journal"
)

// Sizes of a timeline, in its own units.
const (
	width    = 1000
	labels   = 190 // x at which lanes begin
	right    = 975 // x at which lanes end
	rowHigh  = 24
	axisHigh = 34
	barHigh  = 14
	barWide  = 13 // minimum width, for its symbol
	tickWide = 74 // minimum distance between two times on the axis
	wordHigh = 13
	maxWords = 40
)

// Draw returns the timeline of a journal at a time as an SVG; "" for a journal without steps. over
// says that the saga has ended. link returns the URL for a step's bars.
func Draw(records []journal.Record, in Nesting, now time.Time, over bool, link func(path string) string) template.HTML {
	return chartOf(records, in, now, over).draw(link)
}

// picture draws a chart.
type picture struct {
	*chart
	axis *axis
	link func(path string) string
	b    strings.Builder
	y    int // y at which the next lane begins
}

// draw returns the chart as an SVG; "" for a chart without lanes.
func (c *chart) draw(link func(string) string) template.HTML {
	if c == nil || len(c.do) == 0 {
		return ""
	}
	t := &picture{chart: c, axis: axisOf(c), link: link, y: axisHigh}
	words := t.words()
	for _, w := range words {
		t.y = max(t.y, axisHigh+w.row*wordHigh)
	}
	t.lanes(c.do)
	if len(c.undo) > 0 {
		t.turn()
		t.lanes(c.undo)
	}
	lanes, high := t.b.String(), t.y+14
	t.b.Reset()
	t.scale(high)
	scale := t.b.String()
	t.b.Reset()
	t.marks(words, high)
	//nolint:gosec // texts in it are escaped, and numbers need no escape
	return template.HTML(fmt.Sprintf(`<svg class="timeline" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`,
		width, high, width, high, html.EscapeString(t.label())) + patterns + scale + lanes + t.b.String() + "</svg>")
}

// patterns distinguish classes without colour.
const patterns = `<defs>` +
	`<pattern id="p-in_doubt" width="7" height="7" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="t-fill t-in_doubt" width="7" height="7"/><rect class="t-stripe" width="3" height="7"/></pattern>` +
	`<pattern id="p-transient" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="t-fill t-transient" width="6" height="6"/><circle class="t-stripe" cx="3" cy="3" r="1.4"/></pattern>` +
	`<pattern id="p-refused" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(-45)"><rect class="t-fill t-refused" width="6" height="6"/><rect class="t-stripe" width="1.5" height="6"/></pattern>` +
	`<pattern id="p-held" width="6" height="6" patternUnits="userSpaceOnUse"><rect class="t-fill t-held" width="6" height="6"/><rect class="t-stripe" width="6" height="2"/></pattern>` +
	`<pattern id="p-wait" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="t-fill t-wait" width="1.6" height="5"/></pattern>` +
	`<pattern id="p-person" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="t-fill t-person" width="2.4" height="5"/></pattern>` +
	`</defs>`

// label describes the picture as text.
func (t *picture) label() string {
	steps := 0
	for _, l := range t.do {
		steps += max(l.folded, 1)
	}
	text := "Timeline: " + format.Plural(steps, "step", "steps")
	if len(t.undo) > 0 {
		undone := 0
		for _, l := range t.undo {
			undone += max(l.folded, 1)
		}
		text += ", " + format.Plural(undone, "undoing", "undoings")
	}
	return text + " in " + format.Took(t.end.Sub(t.begin)) + ". The text below has the same content."
}

func (t *picture) lanes(list []*lane) {
	for _, l := range list {
		t.lane(l)
		t.y += rowHigh
	}
}

func (t *picture) lane(l *lane) {
	indent := 10 * min(l.depth, 6)
	if l.folded > 0 {
		text := format.Plural(l.folded, "more step", "more steps")
		if l.calm {
			text += ", all well"
		}
		fmt.Fprintf(&t.b, `<text class="t-more" x="%d" y="%d">… %s</text>`, 8+indent, t.y+16, text)
		return
	}
	name := format.StepName(l.path)
	if l.path == Asks && l.asks {
		name = "models"
	}
	if l.way == journal.Undo {
		name = "↺ " + name
	}
	fmt.Fprintf(&t.b, `<a href="%s" tabindex="-1"><text class="t-name" x="%d" y="%d"><title>%s</title>%s</text></a>`,
		html.EscapeString(t.link(l.path)), 8+indent, t.y+16, html.EscapeString(l.path), html.EscapeString(format.Cut(25-indent/6, name)))
	fmt.Fprintf(&t.b, `<line class="t-rule" x1="%d" x2="%d" y1="%d" y2="%d"/>`, labels, right, t.y+rowHigh-1, t.y+rowHigh-1)
	for _, one := range l.bars { // drawn first, since bars of attempts may be wider than their time
		if one.thin() {
			t.bar(l, one, 0)
		}
	}
	edge := 0
	for _, one := range l.bars {
		if !one.thin() {
			edge = t.bar(l, one, edge)
		}
	}
}

// bar draws a bar, to the right of an edge, and returns the new edge.
func (t *picture) bar(l *lane, one bar, edge int) int {
	x, to := t.axis.x(one.from), t.axis.x(one.to)
	high, wide := barHigh, to-x
	thin := one.thin()
	crowded := len(l.bars) > 14
	switch {
	case thin:
		high = 6
		if one.what == "block" {
			high = 2
		}
		wide = max(wide, 2)
	case crowded:
		wide = max(wide, 4)
	default:
		wide = max(wide, barWide)
	}
	if x < edge && !thin {
		x = edge
	}
	if x+wide > width-6 {
		x = width - 6 - wide
	}
	y := t.y + (rowHigh-high)/2
	fill := ""
	switch one.what {
	case "in_doubt", "transient", "refused", "held", "wait", "person":
		fill = ` fill="url(#p-` + one.what + `)"`
	case "backoff":
		fill = ` fill="url(#p-wait)"`
	}
	class := "t-bar"
	if fill == "" {
		class += " t-" + one.what
	}
	if one.open {
		class += " t-open"
	}
	if l.way == journal.Undo {
		class += " t-undo"
	}
	fmt.Fprintf(&t.b, `<a href="%s" tabindex="-1"><rect class="%s" x="%d" y="%d" width="%d" height="%d" rx="%d"%s><title>%s</title></rect>`,
		html.EscapeString(t.link(l.path)), class, x, y, wide, high, min(3, high/2), fill, html.EscapeString(t.title(l, one)))
	if !thin && wide >= barWide {
		if fill != "" { // a symbol is not legible on a pattern
			fmt.Fprintf(&t.b, `<rect class="t-plain t-%s" x="%d" y="%d" width="%d" height="%d" rx="3"/>`, one.what, x+wide/2-7, y, 14, barHigh)
		}
		fmt.Fprintf(&t.b, `<text class="t-mark" x="%d" y="%d" aria-hidden="true">%s</text>`, x+wide/2, y+11, barMark(one, l.way))
	}
	t.b.WriteString("</a>")
	return x + wide + 1
}

// barMark returns the symbol of an attempt's class.
func barMark(one bar, way journal.Way) string {
	switch {
	case one.query:
		return "?→"
	case one.what == "succeeded" && way == journal.Undo:
		return "↺"
	}
	return format.ClassMark(journal.Class(one.what))
}

// title returns the tooltip of a bar.
func (t *picture) title(l *lane, one bar) string {
	head := l.path
	if l.way == journal.Undo {
		head = "undo of " + head
	}
	if one.query {
		head = "status check of " + l.path
	}
	if one.attempt > 0 {
		head += fmt.Sprintf(", attempt %d: %s", one.attempt, format.Say(map[bool]string{true: "in flight", false: one.what}[one.what == "running"]))
	} else if one.point {
		head += ": " + format.Say(one.what)
	}
	lines := append([]string{head}, one.said...)
	at := format.Offset(one.from.Sub(t.begin))
	switch {
	case one.open:
		at += ", for " + format.Took(one.to.Sub(one.from)) + " so far"
	case !one.point:
		at += ", took " + format.Took(one.to.Sub(one.from))
	}
	return strings.Join(append(lines, at), "\n")
}

// turn draws the line above the compensations.
func (t *picture) turn() {
	fmt.Fprintf(&t.b, `<line class="t-turn" x1="0" x2="%d" y1="%d" y2="%d"/><text class="t-word t-back" x="8" y="%d">undone, the latest first</text>`, width, t.y+3, t.y+3, t.y+17)
	t.y += 24
}

// scale draws the axis, and marks shortened intervals.
func (t *picture) scale(high int) {
	last := -tickWide
	for _, s := range t.axis.steps {
		if s.x-last >= tickWide && s.x <= right-24 {
			fmt.Fprintf(&t.b, `<line class="t-grid" x1="%d" x2="%d" y1="18" y2="%d"/><text class="t-time" x="%d" y="13">%s</text>`, s.x, s.x, high, s.x, format.Offset(s.at.Sub(t.begin)))
			last = s.x
		}
		if s.cut {
			x, end := s.x, s.x+s.wide
			fmt.Fprintf(&t.b, `<rect class="t-gap" x="%d" y="20" width="%d" height="%d"><title>%s without an attempt in flight, drawn shorter</title></rect>`, x, end-x, high-20, format.Took(s.long))
			fmt.Fprintf(&t.b, `<text class="t-cut" x="%d" y="%d" aria-hidden="true">≈</text>`, (x+end)/2, high-3)
		}
	}
}

// word is the label of a moment, with its place below the axis.
type word struct {
	moment
	x, row int
	left   bool // it is to the left of its line
}

// words places the labels of moments in two rows: one that would overlap the label before goes to
// the second row. A label without room is omitted; the story has it.
func (t *picture) words() (list []word) {
	var edges [2]int
	for _, m := range t.moments {
		w := word{moment: m, x: t.axis.x(m.at)}
		wide := 7*len([]rune(m.word)) + 8
		from := w.x
		if w.left = w.x+wide > width; w.left {
			from = w.x - wide
		}
		for w.row < len(edges) && from < edges[w.row] {
			w.row++
		}
		if w.row == len(edges) || len(list) == maxWords {
			continue
		}
		edges[w.row] = from + wide
		list = append(list, w)
	}
	return list
}

// marks draws the labels and their lines over the lanes.
func (t *picture) marks(words []word, high int) {
	for _, w := range words {
		class, y := "t-moment", 29+w.row*wordHigh
		if w.bad {
			class += " t-warn"
		}
		anchor, at := "start", w.x+3
		if w.left {
			anchor, at = "end", w.x-3
		}
		text := html.EscapeString(w.word)
		fmt.Fprintf(&t.b, `<g><title>%s, at %s</title><line class="%s" x1="%d" x2="%d" y1="%d" y2="%d"/>`, text, format.Clock(w.at), class, w.x, w.x, y-7, high)
		fmt.Fprintf(&t.b, `<text class="t-word %s" x="%d" y="%d" text-anchor="%s">%s</text></g>`, class, at, y, anchor, text)
	}
}
