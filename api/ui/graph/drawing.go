package graph

import (
	"fmt"
	"strconv"
)

// Drawing is a definition's graph for the template: an SVG of boxes, arrows and texts, in whole
// pixels.
type Drawing struct {
	Width, Height int
	Boxes         []box
	Arrows        []arrow
	Pivots        []rule
	Words         []words
	Left          int // number of steps that are not drawn
	Undo          bool
}

// box is a step, a block with steps inside, or the undoing of a step.
type box struct {
	X, Y, W, H int
	Class      string // step, block, undo, branch, more
	ID, Kind   string
	Line       int // line of the definition's text; 0 for no link
	Title      string
	Rows       []words
}

// words is a line of text.
type words struct {
	X, Y  int
	Class string
	Text  string
}

// arrow is a line with a head, along points "x,y x,y". The head points in the direction of its last
// segment.
type arrow struct {
	Points, Head string
	Class        string // go, back
}

// rule is the line of the pivot.
type rule struct{ X, Y, W int }

// End returns the end of the line.
func (r rule) End() int { return r.X + r.W }

// StepCount returns "9 steps", for the drawing's title.
func (d Drawing) StepCount() string {
	n := 0
	for _, b := range d.Boxes {
		if b.ID != "" {
			n++
		}
	}
	return strconv.Itoa(n+d.Left) + " steps"
}

func points(x1, y1, x2, y2 int) string { return fmt.Sprintf("%d,%d %d,%d", x1, y1, x2, y2) }

// head returns the triangle of an arrow that ends at x, y and points down, up or left.
func head(x, y int, to byte) string {
	switch to {
	case 'd':
		return fmt.Sprintf("%d,%d %d,%d %d,%d", x-4, y-7, x+4, y-7, x, y)
	case 'u':
		return fmt.Sprintf("%d,%d %d,%d %d,%d", x-4, y+7, x+4, y+7, x, y)
	}
	return fmt.Sprintf("%d,%d %d,%d %d,%d", x+7, y-4, x+7, y+4, x, y)
}
