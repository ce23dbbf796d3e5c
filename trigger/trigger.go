// Package trigger starts sagas for the events and times that their definitions name.
//
// Each event and each time starts a saga only once. The start's key is derived from them, and no
// client can use it. So the store detects a repetition, on every node, even if a node dies in
// between.
package trigger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Engine runs sagas.
type Engine interface {
	// Start is engine.Engine's.
	Start(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData, follow bool) (machine.Begun, error)
	// Confirm is engine.Engine's.
	Confirm(ctx context.Context) error
	// Now returns the time of the store's clock.
	Now() time.Time
}

// Store is the part of the journal that is needed besides the engine.
type Store interface {
	journal.Schedules
	// SagaByKey is journal.Index's.
	SagaByKey(ctx context.Context, key string) (journal.Head, error)
}

// Config configures a Starter. All fields but Log are required.
type Config struct {
	Store   Store
	Catalog *catalog.Catalog
	Engine  Engine
	Vars    map[string]json.RawMessage // the server's; a start pins those that its definition reads
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

// Refused is a trigger that matched an event, but could not start its saga.
type Refused struct {
	Definition string
	Trigger    int // the trigger's index in the definition, from 0
	Findings   []saga.Finding
}

// known is how old the list of definitions may be that an event is matched against.
const known = time.Second

// tries limits how often an event is matched against a definition that is published again
// meanwhile.
const tries = 4

// Event starts a saga for each trigger that matches an event, or finds the saga that the same event
// has started before. After an error it is unknown which sagas were started. The missing ones are
// started when the event is sent again. The error is saga.ErrUnusable if the event also starts
// sagas of a definition that only a newer program can compile: then all others were started.
func (s *Starter) Event(ctx context.Context, e *saga.Event, actor string) (started []Started, refused []Refused, err error) {
	done := make(map[string]bool)
	age := known
	for range tries {
		list, not, err := s.cfg.Catalog.Triggered(ctx, age)
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
			return started, refused, s.unusable(not, e)
		}
		age = 0
	}
	return started, refused, saga.ErrUnavailable
}

// unusable returns the error of the first definition that an event starts and that this program
// cannot compile. To accept the event would be to lose it, because no other node sees it.
func (s *Starter) unusable(list []catalog.Unusable, e *saga.Event) error {
	for _, u := range list {
		if slices.ContainsFunc(u.Events, func(p string) bool { return saga.MatchEvent(p, e.Type) }) {
			s.log.Warn("an event that starts sagas of a definition was refused, because this release cannot read the definition: run the release that has published it",
				"definition", u.Name, "version", u.Version, "event", e.ID, "source", e.Source, "error", u.Err)
			return u.Err
		}
	}
	return nil
}

// each matches an event against the triggers of one definition.
func (s *Starter) each(ctx context.Context, t catalog.Triggered, e *saga.Event, actor string) (started []Started, refused []Refused, err error) {
	names := make(ordinals)
	for i, one := range t.Definition.Triggers {
		if one.Event == "" || !saga.MatchEvent(one.Event, e.Type) {
			continue
		}
		key := eventKey(t.Definition.Name, names.name(url.QueryEscape(one.Event)), e)
		id, findings, err := s.start(ctx, t, one, e, key, actor)
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

// ordinals names triggers of a definition so that a name stays the same if other triggers are
// inserted or moved. It counts those with the same base.
type ordinals map[string]int

// name returns base for the first trigger, base#2 for the second, and so on. A base has no "#".
func (o ordinals) name(base string) string {
	o[base]++
	if o[base] == 1 {
		return base
	}
	return base + "#" + strconv.Itoa(o[base])
}

// eventKey returns the start key of an event for a trigger, which is named by its escaped pattern.
// All but the last part are escaped so that no other event's key can be the same.
func eventKey(definition, trigger string, e *saga.Event) string {
	return journal.EventKeyPrefix + definition + ":" + trigger + ":" + url.QueryEscape(e.Source) + ":" + e.ID
}

// start starts the saga of a trigger, or finds the saga that was started under the same key. If it
// returns no id and no findings, the trigger's `if` is false.
func (s *Starter) start(ctx context.Context, t catalog.Triggered, by *saga.Trigger, e *saga.Event, key, actor string) (uuid.UUID, []saga.Finding, error) {
	id, findings, err := s.begin(ctx, t, by, e, key, actor)
	if len(findings) == 0 {
		return id, nil, err
	}
	// It may have been started by an earlier version of the definition, or may itself have the
	// unique value.
	head, err := s.cfg.Store.SagaByKey(ctx, key)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return uuid.Nil, findings, nil
	case err != nil:
		return uuid.Nil, nil, err
	}
	return head.ID, nil, s.cfg.Engine.Confirm(ctx)
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
	data, unique, findings := machine.Begin(def, machine.StartOptions{Version: t.Version, Input: input, Vars: s.cfg.Vars, Actor: actor, Traceparent: e.Traceparent})
	if len(findings) > 0 {
		return uuid.Nil, findings, nil
	}
	begun, err := s.cfg.Engine.Start(ctx, def, journal.Start{Definition: def.Name, Version: t.Version, Newest: true, SHA256: def.SHA256, Key: key, Hash: key, Unique: unique}, data, false)
	switch {
	case errors.Is(err, journal.ErrUnique):
		return fails("unique_taken", "saga %s is running with the unique value %.100s", begun.ID, unique)
	case errors.Is(err, journal.ErrStartKey):
		return begun.ID, nil, nil
	case err != nil:
		return uuid.Nil, nil, err
	}
	begun.Stop()
	return begun.ID, nil, nil
}
