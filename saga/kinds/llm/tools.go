package llm

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"recourse/retry"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/expr"
)

// Limits of a conversation.
const (
	DefaultMaxTurns = 10
	maxMaxTurns     = 100
	maxTools        = 64
	maxCalls        = 64 // of one turn
)

// Codes of failures of calls, which the model sees. Nothing was sent.
const (
	CodeNoTool  = "unknown_tool" // the step has no such tool
	CodeInput   = "bad_input"    // the input is no JSON, or does not match the action's
	CodeLimit   = "limit"        // the call is over a limit of the action
	CodeAlready = "already_done" // another call has the same `once`
	// CodeTurns is the failure of a step whose model still calls tools in its last turn.
	CodeTurns = "max_turns"
)

// dialogue is an llm step with tools: a loop of turns. In each, the model is asked, and then what
// it calls runs. It ends when the model answers without a call. Each call is a step of the saga,
// with its own intent, outcome and undo.
type dialogue struct {
	ask, act *saga.Step // of each turn: the request to the model, and the calls
	loop     saga.Loop
}

var (
	_ saga.Conversation = (*dialogue)(nil)
	_ saga.Conversation = (*toolbox)(nil)
	_ dsl.Asking        = (*dialogue)(nil)
	_ dsl.KeyCarrier    = (*dialogue)(nil)
)

// turn is the output of one turn: what the model has said, and the calls that it has made.
type turn struct {
	output
	Calls []call `json:"calls"`
}

// call is a call that the model has made, and how it has ended.
type call struct {
	ID     string          `json:"id"`
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	Status string          `json:"status,omitempty"` // succeeded, failed, in_doubt, refused; while it runs: ""
	Output json.RawMessage `json:"output,omitempty"`
	Error  *saga.Failure   `json:"error,omitempty"`
	// Same is the earlier call that answers this one, because it has the same effect; nil: none.
	Same *place `json:"same,omitempty"`
}

// place is the place of a call: the index of its turn, and its index in it.
type place struct {
	Turn int `json:"turn"`
	Call int `json:"call"`
}

const (
	refused   = "refused" // nothing was sent
	succeeded = "succeeded"
)

// mayStand reports whether the call may have an effect that stands, or a person has rejected it:
// then the same call is answered by this one.
func (c *call) mayStand() bool {
	switch c.Status {
	case "", succeeded, "in_doubt":
		return true
	}
	return c.rejected()
}

func (c *call) rejected() bool { return c.Error != nil && c.Error.Code == "rejected" }

// decodeTools makes b a conversation. It returns nil after an error.
func decodeTools(d *dsl.Decoder, b *Body, list, turns *dsl.Node) saga.Body {
	if d.Self() == "" {
		d.Fail(list, "bad_tools", "only a step of a saga has tools: an action, a compensation and a status check send one request")
		return nil
	}
	if n := d.Get("output"); n != nil {
		d.Fail(n, "bad_tools", "a step with tools has many answers, so it has no output of its own: read its text, json and calls after it")
	}
	if list.Form != dsl.List || len(list.Items) == 0 || len(list.Items) > maxTools {
		d.Expect(list, fmt.Sprintf("a list of 1 to %d names of actions, such as [look, refund@3]", maxTools))
		return nil
	}
	box := &toolbox{ask: d.Self() + "-ask", most: DefaultMaxTurns}
	if turns != nil {
		n, ok := d.Int(turns, 1, maxMaxTurns)
		if !ok {
			return nil
		}
		box.most = int(n)
	}
	whole := true
	for _, n := range list.Items {
		step, action := d.Tool(n)
		switch {
		case action == nil:
			whole = false
			continue
		case action.Agents == nil:
			d.Fail(n, "not_for_agents", "action %s is not for models: its author lets agents and models call it with the key `agents`", action.Name)
		case slices.ContainsFunc(box.tools, func(t *tool) bool { return t.action.Name == action.Name }):
			d.Fail(n, "duplicate_tool", "%s is listed twice", action.Name)
		}
		box.tools = append(box.tools, &tool{step, action})
		b.tools = append(b.tools, definition(action))
	}
	if !whole {
		return nil
	}
	talk := &dialogue{ask: d.Inner("ask", b), act: d.Inner("tools", box)}
	talk.loop = saga.Loop{Steps: []*saga.Step{talk.ask, talk.act}, Count: box.most, History: true}
	return talk
}

