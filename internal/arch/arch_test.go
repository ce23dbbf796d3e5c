package arch

import (
	"encoding/json"
	"errors"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// module is "recourse", unless make module-path has renamed it.
var module, _, _ = strings.Cut(reflect.TypeFor[pkg]().PkgPath(), "/internal/arch")

// may lists which packages of this module a package may import, besides itself and the packages
// below it. The longest matching name applies. "*" is every package, but what is in internal/test
// only for packages there: the program contains no test tools.
var may = map[string][]string{
	"retry":        {},
	"journal":      {},
	"idempotency":  {"journal"},
	"compensation": {"journal"},

	"saga":                   {"compensation", "idempotency", "journal", "retry", "saga/expr"},
	"saga/expr":              {"internal/spelling"},
	"saga/machine":           {"internal/cloudevent", "compensation", "idempotency", "journal", "retry", "saga", "saga/expr"},
	"saga/compare":           {"journal", "saga", "saga/expr", "saga/history", "saga/machine"},
	"saga/replay":            {"saga/compare", "compensation", "journal", "retry", "saga", "saga/expr", "saga/history", "saga/machine"},
	"saga/kinds/run/client":  {"saga/kinds", "journal", "saga", "saga/machine"},
	"saga/dsl":               {"internal/spelling", "saga", "saga/expr", "journal", "idempotency", "retry"},
	"saga/kinds":             {"internal/httptext", "saga", "saga/dsl", "saga/expr", "saga/history", "journal", "retry", "idempotency"},
	"saga/kinds/http/client": {"internal/egress", "internal/httptext", "retry", "saga", "saga/expr", "saga/kinds"},
	"saga/kinds/ask/client":  {"internal/egress", "internal/httptext", "internal/quota", "saga", "saga/kinds", "saga/kinds/llm/client"},
	"saga/kinds/mcp/client":  {"internal/egress", "internal/httptext", "internal/quota", "journal", "retry", "saga", "saga/expr", "saga/kinds"},
	"saga/kinds/llm/client":  {"internal/egress", "internal/httptext", "internal/quota", "retry", "saga", "saga/kinds"},
	"trigger":                {"catalog", "journal", "saga", "saga/machine"},
	"catalog":                {"journal", "saga", "saga/dsl"},
	"internal/story":         {"journal", "saga", "saga/history", "retry"},

	"journal/memory":      {"journal"},
	"journal/sqlite":      {"journal", "journal/packed", "migrations", "internal/failpoint", "internal/recount"},
	"journal/packed":      {"idempotency", "journal"},
	"journal/postgres":    {"journal", "journal/packed", "migrations", "internal/failpoint", "internal/pgsession", "internal/pgsync", "internal/recount"},
	"journal/journaltest": {"journal"},
	"migrations":          {"internal/pgsession", "internal/pgsync"},

	"engine":          {"internal/notify", "journal", "saga", "saga/machine", "internal/failpoint", "internal/failpoint/faultstore", "internal/quota"},
	"api":             {"api/mcp", "compensation", "internal/archive", "internal/costs/tally", "internal/failpoint", "internal/intake", "internal/oauth", "trigger", "catalog", "idempotency", "journal", "retry", "saga", "saga/history", "saga/machine", "saga/dsl", "saga/compare", "saga/expr", "saga/kinds", "saga/replay"},
	"api/client":      {},
	"api/mcp":         {"api/rest"},
	"api/rest":        {"journal", "saga"},
	"api/ui":          {"api/ui/activity", "api/ui/controls", "api/ui/costs", "api/ui/diff", "api/ui/facts", "api/ui/format", "api/ui/graph", "api/ui/outline", "api/rest", "api/ui/timeline", "api/ui/transcript", "internal/costs/tally", "internal/story", "journal", "retry", "saga", "saga/compare", "saga/history", "saga/machine", "saga/dsl", "saga/expr", "saga/kinds", "saga/replay"},
	"api/ui/activity": {"internal/story", "journal", "saga", "saga/history", "saga/kinds"},
	"api/ui/controls": {"api/ui/format", "journal", "saga", "saga/expr"},
	"api/ui/costs":    {"api/ui/format", "internal/costs/tally", "retry"},
	"api/ui/diff":     {"api/ui/format", "saga/expr"},
	"api/ui/facts":    {"api/ui/format", "api/ui/graph", "retry", "saga"},
	"api/ui/format":   {"journal"},
	"api/ui/graph":    {"api/ui/format", "api/ui/outline", "saga"},
	"api/ui/outline":  {},
	"api/ui/timeline": {"api/ui/format", "journal", "saga", "saga/history", "saga/machine"},

	"api/ui/transcript": {},

	"internal":                      {},
	"internal/archive":              {"internal/failpoint", "journal"},
	"internal/costs":                {"engine", "internal/costs/tally", "journal", "retry", "saga"},
	"internal/costs/tally":          {"journal", "retry", "saga"},
	"internal/egress":               {"internal/httptext", "internal/quota"},
	"internal/egress/egresstest":    {},
	"internal/cloudevent":           {"saga"},
	"internal/evidence":             {"engine", "internal/cloudevent", "internal/notify", "journal"},
	"internal/notify":               {"internal/cloudevent", "compensation", "journal", "retry", "saga", "saga/machine"},
	"internal/httptext":             {},
	"internal/story/storytest":      {"*"},
	"internal/oauth":                {"internal/egress"},
	"internal/outbox":               {"internal/egress", "internal/httptext", "internal/notify", "journal", "retry", "saga"},
	"internal/sessionreplay":        {"api", "catalog", "journal", "journal/memory", "saga", "saga/compare", "saga/expr", "saga/history", "saga/kinds", "saga/machine"},
	"internal/spelling":             {},
	"internal/recount":              {},
	"internal/pgsession":            {},
	"internal/pgsync":               {},
	"internal/statedir":             {},
	"internal/metrics":              {"engine", "journal", "retry", "saga", "saga/history", "saga/machine"},
	"internal/tracing":              {"internal/egress", "internal/httptext", "engine", "journal", "retry", "saga", "saga/history", "saga/machine"},
	"internal/commentwidth":         {},
	"internal/crashmatrix":          {"engine", "idempotency", "journal", "journal/memory", "saga", "saga/expr", "saga/history", "saga/machine"},
	"internal/modulepath":           {},
	"internal/flaky":                {"internal/test/program"},
	"internal/failpoint/faultstore": {"journal", "internal/failpoint"},
	"internal/invariant":            {"*"},

	"internal/test/browser":          {},
	"internal/test/buffer":           {},
	"internal/test/chrome":           {"internal/test/debian"},
	"internal/test/debian":           {},
	"internal/test/golden":           {},
	"internal/test/examples/goagent": {"api/client"},
	"internal/test/issuer":           {},
	"internal/test/linearizability":  {"journal", "saga", "saga/machine"},
	"internal/test/mcpserver":        {},
	"internal/test/mutant":           {},
	"internal/test/pgha":             {"internal/test/debian", "internal/test/pgserver"},
	"internal/test/pgserver":         {"internal/test/debian", "internal/test/buffer"},
	"internal/test/program":          {},
	"internal/test/promtool":         {"internal/test/debian"},
	"internal/test/pty":              {},
	"internal/test/sim":              {"*"},
	"internal/test/wire":             {},
	"internal/test/wire/rig":         {"*"},

	"internal/cli":               {"internal/story", "journal", "saga", "saga/dsl", "saga/expr"},
	"internal/cli/agent":         {"api", "api/mcp", "internal/cli", "internal/cli/config", "internal/cli/database", "internal/cli/definition", "internal/cli/remote", "internal/cli/view", "internal/sessionreplay", "internal/story", "journal", "retry", "saga", "saga/machine"},
	"internal/cli/bench":         {"catalog", "engine", "internal/cli", "internal/cli/bench/measure", "internal/cli/database", "internal/cli/process", "internal/cli/verify", "journal", "saga", "saga/dsl", "saga/kinds", "saga/machine"},
	"internal/cli/bench/measure": {},
	"internal/cli/completion":    {"internal/cli", "internal/cli/remote", "saga", "saga/machine"},
	"internal/cli/config":        {"api", "internal/archive", "internal/cli", "internal/cli/database", "internal/egress", "internal/evidence", "internal/httptext", "internal/intake", "internal/notify", "internal/oauth", "internal/outbox", "internal/secrets", "internal/tracing", "journal", "saga", "saga/dsl", "saga/kinds", "saga/machine"},
	"internal/cli/crashtest":     {"internal/cli", "internal/cli/definition", "internal/crashmatrix", "internal/story", "saga"},
	"internal/cli/database":      {"internal/cli", "journal", "journal/postgres", "journal/sqlite", "migrations"},
	"internal/cli/definition":    {"internal/cli", "internal/cli/config", "journal", "saga", "saga/dsl", "saga/kinds", "saga/machine"},
	"internal/cli/demo":          {"examples/llmstub", "examples/world", "internal/cli", "internal/cli/config", "internal/cli/process", "internal/cli/remote", "internal/cli/view", "internal/invariant", "internal/story", "saga", "saga/dsl", "saga/kinds", "saga/machine"},
	"internal/cli/doctor":        {"catalog", "internal/cli", "internal/cli/config", "internal/cli/database", "internal/cli/remote", "internal/cli/view", "internal/egress", "internal/httptext", "internal/oauth", "internal/outbox", "internal/pgsession", "internal/pgsync", "internal/secrets", "internal/statedir", "internal/story", "journal", "journal/postgres", "migrations", "saga/kinds", "saga/kinds/mcp/client"},
	"internal/cli/export":        {"journal"},
	"internal/cli/offline":       {"internal/cli", "internal/cli/definition", "internal/cli/export", "internal/cli/remote", "internal/cli/view", "internal/story", "journal", "saga", "saga/dsl", "saga/history", "saga/kinds", "saga/machine", "saga/replay"},
	"internal/cli/probe":         {"idempotency", "internal/cli", "internal/cli/config", "internal/cli/definition", "internal/crashmatrix", "internal/egress", "internal/secrets", "internal/story", "journal", "saga", "saga/expr", "saga/machine", "saga/kinds/http/client"},
	"internal/cli/process":       {"internal/cli"},
	"internal/cli/remote":        {"internal/cli", "internal/cli/definition", "internal/cli/export", "internal/cli/view", "internal/costs/tally", "internal/story", "journal", "retry", "saga", "saga/compare", "saga/dsl", "saga/kinds", "saga/machine", "saga/replay"},
	"internal/cli/verify":        {"catalog", "examples/world", "internal/archive", "internal/cli", "internal/cli/database", "internal/cli/definition", "internal/cli/export", "internal/evidence", "internal/invariant", "internal/story", "journal", "saga", "saga/dsl", "saga/history", "saga/kinds", "saga/machine"},
	"internal/cli/view":          {"internal/cli", "internal/story", "journal", "saga", "saga/machine"},

	"examples/internal/command": {},
	"examples/world":            {"examples/internal/command"},
	"examples/llmstub":          {"examples/internal/command"},
	"examples/workers":          {"api/client"},
	"cmd":                       {"*"},
	"bench/peers":               {"internal/cli/bench/measure"},
}

// sequential packages are pure. Nothing in them or in their tests runs concurrently.
var sequential = []string{"saga", "saga/expr", "saga/history", "saga/machine", "saga/dsl", "saga/compare", "saga/replay", "compensation", "retry", "idempotency"}

// pure packages have no clock, no randomness and no IO.
var pure = slices.Concat(sequential, []string{"api/ui/activity", "api/ui/controls", "api/ui/costs", "api/ui/diff", "api/ui/facts", "api/ui/format", "api/ui/graph", "api/ui/outline", "api/ui/timeline", "api/ui/transcript", "internal/cloudevent", "internal/httptext", "internal/notify", "internal/spelling", "saga/kinds", "saga/kinds/approval", "saga/kinds/emit", "saga/kinds/fail", "saga/kinds/foreach",
	"saga/kinds/http", "saga/kinds/llm", "saga/kinds/mcp", "saga/kinds/parallel", "saga/kinds/repeat", "saga/kinds/run", "saga/kinds/set", "saga/kinds/signal", "saga/kinds/sleep", "saga/kinds/switch",
	"saga/kinds/task", "saga/kinds/use"})

// outside lists the libraries that only some packages may import.
var outside = map[string][]string{
	"github.com/labstack/echo":              {"api"},
	"github.com/jackc/pgx":                  {"journal/postgres", "migrations", "internal/pgsession", "internal/pgsync", "internal/test/pgserver", "internal/test/wire", "internal/cli/bench/measure", "internal/cli", "cmd", "bench/peers"},
	"modernc.org/sqlite":                    {"journal/sqlite", "migrations", "internal/cli/bench/measure"},
	"github.com/expr-lang/expr":             {"saga/expr"},
	"go.yaml.in/yaml":                       {"saga/dsl", "internal/cli", "cmd", "api"},
	"github.com/alecthomas/kong":            {"internal/cli", "cmd"},
	"github.com/prometheus":                 {"api", "internal/metrics", "cmd"},
	"database/sql":                          {"journal/sqlite", "migrations", "internal/cli/bench/measure"},
	"github.com/netresearch/go-cron":        {"saga/dsl"},
	"github.com/cenkalti/backoff":           {"retry"},
	"github.com/cockroachdb/apd":            {"retry", "saga/expr", "saga/dsl"},
	"github.com/santhosh-tekuri/jsonschema": {"saga/dsl"},
	"github.com/anishathalye/porcupine":     {"internal/test/linearizability"},
	"github.com/chromedp":                   {"internal/test/chrome"},
	"go.opentelemetry.io":                   {"internal/tracing"},
	"golang.org/x/net":                      {"internal/egress"},
	"github.com/modelcontextprotocol":       {"api/mcp"},
	"github.com/coreos/go-oidc":             {"internal/oauth"},
	"github.com/go-jose/go-jose":            {"internal/oauth"},
}

type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string

	TestGoFiles, XTestGoFiles []string
}

