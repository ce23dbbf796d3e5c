package api

import (
	"context"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
)

// Media types of journals.
const (
	typeNDJSON = "application/x-ndjson"
	typeStream = "text/event-stream"
)

// getJournal serves GET /v1/sagas/{id}/journal: a page as JSON, the rest of the journal as NDJSON,
// or an event stream that follows the journal until the saga has ended.
func (s *server) getJournal(c echo.Context) error {
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	q, err := readQuery(c, "after", "cursor", "limit")
	if err != nil {
		return err
	}
	const end = 1<<62 - 1
	after := q.number("after", 0, 0, end)
	if q.Has("cursor") {
		after = q.number("cursor", 0, 0, end)
	}
	limit := int(q.number("limit", recordsPage, 1, recordsPage))
	if err := q.err(); err != nil {
		return err
	}
	switch accepts(c, echo.MIMEApplicationJSON, typeNDJSON, typeStream) {
	case typeNDJSON:
		return s.ndjson(c, id, after)
	case typeStream:
		if last := c.Request().Header.Get("Last-Event-ID"); last != "" {
			if after, err = strconv.ParseInt(last, 10, 64); err != nil || after < 0 {
				return fail("invalid_request", "Last-Event-ID is the id of the last event received: a whole number")
			}
		}
		return s.stream(c, id, after)
	case "":
		return fail("not_acceptable", "accept application/json, %s or %s", typeNDJSON, typeStream)
	}
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.Limits.Request)
	defer cancel()
	records, err := s.records(ctx, id, after, limit+1)
	if err != nil {
		return sagaError(id, err)
	}
	return reply(c, http.StatusOK, cut(records, limit, func(last journal.Record) string { return strconv.FormatInt(last.Seq, 10) }))
}

// accepts returns the offer that the Accept header names first: the first offer if the client
// accepts anything, "" if it accepts none.
func accepts(c echo.Context, offers ...string) string {
	header := strings.Join(c.Request().Header.Values(echo.HeaderAccept), ",")
	if header == "" {
		return offers[0]
	}
	for part := range strings.SplitSeq(header, ",") {
		t, params, err := mime.ParseMediaType(part)
		if err != nil || params["q"] == "0" {
			continue
		}
		for _, offer := range offers {
			if t == offer || t == "*/*" || strings.TrimSuffix(t, "*") == offer[:strings.Index(offer, "/")+1] {
				return offer
			}
		}
	}
	return ""
}

// eachRecord calls f for each record after a seq, up to the present end of the journal.
func (s *server) eachRecord(ctx context.Context, id uuid.UUID, after int64, f func(journal.Record) error) error {
	for {
		page, err := s.records(ctx, id, after, recordsPage)
		if err != nil {
			return sagaError(id, err)
		}
		for _, r := range page {
			if err := f(r); err != nil {
				return err
			}
			after = r.Seq
		}
		if len(page) < recordsPage {
			return nil
		}
	}
}

// ndjson writes one record per line.
func (s *server) ndjson(c echo.Context, id uuid.UUID, after int64) error {
	w := c.Response()
	if _, err := s.records(c.Request().Context(), id, after, 1); err != nil {
		return sagaError(id, err)
	}
	w.Header().Set(echo.HeaderContentType, typeNDJSON)
	w.WriteHeader(http.StatusOK)
	return s.eachRecord(c.Request().Context(), id, after, func(r journal.Record) error {
		line, err := r.MarshalJSON()
		if err != nil {
			return err
		}
		_, err = w.Write(append(line, '\n'))
		return err
	})
}

// stream writes one event per record, with the seq as the event's id, until it has written
// `finished`, the client disconnects, its key lapses or the server stops. A client that reconnects
// with Last-Event-ID misses no record and gets none twice.
func (s *server) stream(c echo.Context, id uuid.UUID, after int64) error {
	ctx := c.Request().Context()
	grown, stop := s.cfg.Engine.Watch(id)
	defer stop()
	if after > 0 {
		last, err := s.records(ctx, id, after-1, 1)
		if err != nil {
			return sagaError(id, err)
		}
		if len(last) == 1 && last[0].Kind == journal.Finished {
			return c.NoContent(http.StatusNoContent) // stops an EventSource from reconnecting
		}
		if len(last) == 0 { // the stream might wait for records that never come
			return fail("invalid_request", "the journal has no record %d: begin after one that you have read", after)
		}
	} else if _, err := s.records(ctx, id, 0, 1); err != nil {
		return sagaError(id, err)
	}
	w := c.Response()
	w.Header().Set(echo.HeaderContentType, typeStream)
	w.Header().Set("X-Accel-Buffering", "no") // keeps proxies from buffering events
	w.WriteHeader(http.StatusOK)
	w.Flush()

	// There may be many streams, and Watch reports this node's own sagas at once.
	poll := time.NewTicker(5 * s.cfg.Limits.Poll)
	defer poll.Stop()
	heartbeat := time.NewTicker(s.cfg.Limits.Heartbeat)
	defer heartbeat.Stop()
	for {
		ended := false
		err := s.eachRecord(ctx, id, after, func(r journal.Record) error {
			line, err := r.MarshalJSON()
			if err != nil {
				return err
			}
			after, ended = r.Seq, r.Kind == journal.Finished
			_, err = w.Write([]byte("id: " + strconv.FormatInt(r.Seq, 10) + "\ndata: " + string(line) + "\n\n"))
			return err
		})
		w.Flush()
		if ctx.Err() != nil {
			return nil // the client has left, so an error is of that, and nobody reads it
		}
		if err != nil || ended {
			return err
		}
		select {
		case <-grown:
		case <-poll.C:
		case <-heartbeat.C:
			if s.lapsed(c) {
				return nil // the client's next request gets the reason
			}
			if _, err := w.Write([]byte(": still here\n\n")); err != nil {
				return err
			}
		case <-s.cfg.Done:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}
