// Package kinds is the one list of the step kinds there are.
package kinds

import (
	"recourse/saga/dsl"
	"recourse/saga/kinds/fail"
	"recourse/saga/kinds/foreach"
	"recourse/saga/kinds/http"
	"recourse/saga/kinds/parallel"
	"recourse/saga/kinds/repeat"
	"recourse/saga/kinds/set"
	"recourse/saga/kinds/sleep"
	switchkind "recourse/saga/kinds/switch"
	"recourse/saga/kinds/use"
)

// All lists the kinds, in the order of the reference.
func All() []dsl.Kind {
	return []dsl.Kind{
		http.Kind(),
		use.Kind(),
		sleep.Kind(),
		parallel.Kind(),
		foreach.Kind(),
		repeat.Kind(),
		switchkind.Kind(),
		set.Kind(),
		fail.Kind(),
	}
}
