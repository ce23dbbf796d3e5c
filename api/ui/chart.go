package ui

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// chart is a journal as lanes of bars: what timelines are drawn of.
type chart struct {
	begin, end time.Time
	do, undo   []*lane
	busy       []stretch // when attempts were under way, of all lanes, in order
	moments    []moment
}

// lane is what one step did, one way.
type lane struct {
	path    string
	way     journal.Way
	depth   int
	bars    []bar
	records []*journal.Record
	calm    bool // all went well, and it is over
	final   bool // its first record comes after undoing began
	folded  int  // a lane that stands for so many others, of which nothing is drawn
}

// stretch is a time from and to.
type stretch struct{ from, to time.Time }

// bar is something that took time on a lane, or none.
type bar struct {
	stretch
	what    string // a class of outcome, "running", a wait ("wait", "backoff", "person"), "block", "skipped"
	attempt int
	query   bool // a status query
	open    bool // not over
	point   bool // it took no time of its own: a value
	said    []string
}

// thin reports whether a bar is of a wait, or of a block: nothing is sent meanwhile.
func (b bar) thin() bool {
	return b.what == "wait" || b.what == "backoff" || b.what == "person" || b.what == "block"
}

// moment is something that happened to the saga as a whole.
type moment struct {
	at   time.Time
	word string
	bad  bool
}

// Bounds of a timeline: what is more is folded, so that it can be read, and is drawn at once.
const (
	maxLanes  = 60
	calmLanes = 24 // beside those that did not go well, of a saga of more steps than lanes that are drawn anyhow
	fewLanes  = 36
	maxBars   = 24 // on one lane
)

// nesting is how a definition's steps lie in each other, by path without iterations.
type nesting struct {
	depth map[string]int // by id
	place map[string]int // of a path in the saga's list of steps
}

// nestingOf reads it; def and steps may be nil.
func nestingOf(def *saga.Definition, steps []saga.StepView) nesting {
	n := nesting{depth: map[string]int{}, place: make(map[string]int, len(steps))}
	var walk func(list []*saga.Step, depth int)
	walk = func(list []*saga.Step, depth int) {
		for _, s := range list {
			n.depth[s.ID] = depth
			if b, ok := s.Body.(saga.Block); ok {
				for _, inner := range b.Lists() {
					walk(inner, depth+1)
				}
			}
		}
	}
	if def != nil {
		walk(def.Steps, 0)
		walk(def.Finally, 0)
	}
	for i, s := range steps {
		n.place[s.Path] = i
	}
	return n
}

// chartOf makes the chart of a journal, as of now. It never fails: what cannot be read is left out.
func chartOf(records []journal.Record, in nesting, now time.Time, over bool) *chart {
	if len(records) == 0 {
		return nil
	}
	c := &chart{begin: records[0].At, end: now}
	if over || now.Before(records[len(records)-1].At) {
		c.end = records[len(records)-1].At
	}
	type side struct {
		path string
		way  journal.Way
	}
	lanes := map[side]*lane{}
	var given time.Time // when the saga gave up what it still waited for
	back := false       // undoing has begun
	node := records[0].Node
	for i := range records {
		r := &records[i]
		if r.Node != node {
			node = r.Node
			c.moments = append(c.moments, moment{r.At, "taken over", true})
		}
		c.moment(*r)
		switch {
		case r.Kind == journal.Cancelled && given.IsZero():
			given = r.At
		case r.Kind == journal.Compensating:
			if back = true; given.IsZero() {
				given = r.At
			}
		}
		base, _ := saga.SplitQuery(r.Path)
		if r.Path == "" || strings.HasSuffix(base, "]") { // the saga, or an iteration as a whole
			continue
		}
		l := lanes[side{base, r.Way}]
		if l == nil {
			l = &lane{path: base, way: r.Way, depth: in.depth[saga.StepID(base)], calm: true, final: back}
			lanes[side{base, r.Way}] = l
			if r.Way == journal.Undo {
				c.undo = append(c.undo, l)
			} else {
				c.do = append(c.do, l)
			}
		}
		l.records = append(l.records, r)
		l.calm = l.calm && (r.Class == journal.Succeeded || r.Class == "") && r.Kind != journal.Operator
	}
	for _, l := range append(slices.Clone(c.do), c.undo...) {
		c.work(l)
	}
	slices.SortFunc(c.busy, func(a, b stretch) int { return a.from.Compare(b.from) })
	slices.SortStableFunc(c.do, func(a, b *lane) int { return in.place[a.path] - in.place[b.path] })
	c.do, c.undo = fold(c.do, maxLanes), fold(c.undo, maxLanes/2)
	for _, l := range append(slices.Clone(c.do), c.undo...) {
		c.bars(l)
		if back && l.way == journal.Do && !l.final {
			l.close(given)
		}
	}
	return c
}

