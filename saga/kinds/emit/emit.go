// Package emit is the step kind that sends an event to sinks.
package emit

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Limits of an event.
const (
	MaxType = 255       // bytes of its type
	MaxData = 256 << 10 // bytes of its data
)

// Name is the pattern of sinks' names.
var Name = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// Sink is a sink of the server.
type Sink struct {
	Name  string
	Types []string // patterns of the types of events that it gets (see saga.MatchEvent); none: all
}

// Kind describes the kind. sinks are the server's sinks. nil means that they are unknown, so that
// every name is accepted.
func Kind(sinks []Sink) dsl.Kind {
	return dsl.Kind{
		Name:  "emit",
		Value: json.RawMessage(`{"type": "string", "minLength": 1}`),
		Keys: []dsl.Key{
			{Name: "to", Schema: json.RawMessage(`{"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}`)},
			{Name: "data", Schema: json.RawMessage(`true`)},
		},
		Doc: "Sends an event, a CloudEvent of this type with `data`, to the sinks that `to` names: one, or a list; by default all that the server has. The step does not wait for them: " +
			"the event is durable with the step's outcome, and is delivered at least once, however long that takes. The output is `{id}`, the event's id.",
		Decode: func(d *dsl.Decoder) saga.Body { return decode(d, sinks) },
	}
}

// Body is an emit step: its shape is [saga.Announce].
type Body struct {
	kind  *expr.Template
	data  *expr.Template // nil: none
	to    []string
	sinks []Sink
}

var _ saga.Announce = (*Body)(nil)

func decode(d *dsl.Decoder, sinks []Sink) saga.Body {
	own := d.Own()
	b := &Body{kind: d.Text(own, 0, dsl.Plain), to: named(sinks), sinks: sinks}
	d.Gives(expr.Fields(map[string]*expr.Type{"id": expr.Exactly(expr.KindString)}, nil))
	if b.kind == nil {
		return nil
	}
	if b.kind.IsConst() {
		if err := judge(own.Text()); err != nil && !d.Stored() {
			d.Fail(own, "bad_event", "%s", err)
		}
	}
	if n := d.Get("data"); n != nil {
		b.data = d.Template(n, dsl.Plain)
	}
	if n := d.Get("to"); n != nil {
		b.to = names(d, n, named(sinks))
	}
	return b
}

// named returns the sinks' names; nil for nil.
func named(sinks []Sink) []string {
	if sinks == nil {
		return nil
	}
	list := make([]string, 0, len(sinks))
	for _, s := range sinks {
		list = append(list, s.Name)
	}
	return list
}

// names reads the sinks of a step.
func names(d *dsl.Decoder, n *dsl.Node, sinks []string) []string {
	items := n.Items
	if n.Form == dsl.Scalar {
		items = []*dsl.Node{n}
	}
	if len(items) == 0 {
		d.Expect(n, "the name of a sink, or a list of names")
		return nil
	}
	var to []string
	for _, item := range items {
		name, ok := d.Str(item, "the name of a sink")
		switch {
		case !ok:
		case !Name.MatchString(name):
			d.Fail(item, "bad_name", "a sink's name is a small letter, then up to 62 small letters, digits, _ or -; it is constant")
		case slices.Contains(to, name):
			d.Fail(item, "duplicate_name", "%s is listed twice: remove one", name)
		case sinks != nil && !d.Stored() && !slices.Contains(sinks, name):
			d.Fail(item, "unknown_sink", "the server has no sink %q that takes what sagas emit%s", name, hint(name, sinks))
		default:
			to = append(to, name)
		}
	}
	return to
}

func hint(name string, sinks []string) string {
	if len(sinks) == 0 {
		return ": it has none; put it under `sinks` in the server's --config (one with `notify` takes them only with `types`), or leave out `to`"
	}
	if near := dsl.Suggest(name, sinks); near != "" {
		return near
	}
	return ", it has " + strings.Join(sinks, ", ")
}

// Announce implements saga.Announce.
func (b *Body) Announce(env expr.Env) (kind string, data json.RawMessage, to []string, err error) {
	if kind, err = b.kind.Text(env); err != nil {
		return "", nil, nil, err
	}
	if err := judge(kind); err != nil && !(expr.IsPartial(env) && expr.HasPlaceholder(kind)) {
		return "", nil, nil, &saga.Failure{Code: "bad_event", Title: "the event's type cannot be used", Detail: err.Error()}
	}
	if b.data == nil {
		return kind, nil, b.getting(kind), nil
	}
	if data, err = b.data.JSON(env); err != nil {
		return "", nil, nil, err
	}
	if len(data) > MaxData {
		return "", nil, nil, &saga.Failure{Code: "event_too_large", Title: fmt.Sprintf("the event's data has %d bytes, %d are allowed", len(data), MaxData),
			Detail: "send what names the thing, and have the receiver fetch the rest"}
	}
	return kind, data, b.getting(kind), nil
}

// getting returns the names of the step's sinks that get events of a type. It is decided when the
// event is written: a node with another configuration delivers what is stored.
func (b *Body) getting(kind string) (to []string) {
	for _, name := range b.to {
		i := slices.IndexFunc(b.sinks, func(s Sink) bool { return s.Name == name })
		if i < 0 || len(b.sinks[i].Types) == 0 || slices.ContainsFunc(b.sinks[i].Types, func(p string) bool { return saga.MatchEvent(p, kind) }) {
			to = append(to, name)
		}
	}
	return to
}

// judge returns the error of an event's type, if it has one.
func judge(kind string) error {
	if kind == "" || len(kind) > MaxType || strings.ContainsFunc(kind, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return fmt.Errorf("an event's type is 1 to %d bytes without spaces, such as com.example.order.paid, not %.80q", MaxType, kind)
	}
	if strings.HasPrefix(kind, saga.OwnEvents) {
		return fmt.Errorf("types that begin with %s are the server's own: begin with a name of yours, such as com.example, not %.80q", saga.OwnEvents, kind)
	}
	return nil
}
