package mutant

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
)

// home is the directory of this package.
const home = "internal/test/mutant"

// pkg is its import path.
var pkg = reflect.TypeFor[Mutant]().PkgPath()

// Overlay writes the copies of the files that the bugs change into dir, and returns the path of the
// file for -overlay. It applies the patches to the files of the module that the working directory
// is in.
func Overlay(dir string, mutants []Mutant) (file string, err error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	files, err := overlay(os.DirFS(root), mutants)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string, len(files))
	for name, text := range files {
		replace[filepath.Join(root, name)] = filepath.Join(dir, name)
		if err := write(filepath.Join(dir, name), text); err != nil {
			return "", err
		}
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "  ")
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, write(file, text)
}

// overlay returns the text of each file that is replaced, by its name from the root of the module.
func overlay(root fs.FS, mutants []Mutant) (map[string][]byte, error) {
	var errs []error
	variants := make(map[string][]variant)
	for _, m := range mutants {
		for _, e := range m.edits {
			text, err := fs.ReadFile(root, e.file)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s/patches/%s.patch does not apply: %w", home, m.Name, err))
				continue
			}
			changed, err := m.apply(e, string(text))
			if err != nil {
				errs = append(errs, err)
				continue
			}
			variants[e.file] = append(variants[e.file], variant{mutant: m.Name, text: changed})
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	files := make(map[string][]byte, len(variants)+1)
	for name, list := range variants {
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return nil, err
		}
		if files[name], err = merge(name, string(text), list); err != nil {
			return nil, err
		}
	}
	bugs := []byte("package active\n\nvar Bugs = []Bug{\n")
	for _, m := range mutants {
		bugs = fmt.Appendf(bugs, "\t{Name: %q, Invariant: %d, Text: %q},\n", m.Name, m.Invariant, m.Text)
	}
	files[home+"/active/bugs.go"] = append(bugs, "}\n"...)
	return files, nil
}

// moduleRoot returns the directory of go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// write writes a file whose content has changed, at once, because others may be reading it.
func write(name string, text []byte) error {
	if old, err := os.ReadFile(name); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), "draft-*")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), name)
}
