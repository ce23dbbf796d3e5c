package ui

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"recourse/api/rest"
	"recourse/api/ui/costs"
	"recourse/api/ui/format"
	"recourse/saga"
)

// systemView is the page of the system.
type systemView struct {
	stats
	System   system
	Statuses []statusAge
	Live     []counted // by definition, highest first
	Asks     []counted // inbox entries by kind
	Stalled  []stalled
	Watched  bool // the list of stalls is available
	Alerts   []alert
}

// stats is the response of GET /v1/stats.
type stats struct {
	Sagas       map[string]int64     `json:"sagas"`
	Live        map[string]int64     `json:"live"`
	Inbox       map[string]int64     `json:"inbox"`
	OldestInbox *saga.Time           `json:"oldest_inbox_at"`
	OldestDue   *saga.Time           `json:"oldest_due_at"`
	Oldest      map[string]saga.Time `json:"oldest_at"`
	Quarantined int64                `json:"quarantined"`
	CountedAt   saga.Time            `json:"counted_at"`
	Nodes       []struct {
		Node  string     `json:"node"`
		Until *saga.Time `json:"lease_until"`
		Sagas int64      `json:"sagas"`
	} `json:"nodes"`
}

// system is the response of GET /v1/system.
type system struct {
	Version string    `json:"version"`
	Now     saga.Time `json:"now"`
	Engine  *struct {
		Node           string `json:"node"`
		Lanes          int    `json:"lanes"`
		Running        int    `json:"sagas_in_memory"`
		Calls          int    `json:"requests_in_flight"`
		RequestsSent   int64  `json:"requests_sent"`
		Commits        int64  `json:"commits"`
		Appends        int64  `json:"appends"`
		CommitAverage  int64  `json:"commit_average_us"`
		CommitAge      int64  `json:"commit_age_ms"`
		CommitsFailed  int64  `json:"commits_failed"`
		RenewalsFailed int64  `json:"lease_renewals_failed"`
		Stalest        int64  `json:"longest_idle_ms"`
		Stalled        int64  `json:"stalled"`
		Expired        int64  `json:"expired"`
	} `json:"engine"`
	Tasks []struct {
		Type    string     `json:"type"`
		Waiting int        `json:"waiting"`
		Claimed int        `json:"claimed"`
		Oldest  *saga.Time `json:"oldest_at"`
	} `json:"tasks"`
	Outbox []struct {
		Sink      string     `json:"sink"`
		Waiting   int        `json:"waiting"`
		Oldest    *saga.Time `json:"oldest_at"`
		Why       string     `json:"last_failure"`
		Delivered int64      `json:"delivered"`
		Failed    int64      `json:"failed"`
		Dropped   int64      `json:"dropped"`
	} `json:"outbox"`
}

// statusAge is the number of sagas with a status, and the time since which the oldest has had it.
type statusAge struct {
	Status saga.Status
	Count  int64
	Since  *saga.Time
}

type counted struct {
	Name  string
	Count int64
}

// stalled is a saga or a step that should have made progress.
type stalled struct {
	Saga       string    `json:"saga"`
	Definition string    `json:"definition"`
	Path       string    `json:"path"`
	Since      saga.Time `json:"since"`
	Why        string    `json:"why"`
}

// alert is a warning for operators, with a link.
type alert struct{ Text, To string }

// showSystem serves GET /system.
func showSystem(v *request) error {
	var page systemView
	if _, err := v.api.Get("/v1/stats", &page.stats); err != nil {
		return err
	}
	if _, err := v.api.Get("/v1/system", &page.System); err != nil {
		return err
	}
	var list struct {
		Data []stalled `json:"data"`
	}
	_, err := v.api.Get("/v1/stalled", &list)
	var p *rest.Problem
	switch {
	case err == nil:
		page.Stalled, page.Watched = list.Data, true
	case !errors.As(err, &p) || p.Status != http.StatusNotFound:
		return err
	}
	for _, s := range order {
		st := statusAge{Status: s, Count: page.Sagas[string(s)]}
		if at, ok := page.Oldest[string(s)]; ok {
			st.Since = &at
		}
		page.Statuses = append(page.Statuses, st)
	}
	page.Live, page.Asks = counts(page.stats.Live), counts(page.Inbox)
	page.Alerts = page.alerts()
	return v.render("system", "System", page)
}

