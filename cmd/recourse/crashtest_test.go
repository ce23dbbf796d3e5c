package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/internal/crashmatrix"
)

// The tables of docs/testing.md are those of its definitions.
func TestTestingPage(t *testing.T) {
	t.Parallel()
	blocks := regexp.MustCompile("(?s)```yaml\n(saga: .*?)```\n\n```text\n(.*?)```").FindAllStringSubmatch(docPage(t, "testing.md"), -1)
	if len(blocks) != 5 {
		t.Fatalf("the page has %d broken definitions, want 5", len(blocks))
	}
	for _, b := range blocks {
		r := run(t, nil, "test", file(t, "broken.yaml", b[1]), "-o", "json")
		if r.code != cli.Failed {
			t.Errorf("exit %d: %s", r.code, r.errOut)
		}
		var m crashmatrix.Matrix
		if err := json.Unmarshal([]byte(r.out), &m); err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, row := range m.Rows {
			if row.Verdict.Faulty() {
				lines = append(lines, strings.Join([]string{row.Step, string(row.Way), string(row.Fault), string(row.End), string(row.Verdict), row.Why}, " "))
			}
		}
		if want := spaces(b[2]); strings.Join(lines, "\n") != want {
			t.Errorf("the page says\n%s\nand the test\n%s", want, strings.Join(lines, "\n"))
		}
	}
}

// spaces replaces the gaps between columns by single spaces.
func spaces(table string) string {
	var lines []string
	for line := range strings.Lines(table) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}

const unsafe = `saga: unsafe
input: {amount: integer}
steps:
  - id: look
    http: GET ${vars.shop}/orders/1
  - id: charge
    http: POST ${vars.shop}/charges
    idempotency: none
    body: {amount: "${input.amount}", state: "${steps.look.output.state}"}
    compensate: {http: "DELETE ${vars.shop}/charges/${output.id}"}
`

func TestCrashMatrix(t *testing.T) {
	t.Parallel()
	broken, safe := file(t, "unsafe.yaml", unsafe), file(t, "safe.yaml", strings.Replace(unsafe, "    idempotency: none\n", "", 1))
	if out := ok(t, nil, "test", safe); !strings.Contains(out, "unsafe: ") || !strings.Contains(out, "charge  undo  timeout with effect") {
		t.Error(out)
	}
	r := run(t, nil, "test", broken)
	if r.code != cli.Failed || !strings.Contains(r.out, "charge had its effect twice") || r.errOut != "" {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	ok(t, nil, "test", broken, "--ledger", "honours")
	if r := run(t, nil, "test", safe, "--ledger", "ignores", "-i", `{"amount": 5}`, "--var", "shop=http://127.0.0.1:1"); r.code != cli.Failed {
		t.Errorf("a service that ignores keys: exit %d", r.code)
	}
	for name, args := range map[string][]string{
		"/input/amount":      {"test", safe, "-i", `{"amount": "x"}`},
		"no step \"chrage\"": {"test", safe, "--stubs", file(t, "stubs.yaml", "chrage: {id: 1}\n")},
		"write a map":        {"test", safe, "--stubs", file(t, "list.yaml", "- 1\n")},
		"--golden FILE":      {"test", safe, "--update"},
		"--update":           {"test", safe, "--golden", filepath.Join(t.TempDir(), "none")},
	} {
		if r := run(t, nil, args...); r.code != cli.Usage || !strings.Contains(r.errOut, name) {
			t.Errorf("%s: exit %d: %s", name, r.code, r.errOut)
		}
	}
}

// The golden file has the table; a change of the definition that changes the table is shown.
func TestGoldenMatrix(t *testing.T) {
	t.Parallel()
	golden := filepath.Join(t.TempDir(), "matrix")
	safe := strings.Replace(unsafe, "    idempotency: none\n", "", 1)
	ok(t, nil, "test", file(t, "a.yaml", safe), "--golden", golden, "--update")
	ok(t, nil, "test", file(t, "b.yaml", safe), "--golden", golden)
	if text, err := os.ReadFile(golden); err != nil || !strings.HasPrefix(string(text), "STEP ") {
		t.Errorf("%s, %v", text, err)
	}
	r := run(t, nil, "test", file(t, "c.yaml", strings.Replace(safe, "    idempotency", "    in_doubt: ask\n    idempotency", 1)+"    in_doubt: ask\n"), "--golden", golden)
	if r.code != cli.Failed || !strings.Contains(r.errOut, "\n+ charge do answer lost ") || !strings.Contains(r.errOut, "- charge do answer lost ") || !strings.Contains(r.errOut, "--update") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
}

func TestMatrixForCI(t *testing.T) {
	t.Parallel()
	r := run(t, nil, "test", file(t, "unsafe.yaml", unsafe), "-o", "junit")
	var suite struct {
		Name     string `xml:"name,attr"`
		Tests    int    `xml:"tests,attr"`
		Failures int    `xml:"failures,attr"`
		Cases    []struct {
			Name    string `xml:"name,attr"`
			Failure *struct {
				Type string `xml:"type,attr"`
			} `xml:"failure"`
		} `xml:"testcase"`
	}
	if err := xml.Unmarshal([]byte(r.out), &suite); err != nil || r.code != cli.Failed {
		t.Fatalf("exit %d, %v: %s", r.code, err, r.out)
	}
	failed := 0
	for _, c := range suite.Cases {
		if c.Failure != nil && c.Failure.Type == "duplicate" {
			failed++
		}
	}
	if suite.Name != "unsafe" || suite.Tests != len(suite.Cases) || suite.Failures != failed || failed == 0 {
		t.Errorf("%+v", suite)
	}
}
