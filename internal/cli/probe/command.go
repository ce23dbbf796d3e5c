// Package probe is `recourse probe`: it finds out how a remote service treats idempotency keys.
package probe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/idempotency"
	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/definition"
	"recourse/internal/crashmatrix"
	"recourse/internal/egress"
	"recourse/internal/secrets"
	"recourse/internal/story"
	"recourse/saga"
	httpclient "recourse/saga/kinds/http/client"
)

// Command is `recourse probe`.
type Command struct {
	cli.OutputFlag
	definition.ActionFlags
	File        string   `arg:"" help:"A definition; - is stdin."`
	Step        string   `required:"" placeholder:"ID" help:"The step whose request is sent, twice with one key."`
	Input       string   `short:"i" placeholder:"JSON" help:"The input: JSON, @FILE, or - for stdin. Default: made up from the input's schema."`
	Stubs       string   `placeholder:"FILE" help:"YAML map of answers of the steps before it, by path or id. Default: made up."`
	Yes         bool     `short:"y" help:"Send without asking."`
	Undo        bool     `help:"Run the step's compensation afterwards, for each effect that the probe may have had."`
	Var         []string `sep:"none" placeholder:"NAME=TEXT" help:"A variable, in addition to RECOURSE_VAR_<name>; repeatable."`
	Vars        string   `env:"RECOURSE_VARS" placeholder:"FILE" help:"YAML map of variables."`
	SecretDir   string   `env:"RECOURSE_SECRET_DIR" placeholder:"DIR" help:"Directory with a file for each secret, besides RECOURSE_SECRET_<NAME>."`
	EgressAllow []string `env:"RECOURSE_EGRESS_ALLOW" placeholder:"HOST|CIDR" help:"Host or network that the step may call, in addition to public addresses and this machine; repeatable."`
	config.DialFlags
}

// Run sends the requests and prints what the answers say. The exit code is 1 if they contradict the
// definition, or say nothing.
func (c *Command) Run(a *cli.App) error {
	actions, err := c.ReadActions(a)
	if err != nil {
		return err
	}
	def, err := definition.Compile(a, c.File, actions)
	if err != nil {
		return err
	}
	step, err := c.step(def)
	if err != nil {
		return err
	}
	reached, err := c.reach(a, def, actions)
	if err != nil {
		return err
	}
	caller, err := c.caller(a)
	if err != nil {
		return err
	}
	defer caller.Close()
	p := &prober{def: def, step: step, reached: reached, send: func(r saga.Request) saga.Answer {
		ctx, stop := context.WithTimeout(a.Ctx, reached.Send.Timeout)
		defer stop()
		return caller.Call(ctx, r)
	}}
	if err := p.prepare(); err != nil {
		return err
	}
	if err := c.ask(a, p); err != nil {
		return err
	}
	res := p.run(c.Undo)
	if c.Machine() {
		if err := a.Encode(res); err != nil {
			return err
		}
	} else {
		show(a, res)
	}
	if len(res.Problems) > 0 {
		return cli.Exit(cli.Failed, nil)
	}
	return nil
}

// step finds the step.
func (c *Command) step(def *saga.Definition) (*saga.Step, error) {
	step := def.ByID[c.Step]
	if step == nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--step %s: the definition has no such step", c.Step))
	}
	call, ok := step.Body.(saga.Call)
	if !ok || step.Kind != "http" || call.ReadOnly() {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--step %s: only the request of an http step that writes can be probed, and this one is %s", c.Step, kindOf(step)))
	}
	if c.Undo && step.Compensate == nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--undo: the step %s has no compensation", c.Step))
	}
	return step, nil
}

func kindOf(step *saga.Step) string {
	if step.Kind == "http" {
		return "a read"
	}
	return "of the kind " + step.Kind
}

