package remote

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/internal/story"
	"recourse/saga/machine"
)

// Start is `recourse start`.
type Start struct {
	ServerFlags
	cli.OutputFlag
	Definition string        `arg:"" optional:"" completion-predictor:"definition" help:"The definition's name."`
	Input      string        `short:"i" placeholder:"JSON" help:"The input: JSON, @FILE, or - for stdin."`
	DefVersion string        `name:"version" placeholder:"vN" help:"A version other than the newest."`
	Label      []string      `short:"l" sep:"none" placeholder:"K=V" help:"A label; repeatable."`
	Budget     string        `placeholder:"AMOUNT" help:"Replaces the definition's budget, such as \"2.00 USD\"."`
	Key        string        `placeholder:"KEY" help:"Idempotency key: repeating the start with the same key returns the same saga. With --batch, the beginning of the keys of starts that have none; the line's number follows."`
	Wait       time.Duration `help:"Wait up to this time for the saga's end; exit 1 unless it succeeds."`
	Batch      string        `placeholder:"FILE" help:"Start a saga for each line of a file, or of stdin (-): a JSON object with input, labels, budget, version, definition and idempotency_key."`
}

// StartRequest is the body of a start.
type StartRequest struct {
	Definition string            `json:"definition"`
	Version    string            `json:"version,omitempty"`
	Input      json.RawMessage   `json:"input,omitempty"`
	Budget     string            `json:"budget,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// Run starts the saga, and waits for it if asked.
func (c *Start) Run(a *cli.App) error {
	cl, err := c.Client(a.Ctx)
	if err != nil {
		return err
	}
	if c.Batch != "" {
		return c.runBatch(a, cl)
	}
	if c.Definition == "" {
		return cli.Exit(cli.Usage, errors.New("name the definition: recourse start DEFINITION"))
	}
	body := StartRequest{Definition: c.Definition, Version: c.DefVersion, Budget: c.Budget}
	if body.Input, err = a.JSONArg("--input", c.Input); err != nil {
		return err
	}
	if body.Labels, err = cli.Pairs("--label", c.Label); err != nil {
		return err
	}
	r, err := cl.Do(Call{Method: http.MethodPost, Path: "/v1/sagas", Body: body, Header: map[string]string{"Idempotency-Key": c.Key}})
	if err != nil {
		return err
	}
	var v machine.View
	if err := r.Into(&v); err != nil {
		return err
	}
	var lost error // the wait's
	if c.Wait > 0 {
		if end, is, err := cl.Await(v.ID, c.Wait); err == nil {
			r, v = end, is
		} else {
			lost = cli.Exit(cli.ExitCode(err), fmt.Errorf("saga %s is started, but its end is not known: %w; %s shows it", v.ID, err, c.Command(a, "show "+v.ID+" --follow")))
		}
	}
	if c.Machine() {
		if err := a.Raw(r.Body); err != nil {
			return err
		}
	} else {
		why := ""
		if v.Reason != nil {
			why = ": " + story.Harmless(v.Reason.Text())
		}
		a.Printf("%s  %s%s\n", v.ID, view.Status(a, v.Status), why)
	}
	if lost != nil {
		return lost
	}
	if c.Wait > 0 {
		return view.Outcome(v.ID, v.Status, c.Command(a, "show "+v.ID))
	}
	return nil
}

// Await waits for a saga's end, for at most d.
func (c *Client) Await(id string, d time.Duration) (Answer, machine.View, error) {
	for until := time.Now().Add(d); ; {
		var v machine.View
		left := min(max(int(time.Until(until).Seconds()), 1), 30)
		r, err := c.Do(Call{Method: http.MethodGet, Path: SagaPath(id), Header: map[string]string{"Prefer": fmt.Sprintf("wait=%d", left)}})
		if err != nil {
			return r, v, err
		}
		if err := r.Into(&v); err != nil {
			return r, v, err
		}
		if v.Status.Terminal() || !time.Now().Before(until) {
			return r, v, nil
		}
	}
}
