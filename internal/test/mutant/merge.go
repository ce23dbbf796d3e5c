package mutant

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// variant is the text of a file with one bug.
type variant struct{ mutant, text string }

// source is a parsed file.
type source struct {
	text    string
	rest    string   // the text without imports and bodies of functions
	name    int      // where the name of the package ends
	imports []string // as written in import declarations
	bodies  []body
}

// body is what is between the braces of a function.
type body struct {
	text    string
	start   int    // the offset of text
	line    int    // the line that text begins on
	results string // the function's results, as written
}

// merge returns a file whose functions have the bug that is switched on, if any.
func merge(file, text string, variants []variant) ([]byte, error) {
	own, err := read(file, text)
	if err != nil {
		return nil, err
	}
	imports := []string{`activeMutant "` + pkg + `/active"`}
	choices := make([]string, len(own.bodies)) // what each function begins with
	for _, v := range variants {
		s, err := read(v.mutant+".patch", v.text)
		if err != nil {
			return nil, err
		}
		if s.rest != own.rest || len(s.bodies) != len(own.bodies) {
			return nil, fmt.Errorf("%s.patch changes more of %s than bodies of functions and imports", v.mutant, file)
		}
		for _, spec := range s.imports {
			if !slices.Contains(own.imports, spec) && !slices.Contains(imports, spec) {
				imports = append(imports, spec)
			}
		}
		for i, b := range s.bodies {
			if b.text != own.bodies[i].text {
				choices[i] += v.choice(file, b)
			}
		}
	}
	var out strings.Builder
	out.WriteString(text[:own.name])
	for _, spec := range imports {
		out.WriteString("; import " + spec)
	}
	at := own.name
	for i, b := range own.bodies {
		if choices[i] != "" {
			fmt.Fprintf(&out, "%s%s\n//line %s:%d\n", text[at:b.start], choices[i], path.Base(file), b.line)
			at = b.start
		}
	}
	out.WriteString(text[at:])
	return []byte(out.String()), nil
}

// choice returns the statement that runs the body with the bug if the bug is switched on. The
// function around the body keeps its labels and returns apart from those of other bodies.
func (v variant) choice(file string, b body) string {
	call, end := "return func() "+b.results, ""
	if b.results == "" {
		call, end = "func()", "; return"
	}
	return fmt.Sprintf(" if activeMutant.Name == %q { %s {\n//line %s.patch, %s:%d\n%s}()%s };", v.mutant, call, v.mutant, path.Base(file), b.line, b.text, end)
}

func read(name, text string) (s source, err error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return source{}, err
	}
	offset := func(p token.Pos) int { return fset.Position(p).Offset }
	s.text, s.name = text, offset(f.Name.End())
	for _, i := range f.Imports {
		s.imports = append(s.imports, text[offset(i.Pos()):offset(i.Path.End())])
	}
	at := 0
	skip := func(from, to int) {
		s.rest, at = s.rest+text[at:from], to
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.GenDecl:
			if d.Tok == token.IMPORT {
				end := offset(d.End())
				for end < len(text) && text[end] == '\n' {
					end++
				}
				skip(offset(d.Pos()), end)
			}
		case *ast.FuncDecl:
			if d.Body == nil {
				continue
			}
			b := body{start: offset(d.Body.Lbrace) + 1, line: fset.Position(d.Body.Lbrace).Line}
			end := offset(d.Body.Rbrace)
			b.text = text[b.start:end]
			if r := d.Type.Results; r != nil {
				b.results = text[offset(r.Pos()):offset(r.End())]
			}
			s.bodies = append(s.bodies, b)
			skip(b.start, end)
		}
	}
	s.rest += text[at:]
	return s, nil
}
