package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// startPath is the route of starts.
const startPath = "/v1/sagas"

// startFields are the fields of the body of a start.
var startFields = []string{"definition", "version", "input", "budget", "labels"}

// startSaga serves POST /v1/sagas.
func (s *server) startSaga(c echo.Context) error {
	wait := s.preferWait(c)
	// A start that waits for the saga's end also waits as long for its commit: a start that is
	// given up earlier may still be committed.
	ctx, cancel := context.WithTimeout(c.Request().Context(), wait+s.cfg.Limits.Request)
	defer cancel()
	o, err := s.readObject(c, startFields...)
	if err != nil {
		return err
	}
	body, err := s.body(c)
	if err != nil {
		return err
	}
	b := beginning{hash: fingerprint(c, body), wait: wait}
	if b.key, err = idempotencyKey(c); err != nil {
		return err
	}
	begun, replayed, err := s.startOnce(ctx, b, func() (machine.Begun, bool, error) {
		req, err := readStart(o)
		if err != nil {
			return machine.Begun{}, false, err
		}
		return s.startNew(ctx, req, b.of(c, req, s.cfg.Vars))
	})
	if err != nil {
		return err
	}
	defer begun.Stop()
	return s.answerStart(c, begun, replayed, b.wait)
}

// startOnce starts a saga, or finds the saga that was started with the same key. The key decides
// even if the definition, the actions or the input are no longer valid, so that a replay succeeds
// as the original did. If the saga found is the one that this start asked for, the start was
// durable although its node did not learn so: it is no replay.
func (s *server) startOnce(ctx context.Context, b beginning, start func() (machine.Begun, bool, error)) (machine.Begun, bool, error) {
	begun, replayed, wrong := start()
	if wrong == nil || ctx.Err() != nil {
		return begun, replayed, wrong
	}
	head, err := s.byKey(ctx, b)
	var other *problem
	switch {
	case errors.As(err, &other):
		return machine.Begun{}, false, err
	case err != nil || head == nil:
		return machine.Begun{}, false, wrong
	}
	again, err := s.confirmed(ctx, head.ID)
	if err != nil {
		return machine.Begun{}, false, wrong
	}
	if head.ID == begun.ID {
		again.First = begun.First
		return again, false, nil
	}
	return again, true, nil
}

// found is the result of a start whose saga existed already, as the engine has said.
func found(id uuid.UUID) machine.Begun { return machine.Begun{ID: id, Stop: func() {}} }

// confirmed is found for a saga that was only read. A response says that the saga is durable, so a
// commit confirms it first. Errors: those of Engine.Confirm.
func (s *server) confirmed(ctx context.Context, id uuid.UUID) (machine.Begun, error) {
	if err := s.cfg.Engine.Confirm(ctx); err != nil {
		return machine.Begun{}, err
	}
	return found(id), nil
}

// startNew starts a saga.
func (s *server) startNew(ctx context.Context, req startRequest, b beginning) (machine.Begun, bool, error) {
	b, err := s.choose(ctx, req, b)
	if err != nil {
		return machine.Begun{}, false, err
	}
	begun, replayed, err := s.begin(ctx, b)
	if !b.newest || !byVersion(err) {
		return begun, replayed, err
	}
	return s.startNewest(ctx, b, err)
}

// choose sets the definition of a start. If the cached newest version is taken, the start may fail
// with it and succeed with another: see startNewest.
func (s *server) choose(ctx context.Context, req startRequest, b beginning) (_ beginning, err error) {
	if req.version == 0 {
		b.version, b.def = s.cfg.Catalog.Recent(req.definition)
		b.newest = b.def != nil
	}
	if b.def == nil {
		b.def, b.version, err = s.pick(ctx, req.definition, req.version)
	}
	b.options.Version = b.version
	return b, err
}

// startNewest repeats a start that was wrong with the cached newest version of its definition, if
// there is a newer one.
func (s *server) startNewest(ctx context.Context, b beginning, wrong error) (machine.Begun, bool, error) {
	def, version, err := s.pick(ctx, b.def.Name, 0)
	switch {
	case err != nil:
		return machine.Begun{}, false, err
	case version == b.version && !errors.Is(wrong, journal.ErrNotNewest):
		return machine.Begun{}, false, wrong
	}
	b.def, b.version, b.newest, b.options.Version = def, version, false, version
	return s.begin(ctx, b)
}

