// Package trigger starts sagas that nobody asks for one by one: those whose
// definitions say that an event, or a time, starts them.
//
// An event and a time are acted on once: the saga's start has a key that is made of them, which no
// client can take, so the store knows a repetition, whichever node it comes to and whoever dies in
// between.
package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
)

// Engine is who runs sagas.
type Engine interface {
	// Start is that of engine.Engine.
	Start(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData, follow bool) (saga.Begun, error)
	// Now is the store's clock.
	Now() time.Time
}

// Store is what is looked up besides.
type Store interface {
	journal.Schedules
	// SagaByKey is that of journal.Index.
	SagaByKey(ctx context.Context, key string) (journal.Head, error)
}

// Config is what a Starter is made of. All fields but Log are required.
type Config struct {
	Store   Store
	Catalog *catalog.Catalog
	Engine  Engine
	Vars    map[string]json.RawMessage // the server's; starts pin what their definition reads
	Log     *slog.Logger               // nil: discard
}

// Starter starts sagas. It is safe for concurrent use.
type Starter struct {
	cfg Config
	log *slog.Logger
}

// New returns a Starter.
func New(cfg Config) *Starter {
	s := &Starter{cfg: cfg, log: cfg.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	return s
}

// Started is a saga that an event has started.
type Started struct {
	Definition string
	Saga       uuid.UUID
}

// Refused is a trigger that meant an event, and could not start its saga.
type Refused struct {
	Definition string
	Trigger    int // its place in the definition, from 0
	Findings   []saga.Finding
}

// known is how old the list of definitions may be that an event is held against.
const known = time.Second

// tries bounds how often an event is held against a definition that is published anew meanwhile.
const tries = 4

// Event starts a saga for each trigger that means an event, or finds the one that the
// same event has started before. An error says that it is not known what was started: what was not
// is, when the event comes again.
func (s *Starter) Event(ctx context.Context, e *saga.Event, actor string) (started []Started, refused []Refused, err error) {
	done := make(map[string]bool)
	age := known
	for range tries {
		list, err := s.cfg.Catalog.Triggered(ctx, age)
		if err != nil {
			return started, refused, err
		}
		stale := false
		for _, t := range list {
			if done[t.Definition.Name] {
				continue
			}
			ok, no, err := s.each(ctx, t, e, actor)
			if errors.Is(err, journal.ErrNotNewest) {
				stale = true
				continue
			}
			started, refused = append(started, ok...), append(refused, no...)
			if err != nil {
				return started, refused, err
			}
			done[t.Definition.Name] = true
		}
		if !stale {
			return started, refused, nil
		}
		age = 0
	}
	return started, refused, saga.ErrUnavailable
}

// each holds an event against the triggers of one definition.
func (s *Starter) each(ctx context.Context, t catalog.Triggered, e *saga.Event, actor string) (started []Started, refused []Refused, err error) {
	for i, one := range t.Definition.Triggers {
		if one.Event == "" || !saga.MatchEvent(one.Event, e.Type) {
			continue
		}
		id, findings, err := s.start(ctx, t, one, e, eventKey(t.Definition.Name, i, e), actor)
		switch {
		case err != nil:
			return started, refused, err
		case len(findings) > 0:
			s.log.Warn("an event could not start a saga", "definition", t.Definition.Name, "trigger", i, "source", e.Source, "event", e.ID, "why", findings[0].Code+": "+findings[0].Detail)
			refused = append(refused, Refused{t.Definition.Name, i, findings})
		case !id.IsNil():
			started = append(started, Started{t.Definition.Name, id})
		}
	}
	return started, refused, nil
}

// eventKey is the start key of an event. No client's key has this form: those begin with who the
// client is. The source is escaped so that no other event's key can be the same.
func eventKey(definition string, trigger int, e *saga.Event) string {
	return "event:" + definition + ":" + strconv.Itoa(trigger) + ":" + url.QueryEscape(e.Source) + ":" + e.ID
}

// maxUnique bounds a saga's unique value, as at other starts.
const maxUnique = 1024

// start starts the saga of a trigger, or finds the one that was started under the same key. No id
// and no findings: the trigger does not want it.
func (s *Starter) start(ctx context.Context, t catalog.Triggered, by *saga.Trigger, e *saga.Event, key, actor string) (uuid.UUID, []saga.Finding, error) {
	id, findings, err := s.begin(ctx, t, by, e, key, actor)
	if len(findings) == 0 {
		return id, nil, err
	}
	// It may have begun when the definition was another, or have the unique value itself.
	head, err := s.cfg.Store.SagaByKey(ctx, key)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return uuid.Nil, findings, nil
	case err != nil:
		return uuid.Nil, nil, err
	}
	return head.ID, nil, nil
}

func (s *Starter) begin(ctx context.Context, t catalog.Triggered, by *saga.Trigger, e *saga.Event, key, actor string) (uuid.UUID, []saga.Finding, error) {
	fails := func(code, format string, args ...any) (uuid.UUID, []saga.Finding, error) {
		return uuid.Nil, []saga.Finding{{Code: code, Detail: fmt.Sprintf(format, args...)}}, nil
	}
	yes, err := by.Wants(e)
	if err != nil {
		return fails("if_failed", "`if` could not be evaluated: %s", err)
	}
	if !yes {
		return uuid.Nil, nil, nil
	}
	input, err := by.Begin(e)
	if err != nil {
		return fails("input_failed", "`input` could not be evaluated: %s", err)
	}
	def := t.Definition
	data, unique, findings := saga.Begin(def, saga.StartOptions{Version: t.Version, Input: input, Vars: s.cfg.Vars, Actor: actor, Traceparent: e.Traceparent})
	if len(findings) > 0 {
		return uuid.Nil, findings, nil
	}
	if len(unique) > maxUnique {
		return fails("unique_too_long", "`unique` gives a value of %d bytes, more than the %d allowed: use an id, or a hash", len(unique), maxUnique)
	}
	begun, err := s.cfg.Engine.Start(ctx, def, journal.Start{Definition: def.Name, Version: t.Version, Newest: true, SHA256: def.SHA256, Key: key, Hash: key, Unique: unique}, data, false)
	switch {
	case errors.Is(err, journal.ErrUnique):
		return fails("unique_taken", "saga %s is under way with the unique value %.100s", begun.ID, unique)
	case errors.Is(err, journal.ErrStartKey):
		return begun.ID, nil, nil
	case err != nil:
		return uuid.Nil, nil, err
	}
	begun.Stop()
	return begun.ID, nil, nil
}
