package main

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/test/mcpserver"
)

func init() { mcpserver.Main() } // this test is also the program of the servers on stdin and stdout

// ways are the transports and revisions of a server.
var ways = []string{"http " + mcpserver.Stateless, "http " + mcpserver.Legacy, "events " + mcpserver.Stateless, "stdio " + mcpserver.Legacy, "stdio " + mcpserver.Stateless}

// toolServer starts a server, and returns the config file that names it, and its ledger.
func toolServer(t *testing.T, way string, c mcpserver.Config) (file_, ledger string) {
	t.Helper()
	transport, revision, _ := strings.Cut(way, " ")
	c.Ledger, c.Revision, c.Events = filepath.Join(t.TempDir(), "ledger"), revision, transport == "events"
	text := "mcp:\n  - name: shop\n"
	if transport == "stdio" {
		own, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		text += fmt.Sprintf("    command: %q\n    env:\n", own)
		for name, value := range c.Env() {
			text += fmt.Sprintf("      %s: %q\n", name, value)
		}
	} else {
		s := httptest.NewServer(&mcpserver.Server{Config: c})
		t.Cleanup(s.Close)
		text += "    url: " + s.URL + "/mcp\n    headers: {Authorization: \"Bearer ${secrets.SHOP}\"}\n"
	}
	return file(t, "recourse.yaml", text), c.Ledger
}

const tripSteps = `saga: trip
steps:
  - id: it
    mcp: {server: shop, tool: %s, arguments: {order: o-1}}
    retry: {attempts: 3, initial: 1ms}
    %s
    compensate: {mcp: {server: shop, tool: cancel, arguments: {id: "${output?.id ?? key}"}}, %s retry: {attempts: 3, initial: 1ms}}
  - id: end
    %s
`

// A call whose answer is lost has no second effect: with a server that honours the key it is sent
// again, and otherwise a person is asked.
func TestToolsLoseAnswers(t *testing.T) {
	t.Parallel()
	secret := []string{"RECOURSE_SECRET_SHOP=canary-51"}
	faults := []string{mcpserver.Before, mcpserver.After, mcpserver.Half, mcpserver.Silence, mcpserver.RPCError, mcpserver.ErrorOf}
	for _, way := range ways {
		for _, tt := range []struct {
			name, tool, doubt string
			honours           bool
			asks              bool // a person is needed
			calls             int
		}{
			{"a server that honours keys", "book", "in_doubt: retry", true, false, 2},
			{"an idempotent tool", "put", "", false, false, 2},
			{"no promise", "book", "", false, true, 1},
		} {
			for _, fault := range faults {
				t.Run(way+"/"+tt.name+"/"+fault, func(t *testing.T) {
					t.Parallel()
					timeout := "" // a program takes its time to start
					if fault == mcpserver.Silence {
						timeout = "\n    timeout: 5s"
					}
					cfg, ledger := toolServer(t, way, mcpserver.Config{Honours: tt.honours, Faults: []string{fault}})
					def := file(t, "trip.yaml", fmt.Sprintf(tripSteps, tt.tool, tt.doubt+timeout, "", "set: 1"))
					r := run(t, secret, "run", def, "--config", cfg)
					if asked := r.code == cli.Failed && strings.Contains(r.errOut, "unknown whether step it has happened"); asked != tt.asks || !tt.asks && r.code != cli.OK {
						t.Errorf("exit %d, asks %v:\n%s%s", r.code, asked, r.out, r.errOut)
					}
					effects, calls := mcpserver.Ledger(ledger, tt.tool)
					want := 1
					if tt.asks && fault == mcpserver.Before {
						want = 0
					}
					if len(effects) != want || len(calls) != tt.calls {
						t.Errorf("%d effects of %d calls, want %d of %d\n%s%s", len(effects), len(calls), want, tt.calls, r.out, r.errOut)
					}
					if i := slices.IndexFunc(calls, func(e mcpserver.Entry) bool { return e.Key == "" || e.Key != calls[0].Key }); i >= 0 {
						t.Errorf("call %d has another key, or none: %v", i+1, calls)
					}
					if strings.Contains(r.out+r.errOut, "canary-51") {
						t.Errorf("a secret is shown:\n%s%s", r.out, r.errOut)
					}
				})
			}
		}
	}
}

