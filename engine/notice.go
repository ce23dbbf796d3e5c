package engine

import "recourse/journal"

// known marks the notifications for a loaded saga's journal as sent: the node that wrote the
// records sent them in the same appends.
func (l *Lane) known(r *run) {
	if l.cfg.Notices != nil {
		r.announced = l.cfg.Notices.All(r.m)
	}
}

// notice computes the notifications of the saga's next append. The append may still grow, so they
// are computed again until it is committed.
func (l *Lane) notice(r *run) {
	if l.cfg.Notices != nil && len(r.next.Records) > 0 {
		r.news, r.announcing = l.cfg.Notices.Since(r.m, r.announced)
	}
}

// announce adds the notifications to the append that is about to be committed.
func (r *run) announce() {
	if len(r.next.Records) > 0 && r.broken == nil {
		r.next.Events, r.announced = append(r.next.Events, r.news...), r.announcing
	}
	r.news = nil
}

// workerSilent adds the notification that a task's worker has let its lease expire.
func (l *Lane) workerSilent(r *run, path string) {
	if l.cfg.Notices == nil {
		return
	}
	s := r.m.Stall(journal.StallWorkerSilent, path, r.m.At(),
		"Its worker sent no heartbeat in time, or worked for longer than the step's timeout. The in_doubt policy of the step applies. Check the worker's log.")
	r.next.Events = append(r.next.Events, l.cfg.Notices.Stalled(s, r.m.At())...)
}

// maxDelayed bounds the delayed requests that one Watch of a lane reports: if the node lacks a
// resource, there are many.
const maxDelayed = 100

// delayed returns the stalls of a saga's requests that have waited too long to be sent.
func (l *Lane) delayed(r *run) (late []journal.Stall) {
	for _, c := range r.calls {
		if l.cfg.StallAfter <= 0 || c.waitsFor == "" || l.now.Sub(c.begun) < l.cfg.StallAfter {
			continue
		}
		why := "The node has as many requests in flight as it may have. Find the steps whose requests take long, or add a node."
		switch c.waitsFor {
		case journal.StallNoMemory:
			why = "Its response has arrived, but the node has no memory left to read it: other responses are being read, or wait for the database. Check how long commits take, or raise --response-memory."
		case journal.StallNoLease:
			why = "The node cannot renew its lease in the database, and sends no requests until it can. Check the node's log, and the database."
		}
		late = append(late, r.m.Stall(c.waitsFor, c.path, c.begun, why))
	}
	return late
}

// stall returns the stall of a Stalled for the list of stalls and for notifications.
func (r *run) stall(path, why string) *journal.Stall {
	if r.m == nil {
		return nil
	}
	kind := journal.StallForgotten
	if path != "" {
		kind = journal.StallUnanswered
	}
	s := r.m.Stall(kind, path, r.moved, why+". The node reads the saga again from its journal. This is a bug: report it with the node's log.")
	return &s
}
