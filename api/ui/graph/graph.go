// Package graph lays out the graph of a definition, which a template draws.
package graph

import (
	"unicode/utf8"

	"recourse/api/ui/format"
	"recourse/api/ui/outline"
	"recourse/saga"
)

// Measures, in pixels.
const (
	stepWidth  = 264
	stepHeight = 46
	undoWidth  = 150
	undoGap    = 30
	gap        = 26 // vertical distance between steps
	pad        = 14 // padding inside a block
	headHeight = 46 // height of a block's header
	pivotRoom  = 30
	charWidth  = 7 // width of a character of the small font
)

// mostDrawn is the maximum of drawn steps; the rest is only counted.
const mostDrawn = 400

// artist lays a definition out.
type artist struct {
	Drawing
	outline outline.Outline
	drawn   int
}

// Draw lays out the graph of a definition.
func Draw(def *saga.Definition) Drawing {
	a := &artist{outline: outline.Of(def.Source)}
	w, h := a.list(def.Steps, pad, pad)
	if len(def.Finally) > 0 {
		y := pad + h + gap
		a.words(pad, y+12, "label", "finally: once at the end, however the saga ends")
		fw, fh := a.list(def.Finally, pad, y+22)
		w, h = max(w, fw), y+22+fh-pad
	}
	a.Left = len(def.ByID) - a.drawn
	a.Width, a.Height = w+2*pad, h+2*pad
	return a.Drawing
}

func (a *artist) words(x, y int, class, text string) {
	a.Words = append(a.Words, words{x, y, class, text})
}

// list draws steps from top to bottom, and returns their size.
func (a *artist) list(steps []*saga.Step, x, y int) (w, h int) {
	gutter := 0
	for _, s := range steps {
		if s.Compensate != nil {
			gutter = undoWidth + undoGap
		}
	}
	top, lastUndo := y, 0
	var pivots []int
	for i, s := range steps {
		if a.drawn >= mostDrawn {
			a.Boxes = append(a.Boxes, box{X: x + gutter, Y: y, W: stepWidth, H: 28, Class: "more", Title: format.Plural(count(steps[i:]), "more step", "more steps")})
			w, y = max(w, gutter+stepWidth), y+28+gap
			break
		}
		if s.Pivot {
			if i == 0 {
				y += gap
			}
			pivots = append(pivots, len(a.Pivots))
			a.Pivots = append(a.Pivots, rule{X: x, Y: y - gap + 8})
			a.words(x+gutter+stepWidth/2+10, y-gap+24, "pivot", "pivot: only forward from here")
			y += pivotRoom
		}
		sw, sh := a.step(s, x+gutter, y)
		if s.Compensate != nil {
			lastUndo = a.undo(s, x, y, lastUndo)
		}
		if i < len(steps)-1 {
			a.down(x+gutter+stepWidth/2, y+sh, y+sh+gap)
			if steps[i+1].Pivot {
				a.Arrows = a.Arrows[:len(a.Arrows)-1]
				a.down(x+gutter+stepWidth/2, y+sh, y+sh+gap+pivotRoom)
			}
		}
		w, y = max(w, gutter+sw), y+sh+gap
	}
	for _, i := range pivots {
		w = max(w, gutter+stepWidth+80)
		a.Pivots[i].W = w
	}
	return w, max(y-gap-top, 0)
}

// count counts steps, including nested ones.
func count(steps []*saga.Step) int {
	n := len(steps)
	for _, s := range steps {
		if b, ok := s.Body.(saga.Block); ok {
			for _, inner := range b.Lists() {
				n += count(inner)
			}
		}
	}
	return n
}

// step draws a step and its nested steps.
func (a *artist) step(s *saga.Step, x, y int) (w, h int) {
	a.drawn++
	g := a.outline.Step(s.ID)
	b := box{X: x, Y: y, W: stepWidth, H: stepHeight, Class: "step", ID: s.ID, Kind: KindOf(s), Line: s.Line, Title: s.ID + ": " + KindOf(s) + " " + g.Text}
	if s.Pivot {
		b.Class += " is-pivot"
	}
	b.Rows = append(b.Rows, words{x + 12, y + 19, "id", clipTo(stepWidth-24-charWidth*(utf8.RuneCountInString(b.Kind)+2), s.ID)},
		words{x + stepWidth - 12, y + 19, "kind", b.Kind})
	about := g.Text
	if s.When != nil {
		about = "when " + s.When.Source()
		b.Title += ", when " + s.When.Source()
	}
	if about != "" {
		b.Rows = append(b.Rows, words{x + 12, y + 36, "about", clipTo(stepWidth-24, about)})
	}
	marks := marksOf(s)
	for _, m := range marks {
		b.Title += "; " + m
	}
	at := len(a.Boxes)
	a.Boxes = append(a.Boxes, b)
	w, h = stepWidth, stepHeight
	if block, ok := s.Body.(saga.Block); ok {
		w, h = a.inside(block, g, x, y)
		a.Boxes[at].Class, a.Boxes[at].W = "block", w
		a.Boxes[at].Rows[1].X = x + w - 12
	} else if s.Kind == "run" {
		a.Boxes[at].Class += " is-run"
	}
	for _, m := range marks {
		h += 18
		a.words(x+12, y+h-8, "mark", m)
	}
	a.Boxes[at].H = h
	return w, h
}

