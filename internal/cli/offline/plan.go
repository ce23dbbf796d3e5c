package offline

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/definition"
	"recourse/internal/story"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Plan is `recourse plan`.
type Plan struct {
	cli.OutputFlag
	definition.ActionFlags
	File  string   `arg:"" help:"A definition; - is stdin."`
	Input string   `short:"i" placeholder:"JSON" help:"The input: JSON, @FILE, or - for stdin."`
	Stub  []string `sep:"none" placeholder:"PATH=JSON" help:"The assumed output of a step; repeatable."`
	Var   []string `sep:"none" placeholder:"NAME=TEXT" help:"A variable, in addition to RECOURSE_VAR_<name>; repeatable."`
	Vars  string   `env:"RECOURSE_VARS" placeholder:"FILE" help:"YAML map of variables."`
}

// Run shows the requests of a start, step by step.
func (c *Plan) Run(a *cli.App) error {
	actions, err := c.ReadActions(a)
	if err != nil {
		return err
	}
	def, err := definition.Compile(a, c.File, actions)
	if err != nil {
		return err
	}
	stubs, err := c.stubs(def)
	if err != nil {
		return err
	}
	o, err := definition.StartOptions(a, c.Input, c.Vars, c.Var)
	if err != nil {
		return err
	}
	data, wrong := machine.BeginPlan(def, o)
	if len(wrong) > 0 {
		return definition.StartError(wrong)
	}
	p, err := machine.MakePlan(def, data, stubs, time.Now())
	if err != nil {
		return err
	}
	if c.Machine() {
		return a.Encode(p)
	}
	printPlan(a, p)
	return nil
}

func (c *Plan) stubs(def *saga.Definition) (map[string]json.RawMessage, error) {
	given, err := cli.Pairs("--stub", c.Stub)
	if err != nil {
		return nil, err
	}
	stubs := make(map[string]json.RawMessage, len(given))
	for path, text := range given {
		if def.Step(path) == nil {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("--stub %s: the definition has no such step", path))
		}
		if !json.Valid([]byte(text)) {
			return nil, cli.Exit(cli.Usage, fmt.Errorf("--stub %s: write JSON after the =, such as --stub '%s={\"id\":\"x1\"}'", path, path))
		}
		stubs[path] = json.RawMessage(text)
	}
	return stubs, nil
}

// printPlan prints a plan for people.
func printPlan(a *cli.App, p machine.Plan) {
	for i, s := range p.Steps {
		a.Printf("%2d  %s  %s\n", i+1, story.Paint(s.Path, story.Strong, a.Colour), strings.TrimSpace(s.Kind+about(s)))
		printRequest(a, s.Request, s.Key)
		if len(s.Output) > 0 {
			a.Printf("      output %s\n", story.Short(string(s.Output), 120))
		}
		if s.Note != "" {
			a.Printf("      note: %s\n", story.Harmless(s.Note))
		}
		if s.Undo != nil {
			if a.Printf("      undo"); s.Undo.If != "" {
				a.Printf(" if %s", s.Undo.If)
			}
			a.Printf(":\n")
			printRequest(a, s.Undo.Request, s.Undo.Key)
			if s.Undo.Note != "" {
				a.Printf("      note: %s\n", story.Harmless(s.Undo.Note))
			}
		}
	}
	if len(p.Undo) > 0 {
		a.Printf("If it fails at the end, it undoes: %s\n", strings.Join(p.Undo, ", then "))
	}
	for _, left := range p.Residual {
		a.Printf("Would remain: %s: %s\n", left.Path, left.Why)
	}
	a.Printf("Worst-case cost: %s", strings.TrimSpace(p.WorstCase+" "+p.Currency))
	if p.Budget != "" {
		a.Printf(", budget %s", strings.TrimSpace(p.Budget+" "+p.Currency))
	}
	a.Printf("\n")
	for _, n := range p.Notes {
		a.Printf("Note: %s\n", story.Harmless(n))
	}
	a.Printf("Nothing was sent. Keys are examples: a saga's keys follow from its id.\n")
}

// about returns details of a planned step.
func about(s machine.PlannedStep) string {
	var parts []string
	if s.Use != "" {
		parts = append(parts, "use "+s.Use)
	}
	if len(s.If) > 0 {
		parts = append(parts, "if "+strings.Join(s.If, ", and "))
	}
	if s.Skipped {
		parts = append(parts, "skipped: its `when` is false")
	}
	if s.Pivot {
		parts = append(parts, "pivot: once it succeeds, the saga is not undone")
	}
	if s.Attempts > 1 {
		parts = append(parts, fmt.Sprintf("up to %d attempts", s.Attempts))
	}
	if s.Cost != "" {
		parts = append(parts, "cost "+s.Cost)
	}
	if s.WakeAt != nil {
		parts = append(parts, "until "+s.WakeAt.UTC().Format(journal.TimeFormat))
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + strings.Join(parts, ", ") + ")"
}

func printRequest(a *cli.App, r *saga.Request, key string) {
	if r == nil {
		return
	}
	a.Printf("      %s\n", r)
	if payload := r.Payload(); len(payload) > 0 {
		a.Printf("      %s\n", story.Harmless(string(payload)))
	}
	if key != "" {
		a.Printf("      key %s\n", key)
	}
}
