package api

import (
	"net/http"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
)

// maxUnattached is the maximum of sessions on a page of listUnattached, which reads the journal of
// each.
const maxUnattached = 20

// listUnattached serves GET /v1/sessions?name=…&attached=false: the sessions that wait for a
// process, as far as the caller may attach to them, the newest first. Sessions that wait for a
// person are not among them.
func (s *server) listUnattached(c echo.Context) error {
	q, err := readQuery(c, "name", "attached", "limit", "cursor")
	if err != nil {
		return err
	}
	if !sessionName.MatchString(q.Get("name")) {
		q.bad("name", "missing_field", "name the sessions: name=support")
	}
	if q.Get("attached") != "false" {
		q.bad("attached", "missing_field", "this list has only sessions without a process: send attached=false; GET /v1/sagas lists all")
	}
	limit := int(q.number("limit", maxUnattached, 1, maxUnattached))
	// A session without a process waits, or has calls in progress: then it is listed once they have
	// ended.
	f := journal.Filter{Definition: saga.SessionPrefix + q.Get("name"), Status: []string{string(saga.Waiting)}, Limit: limit + 1}
	if parts := q.cursor("sessions", 1); parts != nil {
		if f.Before, err = uuid.FromString(parts[0]); err != nil {
			q.bad("cursor", "bad_cursor", "send next_cursor unchanged")
		}
	}
	if err := q.err(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	list, err := s.cfg.Store.Sagas(ctx, f)
	if err != nil {
		return err
	}
	heads := cut(list.Heads, limit, func(last journal.Head) string { return pack("sessions", last.ID.String()) })
	p := page[sessionView]{Data: []sessionView{}, Next: heads.Next}
	for _, h := range heads.Data {
		l, err := s.load(ctx, h.ID)
		if ctx.Err() != nil {
			return err
		}
		if err != nil || l.def.Session == nil || l.m.Closed() {
			continue // what cannot be read cannot be attached to either
		}
		if v := viewOf(l.m); !v.Session.Attached && callerOf(c).mayAttach(h.ID, l.def.Session.Data, l.m.Starter()) == nil {
			p.Data = append(p.Data, v)
		}
	}
	return reply(c, http.StatusOK, p)
}
