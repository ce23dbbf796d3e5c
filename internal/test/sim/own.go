package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// ownTask is a step that an agent does itself.
type ownTask struct {
	saga.BeginStep
	late   bool // the agent says how to undo it when it finishes the step
	byHand bool // a person undoes it
}

// newOwnTask returns a random own step.
func newOwnTask(rng *rand.Rand, i int) *ownTask {
	t := &ownTask{}
	t.Effect = []saga.OwnEffect{saga.NoEffect, saga.Undoable, saga.Undoable, saga.Irreversible}[rng.IntN(4)]
	t.ID = string(t.Effect) + "-" + strconv.Itoa(i)
	t.Input = json.RawMessage(strconv.Itoa(rng.IntN(3)))
	if t.Effect == saga.Undoable {
		t.InDoubt = []saga.Policy{saga.RetrySame, saga.Ask}[rng.IntN(2)]
		t.late, t.byHand = rng.IntN(3) == 0, rng.IntN(5) == 0
	}
	if rng.IntN(2) == 0 {
		t.Reserve = "0.06"
	}
	return t
}

// ownKey returns the idempotency key of an own step.
func (a *agent) ownKey(id string) string {
	return idempotency.Key(a.session, saga.OwnPrefix+id, journal.Do, 0)
}

// undo returns the call that undoes an own step.
func (a *agent) undo(id string) *saga.OwnUndo {
	return &saga.OwnUndo{Use: "drop", With: json.RawMessage(`{"key":"` + a.ownKey(id) + `"}`), UndoWithin: time.Minute.Milliseconds()}
}

// begin begins an own step, and does what the answer says.
func (p *agentProcess) begin(t *ownTask, then func()) {
	c := t.BeginStep
	c.Life = p.life
	if c.Effect == saga.Undoable && !t.late && !t.byHand {
		c.Compensate = p.a.undo(c.ID)
	}
	again := func() { p.begin(t, then) }
	p.ask(saga.Command{Do: c}, func(_ string, no *machine.Refusal) {
		switch {
		case no == nil:
			p.begun(t, then)
		case no.Code == "in_doubt" || no.Code == "unavailable" || no.Code == "paused":
			p.later(p.a.s.aside.between(time.Second, 5*time.Second), again)
		case no.Code == "budget_exhausted":
			// A step that was begun before cannot be finished now, so the session cannot be
			// committed.
			p.a.abort = p.a.abort || p.a.m.OwnStatus(saga.OwnPrefix+c.ID) != ""
			then()
		default:
			p.refused(no, again)
		}
	})
}

// begun does a step, unless it has ended.
func (p *agentProcess) begun(t *ownTask, then func()) {
	s, a := p.a.s, p.a
	if a.read(); !a.m.OwnBegun(t.ID) {
		p.later(20*time.Millisecond, func() { p.begun(t, then) })
		return
	}
	v, ok := machine.OwnOf(a.m, new(history.Steps), t.ID)
	if !ok {
		s.violate(a.session, "own step %s was begun, and does not exist", t.ID)
		return
	}
	if v.Status != machine.CallRunning {
		then()
		return
	}
	finish := saga.FinishStep{Life: p.life, ID: t.ID, Attempt: v.Attempt, Cost: "0.01"}
	if v.Attempt > 1 && s.aside.IntN(2) == 0 { // the network delivers an old report
		stale := finish
		stale.Attempt, stale.Status = v.Attempt-1, saga.OwnSucceeded
		p.send(s.aside.id(s.now), saga.Command{Do: stale})
	}
	p.later(s.aside.between(0, 3*time.Second), func() { p.do(t, finish, then) })
}

// ownService is where the effects of own steps are. To undo one there does not prevent it: an own
// step that is undone before its agent does it would stay.
const ownService = "/do/own"

// slowest is how long an own step takes at most.
const slowest = time.Second

