package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A package whose tests fail every third time is detected, with the name of the test. A package
// without tests is skipped.
func TestCatches(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module sample\n\ngo 1.26\n",
		"a/none.go": "package a\n",
		"b/b_test.go": `package b

import ("os"; "testing")

func TestGood(t *testing.T) {}

func TestThird(t *testing.T) {
	f, err := os.OpenFile("count", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil { t.Fatal(err) }
	f.WriteString("x")
	f.Close()
	b, _ := os.ReadFile("count")
	t.Run("sub", func(t *testing.T) { if len(b)%3 == 0 { t.Error("the third") } })
}
`,
		"c/c_test.go": "package c\n\nimport \"testing\"\n\nfunc TestGood(t *testing.T) {}\n",
	} {
		at := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	var out strings.Builder
	logs := filepath.Join(dir, "logs")
	failed, err := all(t.Context(), &out, options{runs: 6, timeout: time.Minute, logs: logs}, []string{"./..."})
	if err != nil || !failed {
		t.Fatalf("failed %v, %v", failed, err)
	}
	for _, want := range []string{"FAIL sample/b", "failed: sample/b, run 3: TestThird/sub; see ", "6 runs, 3 of them crowded, 2 failed,", "\n       TestThird/sub: 2 of 6\n", "ok   sample/c", ", 0 failed,"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "sample/a") {
		t.Errorf("a package without tests is in\n%s", &out)
	}
	kept, err := filepath.Glob(filepath.Join(logs, "*.log"))
	if err != nil || len(kept) != 2 {
		t.Errorf("logs: %v, %v", kept, err)
	}
}

func TestFailures(t *testing.T) {
	for out, want := range map[string][]string{
		"=== RUN   TestA\n--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\n    --- PASS: TestA/y (0.00s)\n--- FAIL: TestAB (1.00s)\nFAIL\n": {"TestA/x", "TestAB"},
		"=== RUN   TestA\n=== RUN   TestB\npanic: boom\n": {"TestB"},
	} {
		if d := cmp.Diff(want, failures([]byte(out))); d != "" {
			t.Error(d)
		}
	}
}
