// Package facts describes a definition in words: its limits, its triggers, and what each step does
// about failures.
package facts

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"recourse/api/ui/format"
	"recourse/api/ui/graph"
	"recourse/retry"
	"recourse/saga"
)

// Fact is a line of a list of facts.
type Fact struct{ Name, Text string }

// Effort describes the retries, the doubt policy and the cost of a step.
type Effort struct {
	Path, Kind          string
	Tries, Timeout      string
	InDoubt, Cost, Undo string
}

// mostEfforts is the maximum of rows in the table of efforts.
const mostEfforts = 300

// Of returns facts about the whole saga.
func Of(def *saga.Definition) []Fact {
	var list []Fact
	add := func(name, text string) {
		if text != "" {
			list = append(list, Fact{name, text})
		}
	}
	add("Budget", Limits(def.Budget))
	if def.Timeout > 0 {
		add("Timeout", format.Took(def.Timeout)+" for the whole saga; after it the saga is cancelled and undone")
	}
	if def.Unique != nil {
		add("One at a time", "only one live saga per value of `unique`")
	}
	if def.Stop {
		add("On failure", "the saga stops, and nothing is undone")
	}
	if def.Checkpoint != "" && def.Checkpoint != saga.CheckpointStep {
		add("Checkpoint", string(def.Checkpoint))
	}
	switch {
	case def.Retention == saga.Forever:
		add("Kept", "forever")
	case def.Retention > 0:
		add("Kept", format.Took(def.Retention)+" after its end")
	}
	add("Secrets", strings.Join(def.Secrets, ", "))
	add("Variables", strings.Join(def.VarsUsed, ", "))
	return list
}

// Limits describes a budget; "" for none.
func Limits(b *saga.Budget) string {
	if b == nil {
		return ""
	}
	var limits []string
	if b.Amount != nil {
		limits = append(limits, b.Amount.String())
	}
	if b.Tokens > 0 {
		limits = append(limits, strconv.FormatInt(b.Tokens, 10)+" tokens")
	}
	text := strings.Join(limits, " and ")
	if b.Ask {
		return text + "; a step that does not fit waits in the inbox for a raise"
	}
	return text + "; a step that does not fit fails"
}

// Triggers describes what starts sagas of a definition.
func Triggers(def *saga.Definition) []Fact {
	var list []Fact
	for _, t := range def.Triggers {
		f := Fact{Name: "event", Text: t.Event}
		if t.Cron != nil {
			f = Fact{Name: "cron", Text: t.Cron.Spec + " (" + t.Cron.Zone.String() + ")"}
		}
		if t.If != nil {
			f.Text += ", if " + t.If.Source()
		}
		list = append(list, f)
	}
	return list
}

// Efforts lists the steps that send requests, in order.
func Efforts(def *saga.Definition) []Effort {
	var list []Effort
	var walk func(steps []*saga.Step)
	walk = func(steps []*saga.Step) {
		for _, s := range steps {
			if _, ok := s.Body.(saga.Call); ok && len(list) < mostEfforts {
				e := Effort{Path: s.ID, Kind: graph.KindOf(s), Tries: triesOf(s.Retry), InDoubt: doubtOf(s), Cost: costOf(s.Cost)}
				if s.Timeout > 0 {
					e.Timeout = format.Took(s.Timeout)
				}
				if s.Compensate != nil {
					e.Undo = triesOf(s.Compensate.Retry)
				}
				list = append(list, e)
			}
			if b, ok := s.Body.(saga.Block); ok {
				for _, inner := range b.Lists() {
					walk(inner)
				}
			}
		}
	}
	walk(def.Steps)
	walk(def.Finally)
	return list
}

func triesOf(p retry.Policy) string {
	switch p.Attempts {
	case 0:
		return "forever, up to " + format.Took(p.Max) + " apart"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times, from %s up to %s apart", p.Attempts, format.Took(max(p.Initial, time.Millisecond)), format.Took(p.Max))
}

func doubtOf(s *saga.Step) string {
	if c, ok := s.Body.(saga.Call); ok && c.ReadOnly() {
		return "never"
	}
	switch s.InDoubt.Policy {
	case saga.Ask:
		return "asks a person"
	case saga.Fail:
		return "ends in doubt"
	case saga.VerifyIt:
		return "asks the remote service, otherwise " + map[saga.Policy]string{saga.Ask: "a person", saga.Fail: "ends in doubt", saga.RetrySame: "retries"}[s.InDoubt.Otherwise]
	}
	return "retries with the same key"
}

func costOf(c saga.Cost) string {
	switch {
	case c.Fixed != nil:
		return c.Fixed.String()
	case c.Reserve != nil:
		return "up to " + c.Reserve.String()
	}
	return ""
}
