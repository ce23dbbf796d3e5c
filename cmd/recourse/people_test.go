package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The first example of docs/people.md behaves as the page says, in a shell.
func TestPeoplePage(t *testing.T) {
	t.Parallel()
	page := docPage(t, "people.md")
	block := func(kind string) string {
		m := regexp.MustCompile("(?s)```" + kind + "\n(.*?)```").FindStringSubmatch(page)
		if m == nil {
			t.Fatalf("no %s on the page", kind)
		}
		return m[1]
	}
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"))
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "payout.yaml"), []byte(block("yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	sh := exec.CommandContext(t.Context(), "sh", "-e", "-c", block("sh"))
	sh.Dir = dir
	sh.Env = append(append(os.Environ(), s.env...), pathVar(t))
	out, err := sh.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"Pay 19.10 for order 4711?", "ok approved", "com.bank.payment-settled sent", `"limit":25`, `"payment":"pay_7"`} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}
