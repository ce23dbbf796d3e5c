package trigger

import (
	"context"
	"errors"
	"slices"
	"time"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
)

const (
	// tick is the interval between checks for due times.
	tick = time.Second
	// published is how old the list of definitions may be from which schedules are taken. No firing
	// is lost by that, because a schedule begins when it was published.
	published = 10 * time.Second
	// late is how late a firing may be without counting as catching up.
	late = time.Minute
	// MaxCatchUp limits the firings of `catch_up: all`. If there are more, the first ones and the
	// last one fire.
	MaxCatchUp = 100
)

// Cron fires the cron triggers of all definitions. Several nodes may run it: each firing starts one
// saga.
type Cron struct {
	starter *Starter
	next    map[string]time.Time // by schedule: the time of the next firing; zero: never
	left    map[string]int       // by name: the version of a definition that was reported as not usable
	ailing  bool
}

// NewCron returns a Cron that does nothing until Run.
func NewCron(s *Starter) *Cron { return &Cron{starter: s} }

// Run fires triggers until ctx is done.
func (c *Cron) Run(ctx context.Context) {
	every := time.NewTicker(tick)
	defer every.Stop()
	for {
		err := c.fire(ctx)
		if ctx.Err() != nil {
			return
		}
		c.logOutage(err)
		select {
		case <-ctx.Done():
			return
		case <-every.C:
		}
	}
}

// logOutage logs the beginning and the end of an outage.
func (c *Cron) logOutage(err error) {
	switch {
	case err != nil && !c.ailing:
		c.starter.log.Warn("could not look for triggers whose time has come, or start their sagas; it is tried again each second", "error", err)
	case err == nil && c.ailing:
		c.starter.log.Info("triggers fire again")
	}
	c.ailing = err != nil
}

// schedule is one cron trigger of a definition.
type schedule struct {
	catalog.Triggered
	trigger *saga.Trigger
	index   int
	// The name in Schedules stays the same if triggers are inserted before this one, and changes if
	// its times do.
	name string
}

func schedules(list []catalog.Triggered) []schedule {
	var all []schedule
	names := make(ordinals)
	for _, t := range list {
		for i, one := range t.Definition.Triggers {
			if one.Cron == nil {
				continue
			}
			name := names.name(t.Definition.Name + "/" + one.Cron.Zone.String() + " " + one.Cron.Spec)
			all = append(all, schedule{t, one, i, name})
		}
	}
	return all
}

// fire fires everything that is due. Of several errors it returns one. What failed stays due.
func (c *Cron) fire(ctx context.Context) error {
	now := c.starter.cfg.Engine.Now()
	list, not, err := c.starter.cfg.Catalog.Triggered(ctx, published)
	if err != nil {
		return err
	}
	c.leaves(not)
	all := schedules(list)
	due := make([]schedule, 0, len(all))
	next := make(map[string]time.Time, len(all))
	for _, s := range all {
		at, known := c.next[s.name]
		if !known {
			at = s.Published // its state in Schedules comes first
		}
		if next[s.name] = at; !at.IsZero() && !at.After(now) {
			due = append(due, s)
		}
	}
	c.next = next // without schedules that no longer exist
	if len(due) == 0 {
		return nil
	}
	fired, err := c.starter.cfg.Store.Fired(ctx) // other nodes fire, too
	if err != nil {
		return err
	}
	for _, s := range due {
		from, e := c.begun(ctx, s, fired[s.name])
		if e == nil {
			e = c.catchUp(ctx, s, span{from, fired[s.name], fired[s.name+cutShort], now})
		}
		switch {
		case errors.Is(e, journal.ErrNotNewest): // the next read returns the valid version
			c.starter.cfg.Catalog.Changed()
			continue
		case e != nil:
			err = e
			continue // its time stays due
		}
		c.next[s.name] = s.trigger.Cron.Next(now)
	}
	return err
}

// leaves reports the definitions whose times this program leaves to the newer program that has
// published them, each version once.
func (c *Cron) leaves(list []catalog.Unusable) {
	left := make(map[string]int, len(list))
	for _, u := range list {
		if left[u.Name] = u.Version; u.Cron && c.left[u.Name] != u.Version {
			c.starter.log.Warn("the times of a definition start no sagas on this node, because its release cannot read the definition: run the release that has published it",
				"definition", u.Name, "version", u.Version, "error", u.Err)
		}
	}
	c.left = left
}

