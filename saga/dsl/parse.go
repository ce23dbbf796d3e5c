// Package dsl reads saga definitions: YAML in, a compiled [saga.Definition] or
// every error of the document out, each with its place and what to do about it.
//
// The package knows the keys that all steps share. What a kind adds, it brings
// itself as a [Kind]; nothing here knows one by name. It is pure: no files, no clock, no network.
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

// Options are what Parse needs to know besides the text.
type Options struct {
	// Kinds are the step kinds there are: kinds.All().
	Kinds []Kind
	// Strict turns warnings into errors.
	Strict bool
	// VarNames are the server's vars. nil: not known, so any name passes; not
	// nil: a name that is neither here nor in the definition is an error.
	VarNames []string
	// Stored says that the document was published before: what it names on the
	// server may have gone since, which is no error of the document's any more.
	Stored bool
	// Actions finds an action that a step uses; version 0 is for the step to go without one: the
	// newest, or the one that the definition is pinned to. An error says what to do. nil: there are
	// none.
	Actions func(name string, version int) (*saga.Action, error)
	// Children finds a definition that a step runs, to type the step by it; version 0 is the
	// newest. It returns nil for one that is not known, whose input and output may then be
	// anything. A nil func knows none.
	Children func(name string, version int) *saga.Definition
}

// parser holds what is known of one document.
type parser struct {
	file    string
	src     *source
	options Options
	kinds   map[string]Kind
	names   []string // of the kinds, as listed

	def      *saga.Definition
	action   *saga.Action // nil: the document is a definition
	errs     []saga.Finding
	warns    []saga.Finding
	written  map[string]*Node // every id in the document, for messages
	taken    map[string]*Node // the ids of the steps read so far
	nodes    map[*saga.Step]*Node
	loops    map[string]string // of the steps inside loops that were read: the loop's id
	secrets  []string
	input    *expr.Type
	outputs  map[string]*expr.Type // of the steps that were read
	varsUsed map[string]bool
	readings map[string]*reading // by step
	currency string              // of the first amount
	pivot    *Node               // where the pivot is
	read     int                 // how many steps
	declares int                 // values of schemas, vars and secrets
	vars     map[string]bool     // all that may be named, if that is known
	defaults defaults
}

// Parse compiles a definition. file is the name used in errors. Either the definition is nil or the
// errors are; all errors of the document, of more than MaxErrors the first that were found, are
// reported at once, by position. Warnings are in the definition, unless o.Strict.
//
// JSON is YAML here. The definition's SHA256 is of src as given.
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

// newParser begins the reading of a document.
func newParser(file string, src []byte, o Options) *parser {
	sum := sha256.Sum256(src)
	p := &parser{
		file: file, src: newSource(src), options: o, kinds: make(map[string]Kind, len(o.Kinds)),
		def:   &saga.Definition{Source: slices.Clone(src), SHA256: hex.EncodeToString(sum[:]), ByID: map[string]*saga.Step{}, Decides: map[string]bool{}},
		input: expr.Any(), outputs: map[string]*expr.Type{}, written: map[string]*Node{}, taken: map[string]*Node{}, nodes: map[*saga.Step]*Node{}, loops: map[string]string{}, varsUsed: map[string]bool{}, readings: map[string]*reading{},
		secrets: []string{}, defaults: defaults{retry: retry.Default()},
	}
	for _, k := range o.Kinds {
		p.kinds[k.Name] = k
		p.names = append(p.names, k.Name)
	}
	return p
}

// enough ends compiling: there are MaxErrors errors.
type enough struct{}

// compile reads the document and has its tree compiled.
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

// add keeps an error. Finding and wording the next one costs time: a document that has so many is
// not read to its end.
func (p *parser) add(f saga.Finding) {
	p.errs = append(p.errs, f)
	if len(p.errs) == MaxErrors {
		panic(enough{})
	}
}

// failed gives the errors that were found, nil for none.
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

// at reports an error at a place that is no node.
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

// exprErrors reports what is wrong with an expression that stands base bytes into
// the value of n.
func (p *parser) exprErrors(n *Node, base int, errs []*expr.Error) {
	for _, e := range errs {
		p.failInside(n, base+e.Offset, e.Code, e.Detail)
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
