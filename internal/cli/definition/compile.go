package definition

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"recourse/internal/cli"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// Files lists the files that the arguments name, without subdirectories.
func Files(paths []string) ([]string, error) {
	var files []string
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, cli.Exit(cli.Usage, err)
		}
		if !info.IsDir() {
			files = append(files, p)
			continue
		}
		entries, err := os.ReadDir(p)
		if err != nil {
			return nil, cli.Exit(cli.Usage, err)
		}
		for _, e := range entries {
			if slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(filepath.Ext(e.Name()))) && !e.IsDir() {
				files = append(files, filepath.Join(p, e.Name()))
			}
		}
	}
	if len(files) == 0 {
		return nil, cli.Exit(cli.Usage, errors.New("there is no .yaml, .yml or .json file to publish"))
	}
	return files, nil
}

// Children finds definitions that others run without a version, because a file does not say which
// version it will become.
type Children struct {
	list  map[string]*saga.Definition
	Other func(name string, version int) *saga.Definition // finds definitions without a file; may be nil
}

// ReadChildren reads the definitions among some files. It omits those with errors, which are
// reported when they are validated.
func ReadChildren(files []string, sources [][]byte, o dsl.Options) *Children {
	set := &Children{list: make(map[string]*saga.Definition)}
	for i, src := range sources {
		if dsl.IsAction(src) {
			continue
		}
		if def, errs := dsl.Parse(files[i], src, o); errs == nil {
			set.list[def.Name] = def
		}
	}
	return set
}

// Find is dsl.Options.Children.
func (s *Children) Find(name string, version int) *saga.Definition {
	if def := s.list[name]; def != nil && version == 0 {
		return def
	}
	if s.Other == nil {
		return nil
	}
	return s.Other(name, version)
}

// Compile reads and compiles a definition, or returns its errors.
func Compile(a *cli.App, file string, actions *Actions) (*saga.Definition, error) {
	src, err := a.ReadSource(file)
	if err != nil {
		return nil, err
	}
	def, errs := dsl.Parse(file, src, dsl.Options{Kinds: kinds.All(), Actions: actions.Find})
	if errs != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("the definition has errors:\n%w", errs))
	}
	return def, nil
}

// CompileAll compiles definitions and returns them by SHA-256. They may use actions among the
// files.
func CompileAll(a *cli.App, paths []string, actions *Actions) (map[string]*saga.Definition, error) {
	set := make(map[string]*saga.Definition)
	if len(paths) == 0 {
		return set, nil
	}
	files := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return p != "-" })
	if named := slices.DeleteFunc(slices.Clone(paths), func(p string) bool { return p == "-" }); len(named) > 0 {
		list, err := Files(named)
		if err != nil {
			return nil, err
		}
		files = append(files, list...)
	}
	defs := files[:0]
	for _, f := range files {
		src, err := os.ReadFile(f)
		if f == "-" || err != nil || !dsl.IsAction(src) { // unreadable files are reported below
			defs = append(defs, f)
		} else if err := actions.Read(f, src); err != nil {
			return nil, cli.Exit(cli.Usage, err)
		}
	}
	for _, f := range defs {
		def, err := Compile(a, f, actions)
		if err != nil {
			return nil, err
		}
		set[def.SHA256] = def
	}
	return set, nil
}
