package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
	sagareplay "recourse/saga/replay"
)

const (
	replayPage   = 1000             // the maximum of sagas that one request replays
	replayTime   = 10 * time.Second // after this time a request returns what it has, and a cursor
	replayLength = 50_000           // sagas with more records are skipped
	replayCursor = "replay"
)

// replayed is the result for one saga.
type replayed struct {
	Saga    string       `json:"saga"`
	Version saga.Version `json:"version"` // with which it ran
	sagareplay.Result
}

// skipped is a saga that could not be replayed.
type skipped struct {
	Saga   string `json:"saga"`
	Detail string `json:"detail"`
}

// replayPageView is the response of POST /v1/definitions/{name}/replay.
type replayPageView struct {
	page[replayed]
	Verdicts map[sagareplay.Verdict]int `json:"verdicts"`
	Skipped  []skipped                  `json:"skipped,omitempty"`
}

// replayDefinition serves POST /v1/definitions/{name}/replay: it tries a definition on the journals
// of the sagas of this name that have ended, the newest first. It sends and stores nothing.
func (s *server) replayDefinition(c echo.Context) error {
	o, err := s.readObject(c, "definition", "status", "labels", "started_after", "started_before", "limit", "cursor")
	if err != nil {
		return err
	}
	name, ctx := param(c, "name"), c.Request().Context()
	def, err := s.replacement(ctx, o, name)
	if err != nil {
		return err
	}
	f := o.endedSagas()
	f.Definition = name
	if err := o.err(); err != nil {
		return err
	}
	if _, _, err := s.pick(ctx, name, 0); err != nil && !errors.Is(err, catalog.ErrArchived) { // publishing revives it
		return err
	}
	v, err := s.replaySagas(ctx, def, f)
	if err != nil {
		return err
	}
	return reply(c, http.StatusOK, v)
}

// replacement compiles the definition to try.
func (s *server) replacement(ctx context.Context, o *object, name string) (*saga.Definition, error) {
	raw := o.raw("definition")
	if raw == nil || string(raw) == "null" {
		o.bad("/definition", "missing_field", "give the changed definition, as YAML text or as an object")
		return nil, o.err()
	}
	var text string
	if json.Unmarshal(raw, &text) != nil {
		text = string(raw)
	}
	def, err := s.cfg.Catalog.Compile(ctx, "definition.yaml", []byte(text))
	if err != nil {
		return nil, err
	}
	if def.Name != name {
		return nil, fail("invalid_definition", "the document says saga: %s, and the route names %s: make them the same", def.Name, name).with(saga.Finding{Pointer: "/definition", Code: "name_mismatch", Detail: "the definition's name is " + def.Name})
	}
	return def, nil
}

// endedSagas reads which sagas to replay.
func (o *object) endedSagas() journal.Filter {
	f := journal.Filter{Labels: o.labels(false), Limit: 100}
	ended := []string{string(saga.Succeeded), string(saga.Compensated), string(saga.Failed)}
	o.into("status", &f.Status, "a list of statuses")
	for i, status := range f.Status {
		if !slices.Contains(ended, status) {
			o.bad(fmt.Sprintf("/status/%d", i), "bad_status", "only sagas that have ended are replayed: succeeded, compensated or failed")
		}
	}
	if len(f.Status) == 0 {
		f.Status = ended
	}
	if o.into("limit", &f.Limit, "a whole number") && (f.Limit < 1 || f.Limit > replayPage) {
		o.bad("/limit", "out_of_range", "limit is 1 to %d", replayPage)
	}
	f.Started(o.time("started_after"), o.time("started_before"))
	if cursor := o.str("cursor"); cursor != "" {
		var before uuid.UUID
		fields, ok := unpack(cursor, replayCursor, 1)
		if ok {
			before, ok = idOf(fields[0])
		}
		if !ok {
			o.bad("/cursor", "bad_cursor", "send next_cursor unchanged, with the same fields")
		}
		f.Older(before)
	}
	return f
}

func idOf(text string) (uuid.UUID, bool) {
	id, err := uuid.FromString(text)
	return id, err == nil
}

// time reads a field that is a time; zero if it is absent.
func (o *object) time(name string) time.Time {
	text := o.str(name)
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		o.bad("/"+name, "bad_time", "%s is a time such as 2026-11-25T08:00:00Z", name)
	}
	return at
}

// replaySagas replays up to f.Limit sagas. Only one request at a time does so, because it may need
// a whole core.
func (s *server) replaySagas(ctx context.Context, def *saga.Definition, f journal.Filter) (*replayPageView, error) {
	select {
	case s.replays <- struct{}{}:
		defer func() { <-s.replays }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	v := &replayPageView{Verdicts: make(map[sagareplay.Verdict]int, len(sagareplay.Verdicts))}
	for _, verdict := range sagareplay.Verdicts {
		v.Verdicts[verdict] = 0
	}
	v.Data = []replayed{}
	began, limit := time.Now(), f.Limit
	f.Limit, f.MaxScanned = limit+1, s.cfg.Limits.Listed
	list, err := s.cfg.Store.Sagas(ctx, f)
	if err != nil {
		return nil, err
	}
	if !list.ScannedTo.IsNil() {
		v.Next = pack(replayCursor, list.ScannedTo.String())
	}
	for i, h := range list.Heads {
		if i == limit || i > 0 && time.Since(began) > replayTime {
			v.Next = pack(replayCursor, list.Heads[i-1].ID.String())
			break
		}
		res, err := s.replaySaga(ctx, def, h.ID)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err != nil {
			v.Skipped = append(v.Skipped, skipped{h.ID.String(), err.Error()})
			continue
		}
		v.Verdicts[res.Verdict]++
		v.Data = append(v.Data, replayed{Saga: h.ID.String(), Version: saga.Version(h.Version), Result: res})
	}
	return v, nil
}

// replaySaga replays one saga.
func (s *server) replaySaga(ctx context.Context, def *saga.Definition, id uuid.UUID) (sagareplay.Result, error) {
	var records []journal.Record
	err := s.eachRecord(ctx, id, 0, func(r journal.Record) error {
		if len(records) == replayLength {
			return errors.New("it has more than 50,000 records")
		}
		records = append(records, r)
		return nil
	})
	if err != nil {
		return sagareplay.Result{}, err
	}
	return sagareplay.Against(def, id, records, sagareplay.Options{Vars: s.cfg.Vars})
}
