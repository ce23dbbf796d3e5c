// Package notify makes the events by which recourse reports on sagas: that one needs a person, has
// failed or was compensated, makes no progress, or has cost much more than usual. They are
// CloudEvents with a link to the web UI, for the sinks that subscribe to their kind. A new kind
// needs an entry in [Kinds], and an event in [Notices.Since].
//
// It is pure: [Notices.Since] compares a saga's state with the notices that were sent. The engine
// appends the events together with the records that cause them, and the outbox delivers them.
package notify

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/compensation"
	"recourse/internal/cloudevent"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/machine"
)

// Kinds of notices, in addition to the kinds of inbox entries.
const (
	Failed      = "failed"
	Compensated = "compensated"
	Stalled     = "stalled"      // a saga or a step makes no progress
	Outlier     = "cost_outlier" // a saga cost much more than earlier ones
	Lost        = "lost"         // a session has no process any longer, and waits for one
)

// Anchor is the kind of the events with anchors, see package evidence. They are for an archive, not
// for people, so they are not among Kinds: a sink gets them only if it names them.
const Anchor = "anchor"

// AnchorEvent is the type of these events.
const AnchorEvent = saga.OwnEvents + "evidence." + Anchor

// Kinds lists the kinds of notices that a sink may subscribe to.
var Kinds = append(slices.Clone(saga.InboxKinds), Failed, Compensated, Stalled, Outlier, Lost)

// outlier is the multiple of the median cost from which a saga counts as an outlier.
const outlier = 3

// Notices creates the events by which recourse reports on sagas. An event is appended together with
// the record that causes it. Its id is derived from the saga and the event's subject.
type Notices struct {
	To  map[string][]string // by kind: the names of the sinks to notify
	URL string              // of the page, without a slash at the end
	// Median returns the median cost of a definition's sagas; ok is false if it is not known yet.
	// It must not block. nil: it is never known.
	Median func(definition string) (median retry.Money, ok bool)
}

// Announced is the set of notices about a saga that were sent, or that were known before any sink
// existed. The zero value is the empty set.
type Announced struct {
	// items has those that need a person, or did: an item may be hidden for a while and then need a
	// person again.
	items map[string]bool
	ended bool
	lease int // of a session: the last one whose end was announced
}

// All returns the notices that a saga in its current state has caused.
func (n *Notices) All(m *machine.Machine) Announced {
	_, announced := n.Since(m, Announced{})
	return announced
}

// Since returns events for the notices that are not in announced, and the new set of notices.
func (n *Notices) Since(m *machine.Machine, announced Announced) ([]journal.Event, Announced) {
	var list []journal.Event
	now := Announced{ended: m.Ended(), lease: announced.lease}
	if entries := waiting(m); len(entries)+len(announced.items) > 0 {
		now.items = make(map[string]bool, len(entries)+len(announced.items))
		for about := range announced.items { // any order
			// An attempt that the budget does not cover is reported again.
			now.items[about] = !strings.HasPrefix(about, budgetOf)
		}
		for _, e := range entries {
			about := subjectOf(&e)
			now.items[about] = true
			if !announced.items[about] {
				d := newNotice(m, e.Kind, e.Path, e.Since, e.Title, e.Detail)
				list = n.add(list, m.ID(), e.ID.String(), "inbox."+e.Kind, d, "/inbox#"+e.ID.String(), m.At())
			}
		}
	}
	if lease, since, ok := m.Gone(); ok && lease > announced.lease {
		now.lease = lease
		d := newNotice(m, Lost, "", since, "No process of the agent is attached to the session", lostDetail(m.Definition().Session, since))
		list = n.add(list, m.ID(), strconv.Itoa(lease), "session."+Lost, d, "", m.At())
	}
	if now.ended && !announced.ended {
		list = append(list, n.ended(m)...)
	}
	return list, now
}

// lostDetail says what to do for a session without a process, and what follows otherwise.
func lostDetail(s *saga.Session, since time.Time) string {
	then := "then a person has to decide"
	if s.LostThen == saga.AbortSession {
		then = "then its calls are undone"
	}
	return "Start the agent again, which continues the session. It waits until " + since.Add(s.LostWait).UTC().Format(journal.TimeFormat) + "; " + then + "."
}

// ended returns the events for the end of a saga.
func (n *Notices) ended(m *machine.Machine) (list []journal.Event) {
	cost := m.Cost()
	switch status := m.Status(); status {
	case saga.Failed, saga.Compensated:
		kind, title := Failed, "The saga has failed: effects remain that were not undone"
		if status == saga.Compensated {
			kind, title = Compensated, "The saga did not reach its goal, and nothing of it is left"
		}
		d := newNotice(m, kind, "", m.At(), title, "")
		d.Reason, d.Cost, d.Residual = m.Reason(), &cost, m.Residual()
		if d.Reason != nil {
			d.Detail = d.Reason.Title
		}
		list = n.add(list, m.ID(), kind, "saga."+kind, d, "", m.At())
	}
	if doubts := m.Doubts(); len(doubts) > 0 {
		d := newNotice(m, saga.InboxInDoubt, "", m.At(), "The saga has ended with steps in doubt", "They may have happened: "+pathsOf(doubts)+".")
		d.Reason, d.Cost, d.Doubts = m.Reason(), &cost, doubts
		list = n.add(list, m.ID(), saga.InboxInDoubt, "saga."+saga.InboxInDoubt, d, "", m.At())
	}
	if spent, median, ok := n.median(m); ok {
		d := newNotice(m, Outlier, "", m.At(), "The saga has cost more than three times what is usual", "")
		d.Detail = "It has cost " + spent.String() + ", the median of " + d.Definition + " is " + median.String() + "."
		d.Cost = &cost
		list = n.add(list, m.ID(), Outlier, "saga."+Outlier, d, "", m.At())
	}
	return list
}