// definition describes an action to a model.
func definition(a *saga.Action) json.RawMessage {
	type function struct {
		Name        string `json:"name"`
		Description string `json:"description,omitempty"`
		Parameters  any    `json:"parameters"`
	}
	f := function{Name: a.Name, Description: a.Description, Parameters: map[string]any{"type": "object"}}
	if a.Input != nil {
		f.Parameters = a.Input.Document()
	}
	return encode(struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}{"function", f})
}

// Asks implements dsl.Asking.
func (t *dialogue) Asks(step *saga.Step) {
	ask := t.ask
	ask.Expect, ask.Retry, ask.Timeout, ask.Deadline, ask.Cost = step.Expect, step.Retry, step.Timeout, step.Deadline, step.Cost
	ask.Idempotency, ask.Key, ask.KeyWindow, ask.InDoubt = step.Idempotency, step.Key, step.KeyWindow, step.InDoubt
	ask.Hold, ask.HoldFor, step.Hold = step.Hold, step.HoldFor, false // the step itself is a block
}

// CarriesKey implements dsl.KeyCarrier.
func (t *dialogue) CarriesKey(in, name string) error {
	return t.ask.Body.(dsl.KeyCarrier).CarriesKey(in, name)
}

// Enter implements saga.Block: there is nothing to decide in advance. A plan shows one turn.
func (t *dialogue) Enter(env expr.Env) (e saga.Entered, _ error) {
	if expr.IsPartial(env) {
		e.Vague = "up to " + strconv.Itoa(t.loop.Count) + " turns; each asks the model"
	}
	return e, nil
}

// Layout implements saga.Block.
func (t *dialogue) Layout(saga.Entered) (saga.Layout, error) {
	return saga.Layout{Loop: &t.loop, Limit: 1}, nil
}

// Lists implements saga.Block.
func (t *dialogue) Lists() [][]*saga.Step { return [][]*saga.Step{t.loop.Steps} }

// Loops implements saga.Block.
func (t *dialogue) Loops() bool { return true }

// Fails implements dsl.Fallible: besides its steps, only the number of turns may be reached.
func (t *dialogue) Fails() dsl.Failing { return dsl.ByAccident }

// Turn implements saga.Conversation. The turn without a call is the last.
func (t *dialogue) Turn(env expr.Env, _ saga.Entered, _ int) (json.RawMessage, *bool, error) {
	said, err := outcome(env, t.ask.ID)
	if err != nil {
		return nil, nil, err
	}
	last := true
	var one turn
	if _, ok := expr.Unknown(env, said.Output); ok { // a plan shows one turn
		return said.Output, &last, nil
	}
	if err := json.Unmarshal(said.Output, &one.output); err != nil {
		return nil, nil, fmt.Errorf("the answer of the model: %w", err)
	}
	one.ToolCalls = nil
	done, err := outcome(env, t.act.ID)
	if err != nil {
		return nil, nil, err
	}
	if err := json.Unmarshal(done.Output, &one.Calls); err != nil {
		return nil, nil, fmt.Errorf("the calls of the model: %w", err)
	}
	turns, err := earlier(env)
	if err != nil {
		return nil, nil, err
	}
	turns = append(turns, one)
	for i := range one.Calls {
		c := &one.Calls[i]
		if c.Same != nil {
			of := turns[c.Same.Turn].Calls[c.Same.Call]
			c.Status, c.Output, c.Error = of.Status, of.Output, of.Error
		}
	}
	last = len(one.Calls) == 0
	return encode(one), &last, nil
}

// result is the output of a conversation: the model's last answer, and what all turns together have
// used.
type result struct {
	output
	Turns int    `json:"turns"`
	Calls []made `json:"calls"`
}

// made is a call in the output of the step.
type made struct {
	Tool   string          `json:"tool"`
	Input  json.RawMessage `json:"input"`
	Status string          `json:"status"`
}

