package remote

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"recourse/internal/cli"
	"recourse/internal/costs/tally"
	"recourse/internal/story"
	"recourse/saga"
	"recourse/saga/dsl"
)

// Costs is `recourse costs`.
type Costs struct {
	ServerFlags
	cli.OutputFlag
	By         string `default:"definition" placeholder:"WHAT" help:"definition, day, model, or label.NAME; default ${default}."`
	Since      string `default:"7d" placeholder:"DURATION|TIME" help:"Only sagas started since this time: 7d, 24h, or 2026-11-21T08:00:00Z. Default ${default}."`
	Definition string `short:"d" placeholder:"NAME" help:"Only sagas of this definition."`
}

// CostsAnswer is the server's response.
type CostsAnswer struct {
	Since    saga.Time     `json:"since"`
	Complete bool          `json:"complete"`
	Sagas    int           `json:"sagas"`
	Groups   []tally.Group `json:"groups"`
	LeftOut  int           `json:"left_out"`
}

// Run shows the costs of sagas.
func (c *Costs) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	since, err := c.since(time.Now())
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	q := url.Values{"group_by": {c.By}, "since": {since.UTC().Format(time.RFC3339)}}
	if c.Definition != "" {
		q.Set("definition", c.Definition)
	}
	var v CostsAnswer
	r, err := cl.Get("/v1/costs?"+q.Encode(), &v)
	if err != nil {
		return err
	}
	if c.Machine() {
		return a.Raw(r.Body)
	}
	printCosts(a, c.By, &v)
	return nil
}

func (c *Costs) since(now time.Time) (time.Time, error) {
	if d, err := dsl.ParseDuration(c.Since); err == nil {
		return now.Add(-d), nil
	}
	at, err := time.Parse(time.RFC3339, c.Since)
	if err != nil {
		return at, fmt.Errorf("--since %s: write how long ago, such as 24h or 7d, or a time such as 2026-11-21T08:00:00Z", c.Since)
	}
	return at, nil
}

// printCosts prints a table of 80 columns, unless amounts are very long, and then the outliers.
func printCosts(a *cli.App, by string, v *CostsAnswer) {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, strings.ToUpper(story.Short(by, 20))+"\tSAGAS\tSPENT\tWASTED\tMEDIAN\tMAX\tTOKENS")
	for _, g := range v.Groups {
		key := g.Key
		if key == "" {
			key = "(none)"
		}
		fmt.Fprintln(w, strings.Join([]string{story.Short(key, 20), strconv.FormatInt(g.Sagas, 10), strings.TrimSpace(tally.Figure(g.Spent) + " " + g.Currency),
			tally.Figure(g.Wasted), tally.Figure(g.Median), tally.Figure(g.Max), tally.Brief(g.Tokens.Input + g.Tokens.Output)}, "\t"))
	}
	_ = w.Flush() // App reports the error
	for _, g := range v.Groups {
		for _, o := range g.Outliers {
			a.Printf("outlier %s  %s %s, the median of %s is %s\n", o.Saga, tally.Figure(o.Spent), g.Currency, story.Short(g.Key, 20), tally.Figure(g.Median))
		}
	}
	if v.LeftOut > 0 {
		a.Note("%d more groups have cost less", v.LeftOut)
	}
	if !v.Complete {
		a.Note("only the newest %d sagas are counted, those started since %s: choose a shorter --since, or a --definition", v.Sagas, cli.Clock(v.Since.Time))
	}
}
