package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
)

// inboxEntry is the response for one item that needs a person.
type inboxEntry struct {
	ID         string    `json:"id"`
	Kind       string    `json:"kind"`
	Saga       string    `json:"saga"`
	Definition string    `json:"definition"`
	Path       string    `json:"path"`
	Since      saga.Time `json:"since"`
	saga.Entry
}

// inbox serves GET /v1/inbox, the oldest first.
func (s *server) inbox(c echo.Context) error {
	q, err := readQuery(c, "kind", "saga", "limit", "cursor")
	if err != nil {
		return err
	}
	if err := s.wholeSaga(c.Request().Context(), q); err != nil {
		return err
	}
	f := q.inboxFilter()
	limit := f.Limit
	f.Limit++
	if err := q.err(); err != nil {
		return err
	}
	list, err := s.cfg.Store.Inbox(c.Request().Context(), f)
	if err != nil {
		return err
	}
	views := make([]inboxEntry, len(list))
	for i, e := range list {
		views[i] = inboxEntry{ID: e.ID.String(), Kind: e.Kind, Saga: e.Saga.String(), Definition: e.Definition, Path: e.Path, Since: saga.Time{Time: e.Since}}
		if err := json.Unmarshal(e.Data, &views[i].Entry); err != nil {
			return fmt.Errorf("inbox entry %s: %w: %w", e.ID, saga.ErrUnreadable, err)
		}
	}
	return reply(c, http.StatusOK, cut(views, limit, func(last inboxEntry) string {
		return pack("inbox", strconv.FormatInt(last.Since.UnixMilli(), 10), last.ID)
	}))
}

func (q *query) inboxFilter() journal.InboxFilter {
	f := journal.InboxFilter{Kind: q.Get("kind"), Limit: q.limit()}
	if q.Has("kind") && !slices.Contains(saga.InboxKinds, f.Kind) {
		q.bad("kind", "bad_kind", "there is no kind %.30q of entry; there are %s", f.Kind, strings.Join(saga.InboxKinds, ", "))
	}
	f.Saga = q.saga()
	since, id := q.place("inbox")
	f.After = journal.Entry{ID: id, Since: since}
	return f
}
