package machine_test

import (
	"encoding/json"

	"pgregory.net/rapid"

	"recourse/journal"
	"recourse/saga"
)

// ownIDs are the own steps of an agentRun, and ownSteps describes them. The service of `file`
// honors keys, and that of `mail` does not.
var (
	ownIDs   = []string{"file", "mail", "note"}
	ownSteps = map[string]saga.OwnData{
		"file": {Effect: saga.Undoable, InDoubt: saga.RetrySame, Compensate: &saga.OwnUndo{Use: "drop", With: json.RawMessage(`{"id":"file"}`)}},
		"mail": {Effect: saga.Irreversible},
		"note": {Effect: saga.NoEffect},
	}
)

// ownRun is what an agentRun does itself.
type ownRun struct {
	open    map[string]*ownWork // the last attempt of each step
	allowed int                 // how often a person has allowed to send the mail again
}

// ownWork is an attempt that a process has been told to make.
type ownWork struct {
	life, attempt int
	did, ended    bool
}

// begin begins an own step, and checks the answer.
func (r *agentRun) begin(life int, id string) {
	c := saga.BeginStep{Life: life, ID: id, OwnData: ownSteps[id]}
	message := r.message()
	_, pending, no := r.m.Ask(message, saga.Command{Do: c})
	d, err := r.m.Validate(message, saga.Command{Do: c})
	if r.may(err) != (no == nil) || no == nil && pending != (d.Kind != "") {
		r.t.Fatalf("%v, pending %v, and %v\n%s", no, pending, err, r)
	}
	if err != nil || d.Kind == "" {
		return
	}
	if life != r.life || !r.live {
		r.t.Fatalf("life %d of %d begins %s\n%s", life, r.life, id, r)
	}
	before := r.own.open[id]
	if before != nil && !before.ended && before.life == life {
		r.t.Fatalf("two attempts of %s at once\n%s", id, r)
	}
	r.write(d)
	r.decide()
	r.own.open[id] = &ownWork{life: life, attempt: r.ownAttempts(id)}
	if _, pending, no := r.m.Ask(message, saga.Command{Do: c}); pending || no != nil || !r.m.OwnBegun(id) {
		r.t.Fatalf("begun, and then %v %v\n%s", pending, no, r)
	}
}

func (r *agentRun) ownAttempts(id string) (n int) {
	for _, rec := range r.records {
		if rec.Path == saga.OwnPrefix+id && rec.Kind == journal.Intent && rec.Way == journal.Do {
			n++
		}
	}
	return n
}

// do has the effect of an attempt, if its process lives.
func (r *agentRun) do(id string) {
	w := r.own.open[id]
	if w == nil || w.ended || w.did || w.life != r.life || !r.live || r.m.Ended() {
		return
	}
	w.did = true
	if path := saga.OwnPrefix + id; id == "file" && !r.world.done[path] {
		r.world.done[path] = true
		r.world.stands[path]++
	}
}

// finishStep says how the last attempt of a step has ended.
func (r *agentRun) finishStep(id string) {
	w := r.own.open[id]
	if w == nil {
		return
	}
	status := rapid.SampledFrom([]saga.OwnStatus{saga.OwnSucceeded, saga.OwnSucceeded, saga.OwnFailed, saga.OwnInDoubt}).Draw(r.t, "status")
	if !w.did && status == saga.OwnSucceeded {
		r.do(id)
	}
	if w.did && status == saga.OwnFailed || !w.did && status == saga.OwnSucceeded {
		status = saga.OwnInDoubt
	}
	r.report(id, w, status)
}

func (r *agentRun) report(id string, w *ownWork, status saga.OwnStatus) bool {
	c := saga.Command{Do: saga.FinishStep{Life: w.life, ID: id, Attempt: w.attempt, Status: status}}
	d, err := r.m.Validate(r.message(), c)
	if !r.may(err) || d.Kind == "" {
		return false
	}
	if w.ended || w.life != r.life || !r.live {
		r.t.Fatalf("life %d of %d finishes %s\n%s", w.life, r.life, id, r)
	}
	r.write(d)
	w.ended = true
	if again, err := r.m.Validate(r.message(), c); err == nil && again.Kind != "" {
		r.t.Fatalf("finished twice\n%s", r)
	}
	return true
}

// stale reports the end of an attempt that has another number, or is of an earlier life.
func (r *agentRun) stale(id string) {
	w := r.own.open[id]
	if w == nil {
		return
	}
	late := *w
	late.attempt--
	late.ended = true
	r.report(id, &late, saga.OwnSucceeded)
	if w.life < r.life {
		r.report(id, w, saga.OwnSucceeded)
	}
}

// resolved notes what a person has decided.
func (r *agentRun) resolved(c saga.Command) {
	if o, ok := c.Do.(saga.Resolve); ok && c.Path == "own.mail" && o.Outcome == "retry" {
		r.own.allowed++
	}
	r.compared(c)
	if o, ok := c.Do.(saga.Resolve); ok && o.Outcome == "compensated" {
		r.world.stands[c.Path] = 0
	}
}

// checkOwn checks that a step in doubt is not done again without a person.
func (r *agentRun) checkOwn() {
	if n := r.ownAttempts("mail"); n > 1+r.own.allowed {
		r.t.Fatalf("the mail was sent %d times, and a person has allowed %d repetitions\n%s", n, r.own.allowed, r)
	}
}

// finishSteps finishes an own step that is open, if there is one.
func (r *agentRun) finishSteps() bool {
	for _, id := range ownIDs {
		w := r.own.open[id]
		if w == nil {
			continue
		}
		if w.ended || w.life < r.life {
			before := len(r.records)
			r.begin(r.life, id)
			if len(r.records) == before {
				continue
			}
			w = r.own.open[id]
		}
		r.do(id)
		if r.report(id, w, saga.OwnSucceeded) {
			return true
		}
	}
	return false
}
