// Package approval is the step kind that waits for a person's decision.
package approval

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Limits of an approval's texts, which are stored in journals and shown in lists.
const (
	MaxTitle     = 300      // characters
	MaxShown     = 64 << 10 // bytes of JSON
	MaxApprovers = 100
)

// Kind describes the kind.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name:   "approval",
		Output: dsl.Person,
		Value: json.RawMessage(`{"type": "object", "additionalProperties": false, "required": ["title"], "properties": {"title": {"type": "string", "minLength": 1},
			"approvers": {"type": ["string", "array"]}, "show": true, "covers": {"type": "array", "minItems": 1, "uniqueItems": true, "items": {"type": "string"}}, "form": {"type": ["string", "object", "array"]}}}`),
		Keys: []dsl.Key{
			{Name: "timeout", Schema: json.RawMessage(`{"$ref": "#/$defs/duration"}`)},
			{Name: "on_timeout", Schema: json.RawMessage(`{"enum": ["fail", "reject", "approve"]}`)},
			{Name: "four_eyes", Schema: json.RawMessage(`{"type": "boolean"}`)},
		},
		Doc: "Waits in the inbox until a person approves or rejects. `title` and `show` say what to decide; `approvers` names who may decide, by the names or roles of their API keys; " +
			"`form` is the schema of the data that comes with an approval; `covers` lists later steps of the same list whose rendered requests it shows, and binds. A rejection fails the step with `rejected`. Without `timeout` it waits forever; after it, `on_timeout` says what happens (default `fail`). " +
			"With `four_eyes` the person who started the saga cannot decide. The output is `{decision, by, at, comment, data}`.",
		Fails:  dsl.ByDecision,
		Decode: decode,
	}
}

// Body is an approval step: its shapes are [saga.Await] and [saga.Approver].
type Body struct {
	title     *expr.Template
	approvers *expr.Template // nil: everybody who may approve
	show      *expr.Template // nil: only the title is shown
	form      saga.Schema    // nil: no data comes with an approval
	formDoc   json.RawMessage
	fourEyes  bool
	late      string // the result if nobody decides in time: fail, reject, approve
}

var (
	_ saga.Await    = (*Body)(nil)
	_ saga.Approver = (*Body)(nil)
)

func decode(d *dsl.Decoder) saga.Body {
	own := d.Own()
	b := &Body{late: "fail"}
	data := expr.Exactly(expr.KindNull)
	defer func() {
		text := expr.Exactly(expr.KindString)
		d.Gives(expr.Fields(map[string]*expr.Type{"decision": text, "by": text, "at": text, "comment": text.With(expr.KindNull, true), "data": data}, nil))
	}()
	if !d.Known(own, "approval", "title", "approvers", "show", "covers", "form") && own.Form != dsl.Map {
		return nil
	}
	if n := own.Get("title"); n == nil {
		d.Fail(own, "missing_key", "an approval needs a title: the question that people decide, in one line")
	} else if b.title = d.Text(n, 0, dsl.Plain); b.title != nil && b.title.IsConst() && oneLine(n.Text()) != n.Text() {
		d.Fail(n, "bad_title", "a title is one line of 1 to %d characters: put the rest under show", MaxTitle)
	}
	if n := own.Get("approvers"); n != nil {
		b.approvers = approvers(d, n)
	}
	if n := own.Get("show"); n != nil {
		b.show = d.Template(n, dsl.Plain)
	}
	if n := own.Get("covers"); n != nil {
		d.Covers(n)
	}
	if n := own.Get("form"); n != nil {
		b.form, b.formDoc = d.Form(n)
		data = d.Schemed(b.form)
	}
	if n := d.Get("four_eyes"); n != nil {
		b.fourEyes = d.Bool(n)
	}
	if n := d.Get("on_timeout"); n != nil {
		b.onTimeout(d, n)
	}
	return b
}

// approvers compiles the list of approvers. Written-out lists are checked at once.
func approvers(d *dsl.Decoder, n *dsl.Node) *expr.Template {
	if n.Form != dsl.List && !n.IsText() {
		d.Expect(n, "a list of names or roles of API keys, such as [finance], or an expression that gives one")
		return nil
	}
	t := d.Typed(n, dsl.Plain, expr.KindString|expr.KindList, "approvers is a name, or a list of names")
	if t.IsConst() {
		if doc, err := t.JSON(nil); err == nil {
			if _, err := named(doc); err != nil {
				d.Fail(n, "bad_approvers", "%s", err)
			}
		}
	}
	return t
}

func (b *Body) onTimeout(d *dsl.Decoder, n *dsl.Node) {
	word, ok := d.OneOf(n, "fail", "reject", "approve")
	switch {
	case !ok:
		return
	case d.Get("timeout") == nil:
		d.Fail(n, "missing_key", "on_timeout needs a timeout: without one an approval waits forever")
	case word == "approve" && b.form != nil:
		if _, findings := b.Decide(nil); len(findings) > 0 {
			d.Fail(n, "needs_data", "on_timeout: approve gives no data, but the form needs some: make its fields optional, or give them defaults")
		}
	}
	b.late = word
}

