package engine

import (
	"recourse/internal/mutant"
	"recourse/journal"
)

// known has what a saga's journal shows taken for told: whoever wrote it has told of it, in the
// same appends.
func (l *Lane) known(r *run) {
	if l.cfg.Notices != nil && !mutant.On("notices-told-again") {
		r.announced = l.cfg.Notices.All(r.m)
	}
}

// notice finds what the saga's next append has to tell of. It may still grow, so this is found anew
// until it is committed.
func (l *Lane) notice(r *run) {
	if l.cfg.Notices != nil && len(r.next.Records) > 0 {
		r.news, r.announcing = l.cfg.Notices.Since(r.m, r.announced)
	}
}

// announce puts the news into what is about to be committed.
func (r *run) announce() {
	if len(r.next.Records) > 0 && r.broken == nil && !mutant.On("notices-forgotten") {
		r.next.Events, r.announced = append(r.next.Events, r.news...), r.announcing
	}
	r.news = nil
}

// workerSilent tells that a task's worker has let its lease run out.
func (l *Lane) workerSilent(r *run, path string) {
	if l.cfg.Notices == nil {
		return
	}
	s := r.m.Stall(journal.StallWorkerSilent, path, r.m.At(),
		"Its worker sent no heartbeat in time, or worked for longer than the step's time-out. What follows is what the step says of doubt. Look at the worker's log.")
	r.next.Events = append(r.next.Events, l.cfg.Notices.Stalled(s, r.m.At())...)
}

// maxDelayed is how many requests that wait one Watch of a lane tells of: if the node is short of
// something, they are many.
const maxDelayed = 100

// delayed are the requests of a saga that wait to leave for too long.
func (l *Lane) delayed(r *run) (late []journal.Stall) {
	for _, c := range r.calls {
		if l.cfg.StallAfter <= 0 || c.waitsFor == "" || l.now.Sub(c.begun) < l.cfg.StallAfter {
			continue
		}
		why := "The node has as many requests under way as it may. See which steps keep theirs open for long, or add a node."
		switch c.waitsFor {
		case journal.StallNoMemory:
			why = "Its answer has come, and the node has no memory left to read it in: others are being read, or wait for the database. Look at how long commits take, or raise --answer-memory."
		case journal.StallNoLease:
			why = "Its node cannot renew its lease in the database, and sends nothing until it has. Look at the node's log, and at the database."
		}
		late = append(late, r.m.Stall(c.waitsFor, c.path, c.begun, why))
	}
	return late
}

// stall is what Stalled tells, for others than the node's log.
func (r *run) stall(path, why string) *journal.Stall {
	if r.m == nil {
		return nil
	}
	kind := journal.StallForgotten
	if path != "" {
		kind = journal.StallUnanswered
	}
	s := r.m.Stall(kind, path, r.moved, why+". Its node reads it again from its journal. It is a bug: report it with the node's log.")
	return &s
}
