package api

import (
	"context"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"recourse/saga"
)

// index serves GET /: links to the rest of the API.
func (s *server) index(c echo.Context) error {
	return reply(c, http.StatusOK, struct {
		Name    string            `json:"name"`
		Version string            `json:"version,omitempty"`
		Links   map[string]string `json:"links"`
	}{"recourse", s.cfg.Version, map[string]string{
		"openapi": "/openapi.json", "definition_schema": "/v1/schemas/saga.json", "definitions": "/v1/definitions", "sagas": "/v1/sagas",
		"inbox": "/v1/inbox", "stats": "/v1/stats", "costs": "/v1/costs", "health": "/healthz", "ready": "/readyz", "metrics": "/metrics",
	}})
}

type health struct {
	Status string `json:"status"`
}

// healthz serves GET /healthz: the process responds.
func (s *server) healthz(c echo.Context) error { return reply(c, http.StatusOK, health{"ok"}) }

// readyTimeout is the time within which the store must respond for the server to be ready.
const readyTimeout = 2 * time.Second

// readyz serves GET /readyz: the engine accepts starts, and the store accepts writes.
func (s *server) readyz(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), readyTimeout)
	defer cancel()
	if !s.cfg.Engine.Ready() {
		return fail("not_ready", "the node is starting or stopping, could not renew its lease, or cannot commit: its log says which; use another node, or retry in a second").after(1)
	}
	if err := s.cfg.Store.Ping(ctx); err != nil {
		s.log.Warn("the database does not accept writes", "error", err)
		return fail("not_ready", "the database does not accept writes: see the server's log").after(1)
	}
	return reply(c, http.StatusOK, health{"ready"})
}

// statsView are counts over all sagas.
type statsView struct {
	Sagas       map[string]int64 `json:"sagas"` // by status
	Live        map[string]int64 `json:"live"`  // by definition
	Inbox       map[string]int64 `json:"inbox"` // by kind
	OldestInbox *saga.Time       `json:"oldest_inbox_at,omitempty"`
	// OldestDue is when the saga became due that has been due for longest and that no node has
	// claimed.
	OldestDue *saga.Time `json:"oldest_due_at,omitempty"`
	// Oldest says, by live status, since when the oldest saga has had it.
	Oldest      map[string]saga.Time `json:"oldest_at"`
	Quarantined int64                `json:"quarantined"`
	CountedAt   saga.Time            `json:"counted_at"` // the counts may be cached if there are very many sagas
	Nodes       []nodeView           `json:"nodes"`
}

type nodeView struct {
	Node      string     `json:"node"`
	ExpiresAt *saga.Time `json:"lease_until,omitempty"`
	Sagas     int64      `json:"sagas"`
}

// stats serves GET /v1/stats.
func (s *server) stats(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	ctx := c.Request().Context()
	st, err := s.cfg.Store.Stats(ctx)
	if err != nil {
		return err
	}
	nodes, err := s.cfg.Store.Nodes(ctx)
	if err != nil {
		return err
	}
	v := statsView{Sagas: counts(st.ByStatus), Live: counts(st.ByDefinition), Inbox: counts(st.Inbox),
		OldestInbox: instant(st.OldestInbox), OldestDue: instant(st.OldestDue),
		Oldest: map[string]saga.Time{}, Quarantined: st.Quarantined, CountedAt: saga.Time{Time: st.CountedAt}, Nodes: []nodeView{}}
	for status, at := range st.Oldest {
		v.Oldest[status] = saga.Time{Time: at}
	}
	for _, n := range nodes {
		v.Nodes = append(v.Nodes, nodeView{n.Node, instant(n.ExpiresAt), n.Sagas})
	}
	return reply(c, http.StatusOK, v)
}

func instant(t time.Time) *saga.Time {
	if t.IsZero() {
		return nil
	}
	return &saga.Time{Time: t}
}

func counts(m map[string]int64) map[string]int64 {
	if m == nil {
		return map[string]int64{}
	}
	return m
}