// Total implements saga.Conversation.
func (t *dialogue) Total(docs []json.RawMessage) (json.RawMessage, error) {
	all := result{Turns: len(docs), Calls: []made{}}
	var used usage
	var cost retry.Money
	counted, priced := true, true
	for _, doc := range docs {
		if text := string(doc); expr.HasPlaceholder(text) && strings.HasPrefix(text, `"`) {
			return doc, nil // of a plan
		}
		var one turn
		if err := json.Unmarshal(doc, &one); err != nil {
			return nil, fmt.Errorf("a turn: %w", err)
		}
		all.output = one.output
		for _, c := range one.Calls {
			all.Calls = append(all.Calls, made{c.Tool, c.Input, c.Status})
		}
		if counted = counted && one.Usage != nil; counted {
			used = usage{used.Input + one.Usage.Input, used.Output + one.Usage.Output, used.Total + one.Usage.Total}
		}
		if priced = priced && string(one.Cost) != "null"; priced {
			m, err := retry.Amount(string(one.Cost), cost.Currency)
			if err != nil {
				return nil, fmt.Errorf("the cost of a turn: %w", err)
			}
			cost = cost.Add(m)
		}
	}
	all.Usage, all.Cost = nil, json.RawMessage("null")
	if counted {
		all.Usage = &used
	}
	if priced {
		all.Cost = json.RawMessage(cost.Decimal())
	}
	return encode(all), nil
}

// toolbox is the part of a turn that runs what the model calls, one after another.
type toolbox struct {
	ask   string // the id of the step that asks the model
	most  int    // turns
	tools []*tool
}

// tool is an action that the model may call.
type tool struct {
	step   *saga.Step
	action *saga.Action
}

// item is a call as the step has decided about it when the turn began.
type item struct {
	call
	Step    string `json:"step,omitempty"` // the id of the step that makes the call; "": nothing is sent
	Approve bool   `json:"approve,omitempty"`
}

// Enter implements saga.Block: it decides about each call of the model, by the rules for sessions
// of agents. A call with the same effect as an earlier one is answered by that.
func (b *toolbox) Enter(env expr.Env) (saga.Entered, error) {
	said, err := outcome(env, b.ask)
	if err != nil {
		return saga.Entered{}, err
	}
	if _, ok := expr.Unknown(env, said.Output); ok {
		return b.possible(), nil
	}
	var asked struct {
		Calls []toolCall `json:"tool_calls"`
	}
	if err := json.Unmarshal(said.Output, &asked); err != nil {
		return saga.Entered{}, fmt.Errorf("the answer of the model: %w", err)
	}
	turns, err := earlier(env)
	switch {
	case err != nil:
		return saga.Entered{}, err
	case len(asked.Calls) > 0 && len(turns) == b.most-1:
		return saga.Entered{}, &saga.Failure{Code: CodeTurns, Title: "the model still calls tools in turn " + strconv.Itoa(b.most) + ", which is the last",
			Detail: "raise max_turns, or say in the prompt when the work is done"}
	}
	admission := admission{b: b, env: env, turns: append(turns, turn{})}
	e := saga.Entered{Items: make([]json.RawMessage, 0, len(asked.Calls))}
	for _, c := range asked.Calls {
		one, err := admission.admit(c)
		if err != nil {
			return saga.Entered{}, err
		}
		e.Items = append(e.Items, encode(one))
	}
	return e, nil
}

// possible returns what a plan shows: one call of each tool.
func (b *toolbox) possible() saga.Entered {
	e := saga.Entered{Vague: "what the model calls, in up to " + strconv.Itoa(b.most) + " turns"}
	for _, t := range b.tools {
		e.Items = append(e.Items, encode(item{call: call{Tool: t.action.Name, Input: encode(expr.Placeholder("input"))}, Step: t.step.ID, Approve: t.action.Agents.Approve}))
	}
	return e
}

// Layout implements saga.Block.
func (b *toolbox) Layout(e saga.Entered) (saga.Layout, error) {
	loop := &saga.Loop{Count: len(e.Items), Each: make([][]*saga.Step, len(e.Items))}
	for i, doc := range e.Items {
		var one item
		if err := json.Unmarshal(doc, &one); err != nil {
			return saga.Layout{}, fmt.Errorf("a call of the model: %w", err)
		}
		if one.Step == "" {
			continue
		}
		t := b.tool(one.Tool)
		if t == nil || t.step.ID != one.Step {
			return saga.Layout{}, errors.New("the step has no tool " + strconv.Quote(one.Tool))
		}
		step, use := *t.step, *t.step.Use
		use.With = expr.Const(one.Input)
		step.Use, step.Approve = &use, one.Approve
		loop.Each[i] = []*saga.Step{&step}
	}
	return saga.Layout{Loop: loop, Limit: 1}, nil
}

