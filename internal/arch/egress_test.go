package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// connecting are the names by which code opens connections to other hosts.
var connecting = map[string][]string{
	"net":        {"Dial", "DialIP", "DialTCP", "DialTimeout", "DialUDP", "DialUnix", "Dialer"},
	"crypto/tls": {"Client", "Dial", "DialWithDialer", "Dialer"},
	"net/http":   {"Client", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm", "RoundTripper", "Transport"},
	"syscall":    {"Connect"},
}

// mayConnect are the packages that may use these names, with the reason. All else that leaves the
// process goes through internal/egress, whose contract says what a request may do.
var mayConnect = map[string]string{
	"internal/egress":            "it is the sender",
	"api/client":                 "programs of users call a server with it",
	"internal/cli/remote":        "commands call a server",
	"internal/cli/demo":          "the demo calls the world that it has started",
	"internal/cli/bench/measure": "it loads a server, and is compared with it",
	"internal/test":              "test tools, which the program does not contain",
	"examples":                   "programs of their own",
}

// selected lists the names that a file uses of an imported package.
func selected(f *ast.File, imported string) []string {
	name := ""
	for _, imp := range f.Imports {
		if p, err := strconv.Unquote(imp.Path.Value); err != nil || p != imported {
			continue
		}
		if name = path.Base(imported); imp.Name != nil {
			name = imp.Name.Name
		}
	}
	var used []string
	ast.Inspect(f, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && name != "" {
			if x, ok := sel.X.(*ast.Ident); ok && x.Name == name && x.Obj == nil {
				used = append(used, sel.Sel.Name)
			}
		}
		return true
	})
	if name == "." {
		used = append(used, connecting[imported]...) // it is unknown which of them it uses
	}
	return used
}

// connects lists the uses of names that open connections.
func connects(f *ast.File) []string {
	var found []string
	for imported, names := range connecting {
		for _, used := range selected(f, imported) {
			if slices.Contains(names, used) {
				found = append(found, "uses "+path.Base(imported)+"."+used)
			}
		}
	}
	return found
}

// Only internal/egress opens connections that leave the server.
func TestOneSender(t *testing.T) {
	connected := make(map[string]bool)
	for _, p := range list(t) {
		name, may := strings.TrimPrefix(p.ImportPath, module+"/"), ""
		for dir := range mayConnect {
			if within(name, dir) {
				may = dir
			}
		}
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range connects(f) {
				if connected[may] = true; may == "" {
					t.Errorf("%s/%s %s: send through internal/egress", name, file, c)
				}
			}
		}
	}
	for dir := range mayConnect {
		if !connected[dir] {
			t.Errorf("%s opens no connection: remove it from mayConnect", dir)
		}
	}
}

func TestOneSenderCanFail(t *testing.T) {
	for _, src := range []string{
		`package p; import "net/http"; var c = http.Client{}`,
		`package p; import "net/http"; var c = &http.Client{Transport: &http.Transport{}}`,
		`package p; import "net/http"; func f() { http.Get("http://a.example") }`,
		`package p; import nethttp "net/http"; func f() { nethttp.DefaultClient.Do(nil) }`,
		`package p; import . "net/http"; func f() { Get("http://a.example") }`,
		`package p; import "net"; func f() { net.Dial("tcp", "a.example:80") }`,
		`package p; import "net"; func f() { (&net.Dialer{}).DialContext(nil, "tcp", "a.example:80") }`,
		`package p; import "crypto/tls"; func f() { tls.Dial("tcp", "a.example:443", nil) }`,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if len(connects(f)) == 0 {
			t.Errorf("not detected: %s", src)
		}
	}
	for _, src := range []string{
		`package p; import "net/http"; func f(r *http.Request) { r.Header.Get("a") }`,
		`package p; import "net/http"; var s = http.Server{}`,
		`package p; import "net"; func f() { net.Listen("tcp", ":0") }`,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "p.go", src, 0)
		if err != nil {
			t.Fatal(err)
		}
		if found := connects(f); len(found) > 0 {
			t.Errorf("%s: %v", src, found)
		}
	}
}