func list(t *testing.T) []pkg {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles,TestGoFiles,XTestGoFiles", module+"/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 15 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

// within reports whether name is dir or below it.
func within(name, dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }

// rule returns the rule with the longest name that covers a package.
func rule(name string) (of string, ok bool) {
	for dir := range may {
		if within(name, dir) && len(dir) > len(of) {
			of, ok = dir, true
		}
	}
	return of, ok
}

// violations describes the forbidden imports of a package.
func violations(p pkg) []string {
	name := strings.TrimPrefix(p.ImportPath, module+"/")
	of, ok := rule(name)
	if !ok {
		return []string{name + " has no rule: say in arch_test.go what it may import"}
	}
	var wrong []string
	for _, imp := range p.Imports {
		if in, ours := strings.CutPrefix(imp, module+"/"); ours {
			allowed := may[of]
			target, _ := rule(in)
			star := slices.Contains(allowed, "*") && (!within(in, "internal/test") || within(name, "internal/test"))
			if !star && target != of && !slices.Contains(allowed, target) && !slices.Contains(allowed, in) {
				wrong = append(wrong, name+" may not import "+in)
			}
			continue
		}
		for lib, users := range outside {
			if (imp == lib || strings.HasPrefix(imp, lib+"/")) && !slices.ContainsFunc(users, func(u string) bool { return within(name, u) }) {
				wrong = append(wrong, name+" may not import "+imp)
			}
		}
	}
	return wrong
}

func TestImportsPointDown(t *testing.T) {
	for _, p := range list(t) {
		for _, v := range violations(p) {
			t.Error(v)
		}
	}
}

// The rules detect known violations.
func TestImportRulesCanFail(t *testing.T) {
	for _, p := range []pkg{
		{ImportPath: module + "/journal", Imports: []string{module + "/saga"}},
		{ImportPath: module + "/api", Imports: []string{module + "/engine"}},
		{ImportPath: module + "/saga", Imports: []string{module + "/saga/kinds/http"}},
		{ImportPath: module + "/engine", Imports: []string{"github.com/labstack/echo/v4"}},
		{ImportPath: module + "/cmd/recourse", Imports: []string{module + "/internal/test/sim"}},
		{ImportPath: module + "/somewhere/new"},
	} {
		if len(violations(p)) == 0 {
			t.Errorf("not detected: %s importing %v", p.ImportPath, p.Imports)
		}
	}
}

var forbiddenImports = []string{"crypto/rand", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec", "database/sql", "syscall", "time/tzdata"}
var forbiddenTime = []string{"Now", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Since", "Until"}

// impure lists the uses of clocks, randomness and IO in a file.
func impure(f *ast.File) []string {
	var wrong []string
	for _, imp := range f.Imports {
		path, err := strconv.Unquote(imp.Path.Value)
		if path == "net/http" && onlyStatusText(f) {
			continue
		}
		if err == nil && slices.Contains(forbiddenImports, path) {
			wrong = append(wrong, "imports "+path)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := sel.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(forbiddenTime, sel.Sel.Name) {
			wrong = append(wrong, "uses time."+sel.Sel.Name)
		}
		return true
	})
	return wrong
}

// onlyStatusText reports whether a file uses only the texts of statuses from net/http.
func onlyStatusText(f *ast.File) bool {
	used := selected(f, "net/http")
	return len(used) > 0 && !slices.ContainsFunc(used, func(name string) bool { return name != "StatusText" })
}

func TestPurePackages(t *testing.T) {
	for _, p := range list(t) {
		if !slices.Contains(pure, strings.TrimPrefix(p.ImportPath, module+"/")) {
			continue
		}
		for _, name := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range impure(f) {
				t.Errorf("%s/%s %s", p.ImportPath, name, w)
			}
		}
	}
}

func TestPurityCanFail(t *testing.T) {
	for _, src := range []string{
		"package p; import \"time\"; var x = time.Now()",
		"package p; import \"os\"",
		"package p; import \"crypto/rand\"",
		"package p; import \"net/http\"; var x = http.DefaultClient",
		"package p; import \"time\"; func f() { time.Sleep(1) }",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(impure(f)) == 0 {
			t.Errorf("not detected: %s", src)
		}
	}
}

// concurrent lists the parts of a file that need the race detector.
func concurrent(f *ast.File) []string {
	var found []string
	for _, imp := range f.Imports {
		if path, err := strconv.Unquote(imp.Path.Value); err == nil && (path == "sync" || strings.HasPrefix(path, "sync/") || path == "golang.org/x/sync/errgroup") {
			found = append(found, "imports "+path)
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			found = append(found, "starts a goroutine")
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && n.Sel.Name == "Parallel" && x.Name == "t" {
				found = append(found, "has parallel tests")
			}
		}
		return true
	})
	return found
}

// `make test` tests the pure packages, the simulation and this package without the race detector,
// which cannot find anything where there are no goroutines. Other packages' tests use them from
// several goroutines.
func TestUnracedPackages(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	_, line, _ := strings.Cut(string(makefile), "\nUNRACED := ")
	line, _, _ = strings.Cut(line, "\n")
	unraced := strings.Fields(line)
	if want := append(slices.Clone(sequential), "internal/arch", "internal/test/sim"); !slices.Equal(slices.Sorted(slices.Values(unraced)), slices.Sorted(slices.Values(want))) {
		t.Errorf("UNRACED is %v in the Makefile, want %v", unraced, want)
	}
	for _, p := range list(t) {
		if !slices.Contains(unraced, strings.TrimPrefix(p.ImportPath, module+"/")) {
			continue
		}
		for _, name := range slices.Concat(p.GoFiles, p.TestGoFiles, p.XTestGoFiles) {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, name), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range concurrent(f) {
				t.Errorf("%s/%s %s: it needs the race detector", p.ImportPath, name, c)
			}
		}
	}
}

