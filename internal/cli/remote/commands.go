package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/saga"
	"recourse/saga/machine"
)

// Resolve is `recourse resolve`.
type Resolve struct {
	ServerFlags
	cli.OutputFlag
	Saga      string `arg:"" completion-predictor:"live" help:"The saga's id, or its first 8 characters or more."`
	Step      string `arg:"" completion-predictor:"step" help:"The step's path, as the inbox prints it."`
	Outcome   string `required:"" enum:"succeeded,failed,retry,skip,compensated,same,new" help:"succeeded, failed, retry, skip or compensated. Of a session's call that may repeat an earlier one: same or new."`
	SetOutput string `name:"set-output" placeholder:"JSON" help:"With succeeded: the step's output, for later steps. JSON, @FILE or - for stdin."`
	NewKey    bool   `help:"With retry, after a definite failure: send under a new idempotency key."`
	Reason    string `short:"r" required:"" help:"Reason, for the journal."`
	IfSeq     int64  `placeholder:"SEQ" help:"Refuse the command if the saga has changed since this seq of its journal. Default: apply it to the saga as it is now."`
}

// Run resolves the step.
func (c *Resolve) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	body := map[string]any{"outcome": c.Outcome, "reason": c.Reason}
	output, err := a.JSONArg("--set-output", c.SetOutput)
	if err != nil {
		return err
	}
	if output != nil {
		body["output"] = output
	}
	if c.NewKey {
		body["new_key"] = true
	}
	if c.Saga, err = cl.fullID(c.Saga); err != nil {
		return err
	}
	seq, err := cl.seq(c.Saga, c.IfSeq)
	if err != nil {
		return err
	}
	r, err := cl.Do(Call{Method: http.MethodPost, Path: SagaPath(c.Saga, "steps", c.Step, "resolve"), Body: body, Header: ifMatch(seq)})
	if err != nil {
		return err
	}
	if c.Machine() {
		return a.Raw(r.Body)
	}
	var v machine.StepView
	if err := r.Into(&v); err != nil {
		return err
	}
	a.Printf("%s %s\n", v.Path, v.Status)
	noteUnread(a, r)
	return nil
}

// noteUnread says that a command has no effect yet, if its response says so.
func noteUnread(a *cli.App, r Answer) {
	if r.Unread() {
		a.Note("the command is stored, but no node has read it yet: it takes effect when one does")
	}
}

// commandSaga sends a command for a saga and prints the saga in the response.
func commandSaga(a *cli.App, f ServerFlags, o cli.OutputFlag, id, command string, body map[string]any) error {
	cl, err := f.Client(a.Ctx)
	if err != nil {
		return err
	}
	r, err := cl.Do(Call{Method: http.MethodPost, Path: SagaPath(id, command), Body: body})
	if err != nil {
		return err
	}
	if o.Machine() {
		return a.Raw(r.Body)
	}
	var v machine.View
	if err := json.Unmarshal(r.Body, &v); err != nil {
		return fmt.Errorf("the server's response cannot be read: %w", err)
	}
	a.Printf("%s  %s\n", v.ID, view.Status(a, v.Status))
	noteUnread(a, r)
	switch {
	case command == "fork":
		a.Note("a fork of %s, which goes on after its record %d: %s says how they differ", v.ForkedFrom, v.ForkedAt, f.Command(a, "compare "+v.ForkedFrom[:13]+" "+v.ID[:13]))
		if saga.IsSession(v.Definition) {
			server := f.Named(a)
			if a.Variables["RECOURSE_SERVER"] == "" { // without a flag, that command is its own server
				server = "--server " + f.Address()
			}
			a.Note("`%s` runs its agent", strings.TrimSpace("recourse agent run --session "+v.ID+" "+server)+" -- COMMAND")
		}
	case v.RetryOf == "" || !strings.HasPrefix(v.RetryOf, id):
	case r.Header.Get("Idempotency-Replayed") != "" && v.RetryFrom != "":
		a.Note("this saga has gone on from step %s of %s before: to go on again, retry this one", v.RetryFrom, id)
	case v.RetryFrom != "":
		a.Note("a new saga, which goes on from step %s with the results of %s before it", v.RetryFrom, id)
	default:
		a.Note("a new saga: %s has ended, and a saga that has ended never changes", id)
	}
	return nil
}

