package dsl

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// Session compiles a session: each of its actions, such as refund@3, becomes the step that a call
// of it will be, with the defaults that a step of a definition has. The errors are those of a
// definition that uses these actions, or of the policy's durations; their places mean nothing to a
// user.
func Session(d *saga.SessionData, o Options) (*saga.Definition, *Errors) {
	type step struct {
		ID   string `json:"id"`
		Use  string `json:"use"`
		With string `json:"with"` // of any type: a call's input is validated when it is made
	}
	doc := struct {
		Saga    string `json:"saga"`
		Timeout string `json:"timeout,omitempty"`
		Steps   []step `json:"steps"`
	}{Saga: "session", Timeout: d.Timeout}
	for i, ref := range d.Actions { // a step's id cannot have the dashes of an action's name
		doc.Steps = append(doc.Steps, step{ID: "a" + strconv.Itoa(i), Use: ref, With: "${input}"})
	}
	def, errs := Parse("session", saga.Encode(doc), o)
	if errs != nil {
		return nil, errs
	}
	policy := *d
	policy.Complete()
	s := &saga.Session{
		Actions: make(map[string]*saga.SessionAction, len(def.Steps)), Name: d.Name, Data: d,
		MaxCalls: policy.MaxCalls, MaxParallel: policy.MaxParallel, MaxAsks: policy.MaxAsks, MaxSteps: policy.MaxSteps, LostThen: policy.OnLost.Then,
	}
	for _, k := range o.Kinds {
		if k.Ask != nil {
			s.Ask = k.Ask
		}
	}
	for _, pattern := range d.Ignore {
		re, err := regexp.Compile(pattern)
		if err != nil {
			return nil, &Errors{List: []Error{{File: "session", Code: "bad_pattern", Detail: err.Error()}}}
		}
		s.Ignore = append(s.Ignore, re)
	}
	var wrong error
	for _, f := range []struct {
		into *time.Duration
		text string
	}{{&s.Lease, policy.Lease}, {&s.LostWait, policy.OnLost.Wait}} {
		var err error
		*f.into, err = ParseDuration(f.text)
		wrong = cmp.Or(wrong, err)
	}
	if wrong != nil {
		return nil, &Errors{List: []Error{{File: "session", Code: "bad_duration", Detail: wrong.Error()}}}
	}
	def.ByID = make(map[string]*saga.Step, len(def.Steps))
	for _, st := range def.Steps {
		a, err := o.Actions(st.Use.Action, st.Use.Version)
		if err != nil { // it was found for the step
			return nil, &Errors{List: []Error{{File: "session", Code: "unknown_action", Detail: err.Error()}}}
		}
		def.ByID[a.Name] = st // by which a call's path finds it
		s.Actions[a.Name] = &saga.SessionAction{Step: st, Undo: undoing(a, st), Agents: a.Agents, Once: a.Once}
	}
	if s.Ask != nil {
		def.ByID[s.Ask.ID] = s.Ask
		if paid, ok := s.Ask.Body.(Paid); ok && def.Currency == "" {
			def.Currency = paid.Currency()
		}
	}
	if d.OnExceed == saga.ExceedAsk {
		def.Budget = &saga.Budget{Ask: true}
	}
	def.Name, def.Session, def.Steps = saga.SessionPrefix+d.Name, s, nil
	sum := sha256.Sum256(saga.Encode(d))
	def.SHA256 = hex.EncodeToString(sum[:])
	return def, nil
}

// undoing returns the compensation of an own step that an action undoes. Unless the action says how
// often it is tried, it is tried until it succeeds, like any compensation.
func undoing(a *saga.Action, st *saga.Step) *saga.Compensation {
	c := &saga.Compensation{Step: *st, On: []journal.Class{journal.Succeeded, journal.InDoubt}}
	c.Compensate, c.When = nil, nil
	if !slices.Contains(a.Keys, "retry") {
		c.Retry = retry.Forever()
	}
	return c
}

// Unpublished compiles what a saga runs by that has no published definition: a session, or one
// action. Published definitions are found by their names; for these it returns nil.
func Unpublished(d *saga.StartedData, o Options) (*saga.Definition, *Errors) {
	switch {
	case d.Session != nil:
		return Session(d.Session, o)
	case d.Action != "":
		action, version, _ := strings.Cut(d.Action, "@")
		n, err := strconv.Atoi(version)
		if err != nil {
			return nil, &Errors{List: []Error{{File: d.Action, Code: "unknown_action", Detail: "an action is written as refund@3"}}}
		}
		return Run(action, n, o)
	}
	return nil, nil
}

// Run compiles a saga that only runs one version of an action. The saga's input is the action's.
func Run(action string, version int, o Options) (*saga.Definition, *Errors) {
	ref := action + "@" + strconv.Itoa(version)
	def, errs := Parse(ref, saga.Encode(map[string]any{
		"saga": "run", "steps": []any{map[string]string{"id": "run", "use": ref, "with": "${input}"}},
	}), o)
	if errs != nil {
		return nil, errs
	}
	def.Name, def.Input, def.Action = saga.RunPrefix+action, def.Steps[0].Use.Input, ref
	return def, nil
}