// Await implements saga.Await: it renders what the person decides on.
func (b *Body) Await(env expr.Env) (saga.Awaited, error) {
	a := &saga.ApprovalData{FourEyes: b.fourEyes, Form: b.formDoc}
	title, err := b.title.Text(env)
	if err != nil {
		return saga.Awaited{}, err
	}
	a.Title = oneLine(strings.Map(straight, title))
	if b.approvers != nil {
		doc, err := b.approvers.JSON(env)
		if err != nil {
			return saga.Awaited{}, err
		}
		if a.Approvers, err = named(doc); err != nil {
			return saga.Awaited{}, failure("bad_approvers", err)
		}
	}
	if b.show != nil {
		if a.Shown, err = b.show.JSON(env); err != nil {
			return saga.Awaited{}, err
		}
		if len(a.Shown) > MaxShown {
			return saga.Awaited{}, failure("too_much_to_show", fmt.Errorf("`show` is %d bytes of JSON, more than the %d that one person can be asked about: show less, or a link", len(a.Shown), MaxShown))
		}
	}
	return saga.Awaited{Approval: a}, nil
}

func failure(code string, err error) *saga.Failure {
	return &saga.Failure{Code: code, Title: "the approval cannot be asked for", Detail: err.Error()}
}

// oneLine puts a title that may contain data into one line, because lists show titles in one line.
func oneLine(text string) string {
	printable := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	line := []rune(strings.Join(strings.Fields(printable), " "))
	switch {
	case len(line) == 0:
		return "(no title)"
	case len(line) > MaxTitle:
		return string(line[:MaxTitle-1]) + "…"
	}
	return string(line)
}

// straight removes characters that change the direction of the text after them (Unicode's
// embeddings, overrides and isolates). With such a character in a customer's name, a following "pay
// 19.00" would be shown as "00.91 yap".
func straight(r rune) rune {
	if r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069 {
		return -1
	}
	return r
}

// named decodes the approvers: a name, or a list of names. An empty list is refused, so that it is
// not mistaken for everybody.
func named(doc json.RawMessage) ([]string, error) {
	var one string
	if json.Unmarshal(doc, &one) == nil && one != "" {
		return []string{one}, nil
	}
	var list []*string
	switch err, is := json.Unmarshal(doc, &list), dsl.JSONType(doc); {
	case err != nil && is == "a list":
		return nil, fmt.Errorf("approvers is a list of names or roles, and an item of this one is no text")
	case err != nil || bytes.Equal(doc, null):
		return nil, fmt.Errorf("approvers is a list of names or roles, not %s", is)
	}
	names := make([]string, len(list))
	for i, name := range list {
		if name == nil || *name == "" {
			return nil, fmt.Errorf("approvers has an empty name: nobody has it")
		}
		names[i] = *name
	}
	switch {
	case len(names) == 0:
		return nil, fmt.Errorf("approvers is empty, so nobody could decide: leave it out if everybody who may approve may decide this")
	case len(names) > MaxApprovers:
		return nil, fmt.Errorf("approvers has %d names, more than %d: name a role", len(names), MaxApprovers)
	}
	return names, nil
}

var null = json.RawMessage("null")

// Decide implements saga.Approver. If the form is an object, missing data is an empty object.
func (b *Body) Decide(data json.RawMessage) (json.RawMessage, []saga.Finding) {
	none := len(data) == 0 || bytes.Equal(data, null)
	if b.form == nil {
		if none {
			return null, nil
		}
		return nil, []saga.Finding{{Code: "no_form", Detail: "this approval has no form: send no data, say it in the comment"}}
	}
	if none {
		if v, findings := b.form.Apply(map[string]any{}); len(findings) == 0 || !b.takes(nil) {
			return encoded(v, findings)
		}
		return encoded(b.form.Apply(nil))
	}
	v, err := expr.Decode(data)
	if err != nil {
		return nil, []saga.Finding{{Code: "invalid_json", Detail: err.Error()}}
	}
	return encoded(b.form.Apply(v))
}

// takes reports whether the form allows a value.
func (b *Body) takes(v any) bool {
	_, findings := b.form.Apply(v)
	return len(findings) == 0
}

func encoded(v any, findings []saga.Finding) (json.RawMessage, []saga.Finding) {
	if len(findings) > 0 {
		return nil, findings
	}
	doc, err := journal.Encode(v)
	if err != nil {
		return nil, []saga.Finding{{Code: "invalid_json", Detail: err.Error()}}
	}
	return doc, nil
}

// Expired implements saga.Await.
func (b *Body) Expired(a saga.Awaited, at time.Time) (json.RawMessage, *saga.Failure) {
	switch b.late {
	case "reject":
		return nil, &saga.Failure{Code: "rejected", Title: "nobody has decided in time, which rejects it", Detail: "it was to be decided: " + a.Approval.Title}
	case "approve":
		data, _ := b.Decide(nil)
		out, err := journal.Encode(saga.Approval{Decision: "approved", By: "timeout", At: saga.Time{Time: at}, Data: data})
		if err == nil {
			return out, nil
		}
	}
	return nil, &saga.Failure{Code: "approval_expired", Title: "nobody has decided in time", Detail: "it was to be decided: " + a.Approval.Title}
}
