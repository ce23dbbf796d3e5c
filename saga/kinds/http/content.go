package http

import (
	"encoding/json"
	"fmt"
	"strings"

	"recourse/saga/expr"
)

// encodeSealed encodes sealed text, by percentEncode or the like, except its references to secrets, whose
// values the caller encodes when it puts them in. Encoded text has no ${ of its own.
func encodeSealed(sealed string, encode func(string) string) string {
	var b strings.Builder
	for sealed != "" {
		i := strings.Index(sealed, "${")
		switch {
		case i < 0:
			b.WriteString(encode(sealed))
			return b.String()
		case i > 0 && sealed[i-1] == '$': // $${: a literal ${
			b.WriteString(encode(sealed[:i-1] + "${"))
			sealed = sealed[i+2:]
		default:
			end := strings.IndexByte(sealed[i:], '}')
			b.WriteString(encode(sealed[:i]) + sealed[i:i+end+1])
			sealed = sealed[i+end+1:]
		}
	}
	return b.String()
}

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
)

// content renders the body by the content type: JSON as it is; a form from an
// object; anything else from text. In the last two the request's body is a JSON
// string of the text that is sent.
func (b *Body) content(headers map[string]string, env expr.Env) (json.RawMessage, error) {
	if b.body == nil {
		return nil, nil
	}
	if headers["Content-Type"] == "" {
		headers["Content-Type"] = jsonType
	}
	media := mediaType(headers["Content-Type"])
	if isJSON(media) {
		return b.body.SealedJSON(env)
	}
	doc, err := b.body.SealedJSON(env)
	if err != nil {
		return nil, err
	}
	var text string
	if json.Unmarshal(doc, &text) == nil && doc[0] == '"' {
		return doc, nil
	}
	if media != formType {
		return nil, unsendable("a body of the type %s must be text: use json() or another content-type", cut(media, 60))
	}
	form, err := encodeForm(doc, encoderIn(env))
	if err != nil {
		return nil, err
	}
	return quoteJSON(form), nil
}

// encodeForm makes a form of a sealed object, in its order.
func encodeForm(doc json.RawMessage, encode func(string) string) (string, error) {
	d := json.NewDecoder(strings.NewReader(string(doc)))
	d.UseNumber()

	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return "", unsendable("a form is made from a map")
	}
	var out []string
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return "", fmt.Errorf("http: form: %w", err)
		}
		var v any
		if err := d.Decode(&v); err != nil {
			return "", fmt.Errorf("http: form: %w", err)
		}
		items, list := v.([]any)
		if !list {
			items = []any{v}
		}
		for _, item := range items {
			switch item.(type) {
			case nil:
				continue
			case map[string]any, []any:
				return "", unsendable("the form field %q is an object or a list within a list: use json()", name)
			}
			out = append(out, encodeSealed(fmt.Sprint(name), encode)+"="+encodeSealed(fmt.Sprint(item), encode))
		}
	}
	return strings.Join(out, "&"), nil
}
