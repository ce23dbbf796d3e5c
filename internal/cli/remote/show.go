package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/export"
	"recourse/internal/cli/view"
	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// Show is `recourse show`.
type Show struct {
	ServerFlags
	cli.OutputFlag
	Saga   string `arg:"" completion-predictor:"saga" help:"The saga's id, or its first 8 characters or more."`
	Steps  bool   `help:"A table of the steps instead of the story."`
	Follow bool   `short:"f" help:"Show it live until it ends; exit 1 unless it succeeds."`
}

// Run shows a saga.
func (c *Show) Run(a *cli.App) error {
	if c.Steps && c.Follow {
		return cli.Exit(cli.Usage, errors.New("--steps is a table of the steps as they are now, and --follow shows them live: choose one"))
	}
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	var v machine.View
	r, err := cl.Get(SagaPath(c.Saga), &v)
	if err != nil {
		return err
	}
	c.Saga = v.ID
	if c.Follow {
		return c.follow(a, cl, v)
	}
	if c.Machine() {
		if c.Steps {
			return c.rawSteps(a, cl)
		}
		return a.Raw(r.Body)
	}
	printView(a, v)
	if c.Steps {
		return c.steps(a, cl)
	}
	records, err := cl.Journal(c.Saga)
	if err != nil {
		return err
	}
	a.Printf("\n")
	def := cl.definition(v.Definition, v.Version)
	if err := view.PrintStory(a, def, records); err != nil {
		return err
	}
	printWaiting(a, cl, v, def, records)
	if len(v.Open) > 0 {
		a.Printf("\nIt waits for a person: see %s\n", c.Command(a, "inbox --saga "+v.ID))
	}
	return nil
}

// printWaiting prints what a live saga waits for.
func printWaiting(a *cli.App, cl *Client, v machine.View, def *saga.Definition, records []journal.Record) {
	if def == nil || v.Status.Terminal() {
		return
	}
	w := &view.Saga{Def: def, ID: uuid.FromStringOrNil(v.ID), Machine: machine.New(def, uuid.FromStringOrNil(v.ID))}
	if w.Add(records) != nil {
		return // a journal of another release was printed as far as possible
	}
	views, err := machine.Steps(w.Machine, records)
	if err != nil {
		return
	}
	waits, now := w.Waits(views), cl.clock()()
	if len(waits) > 0 {
		a.Printf("\n")
	}
	for _, s := range views {
		if wait, ok := waits[s.Path]; ok {
			a.Printf("%s %s\n", s.Path, story.Harmless(wait.Text(now)))
		}
	}
	if len(waits) == 0 && v.Status == saga.Waiting && v.Parent != "" && !strings.HasPrefix(v.Definition, saga.SessionPrefix) {
		a.Printf("\nwaits for the end of its parent, saga %s\n", v.Parent)
	}
}

func printView(a *cli.App, v machine.View) {
	a.Printf("%s  %s %s  %s\n", v.ID, v.Definition, v.Version, view.Status(a, v.Status))
	line := func(name, value string) {
		if value != "" {
			a.Printf("  %-8s %s\n", name, story.Short(value, 4000))
		}
	}
	line("started", cli.Clock(v.CreatedAt.Time))
	if v.EndedAt != nil {
		line("ended", cli.Clock(v.EndedAt.Time))
	}
	if v.Archived != nil {
		line("archived", cli.Clock(v.Archived.At.Time)+", in "+v.Archived.Object)
	}
	if v.WakeAt != nil {
		line("wakes", cli.Clock(v.WakeAt.Time))
	}
	if v.Reason != nil {
		line("why", v.Reason.Text())
	}
	line("cost", view.Money(v.Cost))
	of := v.RetryOf
	if v.RetryFrom != "" {
		of += ", from step " + v.RetryFrom
	}
	line("retry of", of)
	if v.ForkedFrom != "" {
		line("fork of", fmt.Sprintf("%s, after its record %d (effects: %s)", v.ForkedFrom, v.ForkedAt, v.Effects))
	}
	line("parent", v.Parent)
	line("input", string(v.Input))
	line("output", string(v.Output))
}

// rawSteps prints the steps as one JSON array, as the server returned them.
func (c *Show) rawSteps(a *cli.App, cl *Client) error {
	var list Page[json.RawMessage]
	if _, err := cl.Get(SagaPath(c.Saga, "steps"), &list); err != nil {
		return err
	}
	return printList(a, list.Data)
}

func (c *Show) steps(a *cli.App, cl *Client) error {
	var list Page[machine.StepView]
	if _, err := cl.Get(SagaPath(c.Saga, "steps"), &list); err != nil {
		return err
	}
	var rows [][]string
	for _, s := range list.Data {
		last := string(s.Output)
		if s.ReusedFrom != "" {
			last = strings.TrimSpace(last + " (of saga " + s.ReusedFrom + ")")
		}
		if s.Error != nil {
			last = s.Error.Error()
		}
		if s.Stubbed {
			last = strings.TrimSpace(last + " (a stub)")
		}
		rows = append(rows, []string{s.Path, s.Kind, string(s.Status), strconv.Itoa(len(s.Attempts)), s.Key, last})
	}
	a.Printf("\n")
	a.Table([]cli.Column{{Head: "STEP", Least: 12}, {Head: "KIND"}, {Head: "STATUS"}, {Head: "ATTEMPTS", Extra: true}, {Head: "KEY", Extra: true}, {Head: "OUTPUT OR ERROR", Least: 20}}, rows)
	return nil
}

// Journal gets all records of a saga.
func (c *Client) Journal(id string) ([]journal.Record, error) {
	resp, err := c.open(Call{Method: http.MethodGet, Path: SagaPath(id, "journal"), accept: "application/x-ndjson"})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	ex, err := export.Read(resp.Body)
	if err != nil {
		return nil, err
	}
	return ex.Records, nil
}

// definition returns a compiled version; nil if this program cannot compile it. Then a story is
// printed without it.
func (c *Client) definition(name, version string) *saga.Definition {
	var d Document
	if _, err := c.Get("/v1/definitions/"+url.PathEscape(name)+"/versions/"+url.PathEscape(version), &d); err != nil {
		return nil
	}
	return c.compiled(d)
}

// compiled compiles a published version; nil if this program cannot.
func (c *Client) compiled(d Document) *saga.Definition {
	actions := func(name string, version int) (*saga.Action, error) {
		if version == 0 {
			version, _ = strconv.Atoi(strings.TrimPrefix(d.Actions[name], "v"))
		}
		return c.action(name, version)
	}
	def, errs := dsl.Parse(d.Name, []byte(d.Source), dsl.Options{Kinds: kinds.All(), Actions: actions, Stored: true})
	if errs != nil {
		return nil
	}
	return def
}
