package dsl

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"recourse/saga"
)

// MaxTriggers is the most triggers that a definition may have.
const MaxTriggers = 100

var (
	eventPattern = regexp.MustCompile(`^[^\s*]*[^\s*.](\.\*)?$`)
	cronFields   = cron.MustNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)
)

// TriggersOf returns what starts sagas of a definition that this program cannot compile, because a
// newer one has published it: the patterns of events, and whether times do. It ignores everything
// that it does not know.
func TriggersOf(src []byte) (events []string, cron bool) {
	p := newParser("", src, Options{})
	p.compile(func(root *Node) {
		list := root.Get("triggers")
		if list == nil {
			return
		}
		for _, t := range list.Items {
			if event := t.Get("event"); event != nil {
				events = append(events, event.Text())
			}
			cron = cron || t.Get("cron") != nil
		}
	})
	return events, cron
}

// triggers reads the events and times that start sagas of the definition.
func (p *parser) triggers(n *Node) []*saga.Trigger {
	if n.Form != List || len(n.Items) == 0 {
		p.expect(n, "a list of triggers, such as [{event: com.shop.order.paid}]")
		return nil
	}
	if len(n.Items) > MaxTriggers {
		p.fail(n, "too_many_triggers", fmt.Sprintf("a definition has at most %d triggers", MaxTriggers))
		return nil
	}
	list := make([]*saga.Trigger, 0, len(n.Items))
	for _, item := range n.Items {
		if item.Form != Map {
			p.expect(item, "a trigger: a map with event or cron")
			continue
		}
		list = append(list, p.trigger(item))
	}
	return list
}

func (p *parser) trigger(n *Node) *saga.Trigger {
	t := &saga.Trigger{}
	s := &scope{ids: map[string]bool{}, event: saga.EventFields}
	event, cron := n.Get("event"), n.Get("cron")
	switch {
	case event != nil && cron != nil:
		p.fail(n, "two_triggers", "a trigger has either event or cron: write two triggers")
		return t
	case event != nil:
		p.known(n, "a trigger by events", []string{"event", "if", "input"})
		t.Event = p.pattern(event)
	case cron != nil:
		p.known(n, "a trigger by the clock", []string{"cron", "timezone", "catch_up", "if", "input"})
		t.Cron = p.cron(n, cron)
		s.event = []string{"time"}
	default:
		p.known(n, "a trigger", []string{"event", "cron", "timezone", "catch_up", "if", "input"})
		p.fail(n, "missing_key", "a trigger needs event, the type of the events that start a saga, or cron, the times at which one starts")
		return t
	}
	if v := n.Get("if"); v != nil {
		t.If = p.condition(v, s, onEvent)
		s.assume(t.If, true)
	}
	v := n.Get("input")
	if v != nil {
		t.Input = p.template(v, s, onEvent)
	}
	if v != nil || cron != nil { // without a mapping the event's data is the input, and its type is unknown here
		p.starts("the saga's input", p.def.Input, cmp.Or(v, cron), v, t.Input)
	}
	return t
}

func (p *parser) pattern(n *Node) string {
	text, ok := p.str(n, "an event's type, such as com.shop.order.paid, or the beginning of some, such as com.shop.*")
	if ok && (!eventPattern.MatchString(text) || len(text) > 255) {
		p.fail(n, "bad_event", "a trigger names an event's type, such as com.shop.order.paid, or the beginning of some and .*, such as com.shop.*")
	}
	return text
}

// cron reads the keys of a schedule. Time zones are those of the machine's or the program's own
// database.
func (p *parser) cron(n, spec *Node) *saga.Cron {
	zone, catchUp := time.UTC, saga.CatchLast
	if v := n.Get("timezone"); v != nil {
		zone = p.zone(v)
	}
	if v := n.Get("catch_up"); v != nil {
		word, _ := p.oneOf(v, "last", "all", "none")
		catchUp = saga.CatchUp(word)
	}
	text, ok := p.str(spec, "when, such as 0 9 * * 1-5")
	if !ok {
		return nil
	}
	schedule, err := readCron(text, zone)
	if err != nil {
		p.fail(spec, "bad_cron", err.Error())
		return nil
	}
	return saga.NewCron(text, zone, catchUp, schedule)
}

const cronHelp = "write five fields, minute hour day month weekday, such as 0 9 * * 1-5, or @hourly, @daily, @weekly, @monthly or @yearly"

func readCron(text string, zone *time.Location) (saga.Schedule, error) {
	if strings.Contains(text, "=") {
		return nil, fmt.Errorf("the time zone stands in a key of its own, timezone: %s", cronHelp)
	}
	schedule, err := cronFields.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", strings.TrimSuffix(err.Error(), ": "+text), cronHelp)
	}
	fixed, ok := schedule.(*cron.SpecSchedule)
	if !ok { // @every: its interval would restart with each start of the server
		return nil, fmt.Errorf("%s is not known here: %s", clip(text, 40), cronHelp)
	}
	s := wallClock{*fixed, zone}
	if s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, zone)).IsZero() {
		return nil, fmt.Errorf("%s never comes: there is no such day", clip(text, 40))
	}
	return s, nil
}

// wallClock applies a schedule to each period in which the zone's offset stays the same: times that
// a clock change skips do not exist, and those that it repeats come twice. The library itself fires
// once after a gap, as ISC cron does, and loses its way if the gap is at midnight or is no whole
// hour.
type wallClock struct {
	fields cron.SpecSchedule
	zone   *time.Location
}

// horizon is how many years after t a time is looked for, as in the library: 29 February comes, 30
// February does not.
const horizon = 5

// Next returns the first time after t, or the zero time if there is none.
func (s wallClock) Next(t time.Time) time.Time {
	last := t.AddDate(horizon, 0, 0)
	for after := t; !after.After(last); {
		first := after.Add(1).In(s.zone)
		_, offset := first.Zone()
		_, end := first.ZoneBounds()
		period := s.fields
		period.Location = time.FixedZone("", offset)
		next := period.Next(after)
		if next.IsZero() || end.IsZero() || next.Before(end) {
			return next
		}
		after = end.Add(-1) // the next period includes its beginning
	}
	return time.Time{}
}

func (p *parser) zone(n *Node) *time.Location {
	name, ok := p.str(n, "a time zone, such as Europe/Berlin")
	if !ok {
		return time.UTC
	}
	zone, err := time.LoadLocation(name)
	if err != nil || name == "" || name == "Local" {
		p.fail(n, "unknown_timezone", fmt.Sprintf("there is no time zone %q: write a name of the IANA database, such as Europe/Berlin, or leave the key out for UTC", clip(name, 60)))
		return time.UTC
	}
	return zone
}
