// Package client performs the requests of run steps: it starts child sagas and reverts them.
package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// Definitions finds compiled definitions.
type Definitions interface {
	// Definition returns a version. The error wraps journal.ErrNotFound if there is none.
	Definition(ctx context.Context, name string, version int) (*saga.Definition, error)
	// Newest returns the newest version. The error wraps journal.ErrNotFound if there is none, or
	// if it takes no new sagas.
	Newest(ctx context.Context, name string) (journal.Document, *saga.Definition, error)
}

// Engine starts sagas and sends messages.
type Engine interface {
	// StartChild starts a saga with the given id. Errors are those of a start. journal.ErrStartKey
	// and journal.ErrConflict mean that the saga exists already, journal.ErrParentEnded that it
	// never will. With saga.ErrUnavailable it was not started, unless the error also wraps
	// journal.ErrUnknown.
	StartChild(ctx context.Context, id uuid.UUID, def *saga.Definition, start journal.Start, data saga.StartedData) error
	// Send stores a message for a saga.
	Send(ctx context.Context, m journal.Message) error
}

// Sagas reads sagas.
type Sagas interface {
	Saga(ctx context.Context, id uuid.UUID) (journal.Head, error)
	Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]journal.Record, error)
}

// Caller starts sagas for the steps of others, and reverts them. Both requests may be repeated, and
// have an effect once.
type Caller struct {
	Engine      Engine
	Sagas       Sagas
	Definitions Definitions
	Vars        map[string]json.RawMessage // the server's
}

// Call performs a request. If the saga will report its result itself, the answer's code is
// saga.Spawned.
func (c *Caller) Call(ctx context.Context, req saga.Request) saga.Answer {
	child := req.Child
	if child == nil {
		return refused("request_invalid", "the request names no saga")
	}
	id, parent := uuid.FromStringOrNil(child.Saga), uuid.FromStringOrNil(child.Parent)
	if id.IsNil() || parent.IsNil() {
		return refused("request_invalid", "the request names no saga")
	}
	if child.Revert {
		return c.revert(ctx, id, parent)
	}
	return c.start(ctx, id, parent, child, req.Traceparent)
}

// recordsPage is the number of records that are read at once.
const recordsPage = 1000

// refused returns the answer for a request that has no effect and never will.
func refused(code, format string, args ...any) saga.Answer {
	return saga.Answer{Code: code, Detail: fmt.Sprintf(format, args...), Final: true}
}

func (c *Caller) start(ctx context.Context, id, parent uuid.UUID, child *saga.ChildRequest, traceparent string) saga.Answer {
	name, version, ok := saga.RunTarget(child.Definition)
	if !ok {
		return refused("request_invalid", "%q names no definition", child.Definition)
	}
	if report, found := c.report(ctx, id); found {
		return report
	}
	def, version, err := c.definition(ctx, name, version)
	switch {
	case errors.Is(err, journal.ErrNotFound):
		return refused("definition_not_found", "there is no definition %s that takes new sagas: publish it", name)
	case err != nil:
		return saga.Answer{Code: "not_started", Detail: "definition " + name + " could not be read: " + err.Error()}
	}
	data, unique, findings := machine.Begin(def, machine.StartOptions{Version: version, Input: child.Input, Vars: c.Vars, Actor: "saga " + parent.String(), Traceparent: traceparent,
		Budget: machine.WithinBudget(def, child.Budget), Parent: &saga.ParentData{Saga: parent.String(), Path: child.Path, Depth: child.Depth, Starter: child.Starter, Budget: child.Budget}})
	if len(findings) > 0 {
		return refused("invalid_start", "%s v%d does not take this start: %s: %s", name, version, findings[0].Pointer, findings[0].Detail)
	}
	err = c.Engine.StartChild(ctx, id, def, journal.Start{Definition: def.Name, Version: version, SHA256: def.SHA256, Key: journal.ChildKeyPrefix + id.String(), Unique: unique, Parent: parent, Final: child.Final}, data)
	switch {
	case err == nil, errors.Is(err, journal.ErrStartKey):
		return saga.Answer{Sent: true, Code: saga.Spawned}
	// The saga exists, or an earlier start of it is still being committed, which may fail.
	case errors.Is(err, journal.ErrConflict):
		if report, found := c.report(ctx, id); found {
			return report
		}
	case errors.Is(err, journal.ErrUnique):
		return saga.Answer{Code: "unique_taken", Detail: "another live saga of " + name + " has the unique value " + unique}
	case errors.Is(err, journal.ErrParentEnded):
		return refused(saga.CodeParentEnded, "saga %s, whose step this is, has ended or is being undone", parent)
	case errors.Is(err, saga.ErrUnavailable) && !errors.Is(err, journal.ErrUnknown):
		return saga.Answer{Code: "not_started", Detail: err.Error()}
	}
	return saga.Answer{Sent: true, Code: "connection", Detail: err.Error()}
}

