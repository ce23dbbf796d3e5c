package examples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/api"
	"recourse/internal/test/buffer"
	"recourse/internal/test/program"
)

const mcpAgents = "../../../examples/agents/mcp"

// mcpPrograms are the agents, and the revisions of the protocol that they speak.
var mcpPrograms = []struct{ file, revision string }{{"modern.ts", "2026-07-28"}, {"classic.ts", "2025-11-25"}}

// TestMCPAgents lets each agent book and refund, over HTTP and over stdin and stdout.
func TestMCPAgents(t *testing.T) {
	t.Parallel()
	node := installPackages(t, mcpAgents, true)
	s := stage(t, databases["sqlite"](t), nil)
	s.publishActions(mcpAgents)
	for _, p := range mcpPrograms {
		file := filepath.Join(mcpAgents, p.file)
		r := &agentRun{name: "http", key: p.file, actions: "book,refund", input: "null", command: []string{node, file}}
		s.runAgent(r)
		if out, code := r.end(); code != 0 || !strings.Contains(out, "revision "+p.revision) {
			t.Errorf("%s: exit %d:\n%s", p.file, code, out)
		}
		stdio := exec.CommandContext(t.Context(), node, file, program.Path(t), "mcp", "--server", "http://"+s.server.addr, "--actions", "book,refund", "--key", "stdio-"+p.file)
		if out, err := stdio.CombinedOutput(); err != nil || !strings.Contains(string(out), "refund[0] succeeded") {
			t.Errorf("%s over stdio: %v\n%s", p.file, err, out)
		}
	}
	l := s.world.Ledger()
	if books, refunds := len(l.Op("air", "book").Effects()), len(l.Op("pay", "refund").Effects()); books != 4 || refunds != 4 {
		t.Errorf("%d bookings and %d refunds, want 4 of each", books, refunds)
	}
	if out, ok := s.verify(l); !ok {
		t.Errorf("verify: %s", out)
	}
}

// cutter is a proxy between agents and their server. The first answer to call n breaks off after n
// bytes.
type cutter struct {
	t      *testing.T
	target string
	mu     sync.Mutex
	seen   map[int]bool // guarded by mu
	whole  int          // answers that were shorter than their number. Guarded by mu
}

var callNumber = regexp.MustCompile(`"(?:t|o)-([0-9]+)"`)

// ServeHTTP implements http.Handler.
func (c *cutter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has left
	}
	req := r.Clone(r.Context())
	req.URL.Scheme, req.URL.Host, req.RequestURI = "http", c.target, ""
	req.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := http.DefaultTransport.RoundTrip(req)
	if r.Context().Err() != nil {
		panic(http.ErrAbortHandler) // the client has left
	}
	if err != nil {
		c.t.Errorf("the server: %v", err)
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	raw, err := httputil.DumpResponse(resp, true)
	if err != nil {
		c.t.Errorf("the answer: %v", err)
		panic(http.ErrAbortHandler)
	}
	if m := callNumber.FindSubmatch(body); m != nil && bytes.Contains(body, []byte(`"tools/call"`)) {
		n, err := strconv.Atoi(string(m[1]))
		if err != nil {
			c.t.Error(err)
		}
		c.mu.Lock()
		if !c.seen[n] {
			c.seen[n] = true
			if n >= len(raw) {
				c.whole++
			}
			raw = raw[:min(n, len(raw))]
		}
		c.mu.Unlock()
	}
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		c.t.Error(err)
		return
	}
	defer conn.Close()
	_, _ = conn.Write(raw) // the client may have left
}

// mostCut is more than the bytes of an answer.
const mostCut = 1300

// TestMCPCut breaks off the answer to a call after each of its bytes, and lets the agent call again
// over another connection. Each call has one effect. One agent takes the even numbers of bytes, and
// the other the odd ones; with RECOURSE_AGENT_CLIENTS=all, each takes all.
func TestMCPCut(t *testing.T) {
	t.Parallel()
	node := installPackages(t, mcpAgents, true)
	s := stage(t, databases["sqlite"](t), nil)
	s.publishActions(mcpAgents)
	step := len(mcpPrograms)
	if os.Getenv("RECOURSE_AGENT_CLIENTS") == "all" {
		step = 1
	}
	for first, p := range mcpPrograms {
		t.Run(p.file, func(t *testing.T) {
			t.Parallel()
			var session struct{ ID string }
			status, _, answer := s.call("POST", "/v1/sessions", `{"name": "cut", "key": "`+p.file+`", "actions": ["book", "refund"], "max_calls": 10000}`)
			if err := json.Unmarshal(answer, &session); err != nil || status != http.StatusCreated {
				t.Fatalf("%d %s", status, answer)
			}
			secret := api.NewSecret()
			if status, _, answer := s.call("POST", "/v1/sessions/"+session.ID+"/attach", `{"secret": "`+secret+`"}`); status != http.StatusOK {
				t.Fatalf("%d %s", status, answer)
			}
			var calls [][]any
			for n := first % step; n < mostCut; n += step {
				if n/step%2 == 0 {
					calls = append(calls, []any{"book", map[string]any{"trip": fmt.Sprint("t-", n), "route": "FRA-LIS", "date": "2027-03-01"}})
				} else {
					calls = append(calls, []any{"refund", map[string]any{"order": fmt.Sprint("o-", n), "amount": 1}})
				}
			}
			cut := &cutter{t: t, target: s.server.addr, seen: make(map[int]bool)}
			proxy := httptest.NewServer(cut)
			defer proxy.Close()
			var said buffer.Buffer
			var all sync.WaitGroup
			for part := range slices.Chunk(calls, (len(calls)+3)/4) { // several agents at once, to save time
				input, err := json.Marshal(map[string]any{"calls": part})
				if err != nil {
					t.Fatal(err)
				}
				cmd := exec.CommandContext(t.Context(), node, filepath.Join(mcpAgents, p.file))
				cmd.Env = append(os.Environ(), "RECOURSE_MCP_URL="+proxy.URL+"/mcp", "RECOURSE_TOKEN="+api.Token(uuid.FromStringOrNil(session.ID), secret), "RECOURSE_INPUT="+string(input))
				cmd.Stdout, cmd.Stderr = &said, &said
				all.Go(func() {
					if err := cmd.Run(); err != nil {
						t.Errorf("%v\n%s", err, tail(said.String()))
					}
				})
			}
			all.Wait()
			out := said.String()
			if again := strings.Count(out, "called again"); again < len(calls)/2 || cut.whole == 0 {
				t.Errorf("%d calls were made again, and %d answers were whole: the answers are longer than %d bytes, or were not cut", again, cut.whole, mostCut)
			}
			if done := strings.Count(out, " succeeded"); done != len(calls) {
				t.Errorf("%d calls have succeeded, want %d", done, len(calls))
			}
			t.Logf("%d calls, %d of them called again", len(calls), strings.Count(out, "called again"))
		})
	}
	t.Cleanup(func() { // after both agents
		l, want := s.world.Ledger(), mostCut*len(mcpPrograms)/step
		if made, keys := len(l.Effects()), len(l.EffectsByKey()); made != want || keys != want {
			t.Errorf("%d effects with %d keys, want %d", made, keys, want)
		}
	})
}

func tail(text string) string { return text[max(0, len(text)-4000):] }
