package machine

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/compensation"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// The kinds of notices, in addition to the kinds of inbox entries.
const (
	NoticeFailed      = "failed"
	NoticeCompensated = "compensated"
	NoticeStalled     = "stalled"      // a saga or a step makes no progress
	NoticeOutlier     = "cost_outlier" // a saga cost much more than earlier ones
)

// NoticeKinds lists the kinds of notices that a sink may subscribe to.
var NoticeKinds = []string{saga.InboxApproval, saga.InboxInDoubt, saga.InboxStuck, saga.InboxHeld, saga.InboxBudget, NoticeFailed, NoticeCompensated, NoticeStalled, NoticeOutlier}

// NoticeKind returns the kind of notice that an event type stands for, "" if it is not a notice.
func NoticeKind(eventType string) string {
	for _, of := range []string{"inbox.", "saga.", "step."} {
		if kind, ok := strings.CutPrefix(eventType, saga.OwnEvents+of); ok && slices.Contains(NoticeKinds, kind) {
			return kind
		}
	}
	return ""
}

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
	// The items in open need a person, or did: an item may be hidden for a while and then need a
	// person again.
	open  map[string]bool
	ended bool
}

// All returns the notices that a saga in its current state has caused.
func (n *Notices) All(m *Machine) Announced {
	_, told := n.Since(m, Announced{})
	return told
}

// Since returns events for the notices that are not in told, and the new set of notices.
func (n *Notices) Since(m *Machine, told Announced) ([]journal.Event, Announced) {
	var list []journal.Event
	now := Announced{ended: m.finished != nil}
	if entries := m.waiting(); len(entries)+len(told.open) > 0 {
		now.open = make(map[string]bool, len(entries)+len(told.open))
		for about := range told.open { // any order
			// An attempt that the budget does not cover is reported again.
			now.open[about] = !strings.HasPrefix(about, budgetOf)
		}
		for _, e := range entries {
			about := aboutEntry(&e)
			now.open[about] = true
			if !told.open[about] {
				d := m.notice(e.Kind, e.Path, e.Since, e.Title, e.Detail)
				list = n.add(list, m.id, e.ID.String(), "inbox."+e.Kind, d, "/inbox#"+e.ID.String(), m.at)
			}
		}
	}
	if now.ended && !told.ended {
		list = append(list, n.ended(m)...)
	}
	return list, now
}