// Another tool of the server undoes a call, and its lost answer leads to no second undo either.
func TestToolsUndo(t *testing.T) {
	t.Parallel()
	secret := []string{"RECOURSE_SECRET_SHOP=canary-51"}
	for _, way := range ways {
		for _, tt := range []struct {
			name, doubt string
			honours     bool
			faults      []string
			code        int
			calls       int // of cancel
		}{
			{"no faults", "", false, nil, cli.Failed, 1},
			{"a lost answer, keys honoured", "in_doubt: retry,", true, []string{"", mcpserver.After}, cli.Failed, 2},
			{"a lost answer, no promise", "", false, []string{"", mcpserver.After}, cli.Failed, 1},
			{"a tool's error, no promise", "", false, []string{"", mcpserver.ErrorOf}, cli.Failed, 1},
		} {
			t.Run(way+"/"+tt.name, func(t *testing.T) {
				t.Parallel()
				cfg, ledger := toolServer(t, way, mcpserver.Config{Honours: tt.honours, Faults: tt.faults})
				def := file(t, "trip.yaml", fmt.Sprintf(tripSteps, "book", "in_doubt: ask", tt.doubt, "fail: no"))
				r := run(t, secret, "run", def, "--config", cfg)
				effects, calls := mcpserver.Ledger(ledger, "cancel")
				blocked := strings.Contains(r.errOut, "unknown whether undoing step it has happened")
				if asks := strings.HasSuffix(tt.name, "no promise"); r.code != tt.code || len(effects) != 1 || len(calls) != tt.calls || blocked != asks {
					t.Errorf("exit %d, %d effects of %d calls\n%s%s", r.code, len(effects), len(calls), r.out, r.errOut)
				}
			})
		}
	}
}

// A read-only tool is called again, and its effect, which it does not have, is not undone.
func TestToolsRead(t *testing.T) {
	t.Parallel()
	secret := []string{"RECOURSE_SECRET_SHOP=canary-51"}
	for _, way := range ways {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			cfg, ledger := toolServer(t, way, mcpserver.Config{Faults: []string{"look"}})
			def := file(t, "look.yaml", "saga: look\nsteps:\n  - id: it\n    mcp: {server: shop, tool: look}\n    retry: {initial: 1ms}\n    compensate: none\n  - id: end\n    fail: no\n")
			r := run(t, secret, "run", def, "--config", cfg, "-o", "json")
			if _, calls := mcpserver.Ledger(ledger, "look"); len(calls) != 2 || !strings.Contains(r.out, `"status":"compensated"`) || strings.Contains(r.out, `"residual"`) {
				t.Errorf("%d calls\n%s%s", len(calls), r.out, r.errOut)
			}
		})
	}
}

