package dsl

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Limits of a document, as docs/definitions.md states them. They limit what a hostile document can
// cost. Parts that take the compiler a pass over all steps, or far more than a value in a template,
// have limits of their own.
const (
	MaxBytes    = 2 << 20
	MaxNodes    = 200_000
	MaxSteps    = 10_000
	MaxDeclared = 10_000 // values in schemas, vars and secrets
	MaxDepth    = 64
	MaxErrors   = 100 // the search stops after so many errors
)

// load parses the text as one YAML document and returns its tree, or nil after reporting why not.
// Limits are checked before the tree is built, so that a hostile document costs no more than its
// bytes.
func (p *parser) load() *Node {
	if !p.readable() {
		return nil
	}
	loader, err := yaml.NewLoader(bytes.NewReader(p.src.text), yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(MaxDepth), loaderlimits.AliasNone())))
	if err != nil {
		p.at(1, 1, "syntax", err.Error())
		return nil
	}
	var doc, second yaml.Node
	if err := loader.Load(&doc); err != nil {
		p.syntax(err)
		return nil
	}
	if err := loader.Load(&second); !errors.Is(err, io.EOF) {
		p.at(max(second.Line, 1), max(second.Column, 1), "several_documents", `one file holds one definition: remove the "---" and what follows it, or move it to a file of its own`)
		return nil
	}
	if len(doc.Content) != 1 {
		p.at(1, 1, "empty", "the document is empty: a definition needs at least saga and steps")
		return nil
	}
	t := &tree{parser: p}
	root := t.convert(doc.Content[0], nil, "", 1)
	if t.refused {
		return nil
	}
	return root
}

// readable checks the bytes before the parser sees them.
func (p *parser) readable() bool {
	text := p.src.text
	if len(text) > MaxBytes {
		p.at(1, 1, "too_large", "the document has "+strconv.Itoa(len(text))+" bytes, more than the "+strconv.Itoa(MaxBytes)+" allowed: split the saga")
		return false
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			return p.refuseByte(i, "not_utf8", "the document is not valid UTF-8 here: save it as UTF-8")
		}
		if r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0x7f {
			return p.refuseByte(i, "control_character", `a control character stands here: remove it, or write it as an escape in double quotes ("\x01")`)
		}
		i += size
	}
	if n, at := items(string(text), MaxNodes); n > MaxNodes {
		return p.refuseByte(at, "too_many_nodes", tooManyNodes)
	}
	return true
}

const (
	tooManyNodes    = "the document has more than 200000 values: split the saga, or fetch the data in a step"
	tooManySteps    = "the definition has more than 10000 steps: split the saga"
	tooManyDeclared = "schemas, vars and secrets have more than 10000 values between them: fetch the data in a step, or check less"
)

// declared counts the values of a schema, of vars or of secrets, and reports if there are too many.
func (p *parser) declared(n *Node) bool {
	was := p.declares
	p.declares += n.size()
	if was <= MaxDeclared && p.declares > MaxDeclared {
		p.fail(n, "too_many_nodes", tooManyDeclared)
	}
	return p.declares <= MaxDeclared
}

func (p *parser) refuseByte(at int, code, detail string) bool {
	line, column := p.src.place(at)
	p.at(line, column, code, detail)
	return false
}

// syntax reports an error of the YAML parser.
func (p *parser) syntax(err error) {
	var bad *yaml.LoadError
	if !errors.As(err, &bad) {
		if errors.Is(err, io.EOF) {
			p.at(1, 1, "empty", "the document is empty: a definition needs at least saga and steps")
			return
		}
		p.at(1, 1, "syntax", err.Error())
		return
	}
	mark := bad.Mark
	if mark.Line == 0 {
		mark = bad.ContextMark
	}
	line, column := max(mark.Line, 1), max(mark.Column, 1)
	if strings.Contains(bad.Message, "exceeded max depth") {
		p.at(line, column, "too_deep", tooDeep)
		return
	}
	detail := bad.Message
	if bad.ContextMsg != "" {
		detail = bad.ContextMsg + ": " + detail
	}
	p.at(line, column, "syntax", "this is not YAML: "+detail)
}

const tooDeep = "the document is nested deeper than 64 levels: flatten it"

// tree converts the parser's nodes into ours, and refuses YAML features that definitions do not
// have.
type tree struct {
	*parser
	nodes   int
	refused bool
}

func (t *tree) refuse(y *yaml.Node, code, detail string) {
	t.at(y.Line, y.Column, code, detail)
}

// stop is refuse for an error after which reading on is pointless.
func (t *tree) stop(y *yaml.Node, code, detail string) {
	if !t.refused {
		t.refuse(y, code, detail)
	}
	t.refused = true
}

func (t *tree) convert(y *yaml.Node, parent *Node, token string, depth int) *Node {
	n := &Node{Line: y.Line, Column: y.Column, value: y.Value, style: y.Style, parent: parent, token: token}
	t.nodes++
	switch {
	case t.refused:
		return n
	case t.nodes > MaxNodes:
		t.stop(y, "too_many_nodes", tooManyNodes)
		return n
	case depth > MaxDepth && y.Kind != yaml.ScalarNode:
		t.stop(y, "too_deep", tooDeep)
		return n
	case y.Kind == yaml.AliasNode:
		n.value = ""
		t.refuse(y, "alias", "aliases (*"+clip(y.Value, 40)+") are not part of definitions: write the value out, or put it under vars")
		return n
	case y.Anchor != "":
		t.refuse(y, "alias", "anchors (&"+clip(y.Anchor, 40)+") are not part of definitions: remove it")
	case y.Style&yaml.TaggedStyle != 0 || y.Tag != "" && !strings.HasPrefix(y.Tag, "!!"):
		t.refuse(y, "tag", "tags ("+clip(y.Tag, 40)+") are not part of definitions: remove it, and put quotes around what shall be text")
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.Form = Map
		t.entries(n, y, depth)
	case yaml.SequenceNode:
		n.Form = List
		n.Items = make([]*Node, 0, len(y.Content))
		for i, c := range y.Content {
			n.Items = append(n.Items, t.convert(c, n, strconv.Itoa(i), depth+1))
		}
	default:
		n.kind = classify(y.Value, y.Style)
	}
	return n
}

func (t *tree) entries(n *Node, y *yaml.Node, depth int) {
	seen := make(map[string]int, len(y.Content)/2)
	for i := 0; i+1 < len(y.Content) && !t.refused; i += 2 {
		k := y.Content[i]
		key := t.convert(k, n, k.Value, depth+1)
		if k.Kind == yaml.AliasNode {
			continue
		}
		if key.Form != Scalar || key.kind != textScalar {
			t.refuse(k, "key_not_text", "a key is text, not "+key.what()+": put quotes around it")
			continue
		}
		if k.Tag == "!!merge" {
			t.refuse(k, "alias", "merge keys (<<) are not part of definitions: write the keys out")
			continue
		}
		value := t.convert(y.Content[i+1], n, k.Value, depth+1)
		if line, dup := seen[k.Value]; dup {
			t.refuse(k, "duplicate_key", `"`+clip(k.Value, 40)+`" stands here twice, first on line `+strconv.Itoa(line)+": keep one")
			continue
		}
		seen[k.Value] = k.Line
		n.Entries = append(n.Entries, Entry{key, value})
	}
}
