package world

import (
	"net/http"
	"strconv"
	"time"
)

// service serves one operation: the ledger first, then what the rule that fires says, then the
// effect, then the answer.
func (w *World) service(o *operation) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		s := w.state()
		c, broken := readCall(o, r)
		do, unwritten := s.arrive(c)
		var a answer
		switch {
		case unwritten != nil:
			do, a = Do{}, noLedger(unwritten)
		case broken != nil:
			s.answered(c, Dropped)
			drop(rw, false)
			return
		case len(c.body) > maxBody:
			do, a = Do{}, problem(http.StatusRequestEntityTooLarge, "body too large",
				"send at most "+strconv.Itoa(maxBody)+" bytes")
		default:
			var late bool
			if a, late = w.run(s, c, do); late {
				s.answered(c, Dropped)
				drop(rw, false)
				return
			}
			w.runAgain(s, c, do.Duplicate)
		}
		s.answered(c, do.outcome(a)) // before the answer: who has read it finds it in the ledger
		do.deliver(rw, r, a, w.open.Done())
	})
}

// unknown serves what is no operation.
func (w *World) unknown(rw http.ResponseWriter, r *http.Request) {
	w.service(unknown(r.URL.Path)).ServeHTTP(rw, r)
}

// run carries the call out as do says and gives the answer; late if the world closed before there
// was one.
func (w *World) run(s *state, c *call, do Do) (a answer, late bool) {
	if !w.wait(do.LateMS) {
		return answer{}, true
	}
	if do.Before != "" {
		if !w.wait(do.DelayMS) {
			return answer{}, true
		}
		return do.instead(), false
	}
	a, ok := s.admit(c)
	if !w.wait(do.DelayMS) {
		return answer{}, true
	}
	if ok {
		a = s.perform(c)
	}
	c.replayed = a.replayed()
	if do.After == FaultStatus {
		a = do.statusAnswer()
	}
	return a, false
}

// instead is the answer in place of an effect; a dropped one is empty.
func (d Do) instead() answer {
	if d.Before == FaultStatus {
		return d.statusAnswer()
	}
	return answer{}
}

// runAgain delivers the call n more times; nobody reads those answers.
func (w *World) runAgain(s *state, c *call, n int) {
	for range n {
		d := c.again()
		if s.arriveAgain(d) != nil {
			return
		}
		a, _ := w.run(s, d, Do{})
		s.answered(d, strconv.Itoa(a.status))
	}
}

// wait waits, also when the client has gone. It is false when the world closed meanwhile.
func (w *World) wait(ms int) bool {
	if ms == 0 {
		return true
	}
	t := time.NewTimer(time.Duration(ms) * time.Millisecond)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-w.open.Done():
		return false
	}
}

func noLedger(err error) answer {
	return problem(http.StatusServiceUnavailable, "ledger cannot be written", err.Error())
}
