// Package kinds is the one list of the step kinds there are.
package kinds

import (
	"recourse/saga/dsl"
	"recourse/saga/kinds/emit"
	"recourse/saga/kinds/fail"
	"recourse/saga/kinds/foreach"
	"recourse/saga/kinds/http"
	"recourse/saga/kinds/parallel"
	"recourse/saga/kinds/repeat"
	"recourse/saga/kinds/set"
	"recourse/saga/kinds/sleep"
	switchkind "recourse/saga/kinds/switch"
)

// Options are what kinds know of the server that they are on.
type Options struct {
	Sinks []string // names of those that events can go to; nil: not known
}

// All lists the kinds, in the order of the reference, as they are where no server is known.
func All() []dsl.Kind { return With(Options{}) }

// With lists the kinds as they are on a server.
func With(o Options) []dsl.Kind {
	return []dsl.Kind{
		http.Kind(),
		emit.Kind(o.Sinks),
		sleep.Kind(),
		parallel.Kind(),
		foreach.Kind(),
		repeat.Kind(),
		switchkind.Kind(),
		set.Kind(),
		fail.Kind(),
	}
}
