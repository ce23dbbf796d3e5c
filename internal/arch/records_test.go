package arch

import (
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// mayRead are the packages and files that may read the data of records, with the reason. All else
// reads journals with saga/history: decision 17. Everybody may ask for the length of the data.
var mayRead = map[string]string{
	"saga/history":           "it is the reader",
	"saga/machine":           "recovery depends on nothing that shows journals",
	"internal/invariant":     "an error of the reader must not hide itself",
	"internal/test":          "test tools, which the program does not contain",
	"journal":                "it hashes, stores and exports the bytes",
	"api/ui/saga_journal.go": "it searches the bytes for a text",
	"api/ui/saga_story.go":   "it searches the bytes for a cost, since decoding a long journal is slow",
}

// reads returns where a package reads a field, or calls a method.
func (c checked) reads(members ...types.Object) (found []token.Position) {
	for _, f := range c.files {
		other := make(map[ast.Expr]bool) // a use that does not read
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if fun, ok := n.Fun.(*ast.Ident); ok && c.info.Uses[fun] == types.Universe.Lookup("len") {
					other[n.Args[0]] = true
				}
			case *ast.AssignStmt:
				for _, to := range n.Lhs {
					other[to] = true
				}
			case *ast.SelectorExpr:
				if sel := c.info.Selections[n]; sel != nil && slices.Contains(members, sel.Obj()) && !other[n] {
					found = append(found, c.fset.Position(n.Pos()))
				}
			}
			return true
		})
	}
	return found
}

// mentionsData reports whether a file selects something named Data or Decode. The types say of
// what.
func mentionsData(f *ast.File) (found bool) {
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		found = found || ok && (sel.Sel.Name == "Data" || sel.Sel.Name == "Decode")
		return !found
	})
	return found
}

// dataOf returns what reads the data of journal.Record: the field Data and the method Decode.
func dataOf(t *testing.T, of *types.Package) (list []types.Object) {
	t.Helper()
	for _, name := range []string{"Data", "Decode"} {
		member, _, _ := types.LookupFieldOrMethod(of.Scope().Lookup("Record").Type(), true, of, name)
		if member == nil {
			t.Fatalf("journal.Record has no %s", name)
		}
		list = append(list, member)
	}
	return list
}

// Only saga/history, and those with a reason, read the data of records.
func TestOneReader(t *testing.T) {
	imp := importer.ForCompiler(token.NewFileSet(), "gc", exportData(t))
	records, err := imp.Import(module + "/journal")
	if err != nil {
		t.Fatal(err)
	}
	read := make(map[string]bool)
	for _, p := range list(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		src := parsed(t, p)
		if !slices.ContainsFunc(src.files, mentionsData) {
			continue
		}
		c := typed(t, imp, p.ImportPath, src)
		data := dataOf(t, records)
		if p.ImportPath == records.Path() {
			data = dataOf(t, c.of)
		}
		for _, at := range c.reads(data...) {
			file := name + "/" + filepath.Base(at.Filename)
			may := ""
			for of := range mayRead {
				if within(file, of) {
					may = of
				}
			}
			if read[may] = true; may == "" {
				t.Errorf("%s:%d reads the data of a record: use saga/history", file, at.Line)
			}
		}
	}
	for of := range mayRead {
		if !read[of] {
			t.Errorf("%s reads no data of records: remove it from mayRead", of)
		}
	}
}

func TestOneReaderCanFail(t *testing.T) {
	imp := importer.ForCompiler(token.NewFileSet(), "gc", exportData(t))
	records, err := imp.Import(module + "/journal")
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]int{
		`func f(r journal.Record, v any) error { return json.Unmarshal(r.Data, v) }`:                                            1,
		`func f(r journal.Record, v any) error { return r.Decode(v) }`:                                                          1,
		`func f(l []journal.Record) []byte { return l[0].Data }`:                                                                1,
		`func f(e history.Event) { d := e.Data; _, _ = d() }`:                                                                   0,
		`func f(e history.Event) []byte { return e.Record.Data }`:                                                               1,
		`type row struct{ journal.Record }; func f(r *row) string { return string(r.Data) }`:                                    1,
		`func f(r journal.Record) int { return len(r.Data) }`:                                                                   0,
		`func f(r *journal.Record, b []byte) { r.Data = b }`:                                                                    0,
		`func f(r, o *journal.Record) { r.Data = o.Data }`:                                                                      1,
		`func f(m journal.Message, v any) error { return json.Unmarshal(m.Data, v) }`:                                           0,
		`func f(r *journal.Record) { len := func(b []byte) json.RawMessage { return b }; _ = len(r.Data) }`:                     1,
		`func f(r *journal.Record) (saga.OutcomeData, bool) { return history.DataOf[saga.OutcomeData](r) }; var _ = json.Valid`: 0,
	} {
		src := "package p; import (\"encoding/json\"; \"" + module + "/journal\"; \"" + module + "/saga\"; \"" + module + "/saga/history\")\n" + body +
			"\nvar _ json.RawMessage; var _ journal.Record; var _ saga.Time; var _ history.Reader"
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "p.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := typed(t, imp, "p", source{fset, []*ast.File{f}}).reads(dataOf(t, records)...); len(got) != want {
			t.Errorf("%s: %d reads, want %d", body, len(got), want)
		}
	}
}
