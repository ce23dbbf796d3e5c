package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// codeBudget is the code of a failure because of the budget.
const codeBudget = "budget_exhausted"

// slow is the duration from which a successful attempt gets an exemplar. An exemplar costs as much
// as all other counting of the attempt.
const slow = time.Second

// ofModels reports whether the responses to steps of a kind report token usage: those of llm steps,
// and those to what agents ask models in their sessions.
func ofModels(kind string) bool { return kind == "llm" || kind == "ask" }

func (r *reader) intent(e *history.Event) {
	if e.Attempt == 0 { // a wait
		return
	}
	kind := r.kind(e.Track)
	if !ofModels(kind) {
		r.t.journal.Drop(e.Track)
	}
	if e.Attempt > 1 && !e.Track.Check {
		r.count(r.m.retries, kind)
	}
}

func (r *reader) outcome(e *history.Event) {
	if e.Attempt > 0 && !r.quiet {
		r.attempt(e)
	}
	switch {
	case e.Track.Check:
		r.t.checkEnded(e)
		return
	case e.Class == journal.InDoubt:
		if r.t.doubt(e.Track) && !r.quiet {
			r.m.doubts.WithLabelValues(r.name).(prometheus.ExemplarAdder).AddWithExemplar(1, r.exemplar())
		}
	case e.Class == journal.Succeeded:
		r.settleDoubt(e.Track, "answer")
	}
	if r.quiet || e.Class == journal.Succeeded && e.Way != journal.Undo {
		return
	}
	if e.Way == journal.Undo {
		r.undo(e)
		return
	}
	if e.Attempt == 0 {
		if d, err := history.OutcomeOf(e.Record); err == nil && d.Error != nil && d.Error.Code == codeBudget {
			r.count(r.m.refusals)
		}
	}
}

// attempt counts an attempt that has ended.
func (r *reader) attempt(e *history.Event) {
	kind, way := r.kind(e.Track), string(e.Way)
	if e.Track.Check {
		way = "verify"
	}
	r.count(r.m.attempts, kind, way, string(e.Class))
	if e.Begun.Known() {
		h, took := r.m.attemptSeconds.WithLabelValues(kind, string(e.Class)), e.At.Sub(e.Begun.At)
		if e.Class == journal.Succeeded && took < slow {
			h.Observe(took.Seconds())
		} else {
			r.observe(h, took.Seconds())
		}
	}
	if ofModels(kind) {
		r.use(e)
	}
}

// use counts the tokens of a model.
func (r *reader) use(e *history.Event) {
	name, used := e.ModelUse()
	if used.Input <= 0 && used.Output <= 0 {
		return
	}
	model := other
	if name != "" {
		model, _ = r.m.models.label(name)
	}
	r.m.tokens.WithLabelValues(r.name, model, "input").Add(float64(max(used.Input, 0)))
	r.m.tokens.WithLabelValues(r.name, model, "output").Add(float64(max(used.Output, 0)))
}

// undo counts a compensation that has ended.
func (r *reader) undo(e *history.Event) {
	if e.Class == journal.Succeeded {
		r.count(r.m.compensations, "undone")
		return
	}
	if d, err := history.OutcomeOf(e.Record); err == nil && (d.Next == saga.NextBlock || d.Next == saga.NextAwaitCredentials) {
		r.count(r.m.compensations, "stuck")
	}
}

// decided handles decisions about doubts and compensations. It ignores the other decisions of
// blocks.
func (r *reader) decided(e *history.Event) {
	if !r.t.doubts[e.Track] {
		return
	}
	d, _ := history.DataOf[saga.DecidedData](e.Record)
	if e.Way == journal.Undo && d.Next == saga.NextBlock {
		r.count(r.m.compensations, "stuck")
	}
	if d.By != string(saga.VerifyIt) {
		return
	}
	if d.Next == saga.NextDone || r.t.conclusive(e.Track.Step) {
		r.settleDoubt(e.Track, "verify")
	}
}

// settleDoubt counts the end of a doubt, if there is one.
func (r *reader) settleDoubt(s history.Track, by string) {
	if r.t.doubts[s] {
		delete(r.t.doubts, s)
		r.count(r.m.settled, by)
	}
}
