package crashmatrix

import (
	"fmt"
	"slices"
	"strings"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

// Verdict says what a fault leads to.
type Verdict string

// The verdicts.
const (
	OK Verdict = "ok" // each effect happened once, or was undone
	// Asks: the saga waits in the inbox, or ended as failed and names in `residual` what a person
	// must look at.
	Asks Verdict = "asks"
	// Declared: the definition accepts what happened: a duplicate, by `in_doubt: retry` without
	// keys; or an effect that stays, by `compensate: none` or `on_failure: stop`.
	Declared  Verdict = "declared"
	Duplicate Verdict = "duplicate"  // an effect happened twice, or was undone twice
	Stranded  Verdict = "stranded"   // an effect stays that nothing names or undoes
	NeverEnds Verdict = "never-ends" // the saga goes on a day after all its timeouts have passed
)

// Verdicts lists them.
var Verdicts = []Verdict{OK, Asks, Declared, Duplicate, Stranded, NeverEnds}

// Faulty reports whether the verdict is a fault of the definition.
func (v Verdict) Faulty() bool { return v == Duplicate || v == Stranded || v == NeverEnds }

// Row is the result of one run.
type Row struct {
	Step  string      `json:"step"` // "": no step has a fault
	Way   journal.Way `json:"way,omitempty"`
	Fault Kind        `json:"fault"`
	// Then is the second fault of a pair.
	Then     *Second     `json:"then,omitempty"`
	End      saga.Status `json:"end"`      // the saga's last status
	Effects  int         `json:"effects"`  // that happened
	Undone   int         `json:"undone"`   // of them
	Sends    int         `json:"sends"`    // requests of the step
	Inbox    []string    `json:"inbox"`    // what waits for a person: "in_doubt refund"
	Residual []string    `json:"residual"` // paths that the saga names
	Verdict  Verdict     `json:"verdict"`
	Why      string      `json:"why,omitempty"`
}

// Second is the second fault of a pair.
type Second struct {
	Step  string      `json:"step"`
	Way   journal.Way `json:"way"`
	Fault Kind        `json:"fault"`
}

// row judges a run.
func (r *run) row(faults ...Fault) Row {
	row := Row{Fault: None, End: r.m.Status(), Effects: len(r.ledger.effects), Undone: r.ledger.undone, Inbox: []string{}, Residual: []string{}}
	if len(faults) > 0 {
		row.Step, row.Way, row.Fault = faults[0].Step, faults[0].Way, faults[0].Kind
		row.Sends = r.sends[place{row.Step, row.Way}]
	}
	if len(faults) > 1 {
		row.Then = &Second{faults[1].Step, faults[1].Way, faults[1].Kind}
	}
	for _, e := range r.m.Inbox() {
		row.Inbox = append(row.Inbox, strings.TrimSpace(e.Kind+" "+e.Path))
	}
	for _, left := range r.m.Residual() {
		if r.ended {
			row.Residual = append(row.Residual, left.Path)
		}
	}
	row.Verdict, row.Why = r.judge()
	return row
}

// judge returns the worst verdict, and its reason.
func (r *run) judge() (Verdict, string) {
	declared := ""
	for _, path := range r.ledger.doubled() {
		step := r.p.def.Step(path)
		if step.InDoubt.Declared && step.InDoubt.Policy == saga.RetrySame && step.Idempotency.In == idempotency.None {
			declared = fmt.Sprintf("%s had its effect twice, as its in_doubt: retry without a key accepts", path)
			continue
		}
		return Duplicate, fmt.Sprintf("%s had its effect twice", path)
	}
	for _, at := range r.order {
		if r.ledger.twice[at.path] {
			return Duplicate, fmt.Sprintf("%s was undone twice", at.path)
		}
	}
	asks := ""
	for _, e := range r.ledger.remaining() {
		switch v, why := r.stays(e); {
		case v == Stranded:
			return v, why
		case v == Declared && declared == "":
			declared = why
		case v == Asks && asks == "":
			asks = why
		}
	}
	inbox := r.m.Inbox()
	switch {
	case !r.ended && len(inbox) == 0:
		return NeverEnds, fmt.Sprintf("it is %s a day after all its timeouts have passed", r.m.Status())
	case !r.ended:
		return Asks, "a person is asked: " + inbox[0].Title
	case asks != "":
		return Asks, asks
	case declared != "":
		return Declared, declared
	}
	return OK, ""
}

// stays judges an effect that was not undone. "" means that it may stay.
func (r *run) stays(e *effect) (Verdict, string) {
	step := r.p.def.Step(e.path)
	if r.p.final[step.ID] {
		return "", "" // nothing in finally is undone
	}
	if withoutEffect(step) {
		return "", ""
	}
	status := r.m.Status()
	switch {
	case status == saga.Succeeded:
		return r.afterSuccess(e)
	case r.ended && status == saga.Compensated:
		why := "its compensation did not run"
		if r.sends[place{e.path, journal.Undo}] > 0 {
			why = "it came after its compensation, or its compensation did not name it"
		}
		return Stranded, fmt.Sprintf("the saga ends as compensated, and the effect of %s stays: %s", e.path, why)
	case r.ended:
		return r.afterFailure(e, step)
	}
	return r.whileWaiting(e, step)
}

// withoutEffect reports whether a task says that it has no effect, by a compensation whose
// condition is always false. A definition has no other way to say so.
func withoutEffect(step *saga.Step) bool {
	c := step.Compensate
	if _, worker := step.Body.(saga.Queued); !worker || c == nil || c.When == nil || len(c.When.Refs()) > 0 {
		return false
	}
	runs, err := c.When.Bool(expr.MapEnv{})
	return err == nil && !runs
}

// afterSuccess judges an effect of a saga that has reached its goal: its step has succeeded, or the
// saga names it.
func (r *run) afterSuccess(e *effect) (Verdict, string) {
	if r.outcome[e.path] == journal.Succeeded || r.names(e.path) {
		return "", ""
	}
	return Stranded, fmt.Sprintf("the saga succeeds, and the effect of %s stays although the step has failed", e.path)
}

// names reports whether the saga's `doubts`, or `residual`, name a step.
func (r *run) names(path string) bool {
	for _, list := range r.m.Doubts() {
		if list.Path == path {
			return true
		}
	}
	for _, left := range r.m.Residual() {
		if left.Path == path {
			return true
		}
	}
	return false
}

// afterFailure judges an effect of a saga that ended as failed.
func (r *run) afterFailure(e *effect, step *saga.Step) (Verdict, string) {
	named := fmt.Sprintf("residual names %s", e.path)
	switch {
	case !r.names(e.path):
		return Stranded, fmt.Sprintf("nothing names or undoes the effect of %s", e.path)
	case r.p.def.Stop:
		return Declared, named + ", as on_failure: stop accepts"
	case step.Compensate != nil:
		return Stranded, fmt.Sprintf("the effect of %s stays: its compensation cannot run after it ended %s", e.path, classText(r.outcome[e.path]))
	case r.outcome[e.path] != journal.Succeeded:
		return Asks, named + ", which is in doubt"
	case r.checked(step):
		return Stranded, fmt.Sprintf("the effect of %s stays: a check that refuses comes after it", e.path)
	case step.NoCompensation:
		return Declared, named + ", as its compensate: none accepts"
	}
	if _, worker := step.Body.(saga.Queued); worker { // a definition cannot say that it only reads
		return Asks, named
	}
	return Stranded, fmt.Sprintf("the effect of %s stays: it has no compensation, and a later step failed", e.path)
}

// whileWaiting judges an effect of a saga that waits for a person. Before its pivot the saga can
// still undo it. After the pivot it can only go forward.
func (r *run) whileWaiting(e *effect, step *saga.Step) (Verdict, string) {
	if r.pivoted.IsZero() || r.m.Status() == saga.Undoing {
		return "", ""
	}
	waits := slices.ContainsFunc(r.m.Inbox(), func(in saga.Entry) bool { return in.Path == e.path })
	switch {
	case waits:
	case step.Compensate != nil && e.at.After(r.pivoted):
		return Stranded, fmt.Sprintf("the effect of %s stays: its compensation cannot run after the pivot", e.path)
	case step.Pivot && r.checked(step) && r.refused():
		return Stranded, fmt.Sprintf("the effect of %s stays: it is the pivot, and a check that refuses comes after it", e.path)
	}
	return "", ""
}

// refused reports whether a check has refused.
func (r *run) refused() bool {
	for path, class := range r.outcome { // any order
		step := r.p.def.Step(path)
		if call, ok := step.Body.(saga.Call); class == journal.Refused && (!ok || call.ReadOnly() && step.Expect.That != nil) {
			return true
		}
	}
	return false
}

// checked reports whether a check comes after a step that nothing undoes.
func (r *run) checked(step *saga.Step) bool { return r.p.checked[step.ID] }

func classText(c journal.Class) string {
	switch c {
	case journal.InDoubt:
		return "in doubt"
	case "":
		return "without an outcome"
	}
	return "as " + string(c)
}
