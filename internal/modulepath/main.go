// Command modulepath renames the Go module in the working directory, and the modules below it: in
// go.mod files, imports, and what the docs show of both. For example,
// go run ./internal/modulepath example.org/x/recourse.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: modulepath PATH, such as example.org/x/recourse")
		os.Exit(2)
	}
	if err := rename(".", os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "modulepath:", err)
		os.Exit(1)
	}
}

var (
	declared = regexp.MustCompile(`(?m)^module (\S+)$`)
	// valid accepts what go get can fetch: a host with a dot, and at least one more element.
	valid = regexp.MustCompile(`^[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)+$`)
)

func rename(root, to string) error {
	if !valid.MatchString(to) {
		return fmt.Errorf("%q is not a path that go get can fetch, such as example.org/x/recourse", to)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return err
	}
	line := declared.FindSubmatch(mod)
	if line == nil {
		return errors.New("go.mod has no module line")
	}
	from := string(line[1])
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			if d.Name() == ".git" || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		case d.Name() == "go.mod":
			return change(path, func(text []byte) ([]byte, error) { return renameModule(text, from, to), nil })
		case d.Name() == ".golangci.yml":
			return change(path, func(text []byte) ([]byte, error) { return renameFunctions(text, from, to), nil })
		case filepath.Ext(path) == ".md":
			return change(path, func(text []byte) ([]byte, error) { return renameShown(text, from, to), nil })
		case filepath.Ext(path) == ".go":
			return change(path, func(text []byte) ([]byte, error) { return renameImports(path, text, from, to) })
		}
		return nil
	})
}

// change rewrites a file if f changes its text.
func change(path string, f func([]byte) ([]byte, error)) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	text, err := f(old)
	if err != nil || bytes.Equal(old, text) {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func renameModule(text []byte, from, to string) []byte {
	return declared.ReplaceAllFunc(text, func(line []byte) []byte {
		path, _ := renamed(strings.TrimPrefix(string(line), "module "), from, to)
		return []byte("module " + path)
	})
}

// renameFunctions changes the paths of methods that a linter's configuration names, such as
// (*recourse/journal/sqlite.Store).Close.
func renameFunctions(text []byte, from, to string) []byte {
	method := regexp.MustCompile(`(- \(\*?)` + regexp.QuoteMeta(from) + `/`)
	return method.ReplaceAll(text, []byte("${1}"+to+"/"))
}

// renameShown changes what a document shows of go.mod and of imports.
func renameShown(text []byte, from, to string) []byte {
	shown := regexp.MustCompile(`(?m)(^require |^replace |^\s+")` + regexp.QuoteMeta(from) + `([ /])`)
	return shown.ReplaceAll(text, []byte("${1}"+to+"${2}"))
}

// renameImports changes import paths and nothing else: the order within a block stays, because its
// paths of this module have the same prefix.
func renameImports(name string, text []byte, from, to string) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, text, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	done := 0
	for _, spec := range file.Imports {
		old, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		path, ok := renamed(old, from, to)
		if !ok {
			continue
		}
		out.Write(text[done:files.Position(spec.Path.Pos()).Offset])
		out.WriteString(strconv.Quote(path))
		done = files.Position(spec.Path.End()).Offset
	}
	out.Write(text[done:])
	return out.Bytes(), nil
}

// renamed returns path below to, if it is from or below it.
func renamed(path, from, to string) (string, bool) {
	rest, ok := strings.CutPrefix(path, from)
	if !ok || rest != "" && rest[0] != '/' {
		return path, false
	}
	return to + rest, true
}
