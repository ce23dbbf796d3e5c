package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"recourse/internal/costs/tally"
	"recourse/saga"
)

type listCmd struct {
	serverFlags
	outputFlag
	Definition string   `short:"d" completion-predictor:"definition" placeholder:"NAME" help:"Only entries of this definition."`
	Status     string   `short:"s" completion-predictor:"status" placeholder:"STATUS" help:"Only this status, or several, separated by commas."`
	Label      []string `short:"l" sep:"none" placeholder:"K=V" help:"Only sagas with this label; repeatable."`
	Query      string   `short:"q" placeholder:"TEXT" help:"Text to search for in the beginning of the id, the definition, labels, reason, input and output."`
	After      string   `placeholder:"TIME" help:"Only sagas started after this time, or in the last 24h or 7d."`
	Before     string   `placeholder:"TIME" help:"Only sagas started before this time, or more than 24h or 7d ago."`
	Limit      int      `default:"50" help:"Maximum to list, newest first; 0 for all."`
}

// Run lists sagas.
func (c *listCmd) Run(a *app) error {
	cl, err := c.client(a.ctx)
	if err != nil {
		return err
	}
	q := url.Values{}
	for name, value := range map[string]string{"definition": c.Definition, "status": c.Status, "q": c.Query} {
		if value != "" {
			q.Set(name, value)
		}
	}
	for _, bound := range []struct{ flag, text, name string }{{"--after", c.After, "started_after"}, {"--before", c.Before, "started_before"}} {
		at, err := instant(bound.flag, bound.text)
		if err != nil {
			return err
		}
		if !at.IsZero() {
			q.Set(bound.name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	labels, err := pairs("--label", c.Label)
	if err != nil {
		return err
	}
	for k, v := range labels {
		q.Set("label."+k, v)
	}
	list, back, err := search[json.RawMessage](cl, "/v1/sagas", q, max(c.Limit, 0), maxScans)
	if err != nil {
		return err
	}
	if c.machine() {
		err = a.rawList(list)
	} else {
		err = a.rawSagas(list)
	}
	if !back.IsZero() { // other sagas may have started in the same millisecond
		a.note("Searched back to %s; older sagas may match. To continue, add --before %s", clock(back), back.Add(time.Millisecond).UTC().Format(time.RFC3339Nano))
	}
	return err
}

// maxScans is the maximum of pages that a command scans for a search without an index, at 1,500
// sagas each.
const maxScans = 200

// rawSagas prints a table of sagas from the server's JSON.
func (a *app) rawSagas(raw []json.RawMessage) error {
	list := make([]saga.View, len(raw))
	for i := range raw {
		if err := json.Unmarshal(raw[i], &list[i]); err != nil {
			return fmt.Errorf("the server's response cannot be read: %w", err)
		}
	}
	a.sagas(list)
	return nil
}

// roomy is the minimum width of a terminal for full times.
const roomy = 110

// sagas prints a table of sagas. On a narrow terminal it shows ages instead of start times, and
// rounds costs.
func (a *app) sagas(list []saga.View) {
	columns := []column{{head: "SAGA"}, {head: "DEFINITION", least: 8}, {head: "STATUS"}, {head: "STARTED"}, {head: "COST", extra: true}, {head: "WHY", least: 6, extra: true}}
	short := a.tty && a.columns() < roomy
	if short {
		columns[3].head = "AGE"
	}
	var rows [][]string
	for _, v := range list {
		why, started, cost := "", clock(v.CreatedAt.Time), money(v.Cost)
		if v.Reason != nil {
			why = v.Reason.Title
		}
		if short {
			started = age(time.Since(v.CreatedAt.Time))
			if cost != "" {
				cost = strings.TrimSpace(tally.Figure(v.Cost.Spent) + " " + v.Cost.Currency)
			}
		}
		rows = append(rows, []string{v.ID, v.Definition + " " + v.Version, string(v.Status), started, cost, why})
	}
	a.table(columns, rows)
}

// listRaw prints a list as one JSON array, with the entries as the server returned them.
func listRaw(a *app, cl *client, path string, q url.Values, limit int) error {
	list, err := pages[json.RawMessage](cl, path, q, limit)
	if err != nil {
		return err
	}
	return a.rawList(list)
}

func (a *app) rawList(list []json.RawMessage) error {
	if list == nil {
		list = []json.RawMessage{}
	}
	return a.encoded(list)
}
