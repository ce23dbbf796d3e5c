package remote

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/internal/costs/tally"
	"recourse/internal/story"
	"recourse/saga/machine"
)

// List is `recourse list`.
type List struct {
	ServerFlags
	cli.OutputFlag
	Definition string   `short:"d" completion-predictor:"definition" placeholder:"NAME" help:"Only sagas of this definition."`
	Status     string   `short:"s" completion-predictor:"status" placeholder:"STATUS" help:"Only this status, or several, separated by commas."`
	Label      []string `short:"l" sep:"none" placeholder:"K=V" help:"Only sagas with this label; repeatable."`
	Query      string   `short:"q" placeholder:"TEXT" help:"Text to search for in the beginning of the id, the definition, labels, reason, input and output."`
	After      string   `placeholder:"TIME" help:"Only sagas started after this time. A duration, such as 24h or 7d, counts back from now."`
	Before     string   `placeholder:"TIME" help:"Only sagas started before this time. A duration, such as 24h or 7d, counts back from now."`
	Limit      int      `default:"50" help:"Maximum to list, newest first; 0 for all."`
}

// Run lists sagas.
func (c *List) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
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
		at, err := cli.ParseTime(bound.flag, bound.text)
		if err != nil {
			return err
		}
		if !at.IsZero() {
			q.Set(bound.name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	labels, err := cli.Pairs("--label", c.Label)
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
	if c.Machine() {
		err = printList(a, list)
	} else {
		err = printRawSagas(a, list)
	}
	if !back.IsZero() { // other sagas may have started in the same millisecond
		a.Note("Searched back to %s; older sagas may match. To continue, add --before %s", cli.Clock(back), back.Add(time.Millisecond).UTC().Format(time.RFC3339Nano))
	}
	return err
}

// maxScans is the maximum of pages that a command scans for a search without an index, at 1,500
// sagas each.
const maxScans = 200

// printRawSagas prints a table of sagas from the server's JSON.
func printRawSagas(a *cli.App, raw []json.RawMessage) error {
	list := make([]machine.View, len(raw))
	for i := range raw {
		if err := json.Unmarshal(raw[i], &list[i]); err != nil {
			return fmt.Errorf("the server's response cannot be read: %w", err)
		}
	}
	printSagas(a, list)
	return nil
}

// roomy is the minimum width of a terminal for full times.
const roomy = 110

// printSagas prints a table of sagas. On a narrow terminal it shows ages instead of start times,
// and rounds costs.
func printSagas(a *cli.App, list []machine.View) {
	columns := []cli.Column{{Head: "SAGA"}, {Head: "DEFINITION", Least: 8}, {Head: "STATUS"}, {Head: "STARTED"}, {Head: "COST", Extra: true}, {Head: "WHY", Least: 6, Extra: true}}
	short := a.TTY && a.Columns() < roomy
	if short {
		columns[3].Head = "AGE"
	}
	var rows [][]string
	for _, v := range list {
		why, started, cost := "", cli.Clock(v.CreatedAt.Time), view.Money(v.Cost)
		if v.Reason != nil {
			why = story.Short(v.Reason.Text(), 200)
		}
		if short {
			started = cli.Age(time.Since(v.CreatedAt.Time))
			if cost != "" {
				cost = strings.TrimSpace(tally.Figure(v.Cost.Spent) + " " + v.Cost.Currency)
			}
		}
		rows = append(rows, []string{v.ID, v.Definition + " " + v.Version, string(v.Status), started, cost, why})
	}
	a.Table(columns, rows)
}

// listRaw prints a list as one JSON array, with the entries as the server returned them.
func listRaw(a *cli.App, cl *Client, path string, q url.Values, limit int) error {
	list, err := ReadAll[json.RawMessage](cl, path, q, limit)
	if err != nil {
		return err
	}
	return printList(a, list)
}

func printList(a *cli.App, list []json.RawMessage) error {
	if list == nil {
		list = []json.RawMessage{}
	}
	return a.Encode(list)
}
