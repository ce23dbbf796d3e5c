package main

import (
	"encoding/json"
	"net/url"

	"recourse/saga"
)

type listCmd struct {
	serverFlags
	outputFlag
	Definition string   `short:"d" placeholder:"NAME" help:"Only of this definition."`
	Status     string   `short:"s" placeholder:"STATUS" help:"Only of this status, or several with commas."`
	Label      []string `short:"l" sep:"none" placeholder:"K=V" help:"Only with this label; repeatable."`
	Query      string   `short:"q" placeholder:"TEXT" help:"Found in the id's beginning, the name, labels or the reason."`
	Limit      int      `default:"50" help:"The most to list, newest first; 0 for all."`
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
	labels, err := pairs("--label", c.Label)
	if err != nil {
		return err
	}
	for k, v := range labels {
		q.Set("label."+k, v)
	}
	if c.json() {
		return listRaw(a, cl, "/v1/sagas", q, max(c.Limit, 0))
	}
	list, err := pages[saga.View](cl, "/v1/sagas", q, max(c.Limit, 0))
	if err != nil {
		return err
	}
	var rows [][]string
	for _, v := range list {
		why := ""
		if v.Reason != nil {
			why = v.Reason.Title
		}
		rows = append(rows, []string{v.ID, v.Definition + " " + v.Version, string(v.Status), clock(v.CreatedAt.Time), money(v.Cost), why})
	}
	a.table([]string{"SAGA", "DEFINITION", "STATUS", "STARTED", "COST", "WHY"}, rows)
	return nil
}

// listRaw prints a list as one JSON array, its entries as the server gave them.
func listRaw(a *app, cl *client, path string, q url.Values, limit int) error {
	list, err := pages[json.RawMessage](cl, path, q, limit)
	if err != nil {
		return err
	}
	if list == nil {
		list = []json.RawMessage{}
	}
	return a.encoded(list)
}