func TestConcurrencyIsNoticed(t *testing.T) {
	for _, src := range []string{
		"package p; func f() { go f() }",
		"package p; import \"sync\"; var mu sync.Mutex",
		"package p; import \"sync/atomic\"; var n atomic.Int64",
		"package p; func TestX(t *testing.T) { t.Parallel() }",
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(concurrent(f)) == 0 {
			t.Errorf("not detected: %s", src)
		}
	}
}

// Data and money are never floats.
func TestNoFloats(t *testing.T) {
	for _, dir := range []string{"saga", "journal", "api", "engine", "idempotency", "compensation", "catalog"} {
		err := filepath.WalkDir(filepath.Join("..", "..", dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && (id.Name == "float64" || id.Name == "float32") && !floatIsFine(path) {
					t.Errorf("%s uses %s", path, id.Name)
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// floatIsFine reports whether a file may have floats that are not data: seconds for Prometheus, the
// figures of benchmarks, and the code that rejects floats.
func floatIsFine(path string) bool {
	return strings.HasSuffix(path, "api/metrics.go") || strings.HasSuffix(path, "api/collect.go") || strings.HasSuffix(path, "journaltest/bench.go") || strings.HasPrefix(path, "../../saga/expr/")
}

// Pure packages do not range over a map, unless the line says that the order has no effect.
func TestNoMapOrder(t *testing.T) {
	imp := importer.ForCompiler(token.NewFileSet(), "gc", exportData(t))
	checked := 0
	for _, p := range list(t) {
		if !slices.Contains(pure, strings.TrimPrefix(p.ImportPath, module+"/")) {
			continue
		}
		checked++
		for _, v := range mapRanges(t, imp, p) {
			t.Errorf("%s: ranges over a map: sort it, or write `// any order` in the line if the order has no effect", v)
		}
	}
	if checked != len(pure) {
		t.Errorf("checked %d packages, want %d", checked, len(pure))
	}
}

// mapRanges returns where a package ranges over a map.
func mapRanges(t *testing.T, imp types.Importer, p pkg) []string {
	t.Helper()
	c := typed(t, imp, p.ImportPath, parsed(t, p))
	var found []string
	for _, f := range c.files {
		ast.Inspect(f, func(n ast.Node) bool {
			r, ok := n.(*ast.RangeStmt)
			if !ok {
				return true
			}
			if _, isMap := c.info.TypeOf(r.X).Underlying().(*types.Map); isMap && !excused(c.fset, f, r) {
				found = append(found, c.fset.Position(r.Pos()).String())
			}
			return true
		})
	}
	return found
}

// source is the parsed files of a package.
type source struct {
	fset  *token.FileSet
	files []*ast.File
}

// parsed parses a package, without its tests.
func parsed(t *testing.T, p pkg) source {
	t.Helper()
	s := source{fset: token.NewFileSet()}
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(s.fset, filepath.Join(p.Dir, name), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		s.files = append(s.files, f)
	}
	return s
}

// checked is a package with its types.
type checked struct {
	source
	info *types.Info
	of   *types.Package
}

// typed checks the types of a package.
func typed(t *testing.T, imp types.Importer, path string, s source) checked {
	t.Helper()
	c := checked{source: s, info: &types.Info{Types: make(map[ast.Expr]types.TypeAndValue), Selections: make(map[*ast.SelectorExpr]*types.Selection), Uses: make(map[*ast.Ident]types.Object)}}
	var err error
	if c.of, err = (&types.Config{Importer: imp}).Check(path, s.fset, s.files, c.info); err != nil {
		t.Fatal(err)
	}
	return c
}

// exported has the files with the compiler's export data, by package, once a test has asked for
// one.
var exported map[string]string

// exportData finds the compiler's export data of each package that this module depends on.
func exportData(t *testing.T) func(path string) (io.ReadCloser, error) {
	t.Helper()
	if exported == nil {
		out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}", module+"/...").Output()
		if err != nil {
			t.Fatal(err)
		}
		exported = make(map[string]string)
		for line := range strings.Lines(string(out)) {
			path, file, _ := strings.Cut(strings.TrimSpace(line), "\t")
			exported[path] = file
		}
	}
	return func(path string) (io.ReadCloser, error) { return os.Open(exported[path]) }
}

func excused(fset *token.FileSet, f *ast.File, r *ast.RangeStmt) bool {
	line := fset.Position(r.Pos()).Line
	for _, g := range f.Comments {
		for _, c := range g.List {
			if strings.HasPrefix(c.Text, "// any order") && fset.Position(c.Pos()).Line == line {
				return true
			}
		}
	}
	return false
}
