// Package run is the step kind that runs another saga.
package run

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

var target = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}(@v?[1-9][0-9]{0,8})?$`)

// Kind describes the kind.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name:  "run",
		Value: json.RawMessage(`{"type": "string", "pattern": "` + target.String() + `"}`),
		Keys: []dsl.Key{{Name: "input", Schema: json.RawMessage(`true`)},
			{Name: "budget", Schema: json.RawMessage(`{"$ref": "#/$defs/endowment"}`)}},
		Doc: "Runs another saga and waits for it: the newest version of a definition, or with `name@v3` that one, with `input`. It has a journal and a timeout of its own. The output is its output. " +
			"What it costs counts for the budget of this saga, too: `budget` is the part that is reserved for it, else all that is left. " +
			"A saga that succeeds as a child waits for its parent's end; if the parent fails, the child is undone as this step's compensation. A cancel of the parent goes down to it.",
		Timeout: 30 * 1e9, // for the start, not for the saga
		Fails:   dsl.ByAccident,
		Decode:  decode,
	}
}

// Body is a run step: its shape is [saga.Call], and another saga performs it.
type Body struct {
	target string
	input  *expr.Template // nil: null
	budget *saga.Budget   // nil: what is left
}

var (
	_ saga.Call     = (*Body)(nil)
	_ saga.Spawner  = (*Body)(nil)
	_ saga.Endowing = (*Body)(nil)
	_ saga.Call     = (*undo)(nil)
	_ saga.Spawner  = (*undo)(nil)
	_ dsl.Undoes    = (*Body)(nil)
)

func decode(d *dsl.Decoder) saga.Body {
	b := &Body{}
	name, ok := d.Str(d.Own(), "a definition's name, or name@v3")
	if ok && !target.MatchString(name) {
		d.Fail(d.Own(), "bad_name", "run takes the name of a definition, or one of its versions as name@v3")
	}
	input := d.Get("input")
	if input != nil {
		b.input = d.Template(input, dsl.Plain)
	}
	if b.target = name; ok {
		d.Runs(d.Own(), name, input, b.input)
	}
	if n := d.Get("budget"); n != nil {
		b.budget = d.Endowment(n)
	}
	if n := d.Get("cost"); n != nil {
		d.Fail(n, "not_for_kind", "a run costs what the saga costs that it runs: limit it with `budget`")
	}
	if n := d.Get("timeout"); n != nil {
		d.Fail(n, "not_for_kind", "a run has no timeout of its own: give the definition that it runs a `timeout`")
	}
	return b
}

// Endowment implements saga.Endowing.
func (b *Body) Endowment() *saga.Budget { return b.budget }

// Undo implements dsl.Undoes: a child is undone by its own compensations. Reverting it twice has
// the same effect as once.
func (b *Body) Undo() *saga.Compensation {
	return &saga.Compensation{
		// A saga never forgets the key.
		Step: saga.Step{Kind: "run", Body: &undo{}, Retry: retry.Forever(), Timeout: 30 * 1e9, KeyWindow: math.MaxInt64},
		On:   []journal.Class{journal.Succeeded, journal.InDoubt},
	}
}

// Request implements saga.Call.
func (b *Body) Request(env expr.Env) (saga.Request, error) {
	kin, err := kinOf(env)
	if err != nil {
		return saga.Request{}, err
	}
	if kin.depth > saga.MaxDepth {
		return saga.Request{}, &saga.Failure{Code: "too_deep", Title: fmt.Sprintf("sagas run others at most %d deep: does a definition run itself?", saga.MaxDepth)}
	}
	c := &saga.ChildRequest{Saga: kin.id, Parent: kin.parent, Definition: b.target, Input: json.RawMessage("null"),
		Path: kin.path, Depth: int(kin.depth), Starter: kin.starter, Final: kin.final}
	if b.input != nil {
		if c.Input, err = b.input.JSON(env); err != nil {
			return saga.Request{}, err
		}
	}
	return saga.Request{Child: c}, nil
}

// kin is the value of the root saga.Kin.
type kin struct {
	id, parent, path, starter string
	depth                     int64
	final                     bool
}

func kinOf(env expr.Env) (kin, error) {
	v, _ := env.Root(saga.Kin)
	fields, ok := v.(map[string]any)
	if !ok {
		return kin{}, &saga.Failure{Code: "no_child", Title: "this place cannot run a saga"}
	}
	k := kin{}
	k.id, _ = fields["id"].(string)
	k.parent, _ = fields["parent"].(string)
	k.path, _ = fields["path"].(string)
	k.starter, _ = fields["starter"].(string)
	k.final, _ = fields["final"].(bool)
	if n, ok := fields["depth"].(json.Number); ok {
		k.depth, _ = n.Int64()
	}
	return k, nil
}

// ReadOnly implements saga.Call.
func (b *Body) ReadOnly() bool { return false }

// Repeatable implements dsl.Unsafe: repeated requests start the saga only once.
func (b *Body) Repeatable() bool { return true }

// Child implements saga.Spawner.
func (b *Body) Child(r saga.Request) uuid.UUID { return childOf(r) }

func childOf(r saga.Request) uuid.UUID {
	if r.Child == nil {
		return uuid.Nil
	}
	return uuid.FromStringOrNil(r.Child.Saga)
}

// Judge implements saga.Call.
func (b *Body) Judge(_ saga.Request, a saga.Answer) saga.Verdict { return judge(a) }

// undo reverts a child.
type undo struct{}

// Request implements saga.Call.
func (*undo) Request(env expr.Env) (saga.Request, error) {
	kin, err := kinOf(env)
	if err != nil {
		return saga.Request{}, err
	}
	return saga.Request{Child: &saga.ChildRequest{Saga: kin.id, Parent: kin.parent, Revert: true}}, nil
}

// ReadOnly implements saga.Call.
func (*undo) ReadOnly() bool { return false }

// Child implements saga.Spawner.
func (*undo) Child(r saga.Request) uuid.UUID { return childOf(r) }

// Judge implements saga.Call.
func (*undo) Judge(_ saga.Request, a saga.Answer) saga.Verdict { return judge(a) }

// judge returns the meaning of a child's report, or of the failure to start or revert it.
func judge(a saga.Answer) saga.Verdict {
	code, title := a.Code, a.Detail
	if code == "" {
		code = "http_" + strconv.Itoa(a.Status)
	}
	if title == "" {
		title = "the saga could not be run"
	}
	v := saga.Verdict{Class: journal.Refused, Error: &saga.Failure{Code: code, Title: title}}
	switch {
	case a.Status >= 200 && a.Status <= 299 && a.Code == "":
		return saga.Verdict{Class: journal.Succeeded, Output: a.Body}
	case !a.Sent:
		if !a.Final {
			v.Class = journal.Transient
		}
		v.SettlesDoubt = a.Code == saga.CodeParentEnded
	case a.Report != nil && a.Report.InDoubt || !a.Final && a.Report == nil:
		v.Class = journal.InDoubt
	}
	return v
}