func (c *Caller) definition(ctx context.Context, name string, version int) (*saga.Definition, int, error) {
	if version > 0 {
		def, err := c.Definitions.Definition(ctx, name, version)
		return def, version, err
	}
	doc, def, err := c.Definitions.Newest(ctx, name)
	return def, doc.Version, err
}

// report looks up the saga, and returns its result if it has one. The saga may have reported it
// before the parent could receive it.
func (c *Caller) report(ctx context.Context, id uuid.UUID) (saga.Answer, bool) {
	head, err := c.Sagas.Saga(ctx, id)
	if errors.Is(err, journal.ErrNotFound) {
		return saga.Answer{}, false
	}
	m, err := c.machine(ctx, head, err)
	if err != nil { // an earlier attempt, or this one before a crash, may have started it
		return saga.Answer{Sent: true, Code: "connection", Detail: err.Error()}, true
	}
	if report := m.Report(); report != nil {
		return report.Answer(), true
	}
	return saga.Answer{Sent: true, Code: saga.Spawned}, true
}

func (c *Caller) machine(ctx context.Context, head journal.Head, err error) (*machine.Machine, error) {
	if err != nil {
		return nil, err
	}
	def, err := c.Definitions.Definition(ctx, head.Definition, head.Version)
	if err != nil {
		return nil, err
	}
	var records []journal.Record
	for {
		page, err := c.Sagas.Records(ctx, head.ID, int64(len(records)), recordsPage)
		if err != nil {
			return nil, err
		}
		if records = append(records, page...); len(page) < recordsPage {
			return machine.Replay(def, head.ID, records)
		}
	}
}

// revert reverts a child that has reached its goal.
func (c *Caller) revert(ctx context.Context, id, parent uuid.UUID) saga.Answer {
	head, err := c.Sagas.Saga(ctx, id)
	if errors.Is(err, journal.ErrNotFound) {
		return refused(saga.NoSaga, "there is no saga %s", id)
	}
	m, err := c.machine(ctx, head, err)
	if err != nil {
		return saga.Answer{Code: "not_started", Detail: err.Error()}
	}
	switch report := m.Report(); m.Status() {
	case saga.Compensated:
		// Also if the child was undone because it failed, which its report says.
		return (&saga.TaskResult{Outcome: saga.TaskCompleted, Output: json.RawMessage("null"), Child: report.Child}).Answer()
	case saga.Succeeded:
		a := refused("child_succeeded", "saga %s has ended as succeeded, and can no longer be undone", id)
		a.Report = &saga.Report{Child: report.Child}
		return a
	case saga.Failed:
		report.InDoubt = false // the effects that remain will not change: a person must act
		return report.Answer()
	}
	message, err := saga.Command{Do: saga.Revert{}, Reason: "its parent is undone", Actor: "saga " + parent.String()}.Message(uuid.NewV5(id, "revert:"+parent.String()), id)
	if err != nil {
		return refused("request_invalid", "%v", err)
	}
	if err := c.Engine.Send(ctx, message); err != nil {
		return saga.Answer{Sent: true, Code: "connection", Detail: err.Error()}
	}
	return saga.Answer{Sent: true, Code: saga.Spawned}
}
