package remote

import (
	"encoding/json"
	"fmt"
	"net/http"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
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
	return nil
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
	if v.RetryOf != "" && v.RetryOf == id {
		a.Note("a new saga: %s has ended, and a saga that has ended never changes", id)
	}
	return nil
}

// Retry is `recourse retry`.
type Retry struct {
	ServerFlags
	cli.OutputFlag
	Saga   string `arg:"" completion-predictor:"saga" help:"The saga's id, or its first 8 characters or more."`
	From   string `placeholder:"STEP" help:"The step to retry. Required if several steps need a person."`
	NewKey bool   `help:"Send under a new idempotency key, after a definite failure."`
	Reason string `short:"r" required:"" help:"Reason, for the journal."`
}

// Run retries.
func (c *Retry) Run(a *cli.App) error {
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
