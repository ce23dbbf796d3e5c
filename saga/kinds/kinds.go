// Package kinds lists all step kinds.
//
// A kind is a package below this one, with its keys, its body, and the rendering and judging of its
// requests. Nothing in it does IO: a kind that sends requests has a package client, which
// cmd/recourse registers with the engine. Package kindtest is the test suite for kinds.
package kinds

import (
	"recourse/saga/dsl"
	"recourse/saga/kinds/approval"
	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/emit"
	"recourse/saga/kinds/fail"
	"recourse/saga/kinds/foreach"
	"recourse/saga/kinds/http"
	"recourse/saga/kinds/llm"
	"recourse/saga/kinds/mcp"
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

// Options are the parts of the server's configuration that kinds need.
type Options struct {
	LLM   llm.Config  // providers and prices; [llm.Config.Check] must have accepted it
	Sinks []emit.Sink // those that events can be sent to; nil: unknown
	MCP   []string    // names of the MCP servers; nil: unknown
}

// All returns the kinds without a configuration, in the order of the reference.
func All() []dsl.Kind { return With(Options{LLM: llm.Config{Elsewhere: true}}) }

// With returns the kinds with the options.
func With(o Options) []dsl.Kind {
	model := llm.Kind(o.LLM)
	model.Ask = ask.Step(o.LLM)
	return []dsl.Kind{
		http.Kind(),
		model,
		mcp.Kind(o.MCP),
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
