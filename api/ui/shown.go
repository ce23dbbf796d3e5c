package ui

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"recourse/journal"
)

// Bounds of the content that is shown for approval as a list; anything larger is shown as JSON.
const (
	maxPairs = 40
	maxDeep  = 3
)

// pair is a property of the content that is shown for approval.
type pair struct {
	Name  string // with the names of the enclosing objects: "claim · reasons"
	Value string
	List  []string // values of an array, instead of Value
}

// Pairs returns the properties of the content to approve, if it is an object of simple values,
// lists of them, and such objects; nil otherwise, or if it is too large for a list.
func (f entryForms) Pairs() []pair {
	list, ok := properties("", f.Shown, 0)
	if !ok || len(list) > maxPairs {
		return nil
	}
	return list
}

// properties lists an object's properties; ok is false if it cannot be listed.
func properties(within string, object json.RawMessage, deep int) (list []pair, ok bool) {
	var doc map[string]json.RawMessage
	if deep >= maxDeep || json.Unmarshal(object, &doc) != nil || len(doc) == 0 {
		return nil, false
	}
	for _, name := range namesOf(json.RawMessage(`{"properties":` + string(object) + `}`)) {
		value := bytes.TrimSpace(doc[name])
		name = within + name
		switch {
		case simple(value):
			list = append(list, pair{Name: name, Value: unquoted(value)})
		case value[0] == '[':
			items, ok := itemsOf(value)
			if !ok {
				return nil, false
			}
			list = append(list, pair{Name: name, List: items})
		default:
			inner, ok := properties(name+" · ", value, deep+1)
			if !ok {
				return nil, false
			}
			list = append(list, inner...)
		}
	}
	return list, true
}

// itemsOf lists an array's values; ok is false if one is not simple.
func itemsOf(array json.RawMessage) (list []string, ok bool) {
	var items []json.RawMessage
	if json.Unmarshal(array, &items) != nil {
		return nil, false
	}
	for _, item := range items {
		if !simple(item) {
			return nil, false
		}
		list = append(list, unquoted(item))
	}
	return list, true
}

// simple reports whether a value fits on a line: text, a number, true, false, null, or an empty
// list or object.
func simple(value json.RawMessage) bool {
	value = bytes.TrimSpace(value)
	return len(value) > 0 && value[0] != '{' && value[0] != '[' || string(value) == "{}" || string(value) == "[]"
}

// unquoted returns a text without its quotes, and other values as they are written.
func unquoted(value json.RawMessage) string {
	text := string(bytes.TrimSpace(value))
	_ = json.Unmarshal(value, &text)
	return text
}

// Says returns the advice about an entry, in the terms of the web UI.
func (f entryForms) Says() string {
	return strings.Replace(f.Detail, "Raise the budget of the saga (PATCH), or cancel it.", "Raise the budget, or cancel the saga.", 1)
}

// Expires returns when an approval expires; the zero time for never.
func (f entryForms) Expires() time.Time {
	if f.ExpiresAt == nil {
		return time.Time{}
	}
	return f.ExpiresAt.Time
}

// About returns an approval's detail without its expiry, which a page formats itself.
func (f entryForms) About() string {
	return strings.TrimSuffix(f.Detail, " It expires at "+f.Expires().UTC().Format(journal.TimeFormat)+".")
}