// Retry is `recourse retry`.
type Retry struct {
	ServerFlags
	cli.OutputFlag
	Saga   string `arg:"" completion-predictor:"saga" help:"The saga's id, or its first 8 characters or more."`
	From   string `placeholder:"STEP" help:"The step to retry. Required if several steps need a person. For a saga that has ended: the step from which a new saga goes on, with the results of the steps before it."`
	NewKey bool   `help:"Send under a new idempotency key, after a definite failure."`
	Plan   bool   `help:"Show what a retry of an ended saga from a step would reuse and run again, and change nothing."`
	Reason string `short:"r" help:"Reason, for the journal. Required without --plan."`
}

// retryPlan is the response of GET /v1/sagas/{id}/retry.
type retryPlan struct {
	Possible bool     `json:"possible"`
	From     string   `json:"from"`
	Reused   []string `json:"reused"`
	Again    []struct {
		Path string `json:"path"`
		Why  string `json:"why"`
	} `json:"again"`
	Refused obstacles `json:"refused"`
	Retry   string    `json:"retry"`
}

// plan prints what a retry from a step would do. The exit code is Conflict if the saga cannot be
// retried from it.
func (c *Retry) plan(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	if c.Saga, err = cl.fullID(c.Saga); err != nil {
		return err
	}
	return showPlan(a, cl, c.OutputFlag, SagaPath(c.Saga, "retry")+"?from="+url.QueryEscape(c.From), new(retryPlan))
}

func (p *retryPlan) possible() bool { return p.Possible }

func (p *retryPlan) print(a *cli.App) {
	for _, path := range p.Reused {
		a.Printf("%s: its result is taken over\n", path)
	}
	for _, step := range p.Again {
		a.Printf("%s: runs again, because %s\n", step.Path, step.Why)
	}
	switch {
	case p.Retry != "":
		a.Printf("Saga %s goes on from a step of it already: retry that one instead.\n", p.Retry)
	case p.Possible:
		a.Printf("A new saga would go on from %s.\n", p.From)
	}
	p.Refused.print(a, "retried from "+p.From)
}

// Run retries.
func (c *Retry) Run(a *cli.App) error {
	switch {
	case c.Plan && c.From == "":
		return cli.Exit(cli.Usage, errors.New("--plan needs --from: name the step to go on from"))
	case c.Plan:
		return c.plan(a)
	case c.Reason == "":
		return cli.Exit(cli.Usage, errors.New("say why with --reason, or show what would happen with --from and --plan"))
	}
	body := map[string]any{"reason": c.Reason}
	if c.From != "" {
		body["from"] = c.From
	}
	if c.NewKey {
		body["new_key"] = true
	}
	return commandSaga(a, c.ServerFlags, c.OutputFlag, c.Saga, "retry", body)
}

// Cancel is `recourse cancel`.
type Cancel struct {
	ServerFlags
	cli.OutputFlag
	Saga   string `arg:"" completion-predictor:"live" help:"The saga's id, or its first 8 characters or more."`
	Mode   string `enum:"compensate,stop" default:"compensate" help:"compensate: undo the saga's steps. stop: leave their effects."`
	Reason string `short:"r" help:"Reason, for the journal."`
}

// Run cancels.
func (c *Cancel) Run(a *cli.App) error {
	return commandSaga(a, c.ServerFlags, c.OutputFlag, c.Saga, "cancel", map[string]any{"mode": c.Mode, "reason": c.Reason})
}

// Pause is `recourse pause`.
type Pause struct {
	ServerFlags
	cli.OutputFlag
	Saga   string `arg:"" completion-predictor:"live" help:"The saga's id, or its first 8 characters or more."`
	Reason string `short:"r" help:"Reason, for the journal."`
}

// Run pauses.
func (c *Pause) Run(a *cli.App) error {
	return commandSaga(a, c.ServerFlags, c.OutputFlag, c.Saga, "pause", map[string]any{"reason": c.Reason})
}

// Resume is `recourse resume`.
type Resume struct {
	ServerFlags
	cli.OutputFlag
	Saga   string `arg:"" completion-predictor:"live" help:"The saga's id, or its first 8 characters or more."`
	Reason string `short:"r" help:"Reason, for the journal."`
}

// Run resumes.
func (c *Resume) Run(a *cli.App) error {
	return commandSaga(a, c.ServerFlags, c.OutputFlag, c.Saga, "resume", map[string]any{"reason": c.Reason})
}
