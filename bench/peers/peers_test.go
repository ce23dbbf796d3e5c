package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	exact  = regexp.MustCompile(`^\d+\.\d+\.\d+$`)
	direct = regexp.MustCompile(`(?m)^\t(?:require )?(\S+ v\S+)$`)
)

// Each peer has its program, a lock file, and exact versions, and docs/comparison.md names them.
// Nothing here builds a peer: that needs the module proxy and the npm registry, which tests must
// not. gofmt of the peers' Go files is part of `make vet`.
func TestPeersArePinned(t *testing.T) {
	docs, err := os.ReadFile("../../docs/comparison.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recipes {
		t.Run(r.name, func(t *testing.T) {
			var versions []string
			if r.node {
				var p struct{ Dependencies map[string]string }
				if err := json.Unmarshal(read(t, r.name, "package.json"), &p); err != nil {
					t.Fatal(err)
				}
				var lock struct {
					Packages map[string]struct{ Version, Integrity string }
				}
				if err := json.Unmarshal(read(t, r.name, "package-lock.json"), &lock); err != nil {
					t.Fatal(err)
				}
				for name, version := range p.Dependencies {
					locked := lock.Packages["node_modules/"+name]
					if !exact.MatchString(version) || locked.Version != version || locked.Integrity == "" {
						t.Errorf("%s %s is not an exact version that package-lock.json has, too", name, version)
					}
					versions = append(versions, name+" "+version)
				}
				read(t, r.name, "main.mjs")
			} else {
				sum := string(read(t, r.name, "go.sum"))
				before, _, _ := strings.Cut(string(read(t, r.name, "go.mod")), "// indirect")
				for _, m := range direct.FindAllStringSubmatch(before, -1) {
					if !strings.Contains(sum, m[1]+" h1:") {
						t.Errorf("go.sum has no %s", m[1])
					}
					versions = append(versions, m[1])
				}
				read(t, r.name, "main.go")
			}
			if len(versions) == 0 {
				t.Error("no dependencies found")
			}
			for _, v := range versions {
				if !strings.Contains(string(docs), v) {
					t.Errorf("docs/comparison.md does not name %s", v)
				}
			}
		})
	}
}

func read(t *testing.T, elements ...string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(elements...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A process is ready with the line that has the mark, and Kill ends it and its children.
func TestProcess(t *testing.T) {
	p := &process{name: "sh", dir: t.TempDir(), command: []string{"sh", "-c", `echo banner; sleep 600 & echo "at {x}"; wait`}}
	rest, err := p.start(t.Context(), "at ")
	if err != nil || rest != "{x}" {
		t.Fatalf("got %q, %v", rest, err)
	}
	p.Kill() // returns only once no child holds stdout
	p = &process{name: "sh", dir: t.TempDir(), command: []string{"sh", "-c", `echo no port >&2; exit 1`}}
	if _, err := p.start(t.Context(), "at "); err == nil || !strings.Contains(err.Error(), "no port") {
		t.Errorf("got %v", err)
	}
}
