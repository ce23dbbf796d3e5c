package controls

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strings"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

// Fill sets the fields' values from a submitted form.
func Fill(fields []*Control, form url.Values) {
	for _, f := range fields {
		f.Value = form.Get(f.Name)
		Fill(f.Fields, form)
	}
}

var numberForm = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)

// Document returns the document in a form, nil if it is empty. ok is false if a field must be
// JSON and is not.
func Document(fields []*Control) (doc json.RawMessage, ok bool) {
	if len(fields) == 1 && strings.Count(fields[0].Pointer, "/") == 1 {
		return fields[0].json()
	}
	return objectOf(fields)
}

// objectOf returns the JSON object in a form. Empty fields are omitted, so that defaults apply and
// the API reports missing values. Numbers are kept as typed. ok is false if a field must be JSON
// and is not.
func objectOf(fields []*Control) (doc json.RawMessage, ok bool) {
	var b strings.Builder
	ok = true
	for _, f := range fields {
		v, fine := f.json()
		ok = ok && fine
		if v == nil {
			continue
		}
		b.WriteByte(',')
		b.Write(quoted(expr.TokenName(f.Pointer[strings.LastIndexByte(f.Pointer, '/')+1:])))
		b.WriteByte(':')
		b.Write(v)
	}
	return json.RawMessage("{" + strings.TrimPrefix(b.String(), ",") + "}"), ok
}

// json returns the value of a field, nil for none.
func (f *Control) json() (v json.RawMessage, ok bool) {
	typed := strings.TrimSpace(f.Value)
	switch {
	case f.Kind == "group":
		v, ok = objectOf(f.Fields)
		if string(v) == "{}" && !f.Required {
			return nil, ok
		}
		return v, ok
	case f.Value == "" || typed == "" && f.Kind != "text":
		return nil, true
	case f.Kind == "number" && numberForm.MatchString(typed), f.Kind == "bool" && (typed == "true" || typed == "false"), f.Kind == "enum" && json.Valid([]byte(typed)):
		return json.RawMessage(typed), true
	case f.Kind == "json":
		if !json.Valid([]byte(typed)) {
			f.Wrong = append(f.Wrong, `this is not JSON: put texts in double quotes, as in ["a", "b"]`)
			return nil, false
		}
		return json.RawMessage(typed), true
	}
	return quoted(f.Value), true // not a number: the API reports it
}

// quoted returns a text as JSON.
func quoted(s string) json.RawMessage {
	b, _ := journal.Encode(s) // never fails: invalid UTF-8 becomes U+FFFD
	return b
}

// Blame assigns the API's findings to the fields that they concern, and returns the rest.
func Blame(fields []*Control, found []saga.Finding) (rest []saga.Finding) {
	for _, w := range found {
		if !blameOne(fields, w) {
			rest = append(rest, w)
		}
	}
	return rest
}

func blameOne(fields []*Control, w saga.Finding) bool {
	for _, f := range fields {
		if w.Pointer != f.Pointer && !strings.HasPrefix(w.Pointer, f.Pointer+"/") {
			continue
		}
		if blameOne(f.Fields, w) {
			return true
		}
		detail := w.Detail
		if below := strings.TrimPrefix(w.Pointer, f.Pointer); below != "" {
			detail = below + ": " + detail
		}
		f.Wrong = append(f.Wrong, detail)
		return true
	}
	return false
}
