package api

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// approve serves POST /v1/sagas/{id}/steps/{path}/approve.
func (s *server) approve(c echo.Context) error {
	return s.decide(c, func(shown string, data json.RawMessage) saga.Operation { return saga.Approve{Shown: shown, Data: data} })
}

// reject serves POST /v1/sagas/{id}/steps/{path}/reject.
func (s *server) reject(c echo.Context) error {
	return s.decide(c, func(shown string, data json.RawMessage) saga.Operation { return saga.Reject{Shown: shown, Data: data} })
}

// decide records a person's decision about an approval. The same decision again, by the same
// person, gets the same response, with the same Idempotency-Key or without one.
func (s *server) decide(c echo.Context, do func(shown string, data json.RawMessage) saga.Operation) error {
	o, err := s.readObject(c, "comment", "data", "shown")
	if err != nil {
		return err
	}
	who := callerOf(c)
	cmd := saga.Command{Do: do(o.str("shown"), o.raw("data")), Path: param(c, "path"), Reason: o.comment(), Actor: who.name, Role: who.role, Trusted: who.isAnonymous()}
	if err := o.incomplete(); err != nil {
		return err
	}
	l, err := s.named(c)
	if err != nil {
		return err
	}
	if err := l.hasStep(cmd.Path); err != nil {
		return err
	}
	done, err := l.execute(c, cmd)
	if err != nil {
		if err := l.decided(cmd, err); err != nil {
			return err
		}
		done = true
	}
	views, err := machine.Steps(l.m, l.records)
	if err != nil {
		return err
	}
	return l.answerStep(c, appliedStatus(c, done), views, cmd.Path)
}

// comment reads the comment of a decision.
func (o *object) comment() string {
	comment := o.str("comment")
	if utf8.RuneCountInString(comment) > maxReason {
		o.bad("/comment", "too_long", "a comment has at most %d characters", maxReason)
	}
	return comment
}

// hasStep returns a problem unless the saga has the step. A step in a loop exists from the start of
// its iteration.
func (l *live) hasStep(path string) error {
	views, err := machine.Steps(l.m, nil)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(views, func(v machine.StepView) bool { return v.Path == path }) {
		return noStep(path).of(l.id)
	}
	return nil
}

// decision is a recorded decision about an approval.
type decision struct {
	saga.CommandData
	at time.Time
}

// decision returns the decision about the last request for approval of a step, or whether that
// request has expired. nil, false means neither.
func (l *live) decision(path string) (d *decision, expired bool) {
	for _, r := range slices.Backward(l.records) {
		if r.Path != path {
			continue
		}
		switch r.Kind {
		case journal.Intent:
			return nil, expired
		case journal.Woke:
			expired = true
		case journal.Operator:
			if d, ok := history.DataOf[saga.CommandData](&r); ok && d.Rejected == nil && (d.Kind == "approve" || d.Kind == "reject") {
				return &decision{CommandData: d, at: r.At}, false
			}
		}
	}
	return nil, expired
}

// decided handles the saga's refusal err of a decision. It returns nil if the same person has
// already decided the same, else a problem that names the recorded decision, if there is one.
func (l *live) decided(cmd saga.Command, err error) error {
	var p *problem
	if !errors.As(err, &p) || p.Type != problemType+"decided" && p.Type != problemType+"terminal" {
		return err
	}
	d, expired := l.decision(cmd.Path)
	switch {
	case d == nil && expired:
		return fail("expired", "nobody decided before the approval expired: see the step for what followed").of(l.id).at(cmd.Path)
	case d == nil:
		return err
	case d.Kind == cmd.Do.Verb() && d.Actor == cmd.Actor && l.sameDecision(cmd, d):
		return nil
	}
	did := map[string]string{"approve": "approved", "reject": "rejected"}[d.Kind]
	return fail("decided", "%s has %s it, at %s: a decision is final", d.Actor, did, d.at.UTC().Format(journal.TimeFormat)).of(l.id).at(cmd.Path)
}

// sameDecision reports whether a decision is about the same content as the recorded one, and has
// the same data.
func (l *live) sameDecision(cmd saga.Command, recorded *decision) bool {
	again := cmd.Record(uuid.Nil, nil)
	if again.Shown != "" && recorded.Shown != "" && again.Shown != recorded.Shown {
		return false
	}
	if body, ok := l.def.Step(cmd.Path).Body.(saga.Approver); ok && recorded.Kind == "approve" {
		again.Output, _ = body.Decide(again.Output)
	}
	return equalJSON(again.Output, recorded.Output)
}

// equalJSON reports whether two documents differ only in white space. An absent document equals
// null.
func equalJSON(a, b json.RawMessage) bool {
	texts := [2]string{"null", "null"}
	for i, doc := range []json.RawMessage{a, b} {
		if len(doc) == 0 {
			continue
		}
		text, err := journal.Encode(doc)
		if err != nil {
			return false
		}
		texts[i] = string(text)
	}
	return texts[0] == texts[1]
}
