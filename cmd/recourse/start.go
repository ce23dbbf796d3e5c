package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/internal/story"
	"recourse/saga/machine"
)

type startCmd struct {
	serverFlags
	cli.OutputFlag
	Definition string        `arg:"" completion-predictor:"definition" help:"The definition's name."`
	Input      string        `short:"i" placeholder:"JSON" help:"The input: JSON, @FILE, or - for stdin."`
	DefVersion string        `name:"version" placeholder:"vN" help:"A version other than the newest."`
	Label      []string      `short:"l" sep:"none" placeholder:"K=V" help:"A label; repeatable."`
	Budget     string        `placeholder:"AMOUNT" help:"Replaces the definition's budget, such as \"2.00 USD\"."`
	Key        string        `placeholder:"KEY" help:"Idempotency key: repeating the start with the same key returns the same saga."`
	Wait       time.Duration `help:"Wait up to this time for the saga's end; exit 1 unless it succeeds."`
}

// startRequest is the body of a start.
type startRequest struct {
	Definition string            `json:"definition"`
	Version    string            `json:"version,omitempty"`
	Input      json.RawMessage   `json:"input,omitempty"`
	Budget     string            `json:"budget,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
}

// Run starts the saga, and waits for it if asked.
func (c *startCmd) Run(a *cli.App) error {
	cl, err := c.client(a.Ctx)
	if err != nil {
		return err
	}
	body := startRequest{Definition: c.Definition, Version: c.DefVersion, Budget: c.Budget}
	if body.Input, err = a.JSONArg("--input", c.Input); err != nil {
		return err
	}
	if body.Labels, err = cli.Pairs("--label", c.Label); err != nil {
		return err
	}
	r, err := cl.do(call{method: http.MethodPost, path: "/v1/sagas", body: body, header: map[string]string{"Idempotency-Key": c.Key}})
	if err != nil {
		return err
	}
	var v machine.View
	if err := r.into(&v); err != nil {
		return err
	}
	if c.Wait > 0 {
		if r, v, err = cl.await(v.ID, c.Wait); err != nil {
			return err
		}
	}
	if c.Machine() {
		if err := a.Raw(r.body); err != nil {
			return err
		}
	} else {
		why := ""
		if v.Reason != nil {
			why = ": " + story.Harmless(v.Reason.Title)
		}
		a.Printf("%s  %s%s\n", v.ID, view.Status(a, v.Status), why)
	}
	if c.Wait > 0 {
		return view.Outcome(v.ID, v.Status)
	}
	return nil
}

// await waits for a saga's end, for at most d.
func (c *client) await(id string, d time.Duration) (answer, machine.View, error) {
	for until := time.Now().Add(d); ; {
		var v machine.View
		left := min(max(int(time.Until(until).Seconds()), 1), 30)
		r, err := c.do(call{method: http.MethodGet, path: sagaPath(id), header: map[string]string{"Prefer": fmt.Sprintf("wait=%d", left)}})
		if err != nil {
			return r, v, err
		}
		if err := r.into(&v); err != nil {
			return r, v, err
		}
		if v.Status.Terminal() || !time.Now().Before(until) {
			return r, v, nil
		}
	}
}
