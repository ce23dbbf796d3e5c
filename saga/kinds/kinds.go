// Package kinds is the one list of the step kinds there are.
package kinds

import (
	"recourse/saga/dsl"
	"recourse/saga/kinds/approval"
	"recourse/saga/kinds/fail"
	"recourse/saga/kinds/foreach"
	"recourse/saga/kinds/http"
	"recourse/saga/kinds/parallel"
	"recourse/saga/kinds/repeat"
	"recourse/saga/kinds/run"
	"recourse/saga/kinds/set"
	"recourse/saga/kinds/signal"
	"recourse/saga/kinds/sleep"
	switchkind "recourse/saga/kinds/switch"
)

// All lists the kinds, in the order of the reference.
func All() []dsl.Kind {
	return []dsl.Kind{
		http.Kind(),
		approval.Kind(),
		signal.Kind(),
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
