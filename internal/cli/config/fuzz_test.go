package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
	"unicode/utf8"

	"recourse/saga/expr"
)

// badVars checks the reader of the vars file: the values that it accepts have names and can be read
// by expressions.
func badVars(read func(path string, into map[string]json.RawMessage) error, path string) error {
	vars := map[string]json.RawMessage{}
	began := time.Now()
	err := read(path, vars)
	if took := time.Since(began); took > 5*time.Second {
		return fmt.Errorf("it took %v", took)
	}
	if err != nil {
		if !utf8.ValidString(err.Error()) || len(err.Error()) > 4000 {
			return fmt.Errorf("the error is %q", err)
		}
		return nil
	}
	for name, value := range vars {
		if !varName.MatchString(name) {
			return fmt.Errorf("there is a var %q", name)
		}
		if _, err := expr.Decode(value); err != nil {
			return fmt.Errorf("var %s is %q, which no expression can read: %w", name, value, err)
		}
	}
	return nil
}

func FuzzVars(f *testing.F) {
	for _, src := range []string{"pay: https://pay.example\nn: 19.10\nlist: [1, two, ~]\nmap: {a: {b: true}}\n", "a: &x [1]\nb: *x\n", "a: 1\na: 2\n", "? {a: 1}\n: 2\n", "a: {? [x] : y}\n",
		"a: 1e400\n", "a: 1e999999999999\n", "a: 0777\nb: 1_000\nc: .inf\n", "a: !!binary aGk=\nb: !x y\n", "<<: {a: 1}\n", "a: \"\\ud800\"\n", "a: \"\\0\"\n", "- a\n", "--- \na: 1\n---\nb: 2\n", "a: |\n  x\n", "\xff\xfea\x00", "a: [[[[[[[[]]]]]]]]"} {
		f.Add([]byte(src))
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, src []byte) {
		if len(src) > 16<<10 {
			return
		}
		path := filepath.Join(dir, fmt.Sprint(os.Getpid()))
		if err := os.WriteFile(path, src, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := badVars(varsFile, path); err != nil {
			t.Error(err)
		}
	})
}

func TestFuzzVarsCanFail(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{"a b": "1", "ok": "{", "cut": `"\ud8`, "raw": "\"\xff\""} {
		read := func(_ string, into map[string]json.RawMessage) error {
			into[name] = json.RawMessage(value)
			return nil
		}
		if badVars(read, "") == nil {
			t.Errorf("not noticed: %s: %s", name, value)
		}
	}
}

// Values that are ambiguous, or that JSON cannot represent, are refused.
func TestVarsRefused(t *testing.T) {
	t.Parallel()
	for _, src := range []string{"a: 1\na: 2\n", "a: {b: 1, b: 2}\n", "a: {? [x] : y}\n", "? [a]\n: 1\n", "a: &x [1]\nb: *x\n", "a: 1\n---\nb: 2\n", "- a\n", "a", ""} {
		path := filepath.Join(t.TempDir(), "vars.yaml")
		if err := os.WriteFile(path, []byte(src), 0o600); err != nil {
			t.Fatal(err)
		}
		if vars, err := ReadVars(path, nil); err == nil {
			t.Errorf("%q is taken as %s", src, vars)
		}
	}
}