// close ends the waits of a lane that were not over when the saga gave them up.
func (l *lane) close(at time.Time) {
	for i := range l.bars {
		if b := &l.bars[i]; b.open {
			b.open, b.to = false, at
			if b.to.Before(b.from) {
				b.to = b.from
			}
			b.said = append(b.said, "given up with the saga")
		}
	}
}

// moment adds what a record says about the saga as a whole.
func (c *chart) moment(r journal.Record) {
	switch r.Kind {
	case journal.Compensating:
		c.moments = append(c.moments, moment{r.At, "turns back", true})
	case journal.Operator, journal.Paused, journal.Resumed, journal.Cancelled:
		var d saga.CommandData
		if json.Unmarshal(r.Data, &d) == nil && d.Rejected == nil {
			c.moments = append(c.moments, moment{r.At, say(d.Kind), false})
		}
	case journal.Signalled:
		c.moments = append(c.moments, moment{r.At, "signal", false})
	}
}

// work notes when attempts of a lane were under way, and whether something still is.
func (c *chart) work(l *lane) {
	var open []*journal.Record // few at a time
	for _, r := range l.records {
		switch r.Kind {
		case journal.Intent:
			open = append(open, r)
		case journal.Outcome:
			open = slices.DeleteFunc(open, func(from *journal.Record) bool {
				its := from.Path == r.Path && from.Attempt == r.Attempt
				if its && r.Attempt > 0 {
					c.busy = append(c.busy, stretch{from.At, r.At})
				}
				return its
			})
		}
	}
	for _, from := range open {
		l.calm = false
		if from.Attempt > 0 {
			c.busy = append(c.busy, stretch{from.At, c.end})
		}
	}
}

// fold leaves at most so many lanes: the first and the last, and of those between the ones that did
// not go well, the latest first. Lanes that stand for the others say how many those are.
func fold(lanes []*lane, most int) []*lane {
	telling := 0
	for _, l := range lanes {
		if !l.calm {
			telling++
		}
	}
	most = min(most, max(fewLanes, telling+calmLanes))
	if len(lanes) <= most {
		return lanes
	}
	keep := kept(len(lanes), most, func(i int) bool { return !lanes[i].calm })
	var list []*lane
	for i, l := range lanes {
		switch last := len(list) - 1; {
		case keep[i]:
			list = append(list, l)
		case last >= 0 && list[last].folded > 0:
			list[last].folded++
			list[last].calm = list[last].calm && l.calm
		default:
			list = append(list, &lane{path: l.path, way: l.way, depth: l.depth, folded: 1, calm: l.calm})
		}
	}
	return list
}

// kept says which of n things to show when only so many can be: a few at the beginning, more at the
// end, and of those between the telling ones, the latest first.
func kept(n, most int, telling func(int) bool) []bool {
	keep := make([]bool, n)
	left := most
	mark := func(i int) {
		if i >= 0 && i < n && left > 0 && !keep[i] {
			keep[i] = true
			left--
		}
	}
	for i := range most / 6 {
		mark(i)
	}
	for i := n - 1; i >= 0 && left > most/3; i-- {
		if telling(i) {
			mark(i)
		}
	}
	for i := n - 1; i >= 0 && left > 0; i-- {
		mark(i)
	}
	return keep
}

// bars makes a lane's bars of its records.
func (c *chart) bars(l *lane) {
	if l.folded > 0 {
		return
	}
	b := builder{lane: l, end: c.end}
	for _, r := range l.records {
		b.add(*r)
	}
	for i := range l.bars {
		if l.bars[i].open {
			l.bars[i].to = c.end
		}
	}
	if n := len(l.bars); n > maxBars {
		cut := l.bars[maxBars/3 : n-maxBars*2/3]
		between := bar{stretch: stretch{cut[0].from, cut[len(cut)-1].to}, what: "wait", said: []string{plural(len(cut), "more attempt or wait", "more attempts and waits")}}
		l.bars = slices.Concat(l.bars[:maxBars/3], []bar{between}, l.bars[n-maxBars*2/3:])
	}
	l.records = nil
}
