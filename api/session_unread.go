package api

import (
	"github.com/labstack/echo/v4"

	"recourse/saga/machine"
)

// asksFor notes that the life has asked for a call or an own step.
func (l *life) asksFor(path string) {
	l.s.asked.with(l.id, l.number, func(r *lifeRequests) { r.paths[path] = true })
}

// gets notes that the life gets the end of a call or an own step, if the client is still there. It
// comes before the response, which may be the last thing that the agent waits for.
func (l *life) gets(c echo.Context, path string, status machine.CallStatus) {
	if l.number > 0 && status.Ended() && c.Request().Context().Err() == nil {
		l.s.asked.with(l.id, l.number, func(r *lifeRequests) { r.ended[path] = true })
	}
}

// unread reports whether a call or an own step has ended, and the life that has asked for it has
// not got its end. The responses are remembered in memory: without it, a call of the life counts as
// unread, so that an agent may run once too often, and no result is lost.
func (l *life) unread(path string, status machine.CallStatus) (yes bool) {
	if l.number == 0 || !status.Ended() {
		return false
	}
	l.s.asked.with(l.id, l.number, func(r *lifeRequests) {
		yes = !r.ended[path] && (r.paths[path] || l.m.MadeIn(path) == l.number)
	})
	return yes
}
