package machine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

// render returns the request, its key and the input of its action.
func (m *Machine) render(n *node, generation int, way journal.Way) (*saga.Request, string, json.RawMessage, error) {
	env := m.env(n)
	if way == journal.Undo {
		env.key, env.output, env.hasOutput, env.err = n.forwardKey(m), n.compensable(), true, m.reason
	}
	return m.renderIn(env, n, generation, way)
}

// renderIn is render with given values: for a compensation, they include those of the step's end.
func (m *Machine) renderIn(env *env, n *node, generation int, way journal.Way) (*saga.Request, string, json.RawMessage, error) {
	step, s := m.stepOf(n, way), &n.forward
	if way == journal.Undo {
		s = &n.compensation
	}
	var err error
	if env.actionInput, err = m.actionInput(n, s, step, env); err != nil {
		return nil, "", nil, err
	}
	key := idempotency.Key(m.effectsOf(n), n.path, way, generation)
	if step.Key != nil {
		text, err := step.Key.Text(env)
		if err != nil {
			return nil, "", nil, err
		}
		if key = text; !visible(key) && !(env.Partial() && expr.HasPlaceholder(key)) {
			return nil, "", nil, &saga.Failure{Code: "bad_key", Title: "the idempotency key is not 1 to 255 visible ASCII characters without ${"}
		}
		if m.forked != nil { // under the original's key the service would answer with its effect
			key = idempotency.Key(m.id, "key:"+key, way, generation)
		}
	}
	if way == journal.Do {
		env.key = key
	}
	r, err := m.request(s, step, env)
	if err != nil {
		return nil, "", nil, err
	}
	if err := place(&r, step.Idempotency, key, env.Partial()); err != nil {
		return nil, "", nil, err
	}
	return &r, key, env.actionInput, nil
}

// request renders the request of a step, or derives it from the one before.
func (m *Machine) request(s *track, step *saga.Step, env *env) (saga.Request, error) {
	if s.retryState != nil && s.request != nil {
		return step.Body.(saga.Sequel).Follow(*s.request, s.retryState)
	}
	return step.Body.(saga.Call).Request(env)
}

// place puts the key where the remote service expects it. A worker gets the key with its task, and
// a tool in the `_meta` of its call; a field of the input may contain it, too.
func place(r *saga.Request, p idempotency.Placement, key string, plan bool) error {
	if r.Tool != nil && p.In != idempotency.None {
		r.Tool.Meta = map[string]string{saga.KeyMeta: key}
	}
	if r.Child != nil || r.Tool != nil && p.In != idempotency.Body || r.Task != nil && p.In != idempotency.Body {
		return nil
	}
	escape := url.QueryEscape
	if plan {
		escape = func(text string) string { return expr.EncodeKnown(text, url.QueryEscape) }
	}
	switch p.In {
	case idempotency.Header:
		maps.DeleteFunc(r.Headers, func(name, _ string) bool { return strings.EqualFold(name, p.Name) })
		if r.Headers == nil {
			r.Headers = make(map[string]string, 1)
		}
		r.Headers[p.Name] = key
	case idempotency.Query:
		sep := "?"
		if strings.Contains(r.URL, "?") {
			sep = "&"
		}
		r.URL += sep + url.QueryEscape(p.Name) + "=" + escape(key)
	case idempotency.Body:
		payload := &r.Body
		switch {
		case r.Task != nil:
			payload = &r.Task.Input
		case r.Tool != nil:
			payload = &r.Tool.Arguments
		}
		if plan && expr.HasPlaceholder(*payload) && (*payload)[0] == '"' {
			return nil // the whole body is unknown in this plan, so the field has no place yet
		}
		body, err := withField(*payload, p.Name, key)
		if err != nil {
			return err
		}
		*payload = body
	}
	return nil
}

// visible reports whether an author's key can be used everywhere: in a header, a URL, a body, and
// every store. ${ from data could be read as a reference to a secret.
func visible(key string) bool {
	for _, c := range []byte(key) {
		if c <= ' ' || c > '~' {
			return false
		}
	}
	return len(key) >= 1 && len(key) <= 255 && !strings.Contains(key, "${")
}

// withField adds a field at the front of a JSON object, leaving the rest of its bytes unchanged.
func withField(body json.RawMessage, name, value string) (json.RawMessage, error) {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		body = []byte("{}")
	}
	if body[0] != '{' {
		return nil, &saga.Failure{Code: "bad_key", Title: "the idempotency key goes into the body, but the body is not an object"}
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	if _, taken := fields[name]; taken {
		return nil, &saga.Failure{Code: "bad_key", Title: "the body has a field " + strconv.Quote(name) + " already, where the idempotency key goes"}
	}
	field, err := journal.Encode(map[string]string{name: value})
	if err != nil {
		return nil, err
	}
	if len(fields) == 0 {
		return field, nil
	}
	return append(append(field[:len(field)-1], ','), body[1:]...), nil
}

// decodeBody returns a body as a value.
func decodeBody(body json.RawMessage) (any, error) {
	if len(body) == 0 {
		return nil, nil
	}
	return expr.Decode(body)
}

// actionInput returns the value that templates read as their action's input. s is the track of the
// step, its compensation or its status check. The value is the one that the first intent recorded,
// or else what `with` evaluates to now. A compensation or status check that belongs to the step's
// action reads the input of the step itself. nil means that there is no action.
func (m *Machine) actionInput(n *node, s *track, step *saga.Step, e *env) (json.RawMessage, error) {
	if step.Use == nil && s != &n.forward && n.step.Use != nil {
		s, step, e = &n.forward, n.step, m.env(n)
	}
	if step.Use == nil || s.actionInput != nil {
		return s.actionInput, nil
	}
	return inputOf(step.Use, e)
}

// inputOf renders the action's input with defaults filled in.
func inputOf(u *saga.Use, env expr.Env) (json.RawMessage, error) {
	if u.Input == nil {
		return u.With.JSON(env)
	}
	given, err := u.With.Value(env)
	if err != nil {
		return nil, err
	}
	filled, wrong := u.Input.Apply(given)
	if len(wrong) == 0 {
		return saga.Encode(filled), nil
	}
	if doc := saga.Encode(given); expr.IsPartial(env) && expr.HasPlaceholder(doc) {
		if f, ok := u.Input.(saga.Filler); ok {
			if filled, ok := f.Fill(given); ok {
				doc = saga.Encode(filled) // the action's templates read its defaults
			}
		}
		return doc, nil // a placeholder is a text, whatever the type of its value will be
	}
	f := &saga.Failure{Code: codeInput, Title: "`with` breaks the input of action " + u.String()}
	if saga.TooCostly(wrong) {
		f.Code, f.Title = saga.CodeTooCostly, "`with` could not be checked by the input of action "+u.String()
	}
	for i, w := range wrong {
		if i > 0 {
			f.Detail += "; "
		}
		f.Detail += w.Pointer + ": " + w.Detail
	}
	return nil, f
}

// codeInput is the failure of a step whose `with` breaks its action's input.
const codeInput = "bad_input"
