package http

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"recourse/internal/httptext"
	"recourse/saga/expr"
)

// encodeSealed encodes sealed text, by PercentEncode or the like, except its references to secrets,
// whose values the caller encodes when it puts them in. Encoded text has no ${ of its own.
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

const formType = "application/x-www-form-urlencoded"

// content renders the body by its content type: JSON as it is; a form from an object; anything else
// from text. For a form and for text, the request's body is a JSON string of the text that is sent.
func (b *Body) content(headers map[string]string, env expr.Env) (json.RawMessage, error) {
	if b.body == nil {
		return nil, nil
	}
	if headers["Content-Type"] == "" {
		headers["Content-Type"] = httptext.JSON
	}
	media := httptext.MediaType(headers["Content-Type"])
	if httptext.IsJSON(media) {
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
		return nil, unsendable("a body of the type %s must be text: use json() or another content-type", httptext.Clip(media, 60))
	}
	form, err := encodeForm(doc, encoderIn(env))
	if err != nil {
		return nil, err
	}
	return httptext.QuoteJSON(form), nil
}

// encodeForm makes a form of a sealed object, in its order. A nested value has brackets in its
// name, in the form that Stripe, PHP and Rails read.
func encodeForm(doc json.RawMessage, encode func(string) string) (string, error) {
	d := json.NewDecoder(strings.NewReader(string(doc)))
	d.UseNumber()
	if len(doc) == 0 || doc[0] != '{' {
		return "", unsendable("a form is made from a map")
	}
	var out []string
	err := formField(d, "", func(name string, value any) {
		out = append(out, encodeSealed(name, encode)+"="+encodeSealed(fmt.Sprint(value), encode))
	})
	if err != nil {
		return "", fmt.Errorf("http: form: %w", err)
	}
	return strings.Join(out, "&"), nil
}

// formField reads the value of the field name, and calls say for each field in it: a[b] for a map
// in a map, a[0][b] for a map in a list, a[b][] for a list in a map. A list at the top level
// repeats its name as it is written, so the name may end in []. null is left out.
func formField(d *json.Decoder, name string, say func(string, any)) error {
	t, err := d.Token()
	if err != nil {
		return err
	}
	switch t {
	case json.Delim('{'):
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return err
			}
			inner := fmt.Sprint(key)
			if name != "" {
				inner = name + "[" + inner + "]"
			}
			if err := formField(d, inner, say); err != nil {
				return err
			}
		}
		_, err = d.Token()
	case json.Delim('['):
		each := name
		if strings.Contains(name, "[") && !strings.HasSuffix(name, "[]") {
			each += "[]"
		}
		for i := 0; d.More(); i++ {
			var item json.RawMessage
			if err := d.Decode(&item); err != nil {
				return err
			}
			at := each
			if item[0] == '{' || item[0] == '[' {
				at = strings.TrimSuffix(name, "[]") + "[" + strconv.Itoa(i) + "]"
			}
			inner := json.NewDecoder(bytes.NewReader(item))
			inner.UseNumber()
			if err := formField(inner, at, say); err != nil {
				return err
			}
		}
		_, err = d.Token()
	case nil:
	default:
		say(name, t)
	}
	return err
}
