package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"recourse/examples/llmstub"
	"recourse/internal/cli"
	"recourse/internal/cli/remote"
	"recourse/saga/machine"
)

// The table shows the costs that the models reported. A fallback counts for the requested model.
func TestCosts(t *testing.T) {
	t.Parallel()

	stub, err := llmstub.New(llmstub.Config{Fault: func(c llmstub.Call) llmstub.Fault {
		if c.Model == "small" {
			return llmstub.Fault{Status: 429}
		}
		return llmstub.Fault{}
	}}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stub.Close()
	config := file(t, "c.yaml", "llm:\n  providers: [{name: all, base_url: "+stub.URL+"/v1}]\n  prices: {large: {input: 1.50, output: 6}, small: {input: 1, output: 1}}\n")
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"), "--config", config)
	ok(t, s.env, "definitions", "apply", file(t, "d.yaml", "saga: ask\nsteps:\n  - {id: a, llm: {model: [small, large], prompt: \"${input.q}\"}}\n"))
	var first string
	for i := range 4 {
		q := "short"
		if i == 0 {
			q = strings.Repeat("a very long question ", 2000)
		}
		id, _, _ := strings.Cut(ok(t, s.env, "start", "ask", "-i", fmt.Sprintf(`{"q": %q}`, q), "--label", "team=travel", "--wait", "30s"), " ")
		if i == 0 {
			first = strings.TrimSpace(id)
		}
	}
	var v machine.View
	if err := json.Unmarshal([]byte(ok(t, s.env, "show", first, "-o", "json")), &v); err != nil {
		t.Fatal(err)
	}
	used := v.Cost.Models["large"]
	if len(v.Cost.Models) != 1 || used.Spent != v.Cost.Spent || used.Input != v.Cost.Tokens.Input || used.Input < 1000 || used.Output == 0 {
		t.Errorf("the dear one's cost is %+v", v.Cost)
	}
	for _, by := range []string{"definition", "day", "model", "label.team"} {
		key := map[string]string{"definition": "ask", "day": time.Now().UTC().Format(time.DateOnly), "model": "large", "label.team": "travel"}[by]
		out := ok(t, s.env, "costs", "--by", by, "--since", "1h", "-d", "ask")
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[1], key+" ") || !strings.Contains(lines[1], "USD") || !strings.Contains(lines[2], first) {
			t.Errorf("by %s:\n%s", by, out)
		}
		for _, l := range lines[:2] {
			if len([]rune(l)) > 80 {
				t.Errorf("more than 80 columns: %s", l)
			}
		}
		var answer remote.CostsAnswer
		if err := json.Unmarshal([]byte(ok(t, s.env, "costs", "--by", by, "-o", "json")), &answer); err != nil || len(answer.Groups) != 1 || answer.Groups[0].Sagas != 4 || !answer.Complete {
			t.Errorf("by %s: %v %+v", by, err, answer)
		}
	}
	for _, bad := range [][]string{{"costs", "--since", "yesterday"}, {"costs", "--by", "tier"}} {
		if r := run(t, s.env, bad...); r.code != cli.Usage || r.errOut == "" {
			t.Errorf("%v: exit code %d, %s", bad, r.code, r.errOut)
		}
	}
	if out := ok(t, s.env, "costs", "--since", time.Now().Add(-time.Hour).Format(time.RFC3339)); !strings.Contains(out, "ask") {
		t.Errorf("since a time:\n%s", out)
	}
}