// ended returns the events for the end of a saga.
func (n *Notices) ended(m *Machine) (list []journal.Event) {
	cost := m.Cost()
	switch m.finished.Status {
	case saga.Failed, saga.Compensated:
		kind, title := NoticeFailed, "The saga has failed: effects remain that were not undone"
		if m.finished.Status == saga.Compensated {
			kind, title = NoticeCompensated, "The saga did not reach its goal, and nothing of it is left"
		}
		d := m.notice(kind, "", m.at, title, "")
		d.Reason, d.Cost, d.Residual = m.reason, &cost, m.finished.Residual
		if m.reason != nil {
			d.Detail = m.reason.Title
		}
		list = n.add(list, m.id, kind, "saga."+kind, d, "", m.at)
	}
	if doubts := m.finished.Doubts; len(doubts) > 0 {
		d := m.notice(saga.InboxInDoubt, "", m.at, "The saga has ended with steps in doubt", "They may have happened: "+pathsOf(doubts)+".")
		d.Reason, d.Cost, d.Doubts = m.reason, &cost, doubts
		list = n.add(list, m.id, saga.InboxInDoubt, "saga."+saga.InboxInDoubt, d, "", m.at)
	}
	if median, ok := n.median(m); ok {
		d := m.notice(NoticeOutlier, "", m.at, "The saga has cost more than three times what is usual",
			"It has cost "+m.account.Spent.String()+", the median of "+m.started.Definition+" is "+median.String()+".")
		d.Cost = &cost
		list = n.add(list, m.id, NoticeOutlier, "saga."+NoticeOutlier, d, "", m.at)
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

// median returns the definition's median cost, if the saga cost far more.
func (n *Notices) median(m *Machine) (retry.Money, bool) {
	if n.Median == nil || m.account.Spent.IsZero() {
		return retry.Money{}, false
	}
	median, ok := n.Median(m.started.Definition)
	if !ok || median.IsZero() || median.Currency != m.currency() {
		return retry.Money{}, false
	}
	most := median
	for range outlier - 1 {
		most = most.Add(median)
	}
	return median, m.account.Spent.Cmp(most) > 0
}

// Stall returns a stall of the machine's saga, or of a step of it.
func (m *Machine) Stall(kind, path string, since time.Time, why string) journal.Stall {
	path, _ = saga.SplitQuery(path)
	since = since.UTC().Truncate(time.Millisecond)
	return journal.Stall{ID: journal.StallID(m.id, kind, path, since), Saga: m.id, Definition: m.started.Definition, Version: int(m.started.Version),
		Labels: m.labels, Kind: kind, Path: path, Since: since, Why: why}
}

// Stalled returns the events that report a stall, which was detected at the time at.
func (n *Notices) Stalled(s journal.Stall, at time.Time) []journal.Event {
	d := notice{Saga: s.Saga.String(), Definition: s.Definition, Version: saga.Version(s.Version), Labels: s.Labels, Path: s.Path, Since: saga.Time{Time: s.Since}, Detail: s.Why}
	if s.Kind == journal.StallQuarantined { // no append of the saga itself created its inbox entry
		d.Kind, d.Title = saga.InboxStuck, stallTitle(s.Kind)
		return n.add(nil, s.Saga, s.Entry.String(), "inbox."+saga.InboxStuck, d, "/inbox#"+s.Entry.String(), at)
	}
	d.Kind, d.Title, d.Reason = NoticeStalled, stallTitle(s.Kind), &saga.Reason{Code: s.Kind, Step: s.Path, Title: stallTitle(s.Kind)}
	of := "saga."
	if s.Path != "" {
		of = "step."
	}
	return n.add(nil, s.Saga, s.ID.String(), of+NoticeStalled, d, "", at)
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
		return "The step's answer waits to be read"
	case journal.StallUnanswered:
		return "The step's request is not answered"
	}
	return "The saga was not moved by anything"
}

// waiting returns the inbox. It skips the search if the inbox must be empty.
func (m *Machine) waiting() []saga.Entry {
	if m.InboxRevision() == 0 {
		return nil
	}
	return m.Inbox()
}

const budgetOf = "budget:"

// about identifies what the entry asks. The id of a budget entry changes with each record.
func aboutEntry(e *saga.Entry) string {
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

func (m *Machine) notice(kind, path string, since time.Time, title, detail string) notice {
	return notice{Saga: m.id.String(), Definition: m.started.Definition, Version: m.started.Version, Labels: m.labels,
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
	event := cloudEvent(id, saga.OwnEvents+eventType, d.Definition, subject, at, "", saga.Encode(d))
	for _, sink := range to {
		list = append(list, journal.Event{ID: id, Saga: subject, Sink: sink, Data: event})
	}
	return list
}

// cloudEvent encodes an event about a saga as a CloudEvent 1.0 in JSON. traceparent may be "".
func cloudEvent(id uuid.UUID, eventType, definition string, subject uuid.UUID, at time.Time, traceparent string, data json.RawMessage) json.RawMessage {
	return saga.Encode(struct {
		SpecVersion string          `json:"specversion"`
		ID          string          `json:"id"`
		Source      string          `json:"source"`
		Type        string          `json:"type"`
		Subject     string          `json:"subject"`
		Time        saga.Time       `json:"time"`
		ContentType string          `json:"datacontenttype"`
		Traceparent string          `json:"traceparent,omitempty"`
		Data        json.RawMessage `json:"data,omitempty"`
	}{"1.0", id.String(), "/recourse/" + definition, eventType, subject.String(), saga.Time{Time: at}, "application/json", traceparent, data})
}

// Traceparent returns the header that is sent with the request, with the attempt's span; "" if the
// saga's trace is not known.
func (s *Send) Traceparent() string {
	if s.Trace == nil {
		return ""
	}
	return s.Trace.At(s.Trace.Attempt(s.Path, s.Way, s.Generation, s.Attempt))
}
