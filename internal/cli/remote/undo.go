package remote

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/saga"
	"recourse/saga/machine"
)

// Undo is `recourse undo`.
type Undo struct {
	ServerFlags
	cli.OutputFlag
	Saga   string        `arg:"" completion-predictor:"saga" help:"The saga's id, or its first 8 characters or more."`
	Plan   bool          `help:"Show what would be undone, and change nothing."`
	Reason string        `short:"r" help:"Reason, for the journal. Required without --plan."`
	Wait   time.Duration `default:"30s" help:"How long to wait for the end; 0s: not at all."`
}

// undoPlan is the response of GET /v1/sagas/{id}/undo.
type undoPlan struct {
	Possible bool       `json:"possible"`
	Until    *saga.Time `json:"until"`
	Steps    []struct {
		Path    string        `json:"path"`
		Until   *saga.Time    `json:"until"`
		Request *saga.Request `json:"request"`
		Note    string        `json:"note"`
	} `json:"steps"`
	Stays []struct {
		Path string `json:"path"`
		Why  string `json:"why"`
	} `json:"stays"`
	Refused obstacles `json:"refused"`
	Undo    string    `json:"undo"`
}

// Run undoes a saga: one that is running is undone itself, and one that has succeeded by another
// saga.
func (c *Undo) Run(a *cli.App) error {
	if !c.Plan && c.Reason == "" {
		return cli.Exit(cli.Usage, errors.New("say why with --reason, or show what would be undone with --plan"))
	}
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	if c.Saga, err = cl.fullID(c.Saga); err != nil {
		return err
	}
	if c.Plan {
		return c.plan(a, cl)
	}
	r, err := cl.Do(Call{Method: http.MethodPost, Path: SagaPath(c.Saga, "compensate"), Body: map[string]any{"reason": c.Reason}})
	if err != nil {
		return err
	}
	var v machine.View
	if err := r.Into(&v); err != nil {
		return err
	}
	var lost error // the wait's
	if c.Wait > 0 && !v.Status.Terminal() {
		if end, is, err := cl.Await(v.ID, c.Wait); err == nil {
			r, v = end, is
		} else {
			lost = cli.Exit(cli.ExitCode(err), fmt.Errorf("the undo is accepted, but its end is not known: %w; %s shows it", err, c.Command(a, "show "+v.ID+" --follow")))
		}
	}
	if c.Machine() {
		if err := a.Raw(r.Body); err != nil {
			return err
		}
	} else {
		a.Printf("%s  %s\n", v.ID, view.Status(a, v.Status))
		if v.UndoOf != "" {
			a.Note("this saga undoes %s, which has succeeded", v.UndoOf)
		}
		for _, left := range v.Residual {
			a.Note("%s remains: %s", left.Path, left.Why)
		}
	}
	if lost != nil || c.Wait <= 0 {
		return lost
	}
	return c.undone(a, &v, "the saga")
}

// undone returns the error of a command that has waited until a saga's effects are undone: nil only
// if they are.
func (f ServerFlags) undone(a *cli.App, v *machine.View, what string) error {
	left := len(v.Residual) + len(v.Doubts)
	switch {
	case v.Status.Terminal() && left == 0:
		return nil
	case v.Status.Terminal():
		return cli.Exit(cli.Failed, errors.New("effects remain: "+f.Command(a, "show "+v.ID)+" explains them"))
	case len(v.Open) > 0:
		return cli.Exit(cli.Failed, errors.New("a person has to decide: "+f.Command(a, "inbox --saga "+v.ID)))
	}
	return cli.Exit(cli.Failed, errors.New(what+" is still being undone: "+f.Command(a, "show "+v.ID+" --follow")+" shows it live"))
}

// plan prints what would be undone. The exit code is Conflict if the saga cannot be undone.
func (c *Undo) plan(a *cli.App, cl *Client) error {
	return showPlan(a, cl, c.OutputFlag, SagaPath(c.Saga, "undo"), new(undoPlan))
}

func (p *undoPlan) possible() bool { return p.Possible }

func (p *undoPlan) print(a *cli.App) {
	for i, step := range p.Steps {
		what := step.Note
		if step.Request != nil {
			what = step.Request.String()
			if step.Note != "" {
				what += " (" + step.Note + ")"
			}
		}
		a.Printf("%d. undo %s: %s\n", i+1, step.Path, what)
	}
	for _, left := range p.Stays {
		a.Printf("%s stays: %s\n", left.Path, left.Why)
	}
	switch {
	case p.Undo != "":
		a.Printf("It is undone by saga %s.\n", p.Undo)
	case p.Until != nil && p.Possible:
		a.Printf("It can be undone until %s.\n", cli.Clock(p.Until.Time))
	}
	p.Refused.print(a, "undone")
}
