package main

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"recourse/retry"
	"recourse/saga"
)

// serverStats are counts over all sagas, as the API shows them.
type serverStats struct {
	Sagas       map[string]int64 `json:"sagas"` // by status
	Inbox       map[string]int64 `json:"inbox"` // by kind
	OldestDue   *saga.Time       `json:"oldest_due_at"`
	Quarantined int64            `json:"quarantined"`
	Nodes       []struct {
		Node  string     `json:"node"`
		Until *saga.Time `json:"lease_until"`
		Sagas int64      `json:"sagas"`
	} `json:"nodes"`
}

// The statuses of sagas that have not ended, those that need somebody first; and of those that
// have.
var (
	urgent = []string{string(saga.Stuck), string(saga.Undoing)}
	usual  = []string{string(saga.Running), string(saga.Waiting), string(saga.PausedStatus)}
	over   = []string{string(saga.Succeeded), string(saga.Compensated), string(saga.Failed)}
)

// overview is what `top` shows of a server.
type overview struct {
	client  *client
	stats   serverStats
	oldest  map[string]time.Time // the oldest inbox entry, by kind
	sagas   []saga.View          // in progress, those that need somebody first, then the newest
	steps   map[string]stepSeen  // by saga
	totals  []total              // of the last frames
	cost    []retry.Money        // of today, by currency
	priced  int                  // sagas that it is of
	more    bool                 // and there are more
	costAt  time.Time
	trouble string // why this is not how it stands now
}

// total is what rates are made of.
type total struct {
	at             time.Time
	started, ended int64
}

// stepSeen is what a saga stood at, as of a seq of its journal.
type stepSeen struct {
	seq  int64
	text string
}

const (
	rateOver   = 30 * time.Second // what rates are the mean of
	costEvery  = 30 * time.Second
	pricedMost = 1000 // sagas that are asked for their cost
	longSaga   = 4000 // a journal with so many records is not asked for its steps
)

// look asks the server, for so many sagas.
func (o *overview) look(rows int) error {
	if _, err := o.client.get("/v1/stats", &o.stats); err != nil {
		return err
	}
	o.count(time.Now())
	if err := o.lookInbox(); err != nil {
		return err
	}
	var list []saga.View
	for _, statuses := range [][]string{urgent, usual} {
		more, err := pages[saga.View](o.client, "/v1/sagas", url.Values{"status": statuses}, max(rows-len(list), 1))
		if err != nil {
			return err
		}
		list = append(list, more...)
	}
	o.sagas = list[:min(len(list), rows)]
	if err := o.lookSteps(); err != nil {
		return err
	}
	if time.Since(o.costAt) < costEvery {
		return nil
	}
	return o.lookCost(time.Now())
}

// count keeps the totals that rates are made of.
func (o *overview) count(now time.Time) {
	t := total{at: now}
	for status, n := range o.stats.Sagas {
		t.started += n
		if slices.Contains(over, status) {
			t.ended += n
		}
	}
	o.totals = append(o.totals, t)
	o.totals = slices.DeleteFunc(o.totals, func(old total) bool { return now.Sub(old.at) > rateOver })
}

// lookInbox finds the oldest entry of each kind.
func (o *overview) lookInbox() error {
	o.oldest = make(map[string]time.Time)
	for kind, n := range o.stats.Inbox {
		if n == 0 {
			continue
		}
		list, err := pages[inboxEntry](o.client, "/v1/inbox", url.Values{"kind": {kind}}, 1)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			o.oldest[kind] = list[0].Since.Time
		}
	}
	return nil
}

// lookSteps finds what the sagas stand at that have gone on since.
func (o *overview) lookSteps() error {
	seen := make(map[string]stepSeen, len(o.sagas))
	for _, v := range o.sagas {
		s, ok := o.steps[v.ID]
		if (!ok || s.seq != v.Seq) && v.Seq < longSaga {
			var list page[saga.StepView]
			_, err := o.client.get(sagaPath(v.ID, "steps"), &list)
			if err != nil && codeOf(err) != exitNotFound { // deleted meanwhile
				return err
			}
			s = stepSeen{v.Seq, standsAt(list.Data)}
		}
		seen[v.ID] = s
	}
	o.steps = seen
	return nil
}

// blocks are the kinds of steps that have steps of their own.
var blocks = []string{"switch", "parallel", "foreach", "repeat"}

// standsAt names the step that a saga stands at, with how many others are under way beside it; or
// else the next one.
func standsAt(list []saga.StepView) string {
	text, next, others := "", "", 0
	for _, s := range list {
		m := marks[s.Status]
		if slices.Contains(blocks, s.Kind) {
			continue
		}
		if s.Status == saga.Pending && next == "" {
			next = m.text + " " + s.Path
		}
		if !m.moves {
			continue
		}
		if text == "" {
			text = m.text + " " + s.Path
		} else {
			others++
		}
	}
	switch {
	case others > 0:
		text += " +" + strconv.Itoa(others)
	case text == "": // a budget, for one, keeps it from its next step
		text = next
	}
	return text
}

// lookCost sums what the sagas have cost that were started today, by this machine's calendar.
func (o *overview) lookCost(now time.Time) error {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	list, err := pages[saga.View](o.client, "/v1/sagas", url.Values{"started_after": {midnight.UTC().Format(time.RFC3339Nano)}}, pricedMost)
	if err != nil {
		return err
	}
	o.cost, o.priced, o.more, o.costAt = nil, len(list), len(list) == pricedMost, now
	for _, v := range list {
		m, err := retry.Total(v.Cost.Spent, v.Cost.Currency)
		if err != nil {
			return errors.Join(errors.New("the server's answer cannot be read"), err)
		}
		if m.IsZero() {
			continue
		}
		i := slices.IndexFunc(o.cost, func(c retry.Money) bool { return c.Currency == m.Currency })
		if i < 0 {
			o.cost = append(o.cost, m)
		} else {
			o.cost[i] = o.cost[i].Add(m)
		}
	}
	return nil
}