// byVersion reports whether the start may succeed with another version of the definition.
func byVersion(err error) bool {
	p, ok := errors.AsType[*problem](err)
	return errors.Is(err, journal.ErrNotNewest) || ok && (p.Type == problemType+"invalid_start" || p.Type == problemType+"unique_taken")
}

// traceparent returns the request's trace context; "" unless there is exactly one.
func traceparent(c echo.Context) string {
	list := c.Request().Header.Values("Traceparent")
	if len(list) != 1 {
		return ""
	}
	return list[0]
}

// beginning holds the parameters of a start.
type beginning struct {
	key, hash string
	def       *saga.Definition
	version   int
	newest    bool // the start fails if a newer version exists when it commits
	options   machine.StartOptions
	opener    string        // of a session: see journal.Start
	wait      time.Duration // how long the client waits for the end
}

// of returns the beginning with the options of a client's start.
func (b beginning) of(c echo.Context, req startRequest, vars map[string]json.RawMessage) beginning {
	b.options = machine.StartOptions{Input: req.input, Vars: vars, Budget: req.budget, Labels: req.labels, Actor: callerOf(c).name, Traceparent: traceparent(c)}
	return b
}

// begin starts a saga, or finds the one that was started with the same key.
func (s *server) begin(ctx context.Context, b beginning) (begun machine.Begun, replayed bool, err error) {
	start, data, err := s.validStart(b)
	if err != nil {
		return machine.Begun{}, false, err
	}
	return s.launch(ctx, b, start, data)
}

// launch starts a saga whose start is valid, or finds the one that was started with the same key.
func (s *server) launch(ctx context.Context, b beginning, start journal.Start, data saga.StartedData) (begun machine.Begun, replayed bool, err error) {
	begun, err = s.cfg.Engine.Start(ctx, b.def, start, data, b.wait > 0)
	id := begun.ID
	begun.First = func() (machine.View, error) {
		at, err := uuid.TimestampFromV7(id)
		if err != nil {
			return machine.View{}, err
		}
		began, err := at.Time()
		if err != nil {
			return machine.View{}, err
		}
		return machine.FirstView(b.def, id, data, began.UTC().Truncate(time.Millisecond))
	}
	return s.begun(ctx, b, start.Unique, begun, err)
}

// validStart checks a start against its definition. A budget without a currency is one in the
// definition's.
func (s *server) validStart(b beginning) (journal.Start, saga.StartedData, error) {
	if given := b.options.Budget; given != nil && given.Amount != "" && given.Currency == "" {
		budget := *given
		budget.Currency, b.options.Budget = b.def.Currency, &budget
	}
	data, unique, findings := machine.Begin(b.def, b.options)
	for _, f := range s.cfg.Catalog.MissingSecrets(b.def) {
		findings = append(findings, saga.Finding{Code: saga.CodeSecretMissing, Detail: f.Detail})
	}
	if len(findings) > 0 {
		return journal.Start{}, data, fail("invalid_start", "fix the fields in `errors`; nothing was started, and the Idempotency-Key is still free").with(findings...)
	}
	return journal.Start{
		Definition: b.def.Name, Version: b.version, Newest: b.newest, SHA256: b.def.SHA256,
		Key: b.key, Hash: b.hash, Unique: unique, Opener: b.opener, RetryOf: b.options.RetryOf,
	}, data, nil
}

// begun turns the engine's result of a start into the response's.
func (s *server) begun(ctx context.Context, b beginning, unique string, begun machine.Begun, err error) (_ machine.Begun, replayed bool, _ error) {
	switch {
	case errors.Is(err, journal.ErrUnique):
		return machine.Begun{}, false, fail("unique_taken", "saga %s is running with the unique value %.100s: wait for its end, or cancel it", begun.ID, unique).of(begun.ID)
	case errors.Is(err, journal.ErrStartKey):
		head, err := s.byKey(ctx, b)
		if err != nil {
			return machine.Begun{}, false, err
		}
		if head == nil {
			return machine.Begun{}, false, saga.ErrUnavailable // the saga was deleted concurrently
		}
		return found(head.ID), true, nil
	}
	return begun, false, err
}

// byKey returns the saga that was started with a key, nil if there is none.
func (s *server) byKey(ctx context.Context, b beginning) (*journal.Head, error) {
	if b.key == "" {
		return nil, nil
	}
	head, err := s.startedAs(ctx, b.key)
	if head != nil && head.Hash != b.hash {
		return nil, keyReused().of(head.ID)
	}
	return head, err
}

