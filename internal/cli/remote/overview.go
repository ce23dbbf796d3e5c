package remote

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/machine"
)

// Stats are counts over all sagas, as the API returns them.
type Stats struct {
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

// The statuses of live sagas, those that are not on their way to the goal first; and the terminal
// ones.
var (
	UrgentStatuses = []string{string(saga.Stuck), string(saga.Undoing)}
	UsualStatuses  = []string{string(saga.Running), string(saga.Waiting), string(saga.PausedStatus)}
	EndedStatuses  = []string{string(saga.Succeeded), string(saga.Compensated), string(saga.Failed)}
)

// overview is the content of `top`.
type overview struct {
	client  *Client
	stats   Stats
	oldest  map[string]time.Time // the oldest inbox entry, by kind
	sagas   []machine.View       // live sagas: UrgentStatuses, then the others, each the newest first
	steps   map[string]stepSeen  // by saga
	totals  []total              // totals of the last frames
	cost    []retry.Money        // today's costs, by currency
	priced  int                  // number of sagas in the sum
	more    bool                 // there are more sagas
	costAt  time.Time
	trouble string // why the data is outdated

	inboxCommand string // lists the stuck sagas
}

// total is a sample for rates.
type total struct {
	at             time.Time
	started, ended int64
}

// stepSeen is a saga's current step at a seq of its journal.
type stepSeen struct {
	seq  int64
	text string
}

const (
	rateOver   = 30 * time.Second // interval over which rates are averaged
	costEvery  = 30 * time.Second
	pricedMost = 1000 // maximum of sagas whose costs are read
	longSaga   = 4000 // steps of longer journals are not read
)

// read reads the data from the server, with this many sagas.
func (o *overview) read(rows int) error {
	if _, err := o.client.Get("/v1/stats", &o.stats); err != nil {
		return err
	}
	o.count(time.Now())
	if err := o.readInbox(); err != nil {
		return err
	}
	var list []machine.View
	for _, statuses := range [][]string{UrgentStatuses, UsualStatuses} {
		more, err := ReadAll[machine.View](o.client, "/v1/sagas", url.Values{"status": statuses}, max(rows-len(list), 1))
		if err != nil {
			return err
		}
		list = append(list, more...)
	}
	o.sagas = list[:min(len(list), rows)]
	if err := o.readSteps(); err != nil {
		return err
	}
	if time.Since(o.costAt) < costEvery {
		return nil
	}
	return o.readCost(time.Now())
}

// count adds a sample for rates.
func (o *overview) count(now time.Time) {
	t := total{at: now}
	for status, n := range o.stats.Sagas {
		t.started += n
		if slices.Contains(EndedStatuses, status) {
			t.ended += n
		}
	}
	o.totals = append(o.totals, t)
	o.totals = slices.DeleteFunc(o.totals, func(old total) bool { return now.Sub(old.at) > rateOver })
}

// readInbox reads the oldest entry of each kind.
func (o *overview) readInbox() error {
	o.oldest = make(map[string]time.Time)
	for kind, n := range o.stats.Inbox {
		if n == 0 {
			continue
		}
		list, err := ReadAll[InboxEntry](o.client, "/v1/inbox", url.Values{"kind": {kind}}, 1)
		if err != nil {
			return err
		}
		if len(list) > 0 {
			o.oldest[kind] = list[0].Since.Time
		}
	}
	return nil
}

// readSteps reads the current steps of the sagas that have changed.
func (o *overview) readSteps() error {
	seen := make(map[string]stepSeen, len(o.sagas))
	for _, v := range o.sagas {
		s, ok := o.steps[v.ID]
		if (!ok || s.seq != v.Seq) && v.Seq < longSaga {
			var list Page[machine.StepView]
			_, err := o.client.Get(SagaPath(v.ID, "steps"), &list)
			if err != nil && cli.ExitCode(err) != cli.NotFound { // deleted concurrently
				return err
			}
			s = stepSeen{v.Seq, standsAt(list.Data)}
		}
		seen[v.ID] = s
	}
	o.steps = seen
	return nil
}

// blocks are the kinds of steps with nested steps.
var blocks = []string{"switch", "parallel", "foreach", "repeat"}

// standsAt returns a saga's current step, with the number of others in flight, or else the next
// step.
func standsAt(list []machine.StepView) string {
	text, next, others := "", "", 0
	for _, s := range list {
		m := view.Marks[s.Status]
		if slices.Contains(blocks, s.Kind) {
			continue
		}
		if s.Status == machine.Pending && next == "" {
			next = m.Text + " " + s.Path
		}
		if !m.Moves {
			continue
		}
		if text == "" {
			text = m.Text + " " + s.Path
		} else {
			others++
		}
	}
	switch {
	case others > 0:
		text += " +" + strconv.Itoa(others)
	case text == "": // for example, the budget stops the next step
		text = next
	}
	return text
}

// readCost sums the costs of the sagas that were started today, by this machine's calendar.
func (o *overview) readCost(now time.Time) error {
	midnight := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	list, err := ReadAll[machine.View](o.client, "/v1/sagas", url.Values{"started_after": {midnight.UTC().Format(time.RFC3339Nano)}}, pricedMost)
	if err != nil {
		return err
	}
	o.cost, o.priced, o.more, o.costAt = nil, len(list), len(list) == pricedMost, now
	for _, v := range list {
		own := v.Cost.Own() // child sagas are in the list, too
		m, err := retry.Total(own.Spent, own.Currency)
		if err != nil {
			return errors.Join(errors.New("the server's response cannot be read"), err)
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
