package api

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// stubRequest is the outcome that a step of a fork is to have.
type stubRequest struct {
	Output json.RawMessage `json:"output"`
	Error  *saga.Failure   `json:"error"`
}

// fork serves POST /v1/sagas/{id}/fork, and the same for sessions: it starts a saga that begins as
// this one was after one of its records.
func (s *server) fork(c echo.Context) error {
	o, err := s.readObject(c, "at", "effects", "input", "stubs", "budget", "reason")
	if err != nil {
		return err
	}
	f, budget, reason := o.fork(), o.budget(), o.reason(false)
	if len(o.wrong) > 0 {
		return fail("invalid_fork", "%s", o.wrong[0].Detail).with(o.wrong...)
	}
	if who := callerOf(c); f.Effects == saga.RealEffects && !who.can(opOperate) {
		return fail("forbidden", "only an operator starts a fork that sends what has an effect without asking (effects: real): the key %q has the role %s", who.name, who.role)
	}
	l, err := s.named(c)
	if err != nil {
		return err
	}
	b, done, err := s.follows(c, l)
	if done || err != nil {
		return err
	}
	switch {
	case l.m.TurnedBack() && !l.ended():
		return fail("compensating", "it is being undone, and a fork would read results that no longer hold: fork it when it has ended").of(l.id)
	case f.Effects == saga.RealEffects && !l.ended():
		return fail("saga_live", "a fork that sends what has an effect (effects: real) is possible when the saga has ended: until then, both would do the same").of(l.id)
	case l.bytes > maxOrigin:
		return fail("fork_too_large", "its journal has %d bytes, and a saga with more than %d is not forked", l.bytes, maxOrigin).of(l.id)
	}
	was, err := history.Started(l.records)
	if err != nil {
		return err
	}
	if budget == nil {
		budget = l.budget()
	}
	data, unique, findings := l.m.BeginFork(f, l.records, machine.StartOptions{Vars: s.retryVars(was), Budget: budget, Actor: callerOf(c).name, Reason: reason, Traceparent: traceparent(c)})
	if len(findings) == 0 {
		findings = s.cfg.Catalog.MissingSecrets(l.def)
	}
	if len(findings) > 0 {
		return fail("invalid_fork", "%s; nothing was started", findings[0].Detail).with(findings...).of(l.id)
	}
	start := journal.Start{Definition: data.Definition, Version: int(data.Version), SHA256: data.SHA256, Key: b.key, Hash: b.hash, Unique: unique, ForkedFrom: l.id}
	begun, replayed, err := s.launch(c.Request().Context(), b, start, data)
	if err != nil {
		return err
	}
	defer begun.Stop()
	return s.answerStart(c, begun, replayed, b.wait)
}

// fork reads how a fork differs from its original.
func (o *object) fork() machine.ForkOptions {
	f := machine.ForkOptions{Effects: saga.Effects(o.str("effects")), Input: o.raw("input")}
	if o.into("at", &f.At, "the seq of a record") && f.At < 1 {
		o.bad("/at", "out_of_range", "at is the seq of one of the saga's records, from 1 on; left out, it is the last possible one")
	}
	var stubs map[string]json.RawMessage
	const shape = `{"output": …}, or {"error": {"code": …, "title": …}}`
	if !o.into("stubs", &stubs, `an object such as {"book": {"output": {"id": "b1"}}}`) {
		return f
	}
	f.Stubs = make(map[string]saga.Stub, len(stubs))
	for _, name := range slices.Sorted(maps.Keys(stubs)) {
		var stub stubRequest
		in := json.NewDecoder(bytes.NewReader(stubs[name]))
		in.DisallowUnknownFields()
		if err := in.Decode(&stub); err != nil {
			o.bad("/stubs", "bad_stub", "the stub of %.100q must be %s", name, shape)
		}
		f.Stubs[name] = saga.Stub(stub)
	}
	return f
}

func isFork(l *live) bool {
	of, _ := l.m.ForkOf()
	return !of.IsNil()
}
