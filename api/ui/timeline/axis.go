package timeline

import (
	"cmp"
	"slices"
	"time"
)

// axis maps times to x positions. It is to scale with two exceptions: events at the same time are
// drawn next to each other, and long intervals without an attempt in flight are shortened.
type axis struct {
	steps []tick
}

// tick is a time at which something begins or ends, and the interval after it.
type tick struct {
	at   time.Time
	x    int
	wide int           // width until the next tick
	long time.Duration // duration until the next tick
	cut  bool          // drawn shortened
}

// axisOf makes the axis of a chart.
func axisOf(c *chart) *axis {
	times := []time.Time{c.begin, c.end}
	for _, list := range [][]*lane{c.do, c.undo} {
		for _, l := range list {
			for _, b := range l.bars {
				times = append(times, b.from, b.to)
			}
		}
	}
	for _, m := range c.moments {
		times = append(times, m.at)
	}
	slices.SortFunc(times, time.Time.Compare)
	times = slices.CompactFunc(times, time.Time.Equal)
	a := &axis{}
	for i, at := range times {
		s := tick{at: at}
		if i+1 < len(times) {
			s.long = times[i+1].Sub(at)
		}
		a.steps = append(a.steps, s)
	}
	a.place(c.busy)
	return a
}

// place sets the width of each interval.
func (a *axis) place(busy []stretch) {
	n := len(a.steps) - 1
	drawn := make([]time.Duration, n)
	var active time.Duration
	idle := make([]bool, n)
	reach, at := time.Time{}, 0
	for i := range n {
		s := a.steps[i]
		for ; at < len(busy) && !busy[at].from.After(s.at); at++ {
			if busy[at].to.After(reach) {
				reach = busy[at].to
			}
		}
		drawn[i], idle[i] = s.long, !reach.After(s.at)
		if !idle[i] {
			active += s.long
		}
	}
	for i := range n { // an idle interval gets at most a sixth of the width of all attempts
		if limit := active / 6; idle[i] && active > 0 && drawn[i] > 2*limit && drawn[i] > time.Second {
			drawn[i], a.steps[i].cut = limit, true
		}
	}
	const room = right - labels - 8
	least := min(barWide+2, room*2/5/max(n, 1))
	var total time.Duration
	for _, d := range drawn {
		total += d
	}
	x := labels + 4
	for i := range n {
		wide := least
		if total > 0 {
			wide += int(int64(drawn[i]/time.Microsecond) * int64(room-least*n) / max(int64(total/time.Microsecond), 1))
		}
		if a.steps[i].cut {
			wide = max(wide, 14)
		}
		a.steps[i].x, a.steps[i].wide = x, wide
		x += wide
	}
	a.steps[n].x = x
	if x > right { // the marks of shortened intervals need a minimum width
		for i := range a.steps {
			s := &a.steps[i]
			s.x = labels + 4 + (s.x-labels-4)*room/(x-labels-4)
		}
		for i := range n {
			a.steps[i].wide = a.steps[i+1].x - a.steps[i].x
		}
	}
}

// x returns the position of a time.
func (a *axis) x(at time.Time) int {
	i, found := slices.BinarySearchFunc(a.steps, at, func(s tick, at time.Time) int { return s.at.Compare(at) })
	switch {
	case found:
		return a.steps[i].x
	case i == 0:
		return a.steps[0].x
	}
	s := a.steps[i-1]
	return s.x + int(cmp.Or(int64(s.wide)*int64(at.Sub(s.at)/time.Microsecond)/max(int64(s.long/time.Microsecond), 1), 0))
}
