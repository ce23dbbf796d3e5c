// Package kinds is the one list of the step kinds there are.
package kinds

import (
	"recourse/saga/dsl"
	"recourse/saga/kinds/approval"
	"recourse/saga/kinds/emit"
	"recourse/saga/kinds/fail"
	"recourse/saga/kinds/foreach"
	"recourse/saga/kinds/http"
	"recourse/saga/kinds/llm"
	"recourse/saga/kinds/parallel"
	"recourse/saga/kinds/repeat"
	"recourse/saga/kinds/run"
	"recourse/saga/kinds/set"
	"recourse/saga/kinds/signal"
	"recourse/saga/kinds/sleep"
	switchkind "recourse/saga/kinds/switch"
	"recourse/saga/kinds/task"
	"recourse/saga/kinds/use"
)

// Options are what kinds need to know of the server that they run on.
type Options struct {
	LLM   llm.Config // providers and prices; it passes [llm.Config.Check]
	Sinks []string   // names of those that events can go to; nil: not known
}

// All lists the kinds, in the order of the reference, as they are without a configuration.
func All() []dsl.Kind { return With(Options{LLM: llm.Config{Elsewhere: true}}) }

// With lists the kinds as the options make them.
func With(o Options) []dsl.Kind {
	return []dsl.Kind{
		http.Kind(),
		llm.Kind(o.LLM),
		task.Kind(),
		approval.Kind(),
		signal.Kind(),
		emit.Kind(o.Sinks),
		use.Kind(),
		sleep.Kind(),
		parallel.Kind(),
		foreach.Kind(),
		repeat.Kind(),
		run.Kind(),
		switchkind.Kind(),
		set.Kind(),
		fail.Kind(),
	}
}
