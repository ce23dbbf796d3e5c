package remote

import (
	"fmt"
	"strconv"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/internal/story"
	"recourse/saga"
	"recourse/saga/compare"
)

// Compare is `recourse compare`, and `recourse sessions compare`.
type Compare struct {
	ServerFlags
	cli.OutputFlag
	Saga  string `arg:"" completion-predictor:"saga" help:"The first one's id, or its first 8 characters or more."`
	Other string `arg:"" completion-predictor:"saga" help:"The other one's id, or its first 8 characters or more."`
	All   bool   `help:"List also the steps that are the same."`
}

// Run compares two sagas, or two sessions. The exit code is Failed if a step differs.
func (c *Compare) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	for _, id := range []*string{&c.Saga, &c.Other} {
		if *id, err = cl.fullID(*id); err != nil {
			return err
		}
	}
	var res compare.Result
	r, err := cl.Get(SagaPath(c.Saga, "compare", c.Other), &res)
	switch {
	case err != nil:
		return err
	case c.Machine():
		err = a.Raw(r.Body)
	default:
		c.print(a, &res)
	}
	if err == nil && res.Count[compare.Same] != len(res.Steps) {
		err = cli.Exit(cli.Failed, nil)
	}
	return err
}

func (c *Compare) print(a *cli.App, res *compare.Result) {
	for i, s := range []compare.Saga{res.Here, res.There} {
		a.Printf("%s  %s  %s %s  %s  %s\n", []string{"here ", "there"}[i], s.ID, s.Definition, s.Version, view.Status(a, s.Status), view.Money(s.Cost))
	}
	var rows [][]string
	for _, s := range res.Steps {
		if s.Verdict == compare.Same && !c.All {
			continue
		}
		what := ""
		if d := s.Difference; d != nil {
			what = fmt.Sprintf("%s: %s → %s", d.Pointer, story.Short(string(d.Was), 60), story.Short(string(d.Now), 60))
		}
		rows = append(rows, []string{s.Path, string(s.Verdict), sideText(s.Here, res.Here.CreatedAt), sideText(s.There, res.There.CreatedAt), what})
	}
	if len(rows) > 0 {
		a.Printf("\n")
		a.Table([]cli.Column{{Head: "STEP", Least: 12}, {Head: "VERDICT"}, {Head: "HERE"}, {Head: "THERE"}, {Head: "FIRST DIFFERENCE", Least: 20}}, rows)
	}
	a.Printf("\n")
	for _, v := range compare.Verdicts {
		if n := res.Count[v]; n > 0 {
			a.Printf("%s %s  ", strconv.Itoa(n), v)
		}
	}
	a.Printf("\n")
}

// sideText says when in its saga a step ran, how it stands, and what it cost.
func sideText(s *compare.Side, began saga.Time) string {
	if s == nil {
		return "–"
	}
	text := string(s.Status)
	if s.StartedAt != nil {
		text += " +" + s.StartedAt.Sub(began.Time).Round(time.Millisecond).String()
	}
	if s.Attempts > 1 {
		text += " " + strconv.Itoa(s.Attempts) + "×"
	}
	if s.Cost != "0" {
		text += " " + s.Cost
	}
	return text
}
