// Package dsl parses saga definitions. Its input is YAML; its result is a compiled
// [saga.Definition], or every error of the document, each with its place and how to fix it.
//
// The package knows the keys that all steps share. A [Kind] provides the keys of its own steps;
// nothing here knows a kind by name. The package is pure: no files, no clock, no network.
//
// The files follow the document. document.go has its top level and the patterns of names, step.go
// the keys of every step, policy.go retry and defaults, and inputs.go, triggers.go, budget.go,
// doubt.go and compensate.go the keys that they are named after. warnings.go reports what is valid
// but probably a mistake. editor.go makes the JSON Schema for editors, which must accept every key
// that the parser accepts.
package dsl

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"

	"recourse/retry"
	"recourse/saga"
	"recourse/saga/expr"
)

// Options are the inputs of Parse other than the text.
type Options struct {
	// Kinds are the available kinds of steps: kinds.All().
	Kinds []Kind
	// Strict turns warnings into errors.
	Strict bool
	// VarNames are the names of the server's vars. nil means unknown, so that every name is
	// accepted. Otherwise a name that is neither here nor in the definition is an error.
	VarNames []string
	// Stored says that the document was published before. A name that no longer exists on the
	// server is then not an error.
	Stored bool
	// Actions finds an action that a step uses. Version 0 means the version for a step that names
	// none: the newest, or the one that the definition is pinned to. An error says how to fix it.
	// nil: there are no actions.
	Actions func(name string, version int) (*saga.Action, error)
	// Children finds a definition that a step runs, for the types of the step. Version 0 is the
	// newest. It returns nil for an unknown definition, whose input and output may then be
	// anything. A nil func knows none.
	Children func(name string, version int) *saga.Definition
}

// parser is the state of parsing one document.
type parser struct {
	file    string
	src     *source
	options Options
	kinds   map[string]Kind
	names   []string // the kinds' names, as listed

	def      *saga.Definition
	action   *saga.Action // nil: the document is a definition
	errs     []saga.Finding
	warns    []saga.Finding
	written  map[string]*Node // every id in the document, for messages
	taken    map[string]*Node // the ids of the steps parsed so far
	nodes    map[*saga.Step]*Node
	covers   map[*saga.Step][]*Node // the names of the steps that an approval covers
	fresh    []*saga.Step           // the steps with fresh_for
	top      map[string]string      // by the id of a step: the step of the top level that it is in; for fresh_for
	loops    map[string]string      // for parsed steps inside loops: the loop's id
	secrets  []string
	input    *expr.Type
	outputs  map[string]*expr.Type // of the steps parsed so far
	verified map[string]*expr.Type // of the same steps with a status check: their outputs if that finds the effect
	varsUsed map[string]bool
	readings map[string]*reading // by step
	currency string              // the currency of the first amount
	pivot    *Node               // the node of the pivot
	read     int                 // the number of steps
	declares int                 // values of schemas, vars and secrets
	vars     map[string]bool     // all allowed names, if they are known
	defaults defaults
}

// Parse compiles a definition. file is the name used in errors. It returns either a definition or
// errors, never both. It reports all errors of the document at once, by position, but at most the
// first MaxErrors that it finds. Warnings are in the definition, unless o.Strict.
//
// JSON is valid YAML here. The definition's SHA256 is that of src.
func Parse(file string, src []byte, o Options) (*saga.Definition, *Errors) {
	p := newParser(file, src, o)
	p.compile(p.document)
	if errs := p.failed(); errs != nil {
		return nil, errs
	}
	p.def.Warnings = p.warns
	p.def.VarsUsed = sortedKeys(p.varsUsed)
	p.def.Currency = p.currency
	p.def.Gives = p.sagaOutput()
	return p.def, nil
}

// newParser returns a parser for a document.
func newParser(file string, src []byte, o Options) *parser {
	sum := sha256.Sum256(src)
	p := &parser{
		file: file, src: newSource(src), options: o, kinds: make(map[string]Kind, len(o.Kinds)),
		def:   &saga.Definition{Source: slices.Clone(src), SHA256: hex.EncodeToString(sum[:]), ByID: map[string]*saga.Step{}, Decides: map[string]bool{}, Reads: map[string][]string{}, UndoReads: map[string][]string{}},
		input: expr.Any(), outputs: map[string]*expr.Type{}, verified: map[string]*expr.Type{}, written: map[string]*Node{}, taken: map[string]*Node{}, nodes: map[*saga.Step]*Node{}, covers: map[*saga.Step][]*Node{}, loops: map[string]string{}, varsUsed: map[string]bool{}, readings: map[string]*reading{},
		secrets: []string{}, defaults: defaults{retry: retry.Default()},
	}
	for _, k := range o.Kinds {
		p.kinds[k.Name] = k
		p.names = append(p.names, k.Name)
	}
	return p
}

// enough ends compiling because there are MaxErrors errors.
type enough struct{}

// compile parses the text and compiles its tree.
func (p *parser) compile(document func(root *Node)) {
	defer func() {
		if r := recover(); r != nil && r != (enough{}) {
			panic(r)
		}
	}()
	if root := p.load(); root != nil {
		document(root)
	}
	if len(p.errs) == 0 {
		p.warn()
	}
}

// add keeps an error. Finding and formatting errors takes time, so a document with too many is not
// read to its end.
func (p *parser) add(f saga.Finding) {
	p.errs = append(p.errs, f)
	if len(p.errs) == MaxErrors {
		panic(enough{})
	}
}

// failed returns the errors that were found, nil for none.
func (p *parser) failed() *Errors {
	sortFindings(p.warns)
	if p.options.Strict {
		p.errs = append(p.errs, p.warns...)
	}
	if len(p.errs) == 0 {
		return nil
	}
	sortFindings(p.errs)
	p.errs = slices.Compact(p.errs)
	errs := &Errors{List: make([]Error, len(p.errs))}
	for i, f := range p.errs {
		errs.List[i] = Error{File: p.file, Line: f.Line, Column: f.Column, Pointer: f.Pointer, Code: f.Code, Detail: f.Detail}
	}
	return errs
}

// at reports an error at a place that is not a node.
func (p *parser) at(line, column int, code, detail string) {
	p.add(saga.Finding{Line: line, Column: column, Code: code, Detail: detail})
}

// fail reports an error at a node.
func (p *parser) fail(n *Node, code, detail string) {
	p.add(finding(n, code, detail))
}

func finding(n *Node, code, detail string) saga.Finding {
	return saga.Finding{Pointer: n.Pointer(), Line: n.Line, Column: n.Column, Code: code, Detail: detail}
}

func mention(n *Node, name string) saga.Mention {
	return saga.Mention{Name: name, At: finding(n, "", "")}
}

// failInside reports an error at a byte of a scalar's value.
func (p *parser) failInside(n *Node, into int, code, detail string) {
	f := finding(n, code, detail)
	f.Line, f.Column = p.src.within(n, into)
	p.add(f)
}

// exprErrors reports the errors of an expression that begins at byte base of the value of n.
func (p *parser) exprErrors(n *Node, base int, errs []*expr.Error) {
	for _, e := range errs {
		p.failInside(n, base+e.Offset, e.Code, e.Detail)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
