package metrics

import (
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// maxActions is how many actions the calls of agents are counted by. The rest are "other".
const maxActions = 500

// sessionState is what is counted of a session of an agent.
type sessionState struct {
	life    int
	calls   map[string]*countedCall // by path
	touched []string                // calls with records since settleCalls
}

type countedCall struct {
	action string
	result machine.CallStatus // the last one that was counted; "": none
}

// session reads the journal's next record of a session.
func (r *reader) session(rec *journal.Record) {
	s := &r.t.session
	switch rec.Kind {
	case journal.Attached:
		// A process that has got its life back has the number that it had.
		if d, ok := history.DataOf[saga.AttachedData](rec); ok && d.Life > s.life {
			s.life = d.Life
			r.count(r.m.lives)
		}
	case journal.Called:
		if d, ok := history.DataOf[saga.CalledData](rec); ok && d.What == saga.ActionCall {
			if s.calls == nil {
				s.calls = make(map[string]*countedCall)
			}
			s.calls[rec.Path] = &countedCall{action: d.Action}
		}
	}
	if s.calls[rec.Path] != nil {
		s.touched = append(s.touched, rec.Path)
	}
}

// settleCalls counts the calls that have ended, or were undone, since the last time.
func (r *reader) settleCalls(m *machine.Machine) {
	s := &r.t.session
	for _, path := range s.touched {
		c, is := s.calls[path], m.CallStatus(path)
		if !is.Ended() || is == c.result {
			continue
		}
		if c.result = is; !r.quiet {
			action, _ := r.m.actions.label(c.action)
			r.m.calls.WithLabelValues(action, string(is)).Inc()
		}
	}
	s.touched = s.touched[:0]
}