// startedAs returns the saga whose start has this key, nil if there is none.
func (s *server) startedAs(ctx context.Context, key string) (*journal.Head, error) {
	head, err := s.cfg.Store.SagaByKey(ctx, key)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, err
	}
	return &head, nil
}

// answerStart responds with the saga, after its end if the client waits for that. A started saga is
// durable, so the response must report the start even if the wait fails or the saga cannot be read;
// then it shows the saga as it began.
func (s *server) answerStart(c echo.Context, begun machine.Begun, replayed bool, wait time.Duration) error {
	view, left := begun.View, wait
	if wait > 0 {
		until := time.Now().Add(wait)
		view = s.end(c.Request().Context(), begun, wait)
		left = time.Until(until)
	}
	h := c.Response().Header()
	h.Set(echo.HeaderLocation, "/v1/sagas/"+begun.ID.String())
	if replayed {
		l, err := s.afterWait(c, begun.ID, left, s.cfg.Limits.Request)
		if err != nil {
			h.Del(echo.HeaderLocation)
			return err
		}
		h.Set(replayHeader, "true")
		return l.answer(c, http.StatusOK)
	}
	if view == nil && !s.stopping() {
		if l, err := s.afterWait(c, begun.ID, left, s.cfg.Limits.Started); err == nil {
			v := l.m.View()
			view = &v
		} else {
			s.log.Warn("a saga was started but could not be read: the response shows it as it began", "saga", begun.ID, "error", err)
		}
	}
	if view == nil {
		v, err := begun.First()
		if err != nil {
			return err
		}
		view = &v
	}
	h.Set("ETag", seqTag(view.Seq))
	return reply(c, http.StatusCreated, view) // a new saga cannot be in quarantine, which its journal would not show
}

// afterWait reads a saga and waits for its end for the rest of the client's wait. timeout bounds
// the reads. If a later read fails, it returns the saga as first read.
func (s *server) afterWait(c echo.Context, id uuid.UUID, left, timeout time.Duration) (*live, error) {
	left = max(left, 0)
	ctx, cancel := context.WithTimeout(c.Request().Context(), left+timeout)
	defer cancel()
	l, err := s.load(ctx, id)
	if err == nil && left > 0 {
		if _, err := l.await(ctx, left, l.ended); err != nil {
			s.log.Debug("could not follow a saga to its end", "saga", id, "error", err)
		}
	}
	return l, err
}

// stopping reports whether the server is stopping.
func (s *server) stopping() bool {
	select {
	case <-s.cfg.Done:
		return true
	default:
		return false
	}
}

// end waits for the end of a saga that was started on this node and returns its final view. It
// returns nil if the saga does not end here in time, or at all: it may have been parked, or
// continue on another node.
func (s *server) end(ctx context.Context, begun machine.Begun, wait time.Duration) *machine.View {
	if begun.Ended == nil {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case m, ok := <-begun.Ended:
		if ok {
			v := m.View()
			return &v
		}
	case <-timer.C:
	case <-s.cfg.Done:
	case <-ctx.Done():
	}
	return nil
}

// answer responds with the saga.
func (l *live) answer(c echo.Context, status int) error {
	v, err := l.view(c.Request().Context())
	if err != nil {
		return err
	}
	c.Response().Header().Set("ETag", seqTag(l.m.Seq()))
	return reply(c, status, v)
}

// pick returns the definition for a start; version 0 is the newest.
func (s *server) pick(ctx context.Context, name string, version int) (*saga.Definition, int, error) {
	missing := func(err error) error {
		if errors.Is(err, journal.ErrNotFound) {
			p := fail("definition_not_found", "there is no definition %.100q: check the name, or publish it; GET /v1/definitions lists them", name)
			if version > 0 {
				p.Detail = "definition " + strconv.Quote(name) + " has no version v" + strconv.Itoa(version) + ": GET /v1/definitions/" + name + "/versions lists them"
			}
			return p
		}
		return err
	}
	if !nameForm.MatchString(name) {
		return nil, 0, missing(journal.ErrNotFound)
	}
	newest, def, err := s.cfg.Catalog.Newest(ctx, name)
	if err != nil || version == 0 || version == newest.Version {
		if version > 0 && errors.Is(err, saga.ErrUnusable) && version != newest.Version {
			def, err = s.cfg.Catalog.Definition(ctx, name, version)
			return def, version, missing(err)
		}
		return def, newest.Version, missing(err)
	}
	def, err = s.cfg.Catalog.Definition(ctx, name, version)
	return def, version, missing(err)
}