func (b *toolbox) tool(name string) *tool {
	for _, t := range b.tools {
		if t.action.Name == name {
			return t
		}
	}
	return nil
}

// Lists implements saga.Block.
func (b *toolbox) Lists() [][]*saga.Step {
	lists := make([][]*saga.Step, len(b.tools))
	for i, t := range b.tools {
		lists[i] = []*saga.Step{t.step}
	}
	return lists
}

// Loops implements saga.Block.
func (b *toolbox) Loops() bool { return true }

// Fails implements dsl.Fallible: the calls fail, not the step.
func (b *toolbox) Fails() dsl.Failing { return dsl.Computes }

// Turn implements saga.Conversation: the output of an iteration is its call.
func (b *toolbox) Turn(env expr.Env, e saga.Entered, index int) (json.RawMessage, *bool, error) {
	var one item
	if err := json.Unmarshal(e.Items[index], &one); err != nil {
		return nil, nil, fmt.Errorf("a call of the model: %w", err)
	}
	if one.Step != "" {
		done, err := outcome(env, one.Step)
		if err != nil {
			return nil, nil, err
		}
		one.Status, one.Error = done.Status, done.Error
		if done.Status == succeeded {
			one.Output = done.Output
		}
	}
	return encode(one.call), nil, nil
}

// Total implements saga.Conversation.
func (b *toolbox) Total(calls []json.RawMessage) (json.RawMessage, error) {
	return encode(append([]json.RawMessage{}, calls...)), nil
}

// admission decides about the calls of one turn, one after another.
type admission struct {
	b     *toolbox
	env   expr.Env
	turns []turn // the last one is this turn, as far as it is decided
}

// admit decides about the next call. A call that the model got wrong is no error.
func (a *admission) admit(c toolCall) (item, error) {
	now := &a.turns[len(a.turns)-1]
	one := item{call: call{ID: c.ID, Tool: c.Name}}
	t, failure := a.b.tool(c.Name), error(nil)
	if one.Input, failure = a.b.input(t, c); failure == nil {
		failure = a.decide(t, &one)
	}
	if failure != nil {
		f, ok := errors.AsType[*saga.Failure](failure)
		if !ok {
			return item{}, failure
		}
		one.Status, one.Error = refused, f
	}
	now.Calls = append(now.Calls, one.call)
	return one, nil
}

// input returns the input of a call, with the defaults of the action.
func (b *toolbox) input(t *tool, c toolCall) (json.RawMessage, error) {
	said := encode(c.Arguments)
	if t == nil {
		names := make([]string, len(b.tools))
		for i, t := range b.tools {
			names[i] = t.action.Name
		}
		return said, &saga.Failure{Code: CodeNoTool, Title: "there is no tool " + strconv.Quote(c.Name), Detail: "the tools are " + strings.Join(names, ", ")}
	}
	v, err := expr.Decode([]byte(c.Arguments))
	if err != nil {
		return said, &saga.Failure{Code: CodeInput, Title: "the arguments are not JSON", Detail: err.Error()}
	}
	if t.action.Input == nil {
		return encode(v), nil
	}
	filled, wrong := t.action.Input.Apply(v)
	if len(wrong) > 0 {
		return encode(v), &saga.Failure{Code: CodeInput, Title: "the arguments do not match the input of " + t.action.Name, Detail: saga.Details(wrong)}
	}
	return encode(filled), nil
}

