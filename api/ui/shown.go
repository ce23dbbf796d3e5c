package ui

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"recourse/journal"
)

// Bounds of what is shown for approval as a list; what goes beyond is shown as JSON.
const (
	maxPairs = 40
	maxDeep  = 3
)

// pair is a property of what is shown for approval.
type pair struct {
	Name  string // with those of the objects that it lies in: "claim · reasons"
	Value string
	List  []string // of an array, instead of Value
}

// Pairs are the properties of what is to be approved, if it is an object of simple values, lists of
// them, and objects like it; nil otherwise, or if it has too much for a list.
func (f entryForms) Pairs() []pair {
	list, ok := properties("", f.Shown, 0)
	if !ok || len(list) > maxPairs {
		return nil
	}
	return list
}

// properties lists an object's properties, false if it is none that can be listed.
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

// itemsOf lists an array's values, false if they are not all simple.
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

// simple reports whether a value is one line of a list: text, a number, true, false, null, or
// something empty.
func simple(value json.RawMessage) bool {
	value = bytes.TrimSpace(value)
	return len(value) > 0 && value[0] != '{' && value[0] != '[' || string(value) == "{}" || string(value) == "[]"
}

// unquoted is a text without its quotes; others as they are written.
func unquoted(value json.RawMessage) string {
	text := string(bytes.TrimSpace(value))
	_ = json.Unmarshal(value, &text)
	return text
}

// Says is what is to be done about an entry, with the page's word for it.
func (f entryForms) Says() string {
	return strings.Replace(f.Detail, "Raise the budget of the saga (PATCH), or cancel it.", "Raise the budget, or cancel the saga.", 1)
}

// Expires is until when an approval may be decided; the zero time if that is not limited.
func (f entryForms) Expires() time.Time {
	if f.ExpiresAt == nil {
		return time.Time{}
	}
	return f.ExpiresAt.Time
}

// About is an approval's detail without the time at which it expires, which a page writes in its
// own way.
func (f entryForms) About() string {
	return strings.TrimSuffix(f.Detail, " It expires at "+f.Expires().UTC().Format(journal.TimeFormat)+".")
}
