package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// What publishing warns of is what the server finds: it has the prices of its models, the command line has not.
func TestApplyWarnsAsTheServer(t *testing.T) {
	config := file(t, "c.yaml", "llm:\n  prices: {small: {input: 1, output: 2}}\n")
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"), "--config", config)
	def := file(t, "d.yaml", "saga: reads\nbudget: 1.00 USD\nsteps:\n  - {id: a, llm: {model: small, prompt: hello}}\n  - {id: b, llm: {model: other, prompt: hello}}\n")
	r := run(t, s.env, "definitions", "apply", def)
	if r.code != 0 || !strings.Contains(r.errOut, def+":5:") || !strings.Contains(r.errOut, `no price of "other" is configured`) || strings.Contains(r.errOut, `"small"`) {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
	if again := run(t, s.env, "definitions", "apply", def); !strings.Contains(again.out, "unchanged") || again.errOut != r.errOut {
		t.Errorf("published again: %s%s", again.out, again.errOut)
	}
}