// A status check by a read-only tool settles a doubt; a tool that may write is not called for one.
func TestToolsVerify(t *testing.T) {
	t.Parallel()
	secret := []string{"RECOURSE_SECRET_SHOP=canary-51"}
	const def = "saga: v\nsteps:\n  - id: it\n    mcp: {server: shop, tool: book}\n    timeout: 2s\n    compensate: none\n    in_doubt: {verify: {mcp: {server: shop, tool: %s}, found: result.structured.there == true, output: found, after: 1ms}}\n"
	cfg, _ := toolServer(t, ways[0], mcpserver.Config{Faults: []string{mcpserver.After}})
	if r := run(t, secret, "run", file(t, "v.yaml", fmt.Sprintf(def, "look")), "--config", cfg); r.code != cli.OK {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	if r := run(t, secret, "run", file(t, "w.yaml", fmt.Sprintf(def, "cancel")), "--config", cfg); r.code != cli.OK {
		// The second call of book has no fault, so nothing is verified.
		t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
	}
	cfg, ledger := toolServer(t, ways[0], mcpserver.Config{Faults: []string{mcpserver.After}})
	r := run(t, secret, "run", file(t, "w.yaml", fmt.Sprintf(def, "cancel")), "--config", cfg)
	if _, calls := mcpserver.Ledger(ledger, "cancel"); r.code != cli.Failed || len(calls) > 0 || !strings.Contains(r.errOut, "unknown whether") {
		t.Errorf("exit %d, %d calls: %s%s", r.code, len(calls), r.out, r.errOut)
	}
}

// Errors of tools are definite if the author says so; what cannot be called is refused before.
func TestToolsRefuse(t *testing.T) {
	t.Parallel()
	secret := []string{"RECOURSE_SECRET_SHOP=canary-51"}
	const def = "saga: v\nsteps:\n  - id: it\n    mcp: {server: %s, tool: %s, arguments: {a: 1}}\n    compensate: none\n    %s\n"
	for _, tt := range []struct {
		name, server, tool, keys string
		faults                   []string
		code                     int
		says                     string
	}{
		{"a declared refusal", "shop", "book", "expect: {refused: \"result.is_error && result.content[0].text == 'sold out'\", error: sold_out}", []string{mcpserver.ErrorNone}, cli.Failed, "sold_out"},
		{"no such tool", "shop", "bok", "", nil, cli.Failed, "has no tool bok, it has book, cancel, look, put"},
		{"no such server", "shup", "book", "", nil, cli.Usage, "unknown_server"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg, _ := toolServer(t, ways[0], mcpserver.Config{Faults: tt.faults})
			r := run(t, secret, "run", file(t, "v.yaml", fmt.Sprintf(def, tt.server, tt.tool, tt.keys)), "--config", cfg)
			if r.code != tt.code || !strings.Contains(r.out+r.errOut, tt.says) {
				t.Errorf("exit %d: %s%s", r.code, r.out, r.errOut)
			}
		})
	}
	for _, tt := range []struct{ name, text, says string }{
		{"two ways", "mcp: [{name: a, url: https://a.example, command: x}]", "write url, or command"},
		{"unknown key", "mcp: [{name: a, url: https://a.example, token: x}]", "unknown field"},
		{"twice", "mcp: [{name: a, command: x}, {name: a, command: x}]", "there twice"},
		{"a header of the protocol", "mcp: [{name: a, url: https://a.example, headers: {Mcp-Session-Id: x}}]", "cannot be set"},
		{"an expression", "mcp: [{name: a, url: https://a.example, headers: {A: \"${input.x}\"}}]", "secrets.NAME"},
	} {
		if _, err := config.ReadMCP(file(t, "c.yaml", tt.text)); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// plan shows the call, doctor asks the server, and a server's program dies with this one.
func TestToolsOnTheCommandLine(t *testing.T) {
	t.Parallel()
	def := file(t, "trip.yaml", fmt.Sprintf(tripSteps, "book", "", "", "set: 1"))
	if out := ok(t, nil, "plan", def, "-o", "json"); !strings.Contains(out, `"mcp":{"server":"shop","tool":"book","arguments":{"order":"o-1"},"_meta":{"recourse/idempotency-key":`) {
		t.Errorf("the plan: %s", out)
	}
	if out := ok(t, nil, "plan", def); !strings.Contains(out, "mcp shop/book") {
		t.Errorf("the plan: %s", out)
	}
	for _, way := range ways {
		cfg, _ := toolServer(t, way, mcpserver.Config{})
		r := run(t, []string{"RECOURSE_SECRET_SHOP=canary-51", "RECOURSE_EGRESS_ALLOW=127.0.0.1"}, "doctor", "--config", cfg, "--database", filepath.Join(t.TempDir(), "a.db"))
		if _, revision, _ := strings.Cut(way, " "); !strings.Contains(r.out, "mcp shop") || !strings.Contains(r.out, "4 tools") || !strings.Contains(r.out, revision) {
			t.Errorf("%s: doctor: %s%s", way, r.out, r.errOut)
		}
	}
}