// reach finds the request. The host must not be made up.
func (c *Command) reach(a *cli.App, def *saga.Definition, actions *definition.Actions) (*crashmatrix.Reached, error) {
	start, err := definition.StartOptions(a, c.Input, c.Vars, c.Var)
	if err != nil {
		return nil, err
	}
	o := crashmatrix.Options{Input: start.Input, Vars: start.Vars}
	if o.Stubs, err = definition.ReadStubs(a, def, c.Stubs); err != nil {
		return nil, err
	}
	for _, act := range actions.List {
		o.Sources = append(o.Sources, act.Source)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return nil, fmt.Errorf("probe: %w", err)
	}
	reached, err := crashmatrix.Reach(def, id, c.Step, o)
	if wrong, ok := errors.AsType[*crashmatrix.StartError](err); ok {
		return nil, definition.StartError(wrong.Findings)
	} else if errors.Is(err, crashmatrix.ErrNotReached) {
		return nil, cli.Exit(cli.Usage, err)
	} else if err != nil {
		return nil, err
	}
	for _, name := range def.VarsUsed {
		declared := slices.ContainsFunc(def.Vars, func(v saga.Var) bool { return v.Name == name })
		if start.Vars[name] == nil && !declared && strings.HasPrefix(reached.Send.Request.URL, crashmatrix.MadeUpVar(name)) {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("vars.%s has no value: give it with --var %s=… or RECOURSE_VAR_%s", name, name, name))
		}
	}
	return reached, nil
}

func (c *Command) caller(a *cli.App) (*httpclient.Caller, error) {
	src, err := secrets.New(c.SecretDir, a.Env)
	if err != nil {
		return nil, cli.Exit(cli.Usage, err)
	}
	guard, err := egress.NewGuard(append(config.Loopback, c.EgressAllow...))
	if err != nil {
		return nil, cli.Exit(cli.Usage, err)
	}
	out := egress.Config{Guard: guard, UserAgent: "recourse/" + a.Version}
	if err := c.DialFlags.Apply(&out); err != nil {
		return nil, err
	}
	return httpclient.New(httpclient.Config{Egress: out, Secret: src.Get, Known: src.Known}), nil
}

// ask shows on Stderr what is about to be sent, and asks a person.
func (c *Command) ask(a *cli.App, p *prober) error {
	r := &p.reached.Send.Request
	a.Note("%s", story.Harmless(r.String()))
	if payload := r.Payload(); len(payload) > 0 {
		a.Note("  %s", story.Harmless(string(payload)))
	}
	if p.step.Idempotency.In == idempotency.None {
		a.Note("  without a key: the step has idempotency: none")
	} else {
		a.Note("  key %s", p.reached.Send.Key)
	}
	what := "It is sent twice, with the same key"
	if p.other != nil {
		what += ", and once more with another body (" + p.changed + ")"
	}
	if p.check != nil {
		what += "; then " + p.check.Request.String()
	}
	a.Note("%s. This has real effects: use a test instance of the service.", story.Harmless(what))
	return a.Confirm(a.Stderr, "Send?", c.Yes, "nothing was sent")
}

// show prints the result for people.
func show(a *cli.App, res *result) {
	for _, s := range res.Sent {
		line := fmt.Sprintf("%-14s %s", s.What, s.Request)
		if s.Status != 0 {
			line += fmt.Sprintf("  → %d", s.Status)
		} else {
			line += "  → " + s.Code
		}
		if len(s.Body) > 0 {
			line += " " + string(s.Body)
		}
		a.Printf("%s\n", story.Short(line, 300))
	}
	a.Printf("\nRepeated request: %s\n", said[res.Repetition])
	a.Printf("Other body with the same key: %s\n", said[res.OtherBody])
	a.Printf("Status check: %s\n", said[res.StatusCheck])
	if res.Undo != "" {
		a.Printf("Compensation: %s\n", said[res.Undo])
	}
	for _, text := range res.Problems {
		a.Printf("Problem: %s\n", story.Harmless(text))
	}
}

// shortBody limits the answer in a result.
func shortBody(doc json.RawMessage) json.RawMessage {
	if len(doc) > 4096 {
		return json.RawMessage(`"…"`)
	}
	return doc
}
