// Package foreach is the step kind that runs a list of steps for each item of a list.
package foreach

import (
	"encoding/json"
	"fmt"
	"regexp"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Limits of a loop's keys, and their defaults.
const (
	DefaultMaxItems = 1000
	MaxItems        = 10_000
	MaxParallel     = 1000
)

var name = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`)

// Kind describes the kind.
func Kind() dsl.Kind {
	return dsl.Kind{
		Name:   "foreach",
		Output: dsl.Made,
		Value:  json.RawMessage(`{"type": ["string", "array"]}`),
		Keys: []dsl.Key{
			{Name: "as", Schema: json.RawMessage(`{"type": "string", "pattern": "` + name.String() + `"}`)},
			{Name: "max_parallel", Schema: json.RawMessage(fmt.Sprintf(`{"type": "integer", "minimum": 1, "maximum": %d}`, MaxParallel))},
			{Name: "max_items", Schema: json.RawMessage(fmt.Sprintf(`{"type": "integer", "minimum": 1, "maximum": %d}`, MaxItems))},
			{Name: "on_item_error", Schema: json.RawMessage(`{"enum": ["fail", "collect"]}`)},
			{Name: "steps", Schema: json.RawMessage(`{"$ref": "#/$defs/steps"}`)},
			{Name: "output", Schema: json.RawMessage(`true`)},
		},
		Doc: "Runs `steps` for each item of a list, at most `max_parallel` items at once (default 1). Templates inside see the item under the name of `as` (default `item`) and `index`, from 0. " +
			"`output` is what an item gives, by default the output of its last step; the step's output is the list of these, in the order of the items. " +
			"With `on_item_error: collect` an item that fails is left out of it and the others continue; `steps.<id>.failed` lists them as `{index, item, error, in_doubt}`.",
		Decode: decode,
	}
}

// Body is a foreach step: its shape is [saga.Block].
type Body struct {
	list     *expr.Template
	maxItems int64
	limit    int64
	loop     saga.Loop // without its items
}

var _ saga.Block = (*Body)(nil)

func decode(d *dsl.Decoder) saga.Body {
	own := d.Own()
	b := &Body{maxItems: DefaultMaxItems, limit: 1, loop: saga.Loop{As: "item"}}
	if own.Form != dsl.List && !own.IsText() {
		d.Expect(own, "a list, or an expression that gives one")
		return nil
	}
	b.list = d.Typed(own, dsl.Plain, expr.KindList, "foreach takes a list")
	if n := d.Get("as"); n != nil {
		as, ok := d.Str(n, "a name")
		switch {
		case !ok:
		case !name.MatchString(as) || dsl.Reserved(as) && !d.Stored():
			d.Fail(n, "bad_name", "a loop's variable is a small letter, then up to 62 small letters, digits or _, and no name that has a meaning already")
		default:
			b.loop.As = as
		}
	}
	if n := d.Get("max_parallel"); n != nil {
		b.limit, _ = d.Int(n, 1, MaxParallel)
	}
	if n := d.Get("max_items"); n != nil {
		b.maxItems, _ = d.Int(n, 1, MaxItems)
	}
	if n := d.Get("on_item_error"); n != nil {
		word, _ := d.OneOf(n, "fail", "collect")
		b.loop.Collect = word == "collect"
	}
	in := d.Loop(map[string]*expr.Type{b.loop.As: b.list.Type().Item()})
	if n := d.Get("steps"); n != nil {
		b.loop.Steps = in.Body(n)
	} else {
		d.Fail(own, "missing_key", "foreach needs steps: what is done for each item")
	}
	if n := d.Get("output"); n != nil {
		b.loop.Output = in.Template(n, dsl.Plain)
		d.Gives(expr.Items(b.loop.Output.Type()))
	} else {
		d.Gives(expr.Items(d.OutputOf(b.loop.Steps)))
	}
	return b
}

// Enter implements saga.Block: it evaluates the list when the step begins.
func (b *Body) Enter(env expr.Env) (saga.Entered, error) {
	list, err := b.list.JSON(env)
	if err != nil {
		return saga.Entered{}, err
	}
	var e saga.Entered
	if text, ok := expr.Unknown(env, list); ok { // one iteration stands for all
		item, err := json.Marshal(expr.Placeholder(b.loop.As))
		return saga.Entered{Items: []json.RawMessage{item}, Vague: "for each of " + text}, err
	}
	if len(list) == 0 || list[0] != '[' || json.Unmarshal(list, &e.Items) != nil {
		return saga.Entered{}, &saga.Failure{Code: "not_a_list", Title: "`foreach` needs a list", Detail: "its value is " + dsl.JSONType(list)}
	}
	if n := int64(len(e.Items)); n > b.maxItems {
		return saga.Entered{}, &saga.Failure{Code: "too_many_items", Title: fmt.Sprintf("the list has %d items, `max_items` allows %d", n, b.maxItems),
			Detail: fmt.Sprintf("take fewer of them, or set max_items, to %d at most", MaxItems)}
	}
	return e, nil
}

// Layout implements saga.Block.
func (b *Body) Layout(e saga.Entered) (saga.Layout, error) {
	loop := b.loop
	loop.Items, loop.Count = e.Items, len(e.Items)
	return saga.Layout{Loop: &loop, Limit: int(b.limit)}, nil
}

// Lists implements saga.Block.
func (b *Body) Lists() [][]*saga.Step { return [][]*saga.Step{b.loop.Steps} }

// Loops implements saga.Block.
func (b *Body) Loops() bool { return true }