// counts returns the counts, highest first.
func counts(m map[string]int64) (list []counted) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, counted{name, m[name]})
	}
	slices.SortStableFunc(list, func(a, b counted) int { return cmp.Compare(b.Count, a.Count) })
	return list
}

// Waits from which the page shows an alert.
const (
	dueTooLong    = 30 * time.Second
	taskTooLong   = 5 * time.Minute
	eventTooLong  = 5 * time.Minute
	commitTooLong = 5 * time.Second

	countedLately = 10 * time.Second
)

// alerts derives alerts from the numbers.
func (s *systemView) alerts() (list []alert) {
	say := func(to, format string, args ...any) { list = append(list, alert{fmt.Sprintf(format, args...), to}) }
	since := func(at *saga.Time) time.Duration {
		if at == nil {
			return 0
		}
		return s.System.Now.Sub(at.Time)
	}
	if n := s.Quarantined; n > 0 {
		say("/?status=stuck", "%s no progress repeatedly, and %s not retried until somebody resumes %s",
			format.Plural(int(n), "saga made", "sagas made"), wordFor(n, "is", "are"), wordFor(n, "it", "them"))
	}
	if d := since(s.OldestDue); d > dueTooLong {
		say("", "a due saga has waited %s for a node: check that nodes run and can commit", format.Took(d))
	}
	if n := len(s.Stalled); n > 0 {
		say("#stalled", "%s stalled", format.Plural(n, "saga or step has", "sagas or steps have"))
	}
	if e := s.System.Engine; e != nil {
		if e.Node == "" {
			say("", "this node has no lease: it runs no saga until the database responds")
		}
		if d := time.Duration(e.CommitAge) * time.Millisecond; d > commitTooLong {
			say("", "a commit has been in flight for %s: check whether the database is slow or full", format.Took(d))
		}
	}
	for _, n := range s.Nodes {
		if n.Until != nil && n.Until.Before(s.System.Now.Time) {
			say("#nodes", "the lease of node %s has expired: another node will take over its sagas", n.Node)
		}
	}
	for _, t := range s.System.Tasks {
		if d := since(t.Oldest); d > taskTooLong {
			say("#tasks", "a task of type %s has waited %s: check that a worker runs", t.Type, format.Took(d))
		}
	}
	for _, o := range s.System.Outbox {
		if d := since(o.Oldest); d > eventTooLong || o.Why != "" {
			say("#outbox", "%s for the sink %s: check whether it responds", format.Plural(o.Waiting, "event waits", "events wait"), o.Sink)
		}
	}
	return list
}

// wordFor returns the singular or the plural.
func wordFor(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

// Commit returns the average duration of a commit; "" if there was none.
func (s systemView) Commit() string {
	if s.System.Engine == nil || s.System.Engine.Commits == 0 {
		return ""
	}
	us := s.System.Engine.CommitAverage
	if us < 10_000 {
		return fmt.Sprintf("%d.%d ms", us/1000, us%1000/100)
	}
	return format.Took(time.Duration(us) * time.Microsecond)
}

// Counted returns when the sagas were counted, if that is some time ago; otherwise nil.
func (s systemView) Counted() *saga.Time {
	if s.CountedAt.IsZero() || s.System.Now.Sub(s.CountedAt.Time) < countedLately {
		return nil
	}
	return &s.CountedAt
}

// Shared returns the average number of appends per commit.
func (s systemView) Shared() string {
	e := s.System.Engine
	return costs.Ratio(fmt.Sprint(e.Appends), fmt.Sprint(e.Commits)).FloatString(1) + " appends"
}
