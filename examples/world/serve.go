package world

import (
	"net/http"
	"strconv"
	"time"
)

// service serves one operation: it writes the ledger first, then applies the rule that fires, then
// the effect, then sends the response.
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
		s.answered(c, do.outcome(a)) // before the response, so that a client that has it finds it in the ledger
		do.deliver(rw, r, a, w.open.Done())
	})
}

// unknown serves paths without an operation.
func (w *World) unknown(rw http.ResponseWriter, r *http.Request) {
	w.service(unknown(r.URL.Path)).ServeHTTP(rw, r)
}

// run executes the call with the fault do and returns the response; late if the world closed
// before.
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

// instead returns the response in place of an effect; a dropped one is empty.
func (d Do) instead() answer {
	if d.Before == FaultStatus {
		return d.statusAnswer()
	}
	return answer{}
}

// runAgain delivers the call n more times and discards the responses.
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

// wait waits, even if the client disconnects. It returns false if the world closes.
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
