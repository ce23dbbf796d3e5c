package dsl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"recourse/saga"
)

// Error is one error in a document, with its place.
type Error struct {
	File    string // as given to Parse
	Line    int    // from 1; 0 if the place is not known
	Column  int    // from 1, in characters
	Pointer string // JSON pointer (RFC 6901) to the value
	Code    string // stable, for programs
	Detail  string // for people; says how to fix it
}

// Error writes "file:line:column: code: detail".
func (e Error) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", e.File, e.Line, e.Column, e.Code, e.Detail)
}

// Errors contains all the errors of a document, by position. There is at least one.
type Errors struct{ List []Error }

// Error writes one error per line.
func (e *Errors) Error() string {
	lines := make([]string, len(e.List))
	for i, one := range e.List {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// Findings returns the errors in the form of problem documents.
func (e *Errors) Findings() []saga.Finding {
	out := make([]saga.Finding, len(e.List))
	for i, one := range e.List {
		out[i] = saga.Finding{Pointer: one.Pointer, Line: one.Line, Column: one.Column, Code: one.Code, Detail: one.Detail}
	}
	return out
}

// sortFindings sorts by place, so that the same document gives the same list.
func sortFindings(list []saga.Finding) {
	slices.SortStableFunc(list, func(a, b saga.Finding) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Detail, b.Detail))
	})
}