// do begins to do a step. A process whose lease may end before the step is done waits for the next
// heartbeat.
func (p *agentProcess) do(t *ownTask, finish saga.FinishStep, then func()) {
	s, a := p.a.s, p.a
	a.read()
	life, _, _ := a.m.Life()
	switch {
	case life != p.life || a.m.Closed() && !a.m.HoldsLease():
		p.dead = true
		return
	case !a.m.HoldsLease() || s.now.Sub(p.renewed) > 5*time.Second-2*slowest:
		p.later(500*time.Millisecond, func() { p.do(t, finish, then) })
		return
	}
	if a.abort && s.aside.IntN(2) == 0 { // another thread of the process gives up meanwhile
		p.ask(saga.Command{Do: saga.Cancel{Life: p.life}, Reason: "the agent gives up"}, func(string, *machine.Refusal) {})
	}
	s.after(s.aside.between(0, slowest), func() { p.done(t, finish, then) })
}

// done has the effect of a step, unless its process has died or was followed meanwhile.
func (p *agentProcess) done(t *ownTask, finish saga.FinishStep, then func()) {
	s, a := p.a.s, p.a
	a.read()
	if life, _, _ := a.m.Life(); p.dead || life != p.life {
		p.dead = true
		return
	}
	finish.Status = saga.OwnSucceeded
	if t.Effect != saga.NoEffect {
		s.ownRuns[runOf(a.session, t.ID)]++
		answer, _ := s.world.make(a.ownKey(t.ID), ownService, 0)
		switch {
		case s.fault(AnswerLost, "own"):
			finish.Status = saga.OwnInDoubt
		case answer.Status >= 400:
			finish.Status = saga.OwnFailed
		}
	}
	if finish.Status == saga.OwnSucceeded {
		finish.Output = json.RawMessage(`"` + t.ID + `"`)
		if t.late && !t.byHand {
			finish.Compensate = a.undo(t.ID)
		}
	}
	p.later(s.aside.between(0, 2*time.Second), func() { p.finish(t, finish, then) })
}

// finish finishes a step. One in doubt is begun again.
func (p *agentProcess) finish(t *ownTask, c saga.FinishStep, then func()) {
	p.ask(saga.Command{Do: c}, func(_ string, no *machine.Refusal) {
		switch {
		case no != nil && no.Code == "attempt_ended":
			p.begin(t, then)
		case no != nil:
			p.refused(no, func() { p.finish(t, c, then) })
		case c.Status == saga.OwnInDoubt:
			p.begin(t, then)
		default:
			then()
		}
	})
}

func runOf(session uuid.UUID, id string) string { return fmt.Sprint(session, "/", saga.OwnPrefix, id) }

// checkOwn checks that an own step whose end the agent has reported as a success was done, and that
// one whose doubt a person settles was done again only after a person has said so.
func (s *sim) checkOwn(id uuid.UUID, records []journal.Record) {
	asks := make(map[string]int) // how often a step may be done, by path; only those with in_doubt: ask
	effect := make(map[string]bool)
	for _, r := range records {
		switch r.Kind {
		case journal.Called:
			var d saga.CalledData
			mustRead(r, &d)
			if d.Own != nil {
				effect[r.Path] = d.Own.Effect != saga.NoEffect
				if d.Own.InDoubt == saga.Ask {
					asks[r.Path] = 1
				}
			}
		case journal.Operator:
			var d saga.CommandData
			mustRead(r, &d)
			if asks[r.Path] > 0 && d.Rejected == nil && (d.Outcome == "retry" || d.Kind == "retry") {
				asks[r.Path]++
			}
		case journal.Outcome:
			made, _ := s.world.count(idempotency.Key(id, r.Path, journal.Do, 0))
			if effect[r.Path] && r.Way == journal.Do && r.Class == journal.Succeeded && made == 0 {
				s.violate(id, "23: %s was finished, and was not done", r.Path)
			}
		}
	}
	for path, most := range asks { // any order
		if n := s.ownRuns[fmt.Sprint(id, "/", path)]; n > most {
			s.violate(id, "23: %s was done %d times, and people have allowed %d", path, n, most)
		}
	}
}
