// Package timeline draws the journal of a saga as an SVG: a lane for each step, with a bar for each
// attempt and each wait.
package timeline

import (
	"slices"
	"strconv"
	"time"

	"recourse/api/ui/format"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// chart is a journal as lanes of bars, from which timelines are drawn.
type chart struct {
	begin, end time.Time
	do, undo   []*lane
	busy       []stretch // the times of attempts in flight, of all lanes, in order
	moments    []moment
}

// lane is the history of a step in one direction.
type lane struct {
	path    string
	asks    bool // the requests to models
	way     journal.Way
	depth   int
	bars    []bar
	records []*journal.Record
	calm    bool // it ended without a failure
	waiting bool // a wait has not ended
	final   bool // its first record comes after the start of undoing
	folded  int  // number of lanes that this one stands for, without bars
}

// stretch is an interval of time.
type stretch struct{ from, to time.Time }

// bar is an attempt, a wait or an event on a lane.
type bar struct {
	stretch
	what    string // a class of outcome, "running", a wait ("wait", "backoff", "person"), "block", "skipped"
	path    string // of the step, since a lane may have several
	attempt int
	query   bool // a status check
	open    bool // has not ended
	point   bool // has no duration, as the evaluation of a value
	said    []string
}

// thin reports whether a bar is a wait or a block, which send nothing themselves.
func (b bar) thin() bool {
	return b.what == "wait" || b.what == "backoff" || b.what == "person" || b.what == "block"
}

// moment is an event of the saga as a whole.
type moment struct {
	at   time.Time
	word string
	bad  bool
}

// Bounds of a timeline. The rest is folded, so that the picture stays readable and cheap.
const (
	maxLanes  = 60
	calmLanes = 24 // lanes without failures, in addition to those with failures
	fewLanes  = 36 // a saga with fewer steps shows all of them
	maxBars   = 24 // bars on one lane
)

// Asks is the path of the lane with all requests of a session to language models.
const Asks = "llm"

// Nesting is the nesting of a definition's steps.
type Nesting struct {
	depth map[string]int // by id
	place map[string]int // index of a path in the saga's list of steps
}

// NestingOf returns the nesting of a saga's steps; def and steps may be nil.
func NestingOf(def *saga.Definition, steps []machine.StepView) Nesting {
	n := Nesting{depth: map[string]int{}, place: make(map[string]int, len(steps))}
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
	n.place[Asks] = -1 // the first lane of a session
	for i, s := range steps {
		n.place[s.Path] = i
	}
	return n
}

// Depth returns how many blocks are around the step at a path.
func (n Nesting) Depth(path string) int { return n.depth[saga.StepID(path)] }

// chartOf returns the chart of a journal at a time. It omits data that cannot be read.
func chartOf(records []journal.Record, in Nesting, now time.Time, over bool) *chart {
	if len(records) == 0 {
		return nil
	}
	c := &chart{begin: records[0].At, end: now}
	if over || now.Before(records[len(records)-1].At) {
		c.end = records[len(records)-1].At
	}
	back, given := c.read(records, in)
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

// read makes the lanes, without their bars. It reports whether the saga was undone, and when it
// abandoned its waits.
func (c *chart) read(records []journal.Record, in Nesting) (back bool, given time.Time) {
	var reader history.Reader
	lanes := map[history.Track]*lane{}
	asks := map[string]bool{}
	laneOf := func(t history.Track) *lane {
		t.Check = false // status checks are on the lane of their step
		model := asks[t.Step]
		if model {
			t.Step = Asks
		}
		l := lanes[t]
		if l == nil {
			l = &lane{path: t.Step, asks: model, way: t.Way, depth: in.Depth(t.Step), calm: true, final: back}
			lanes[t] = l
			if t.Way == journal.Undo {
				c.undo = append(c.undo, l)
			} else {
				c.do = append(c.do, l)
			}
		}
		return l
	}
	for i := range records {
		e := reader.Read(&records[i])
		c.moment(&e)
		if e.Kind == journal.Called {
			d, _ := history.DataOf[saga.CalledData](e.Record)
			asks[e.Path] = d.What == saga.ModelAsk
		}
		back = back || e.Kind == journal.Compensating
		if given.IsZero() && (back || e.Kind == journal.Cancelled) {
			given = e.At
		}
		if e.Path == "" || e.Iteration() {
			continue
		}
		laneOf(e.Track).add(e.Record)
		if e.Begun.Known() {
			c.busy = append(c.busy, stretch{e.Begun.At, e.At})
		}
	}
	for track, begun := range reader.InFlight() {
		laneOf(track).calm = false
		c.busy = append(c.busy, stretch{begun.At, c.end})
	}
	for _, l := range lanes { // any order
		l.calm = l.calm && !l.waiting
	}
	return back, given
}

// close ends the waits of a lane that the saga abandoned.
func (l *lane) close(at time.Time) {
	for i := range l.bars {
		if b := &l.bars[i]; b.open {
			b.open, b.to = false, at
			if b.to.Before(b.from) {
				b.to = b.from
			}
			b.said = append(b.said, "abandoned when the saga was undone")
		}
	}
}

// lifeEnds describes the timers of a session.
var lifeEnds = map[string]string{saga.TimerLease: "lease lost", saga.TimerDetach: "detached", saga.TimerLost: "no process"}

// moment adds an event that concerns the whole saga.
func (c *chart) moment(e *history.Event) {
	if e.TakeOver {
		c.moments = append(c.moments, moment{e.At, "taken over", true})
	}
	switch e.Kind {
	case journal.Compensating:
		c.moments = append(c.moments, moment{e.At, "undo", true})
	case journal.Operator, journal.Paused, journal.Resumed, journal.Cancelled:
		if d, ok := history.DataOf[saga.CommandData](e.Record); ok && d.Rejected == nil {
			c.moments = append(c.moments, moment{e.At, format.Say(d.Kind), false})
		}
	case journal.Attached:
		d, _ := history.DataOf[saga.AttachedData](e.Record)
		c.moments = append(c.moments, moment{e.At, "life " + strconv.Itoa(d.Life), false})
	case journal.Committed:
		c.moments = append(c.moments, moment{e.At, "commit", false})
	case journal.Woke:
		d, _ := history.DataOf[saga.WokeData](e.Record)
		if text := lifeEnds[d.Timer]; text != "" {
			c.moments = append(c.moments, moment{e.At, text, d.Timer == saga.TimerLost})
		}
	case journal.Signalled:
		c.moments = append(c.moments, moment{e.At, "signal", false})
	}
}

// add adds a record to the lane.
func (l *lane) add(r *journal.Record) {
	l.records = append(l.records, r)
	if r.Kind == journal.Operator || r.Class != "" && r.Class != journal.Succeeded {
		l.calm = false
	}
	if r.Attempt == 0 && (r.Kind == journal.Intent || r.Kind == journal.Outcome) {
		l.waiting = r.Kind == journal.Intent
	}
}

// fold reduces the lanes to a maximum: the first and the last, and of the others those with
// failures, latest first. Folded lanes show how many lanes they stand for.
func fold(lanes []*lane, most int) []*lane {
	important := 0
	for _, l := range lanes {
		if !l.calm {
			important++
		}
	}
	most = min(most, max(fewLanes, important+calmLanes))
	if len(lanes) <= most {
		return lanes
	}
	keep := Kept(len(lanes), most, func(i int) bool { return !lanes[i].calm })
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

// Kept selects which of n items to show: a few at the beginning, more at the end, and in between
// the important ones, latest first.
func Kept(n, most int, important func(int) bool) []bool {
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
		if important(i) {
			mark(i)
		}
	}
	for i := n - 1; i >= 0 && left > 0; i-- {
		mark(i)
	}
	return keep
}

// bars builds a lane's bars from its records.
func (c *chart) bars(l *lane) {
	if l.folded > 0 {
		return
	}
	b := builder{lane: l, end: c.end}
	for _, r := range l.records {
		b.add(r)
	}
	for i := range l.bars {
		if l.bars[i].open {
			l.bars[i].to = c.end
		}
	}
	if n := len(l.bars); n > maxBars {
		cut := l.bars[maxBars/3 : n-maxBars*2/3]
		between := bar{stretch: stretch{cut[0].from, cut[len(cut)-1].to}, what: "wait", said: []string{format.Plural(len(cut), "more attempt or wait", "more attempts and waits")}}
		l.bars = slices.Concat(l.bars[:maxBars/3], []bar{between}, l.bars[n-maxBars*2/3:])
	}
	l.records = nil
}
