package metrics

import (
	"encoding/json"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"recourse/journal"
	"recourse/saga"
)

// codeBudget is the code of a failure because of the budget.
const codeBudget = "budget_exhausted"

// slow is the duration from which a successful attempt gets an exemplar. An exemplar costs as much
// as all other counting of the attempt.
const slow = time.Second

// ofModels is the kind of step whose responses report token usage.
const ofModels = "llm"

func (r *reader) intent(rec journal.Record) {
	if rec.Attempt == 0 { // a wait
		return
	}
	s := trackOf(rec)
	kind := r.kind(s)
	a := attempt{at: rec.At}
	if kind == ofModels {
		a.data = rec.Data
	}
	r.t.begin(s, a)
	if rec.Attempt > 1 && s.way != verify {
		r.count(r.m.retries, kind)
	}
}

func (r *reader) outcome(rec journal.Record) {
	s := trackOf(rec)
	if rec.Attempt > 0 {
		r.attempt(s, rec)
	}
	switch {
	case s.way == verify:
		r.t.answered(s.path, rec.Data)
		return
	case rec.Class == journal.InDoubt:
		if r.t.doubt(s) && !r.quiet {
			r.m.doubts.WithLabelValues(r.name).(prometheus.ExemplarAdder).AddWithExemplar(1, r.exemplar())
		}
	case rec.Class == journal.Succeeded:
		r.settleDoubt(s, "answer")
	}
	if r.quiet || rec.Class == journal.Succeeded && s.way != journal.Undo {
		return
	}
	if s.way == journal.Undo {
		r.undo(rec)
		return
	}
	if rec.Attempt == 0 {
		if d := decode[saga.OutcomeData](rec); d.Error != nil && d.Error.Code == codeBudget {
			r.count(r.m.refusals)
		}
	}
}

// attempt counts an attempt that has ended.
func (r *reader) attempt(s track, rec journal.Record) {
	a, known := r.t.end(s)
	if r.quiet {
		return
	}
	kind := r.kind(s)
	r.count(r.m.attempts, kind, string(s.way), string(rec.Class))
	if known {
		h, took := r.m.attemptSeconds.WithLabelValues(kind, string(rec.Class)), rec.At.Sub(a.at)
		if rec.Class == journal.Succeeded && took < slow {
			h.Observe(took.Seconds())
		} else {
			r.observe(h, took.Seconds())
		}
	}
	if kind == ofModels {
		r.use(a, rec)
	}
}

// use counts the tokens of a model.
func (r *reader) use(a attempt, rec journal.Record) {
	used := decode[struct {
		Tokens saga.TokensView `json:"tokens"`
	}](rec).Tokens
	if used.Input <= 0 && used.Output <= 0 {
		return
	}
	asked := decode[struct {
		Request struct {
			Body struct {
				Model string `json:"model"`
			} `json:"body"`
		} `json:"request"`
	}](journal.Record{Data: a.data})
	model := other
	if name := asked.Request.Body.Model; name != "" {
		model, _ = r.m.models.label(name)
	}
	r.m.tokens.WithLabelValues(r.name, model, "input").Add(float64(max(used.Input, 0)))
	r.m.tokens.WithLabelValues(r.name, model, "output").Add(float64(max(used.Output, 0)))
}

// undo counts a compensation that has ended.
func (r *reader) undo(rec journal.Record) {
	if rec.Class == journal.Succeeded {
		r.count(r.m.compensations, "undone")
		return
	}
	if then := decode[saga.OutcomeData](rec).Next; then == saga.NextBlock || then == saga.NextAwaitCredentials {
		r.count(r.m.compensations, "stuck")
	}
}

// decided handles decisions about doubts and compensations. It ignores the other decisions of
// blocks.
func (r *reader) decided(rec journal.Record) {
	s := trackOf(rec)
	if !r.t.doubts[s] {
		return
	}
	d := decode[saga.DecidedData](rec)
	if s.way == journal.Undo && d.Next == saga.NextBlock {
		r.count(r.m.compensations, "stuck")
	}
	if d.By != string(saga.VerifyIt) {
		return
	}
	answer := decode[saga.OutcomeData](journal.Record{Data: r.t.asked[s.path]}).Next == saga.NextConclusive
	if d.Next == saga.NextDone || answer {
		r.settleDoubt(s, "verify")
	}
}

// settleDoubt counts the end of a doubt, if there is one.
func (r *reader) settleDoubt(s track, by string) {
	if r.t.doubts[s] {
		delete(r.t.doubts, s)
		r.count(r.m.settled, by)
	}
}

// decode reads a record's data. A record that cannot be read is not counted; the engine reports the
// error.
func decode[T any](rec journal.Record) (d T) {
	if json.Unmarshal(rec.Data, &d) != nil {
		var none T
		return none
	}
	return d
}