// begun returns the time after which a schedule fires: when it last fired, or later, when it was
// published. It was published with the first of the consecutive versions that have it.
func (c *Cron) begun(ctx context.Context, s schedule, fired time.Time) (time.Time, error) {
	first := s.Triggered
	for first.Version > 1 && first.Published.After(fired) {
		before, err := c.starter.cfg.Catalog.Before(ctx, first)
		if err != nil && !errors.Is(err, saga.ErrUnusable) {
			return time.Time{}, err
		}
		if err != nil || !slices.ContainsFunc(schedules([]catalog.Triggered{before}), func(o schedule) bool { return o.name == s.name }) {
			break
		}
		first = before
	}
	if fired.After(first.Published) {
		return fired, nil
	}
	return first.Published, nil
}

// cutShort follows the name of a schedule in Schedules: when the last catch-up began that did not
// fire for each time. Without it, one that is interrupted would begin to count once more. No
// schedule has such a name.
const cutShort = " cut short"

// span is the time that a schedule catches up with.
type span struct {
	from  time.Time // the schedule fires after it
	fired time.Time // when the schedule last fired; zero: never
	cut   time.Time // when its last catch-up began that did not fire for each time; zero: never
	now   time.Time
}

// times returns the times of a schedule to fire, the oldest first. cut reports that there were too
// many for each to fire. If it was interrupted, the times are what is left of it.
func (sp span) times(c *saga.Cron) (list []time.Time, cut bool) {
	// A schedule that begins with a version has nothing to do with an earlier catch-up.
	if c.CatchUp == saga.CatchAll && !sp.cut.IsZero() && sp.from.Equal(sp.fired) {
		whole := times(c, sp.cut, sp.now)
		if len(whole) > MaxCatchUp && !sp.from.After(whole[MaxCatchUp-1]) {
			return slices.DeleteFunc(whole, func(at time.Time) bool { return !at.After(sp.from) }), false
		}
	}
	list = times(c, sp.from, sp.now)
	return list, len(list) > MaxCatchUp
}

// catchUp fires a schedule's times in a span.
func (c *Cron) catchUp(ctx context.Context, s schedule, sp span) error {
	list, cut := sp.times(s.trigger.Cron)
	if cut {
		if err := c.starter.cfg.Store.SetFired(ctx, s.name+cutShort, sp.from); err != nil {
			return err
		}
	}
	for _, at := range list {
		// The name of the schedule, not its index: the start may have been made by an earlier
		// version, by a node that died before it noted the firing.
		key := "cron:" + s.name + ":" + at.Format(time.RFC3339)
		id, findings, err := c.starter.start(ctx, s.Triggered, s.trigger, &saga.Event{Time: at.Format(time.RFC3339)}, key, "cron")
		if err != nil {
			return err
		}
		if len(findings) > 0 {
			c.starter.log.Warn("a trigger could not start its saga", "definition", s.Definition.Name, "trigger", s.index, "time", at, "why", findings[0].Code+": "+findings[0].Detail)
		} else {
			c.starter.log.Debug("a trigger fired", "definition", s.Definition.Name, "trigger", s.index, "time", at, "saga", id)
		}
		if err := c.starter.cfg.Store.SetFired(ctx, s.name, at); err != nil {
			return err
		}
	}
	return nil
}

// times returns the times of a schedule to fire after from, up to now, the oldest first.
func times(c *saga.Cron, from, now time.Time) []time.Time {
	recent := now.Add(-late)
	if c.CatchUp == saga.CatchNone && from.Before(recent) {
		from = recent
	}
	var list []time.Time
	at := c.Next(from)
	for !at.IsZero() && !at.After(now) && len(list) <= MaxCatchUp {
		list = append(list, at)
		at = c.Next(at)
	}
	if len(list) == 0 || c.CatchUp != saga.CatchLast && len(list) <= MaxCatchUp {
		return list
	}
	last := lastTime(c, list[len(list)-1], now)
	if c.CatchUp == saga.CatchLast {
		return []time.Time{last}
	}
	return append(list[:MaxCatchUp], last)
}

// lastTime returns the last time up to now of a schedule that has one at or after least. It
// searches backwards in growing intervals, because there may have been millions of times.
func lastTime(c *saga.Cron, least, now time.Time) time.Time {
	last := least
	for back := time.Hour; ; back *= 4 {
		from := now.Add(-back)
		if from.Before(least) {
			from = least
		}
		found := false
		for at := c.Next(from); !at.IsZero() && !at.After(now); at = c.Next(at) {
			last, found = at, true
		}
		if found || !from.After(least) {
			return last
		}
	}
}