// decide sets what becomes of a call whose input is right. An error is a *saga.Failure that the
// model sees, or means that the step fails.
func (a *admission) decide(t *tool, one *item) error {
	now := &a.turns[len(a.turns)-1]
	if len(now.Calls) >= maxCalls {
		return &saga.Failure{Code: CodeLimit, Title: fmt.Sprintf("a turn has at most %d calls", maxCalls), Detail: "make the others in the next turn"}
	}
	if same, err := a.same(t, one.Input); err != nil || same != nil {
		one.Same = same
		return err
	}
	env := values{input: one.Input}
	for i := range t.action.Agents.Limits {
		if err := a.within(t, &t.action.Agents.Limits[i], env); err != nil {
			return err
		}
	}
	one.Step, one.Approve = t.step.ID, t.action.Agents.Approve
	if when := t.action.Agents.ApproveWhen; when != nil && !one.Approve {
		var err error
		if env.session, err = a.session(); err != nil {
			return err
		}
		if one.Approve, err = when.Bool(env); err != nil {
			one.Step = ""
			return &saga.Failure{Code: CodeInput, Title: "`approve_when` of action " + t.action.Name + " could not be evaluated", Detail: err.Error()}
		}
	}
	return nil
}

// same returns the earlier call that has, or may have, the effect of a new one; nil if there is
// none. Calls that only read are made again.
func (a *admission) same(t *tool, input json.RawMessage) (*place, error) {
	if t.step.Body.(saga.Call).ReadOnly() {
		return nil, nil
	}
	identity, err := t.identity(input)
	if err != nil {
		return nil, err
	}
	for i := range slices.Backward(a.turns) {
		for j := range slices.Backward(a.turns[i].Calls) {
			c := &a.turns[i].Calls[j]
			if c.Tool != t.action.Name || c.Same != nil || !c.mayStand() {
				continue
			}
			switch other, err := t.identity(c.Input); {
			case err != nil || other != identity:
			case !saga.SameInput(c.Input, input):
				return nil, &saga.Failure{Code: CodeAlready, Title: "an earlier call of " + t.action.Name + " is for the same, with another input: nothing was sent",
					Detail: "this one cannot be made; go on with the result of the earlier one"}
			default:
				return &place{i, j}, nil
			}
		}
	}
	return nil, nil
}

// identity returns what makes two calls of the tool one effect.
func (t *tool) identity(input json.RawMessage) (string, error) {
	var once json.RawMessage
	if t.action.Once != nil {
		var err error
		if once, err = t.action.Once.JSON(values{input: input}); err != nil {
			return "", &saga.Failure{Code: CodeInput, Title: "`once` of action " + t.action.Name + " could not be evaluated", Detail: err.Error()}
		}
	}
	return saga.CallIdentity(t.action.Name, "", once, input, 0)
}

// within refuses a call that is over a limit of its action. Calls that certainly had no effect do
// not count.
func (a *admission) within(t *tool, l *saga.CallLimit, env values) error {
	calls, sum := 1, retry.Money{}
	add := func(env values) error {
		if l.Sum == nil {
			return nil
		}
		more, err := l.Adds(env)
		if err != nil {
			return &saga.Failure{Code: CodeInput, Title: "the limit of action " + t.action.Name + " cannot count the call", Detail: err.Error()}
		}
		sum = sum.Add(more)
		return nil
	}
	if err := add(env); err != nil {
		return err
	}
	for _, one := range a.turns {
		for i := range one.Calls {
			c := &one.Calls[i]
			if c.Tool != t.action.Name || c.Same != nil || !c.mayStand() || c.rejected() {
				continue
			}
			calls++
			if err := add(values{input: c.Input}); err != nil {
				return err
			}
		}
	}
	const help = "finish without this call; the author of the action sets the limit"
	switch {
	case l.Sum == nil && calls > l.Calls:
		return &saga.Failure{Code: CodeLimit, Title: fmt.Sprintf("%d calls of %s are the limit", l.Calls, t.action.Name), Detail: help}
	case l.Sum != nil && sum.Cmp(l.Max) > 0:
		return &saga.Failure{Code: CodeLimit, Title: "the calls of " + t.action.Name + " would reach " + sum.Decimal() + ", more than the limit of " + l.Max.Decimal(), Detail: help}
	}
	return nil
}

