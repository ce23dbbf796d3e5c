package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"recourse/api"
	"recourse/internal/cli"
	"recourse/internal/test/buffer"
)

// mcpRun is `recourse mcp`, run inside the test, with a client.
type mcpRun struct {
	*sdk.ClientSession
	t      *testing.T
	ended  chan int // receives the exit code
	errOut buffer.Buffer
}

func startMCP(t *testing.T, env []string, flags ...string) *mcpRun {
	t.Helper()
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	r := &mcpRun{t: t, ended: make(chan int, 1)}
	m := Main{Args: append([]string{"mcp"}, flags...), Env: append(slices.Clip(env), "PATH="+os.Getenv("PATH")), Stdin: in, Stdout: out, Stderr: &r.errOut}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		r.ended <- m.Run(ctx)
		_ = out.Close() // pipes close without errors
	}()
	t.Cleanup(func() {
		cancel()
		_ = in.Close()
	})
	client := sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil)
	cs, err := client.Connect(t.Context(), &sdk.IOTransport{Reader: fromServer, Writer: toServer}, nil)
	if err != nil {
		t.Fatalf("connect: %v\n%s", err, r.errOut.String())
	}
	r.ClientSession = cs
	return r
}

// call calls a tool, and returns the text of its answer.
func (r *mcpRun) call(tool, arguments string) (text string, failed bool) {
	r.t.Helper()
	got, err := r.CallTool(r.t.Context(), &sdk.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", tool, err, r.errOut.String())
	}
	for _, part := range got.Content {
		if t, ok := part.(*sdk.TextContent); ok {
			text += t.Text + "\n"
		}
	}
	return text, got.IsError
}

// leaves closes the client, and fails unless the command then ends in order.
func (r *mcpRun) leaves(says string) {
	r.t.Helper()
	if err := r.Close(); err != nil {
		r.t.Errorf("close: %v", err)
	}
	select {
	case code := <-r.ended:
		if code != cli.OK || !strings.Contains(r.errOut.String(), says) {
			r.t.Errorf("exit %d, want %q:\n%s", code, says, r.errOut.String())
		}
	case <-time.After(20 * time.Second):
		r.t.Fatalf("the command has not ended:\n%s", r.errOut.String())
	}
	if strings.Contains(r.errOut.String(), api.TokenPrefix) {
		r.t.Errorf("a token is printed:\n%s", r.errOut.String())
	}
}

// TestMCPEmbedded serves the tools on stdin and stdout, with a server of its own. The next command
// with the same key continues the session.
func TestMCPEmbedded(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	flags := []string{"--actions", agentActions, "--database", filepath.Join(t.TempDir(), "a.db"), "--key", "desk-1"}
	r := startMCP(t, vars, flags...)
	list, err := r.ListTools(t.Context(), nil)
	if err != nil || len(list.Tools) != 8 {
		t.Fatalf("tools %v: %v", list, err)
	}
	first, failed := r.call("refund", `{"order": "o-1", "amount": 1910}`)
	if failed || !strings.Contains(first, `"succeeded"`) {
		t.Fatalf("refund: %s", first)
	}
	if text, failed := r.call("refund", `{"order": 1}`); !failed || !strings.HasPrefix(text, "bad_input: ") {
		t.Errorf("bad input: %s", text)
	}
	r.leaves("refund[0]")
	r = startMCP(t, vars, flags...)
	if text, _ := r.call("refund", `{"amount": 1910, "order": "o-1"}`); !strings.Contains(text, `"replayed":true`) || strings.Replace(text, `"replayed":true,`, "", 1) != first {
		t.Errorf("the same call: %s\nthe first time: %s", text, first)
	}
	if n := len(w.Ledger().Service("pay").Effects()); n != 1 {
		t.Errorf("%d refunds, want 1", n)
	}
	if text, failed := r.call("session_abort", `{}`); failed {
		t.Errorf("abort: %s", text)
	}
	for range 100 {
		if text, _ := r.call("session_status", `{}`); strings.Contains(text, `"status":"compensated"`) {
			break
		}
		<-time.After(50 * time.Millisecond)
	}
	r.leaves("")
	if n := len(w.Ledger().Service("pay").Live()); n != 0 {
		t.Errorf("%d refunds are left", n)
	}
	var out, errOut buffer.Buffer
	m := Main{Args: append([]string{"mcp"}, flags...), Env: vars, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errOut}
	if code := m.Run(t.Context()); code != cli.Conflict || !strings.Contains(errOut.String(), "choose another --key") {
		t.Errorf("exit %d: %s", code, errOut.String())
	}
}

// With a server: a session without a key and without calls is committed; one with calls waits.
// While the server is away, the tools say that the call may be repeated.
func TestMCPWithServer(t *testing.T) {
	t.Parallel()
	w, s := agents(t)
	r := startMCP(t, s.env, "--actions", "look,refund")
	r.leaves("it has no calls")
	if out := ok(t, s.env, "sessions", "list"); strings.Count(out, "succeeded") != 1 {
		t.Errorf("%s", out)
	}
	r = startMCP(t, s.env, "--actions", "look,refund", "--name", "desk")
	if text, failed := r.call("refund", `{"order": "o-1", "amount": 1910}`); failed {
		t.Errorf("refund: %s", text)
	}
	id := s.sessionID(t)
	r.leaves("goes on without a process")
	if out := ok(t, s.env, "sessions", "show", id); !strings.Contains(out, "~desk") {
		t.Errorf("%s", out)
	}
	if n := len(w.Ledger().Service("pay").Effects()); n != 1 {
		t.Errorf("%d refunds, want 1", n)
	}
}

// A session opened by `recourse mcp`, and one opened by `recourse agent run`, may belong to another
// one, whose budget pays for them.
func TestSessionsBelowAnother(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	lead := startMCP(t, s.env, "--actions", "refund", "--name", "lead", "--budget", "1.00 USD")
	id := s.sessionID(t)
	helper := startMCP(t, s.env, "--actions", "refund", "--budget", "0.40 USD", "--parent", id)
	reserved := func(want string) {
		t.Helper()
		if text, failed := lead.call("session_status", `{}`); failed || !strings.Contains(text, `"reserved":"`+want+`"`) {
			t.Errorf("the parent has not reserved %s: %s", want, text)
		}
	}
	reserved("0.40")
	startAgent(t, s.env, "exit 0", "--budget", "0.50 USD", "--parent", id, "--key", "two").exits(t, cli.OK, "committed")
	startAgent(t, s.env, "exit 0", "--budget", "0.70 USD", "--parent", id, "--key", "three").exits(t, cli.Failed, "does not cover the session")
	helper.leaves("it has no calls")
	lead.leaves("it has no calls")
}

// The process of `recourse agent run` gets the address of the tools; its token is the bearer token.
func TestAgentGetsTheToolsAddress(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, waits(token, "echo $RECOURSE_MCP_URL"))
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/mcp", strings.NewReader(`{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + tokenIn(t, token)}, "Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(b), `"name":"refund"`) {
		t.Errorf("%d %s %v", resp.StatusCode, b, err)
	}
	let(t, token)
	a.exits(t, cli.OK, "committed")
	if a.out.String() != s.url+"/mcp\n" {
		t.Errorf("the address is %q", a.out.String())
	}
}
