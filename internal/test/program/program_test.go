package program

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// module creates a module whose program prints the result of a function in another package. A
// change of that function does not change the build ID of the main package.
func module(t *testing.T, says string) store {
	t.Helper()
	s := store{dir: t.TempDir(), program: "example", source: t.TempDir()}
	if err := os.Mkdir(filepath.Join(s.source, "lib"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, s, "go.mod", "module example\n\ngo 1.24\n")
	write(t, s, "main.go", "package main\n\nimport \"example/lib\"\n\nfunc main() { print(lib.Text()) }\n")
	change(t, s, says)
	return s
}

func change(t *testing.T, s store, says string) {
	t.Helper()
	write(t, s, "lib/lib.go", "package lib\n\n//go:noinline\nfunc Text() string { return \""+says+"\" }\n")
}

func write(t *testing.T, s store, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(s.source, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func path(t *testing.T, s store, flags ...string) string {
	t.Helper()
	path, err := s.path(flags)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func says(t *testing.T, path, want string) {
	t.Helper()
	if out, err := exec.Command(path).CombinedOutput(); err != nil || string(out) != want {
		t.Errorf("it says %q, %v; want %q", out, err, want)
	}
}

func TestPath(t *testing.T) {
	s := module(t, "one")
	first := path(t, s)
	says(t, first, "one")
	before, err := os.Stat(first)
	if err != nil {
		t.Fatal(err)
	}
	if again := path(t, s); again != first {
		t.Errorf("the same code is at %s and at %s", first, again)
	}
	if after, err := os.Stat(first); err != nil || !os.SameFile(before, after) {
		t.Errorf("the same code was built twice: %v", err)
	}
	change(t, s, "two")
	says(t, path(t, s), "two")
	says(t, first, "one") // the file at this path has not changed
	if other := path(t, s, "-ldflags=-s"); other == path(t, s) {
		t.Error("other flags give the same file")
	}
	write(t, s, "lib/lib.go", "no Go")
	if _, err := s.path(nil); err == nil || !strings.Contains(err.Error(), "lib.go") {
		t.Errorf("code that does not compile: %v", err)
	}
}

// Concurrent processes get the same file, and files that a killed process left do no harm.
func TestPathAtOnce(t *testing.T) {
	s := module(t, "one")
	first := path(t, s)
	if err := os.Rename(filepath.Dir(first), filepath.Dir(first)+".draft"); err != nil { // it was killed before the end
		t.Fatal(err)
	}
	got := make(chan string)
	for range 4 {
		go func() {
			path, err := s.path(nil)
			if err != nil {
				path = err.Error()
			}
			got <- path
		}()
	}
	for range 4 {
		if path := <-got; path != first {
			t.Errorf("got %s, want %s", path, first)
		}
	}
	says(t, first, "one")
}

func TestPrune(t *testing.T) {
	s := module(t, "one")
	unused := path(t, s)
	change(t, s, "two")
	used := path(t, s)
	long := time.Now().Add(-2 * kept)
	for _, p := range []string{unused, used} {
		if err := os.Chtimes(filepath.Dir(p), long, long); err != nil {
			t.Fatal(err)
		}
	}
	says(t, path(t, s), "two")
	if _, err := os.Stat(unused); !os.IsNotExist(err) {
		t.Errorf("a program that was not used for a long time is still there: %v", err)
	}
}