// inside draws the lists of a block: up to three parallel ones next to each other, others below
// each other.
func (a *artist) inside(block saga.Block, g outline.Wording, x, y int) (w, h int) {
	lists := block.Lists()
	labels := make([]string, len(lists))
	for i := range lists {
		if i < len(g.Branches) {
			labels[i] = "when " + g.Branches[i]
			if g.Branches[i] == "" {
				labels[i] = "otherwise"
			}
		}
	}
	across := len(lists) > 1 && len(lists) <= 3
	cx, cy, bottom := x+pad, y+headHeight, y+headHeight
	w = stepWidth
	for i, list := range lists {
		if a.drawn >= mostDrawn && i > 0 {
			break
		}
		top := cy
		if labels[i] != "" {
			a.words(cx, top+10, "label", clipTo(stepWidth, labels[i]))
			top += 20
		}
		lw, lh := a.list(list, cx, top)
		bottom = max(bottom, top+lh)
		w = max(w, cx+lw+pad-x)
		if across {
			cx += lw + pad
		} else {
			cy = top + lh + pad
		}
	}
	return w, bottom + pad - y
}

// undo draws the compensation of a step, to its left, and returns where the next one's arrow ends:
// undoing goes up.
func (a *artist) undo(s *saga.Step, x, y, last int) int {
	c := s.Compensate
	g := a.outline.Step(s.ID)
	b := box{X: x, Y: y + 4, W: undoWidth, H: stepHeight - 8, Class: "undo", Title: "undoes " + s.ID + ": " + c.Kind + " " + g.Undo}
	b.Rows = append(b.Rows, words{b.X + 10, b.Y + 16, "id", "↺ undo"}, words{b.X + undoWidth - 10, b.Y + 16, "kind", c.Kind})
	about := g.Undo
	switch c.Order {
	case saga.First:
		about = "first of all"
	case saga.Last:
		about = "last of all"
	}
	if about != "" {
		b.Rows = append(b.Rows, words{b.X + 10, b.Y + 31, "about", clipTo(undoWidth-20, about)})
	}
	a.Undo = true
	a.Boxes = append(a.Boxes, b)
	mid := y + stepHeight/2
	a.Arrows = append(a.Arrows, arrow{Class: "back", Points: points(x+undoWidth+undoGap, mid, x+undoWidth+2, mid), Head: head(x+undoWidth+1, mid, 'l')})
	if c.Order != saga.Reverse { // it runs first or last
		return last
	}
	if last > 0 {
		a.Arrows = append(a.Arrows, arrow{Class: "back", Points: points(x+undoWidth/2, b.Y, x+undoWidth/2, last+2), Head: head(x+undoWidth/2, last+1, 'u')})
	}
	return b.Y + b.H
}

func (a *artist) down(x, from, to int) {
	a.Arrows = append(a.Arrows, arrow{Class: "go", Points: points(x, from, x, to-2), Head: head(x, to-1, 'd')})
}

// KindOf returns a step's kind, or its action.
func KindOf(s *saga.Step) string {
	if s.Use != nil {
		return "use " + s.Use.String()
	}
	return s.Kind
}

// marksOf returns the important properties of a step.
func marksOf(s *saga.Step) []string {
	var marks []string
	if s.Kind == "approval" {
		marks = append(marks, "waits for a person to decide")
	}
	switch {
	case s.InDoubt.Policy == saga.Ask && s.InDoubt.Declared:
		marks = append(marks, "? in doubt: asks a person")
	case s.InDoubt.Policy == saga.VerifyIt && s.InDoubt.Otherwise == saga.Ask:
		marks = append(marks, "? in doubt: checks, then asks")
	case s.InDoubt.Policy == saga.VerifyIt:
		marks = append(marks, "? in doubt: checks in the remote service")
	}
	if s.Continue {
		marks = append(marks, "– continues if it fails")
	}
	return marks
}

// clipTo shortens a text to a width.
func clipTo(width int, text string) string { return format.Cut(max(width/charWidth, 4), text) }
