package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A module elsewhere builds a worker as docs/workers.md says: with require and replace, without a
// network. It does so again after the module was renamed.
func TestWorkerOutside(t *testing.T) {
	mod, docs, worker := read(t, "../../go.mod"), read(t, "../../docs/workers.md"), read(t, "../../examples/workers/announce/main.go")
	from := strings.TrimSpace(strings.TrimPrefix(declared.FindString(mod), "module "))
	required := fmt.Sprintf("require %s v0.0.0\n\nreplace %[1]s => ../recourse\n", from)
	if !strings.Contains(docs, required) {
		t.Errorf("docs/workers.md does not show\n%s", required)
	}
	root := t.TempDir()
	ours := filepath.Join(root, "recourse")
	if err := os.CopyFS(filepath.Join(ours, "api/client"), os.DirFS("../../api/client")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(ours, "go.mod"), mod)
	write(t, filepath.Join(ours, "examples/workers/announce/main.go"), worker)
	write(t, filepath.Join(ours, "internal/tool/go.mod"), "module "+from+"/internal/tool\n\ngo 1.26.0\n")
	write(t, filepath.Join(ours, "docs/workers.md"), docs)
	write(t, filepath.Join(root, "worker/main.go"), worker)
	write(t, filepath.Join(root, "worker/go.mod"), "module worker\n\ngo 1.26.0\n\n"+required)
	build(t, filepath.Join(root, "worker"))

	const to = "example.org/x/renamed"
	if err := rename(ours, to); err != nil {
		t.Fatal(err)
	}
	if text := read(t, filepath.Join(ours, "internal/tool/go.mod")); !strings.HasPrefix(text, "module "+to+"/internal/tool\n") {
		t.Errorf("the module below: %s", text)
	}
	required = fmt.Sprintf("require %s v0.0.0\n\nreplace %[1]s => ../recourse\n", to)
	if text := read(t, filepath.Join(ours, "docs/workers.md")); !strings.Contains(text, required) || !strings.Contains(text, `"`+to+`/api/client"`) {
		t.Errorf("the docs do not show the new path:\n%s", text)
	}
	write(t, filepath.Join(root, "worker/main.go"), read(t, filepath.Join(ours, "examples/workers/announce/main.go")))
	write(t, filepath.Join(root, "worker/go.mod"), "module worker\n\ngo 1.26.0\n\n"+required)
	build(t, filepath.Join(root, "worker"))
	build(t, ours)
}

func TestRenameFunctions(t *testing.T) {
	const before = "- (*recourse/journal.Store).Close\n- (recourse/journal.Store).Close\n- recourse/x\n- (*recoursed/x.Y).Close\n"
	const after = "- (*e.org/r/journal.Store).Close\n- (e.org/r/journal.Store).Close\n- recourse/x\n- (*recoursed/x.Y).Close\n"
	if got := string(renameFunctions([]byte(before), "recourse", "e.org/r")); got != after {
		t.Error(got)
	}
}

func TestRenameImports(t *testing.T) {
	const before = "package a\n\nimport (\n\t\"recoursed\"\n\n\tx \"recourse/saga\"\n\t_ `recourse`\n)\n\nvar agent = \"recourse/1\"\n"
	const after = "package a\n\nimport (\n\t\"recoursed\"\n\n\tx \"e.org/r/saga\"\n\t_ \"e.org/r\"\n)\n\nvar agent = \"recourse/1\"\n"
	got, err := renameImports("a.go", []byte(before), "recourse", "e.org/r")
	if err != nil || string(got) != after {
		t.Errorf("%s, %v", got, err)
	}
	for _, path := range []string{"", "recourse", "example.org", "https://example.org/x", "example.org/x/", "example.org//x", "Example.org/x", "example.org/../x"} {
		if err := rename(t.TempDir(), path); err == nil || !strings.Contains(err.Error(), "go get") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

func build(t *testing.T, dir string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), "go", "build", "-o", os.DevNull, "./...")
	c.Dir = dir
	c.Env = append(os.Environ(), "GOPROXY=off", "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", filepath.Base(dir), err, out)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