// session returns the root `session` of `approve_when`: the calls of the conversation, and what the
// saga has spent and reserved.
func (a *admission) session() (map[string]any, error) {
	calls := 0
	for _, one := range a.turns {
		for i := range one.Calls {
			if one.Calls[i].Same == nil && one.Calls[i].Status != refused {
				calls++
			}
		}
	}
	about, _ := a.env.Root("saga")
	fields, _ := about.(map[string]any)
	var spent retry.Money
	for _, name := range []string{"spent", "reserved"} {
		n, _ := fields[name].(json.Number)
		m, err := retry.Amount(n.String(), "")
		if err != nil {
			return nil, fmt.Errorf("saga.%s: %w", name, err)
		}
		spent = spent.Add(m)
	}
	return saga.SessionRoot(calls, spent), nil
}

// values are what the policy of an action reads.
type values struct {
	input   json.RawMessage
	session map[string]any // nil: it is not read
}

// Root implements expr.Env.
func (v values) Root(name string) (any, bool) {
	switch {
	case name == saga.ActionInput:
		return expr.Raw(v.input), true
	case name == "session" && v.session != nil:
		return v.session, true
	}
	return nil, false
}

// ended is how a step inside the conversation has ended.
type ended struct {
	Status string
	Output json.RawMessage
	Error  *saga.Failure
}

// outcome returns how a step has ended.
func outcome(env expr.Env, id string) (e ended, _ error) {
	steps, _ := env.Root("steps")
	root, ok := steps.(expr.Object)
	if !ok {
		return e, errors.New("the values of the steps are not there")
	}
	v, _ := root.Field(id)
	fields, ok := v.(map[string]any)
	if !ok {
		return e, errors.New("there is no step " + id)
	}
	e.Status, _ = fields["status"].(string)
	switch out := fields["output"].(type) {
	case nil:
		e.Output = json.RawMessage("null")
	case expr.Raw:
		e.Output = json.RawMessage(out)
	default:
		e.Output = encode(out)
	}
	if fields["error"] != nil {
		return e, json.Unmarshal(encode(fields["error"]), &e.Error)
	}
	return e, nil
}

// earlier returns the turns of the conversation that have ended.
func earlier(env expr.Env) ([]turn, error) {
	root, ok := env.Root(saga.Turns)
	if !ok {
		return nil, nil
	}
	list, _ := root.([]any)
	turns := make([]turn, len(list))
	for i, v := range list {
		doc, _ := v.(expr.Raw)
		if err := json.Unmarshal(doc, &turns[i]); err != nil {
			return nil, fmt.Errorf("turn %d of the conversation: %w", i, err)
		}
	}
	return turns, nil
}

// toolCall is a call in an answer of the model.
type toolCall struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON, if the model has written some
}

// maxResult limits the text of a result that the model reads.
const maxResult = 64 << 10

// said returns the messages of the turns so far: what the model has said, and the results of its
// calls.
func (b *Body) said(env expr.Env) ([]json.RawMessage, error) {
	if len(b.tools) == 0 {
		return nil, nil
	}
	turns, err := earlier(env)
	if err != nil {
		return nil, err
	}
	type function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	type asked struct {
		ID       string   `json:"id"`
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	var list []json.RawMessage
	for i, one := range turns {
		var calls []asked
		var results []json.RawMessage
		for j := range one.Calls {
			c := &one.Calls[j]
			id := c.ID
			if id == "" { // some providers give none
				id = "call-" + strconv.Itoa(i) + "-" + strconv.Itoa(j)
			}
			calls = append(calls, asked{id, "function", function{c.Tool, string(c.Input)}})
			results = append(results, encode(struct {
				Role    string `json:"role"`
				ID      string `json:"tool_call_id"`
				Content string `json:"content"`
			}{"tool", id, c.report()}))
		}
		list = append(list, encode(struct {
			Role    string  `json:"role"`
			Content string  `json:"content"`
			Calls   []asked `json:"tool_calls"`
		}{"assistant", one.Text, calls}))
		list = append(list, results...)
	}
	return list, nil
}

// report returns the result of a call as the model reads it.
func (c *call) report() string {
	doc := c.Output
	if c.Status != succeeded {
		doc = encode(struct {
			Status string        `json:"status"`
			Error  *saga.Failure `json:"error,omitempty"`
		}{c.Status, c.Error})
	}
	if len(doc) <= maxResult {
		return string(doc)
	}
	return strings.ToValidUTF8(string(doc[:maxResult]), "") + fmt.Sprintf("\n(cut: the result has %d bytes)", len(doc))
}