// maxPathsNamed is the most steps that a sentence names.
const maxPathsNamed = 5

// pathsOf names the steps of a list.
func pathsOf(list []compensation.Residue) string {
	paths := make([]string, 0, maxPathsNamed)
	for _, r := range list[:min(len(list), maxPathsNamed)] {
		paths = append(paths, r.Path)
	}
	text := strings.Join(paths, ", ")
	if more := len(list) - len(paths); more > 0 {
		text += " and " + strconv.Itoa(more) + " more"
	}
	return text
}

// median returns what the saga has cost without its children, and its definition's median, if that
// is far less.
func (n *Notices) median(m *machine.Machine) (spent, median retry.Money, far bool) {
	cost := m.Cost().Own()
	spent, err := retry.Total(cost.Spent, cost.Currency)
	if n.Median == nil || err != nil || spent.IsZero() {
		return spent, median, false
	}
	name, _ := m.DefinitionVersion()
	median, ok := n.Median(name)
	if !ok || median.IsZero() || median.Currency != cost.Currency {
		return spent, median, false
	}
	most := median
	for range outlier - 1 {
		most = most.Add(median)
	}
	return spent, median, spent.Cmp(most) > 0
}

// Stalled returns the events that report a stall, which was detected at the time at.
func (n *Notices) Stalled(s journal.Stall, at time.Time) []journal.Event {
	d := notice{Saga: s.Saga.String(), Definition: s.Definition, Version: saga.Version(s.Version), Labels: s.Labels, Path: s.Path, Since: saga.Time{Time: s.Since}, Detail: s.Why}
	if s.Kind == journal.StallQuarantined { // no append of the saga itself created its inbox entry
		d.Kind, d.Title = saga.InboxStuck, stallTitle(s.Kind)
		return n.add(nil, s.Saga, s.Entry.String(), "inbox."+saga.InboxStuck, d, "/inbox#"+s.Entry.String(), at)
	}
	d.Kind, d.Title, d.Reason = Stalled, stallTitle(s.Kind), &saga.Reason{Code: s.Kind, Step: s.Path, Title: stallTitle(s.Kind)}
	of := "saga."
	if s.Path != "" {
		of = "step."
	}
	return n.add(nil, s.Saga, s.ID.String(), of+Stalled, d, "", at)
}

// stallTitle names the stall in a few words.
func stallTitle(kind string) string {
	switch kind {
	case journal.StallUnclaimed:
		return "The saga is due, and no node takes it"
	case journal.StallNoProgress, journal.StallQuarantined:
		return "The saga makes no progress"
	case journal.StallNoWorker:
		return "The step waits for a worker"
	case journal.StallWorkerSilent:
		return "The step's worker stopped sending heartbeats"
	case journal.StallNoSlot, journal.StallNoLease:
		return "The step's request cannot leave"
	case journal.StallNoMemory:
		return "The step's response waits to be read"
	case journal.StallUnanswered:
		return "The step's request is not answered"
	}
	return "The saga was not moved by anything"
}

// waiting returns the inbox. It skips the search if the inbox must be empty.
func waiting(m *machine.Machine) []saga.Entry {
	if m.InboxRevision() == (machine.Revision{}) {
		return nil
	}
	return m.Inbox()
}

const budgetOf = "budget:"

// subjectOf identifies what the entry asks. The id of a budget entry changes with each record.
func subjectOf(e *saga.Entry) string {
	if e.Kind == saga.InboxBudget {
		return budgetOf + e.Path
	}
	return e.ID.String()
}

// notice is the data of a notice.
type notice struct {
	Saga       string                 `json:"saga"`
	Definition string                 `json:"definition"`
	Version    saga.Version           `json:"version"`
	Labels     map[string]string      `json:"labels,omitempty"`
	Path       string                 `json:"path,omitempty"`
	Kind       string                 `json:"kind"`
	Since      saga.Time              `json:"since"`
	Title      string                 `json:"title"`
	Detail     string                 `json:"detail,omitempty"`
	Reason     *saga.Reason           `json:"reason,omitempty"`
	Cost       *saga.CostView         `json:"cost,omitempty"`
	Residual   []compensation.Residue `json:"residual,omitempty"`
	Doubts     []compensation.Residue `json:"doubts,omitempty"`
	URL        string                 `json:"url"`
}

// newNotice returns a notice about a saga.
func newNotice(m *machine.Machine, kind, path string, since time.Time, title, detail string) notice {
	name, version := m.DefinitionVersion()
	return notice{Saga: m.ID().String(), Definition: name, Version: version, Labels: m.Labels(),
		Path: path, Kind: kind, Since: saga.Time{Time: since}, Title: title, Detail: detail}
}

// add appends the event of a notice for each sink that subscribes to its kind. about distinguishes
// the notices of the same saga and type.
func (n *Notices) add(list []journal.Event, subject uuid.UUID, about, eventType string, d notice, link string, at time.Time) []journal.Event {
	to := n.To[d.Kind]
	if len(to) == 0 {
		return list
	}
	if link == "" {
		link = "/sagas/" + d.Saga
	}
	d.URL = n.URL + link
	id := uuid.NewV5(subject, "notice:"+eventType+":"+about)
	event := cloudevent.Event{ID: id, Type: saga.OwnEvents + eventType, Definition: d.Definition, Saga: subject, At: at, Data: saga.Encode(d)}
	data := event.Encode()
	for _, sink := range to {
		list = append(list, journal.Event{ID: id, Saga: subject, Sink: sink, Data: data})
	}
	return list
}
