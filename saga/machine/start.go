package machine

import (
	"encoding/json"
	"fmt"
	"maps"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/expr"
)

// StartOptions is what a start specifies in addition to the definition.
type StartOptions struct {
	Version int
	Input   json.RawMessage            // nil: null
	Vars    map[string]json.RawMessage // the server's values; only those that the definition reads are pinned
	Budget  *saga.BudgetData           // nil: the definition's budget
	Labels  map[string]string
	Actor   string
	RetryOf uuid.UUID
	Reason  string
	Parent  *saga.ParentData // nil: none
	// Traceparent is the header that came with the start. An invalid header is ignored.
	Traceparent string
}

// Begin validates a start. It returns the data of `started` and the unique value ("" for none), or
// findings about what is wrong. Their pointers are into the start request.
func Begin(def *saga.Definition, o StartOptions) (saga.StartedData, string, []saga.Finding) {
	input, wrong := applyInput(def, o.Input)
	d, more := begun(def, o, input)
	if wrong = append(wrong, more...); len(wrong) > 0 {
		return d, "", wrong
	}
	unique, f := uniqueValue(def, d)
	if f == nil && len(unique) > maxUnique {
		f = &saga.Finding{Pointer: "/input", Code: "unique_too_long",
			Detail: fmt.Sprintf("`unique` gives a value of %d bytes, more than the %d allowed: use an id, or a hash", len(unique), maxUnique)}
	}
	if f != nil {
		return d, "", []saga.Finding{*f}
	}
	return d, unique, nil
}

// maxUnique is the maximum size of a saga's unique value in bytes, because stores index it.
const maxUnique = 1024

// begun returns the data of a start whose input is valid.
func begun(def *saga.Definition, o StartOptions, input json.RawMessage) (saga.StartedData, []saga.Finding) {
	d := saga.StartedData{Input: input, Definition: def.Name, Version: saga.Version(o.Version), SHA256: def.SHA256, Budget: o.Budget, Labels: o.Labels, Actor: o.Actor, Reason: o.Reason, Parent: o.Parent}
	d.Action = def.Action
	if def.Session != nil {
		d.Session = def.Session.Data
	}
	if !o.RetryOf.IsNil() {
		d.RetryOf = o.RetryOf.String()
	}
	if p, ok := saga.ParseTraceparent(o.Traceparent); ok {
		d.Traceparent = p.String()
	}
	var wrong []saga.Finding
	d.Vars = make(map[string]json.RawMessage)
	known := make(map[string]bool, len(def.Vars))
	for _, v := range def.Vars {
		known[v.Name] = true
	}
	for _, name := range def.VarsUsed {
		if v, ok := o.Vars[name]; ok {
			d.Vars[name] = v
		} else if !known[name] {
			wrong = append(wrong, saga.Finding{Code: "unknown_var", Detail: "the definition reads vars." + name + ", which the server does not have: set it with RECOURSE_VAR_" + name + " or --vars"})
		}
	}
	if f := checkBudget(def, o.Budget); f != nil {
		wrong = append(wrong, *f)
	}
	return d, wrong
}

func applyInput(def *saga.Definition, input json.RawMessage) (json.RawMessage, []saga.Finding) {
	if len(input) == 0 {
		input = json.RawMessage("null")
	}
	if def.Input == nil {
		return input, nil
	}
	return applyTo(def.Input, input)
}

// applyTo returns the input with the defaults of its schema.
func applyTo(schema saga.Schema, input json.RawMessage) (json.RawMessage, []saga.Finding) {
	v, err := expr.Decode(input)
	if err != nil {
		return nil, []saga.Finding{{Pointer: "/input", Code: "invalid_json", Detail: err.Error()}}
	}
	if v == nil {
		v = map[string]any{}
	}
	v, findings := schema.Apply(v)
	for i := range findings {
		findings[i].Pointer = "/input" + findings[i].Pointer
	}
	if len(findings) > 0 {
		return nil, findings
	}
	return saga.Encode(v), nil
}

func checkBudget(def *saga.Definition, b *saga.BudgetData) *saga.Finding {
	if b == nil || b.Amount == "" {
		return nil
	}
	if _, err := retry.Total(b.Amount, b.Currency); err != nil {
		return &saga.Finding{Pointer: "/budget", Code: "bad_budget", Detail: err.Error()}
	}
	if err := retry.CheckCurrency(b.Currency); err != nil {
		return &saga.Finding{Pointer: "/budget/currency", Code: "bad_budget", Detail: err.Error()}
	}
	if def.Currency != "" && b.Currency != def.Currency {
		return &saga.Finding{Pointer: "/budget", Code: "bad_budget", Detail: "the definition's amounts are in " + def.Currency}
	}
	return nil
}

func uniqueValue(def *saga.Definition, d saga.StartedData) (string, *saga.Finding) {
	if def.Unique == nil {
		return "", nil
	}
	m := New(def, uuid.Nil)
	if err := m.pin(d); err != nil {
		return "", &saga.Finding{Code: "invalid_input", Detail: err.Error()}
	}
	v, err := def.Unique.JSON(m.env(nil))
	if err != nil {
		return "", &saga.Finding{Pointer: "/input", Code: "bad_unique", Detail: "`unique` could not be evaluated: " + err.Error()}
	}
	if string(v) == "null" {
		return "", nil
	}
	return string(v), nil
}

// Begun is a saga that was started.
type Begun struct {
	ID   uuid.UUID
	View *View // the durable state; nil: read it from the saga's journal
	// Ended, if the saga is followed, receives its machine when it has ended. It is closed if the
	// saga left this node before.
	Ended <-chan *Machine
	Stop  func() // stops following
	// First returns the saga as it began, for a caller that cannot read more of it. It is nil if
	// the saga already existed. Its times are those of its id.
	First func() (View, error)
}

// FirstView returns a saga that has begun at the time at, and has done nothing yet.
func FirstView(def *saga.Definition, id uuid.UUID, d saga.StartedData, at time.Time) (View, error) {
	m := New(def, id)
	if _, err := m.Append(m.Start(d), at, ""); err != nil {
		return View{}, err
	}
	return m.View(), nil
}

// Start returns the draft of the record that starts the saga.
func (m *Machine) Start(d saga.StartedData) Draft {
	d.Latest = m.recorded(m.def.Timeout > 0 || m.session != nil)
	return Draft{Kind: journal.Started, Data: d}
}

// Row returns the saga's row.
func (m *Machine) Row() journal.Row {
	status := m.Status()
	r := journal.Row{
		Status: string(status), Labels: maps.Clone(m.labels), WakeAt: m.WakeAt(), Seq: m.seq, UpdatedAt: m.at,
		Summary: saga.Summary{Reason: m.Reason(), Cost: m.Cost(), Residual: m.residual, Doubts: m.Doubts()}.Stored(),
	}
	if reason := m.Reason(); reason != nil {
		r.Reason = reason.Code
	}
	if status.Terminal() {
		r.EndedAt = m.at
	}
	inbox := m.Inbox()
	r.Text = m.searchText(inbox)
	for _, e := range inbox {
		r.Inbox = append(r.Inbox, journal.Entry{ID: e.ID, Saga: m.id, Definition: m.started.Definition, Kind: e.Kind, Path: e.Path, Since: e.Since, Data: e.Data()})
	}
	return r
}
