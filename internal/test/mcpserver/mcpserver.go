// Package mcpserver is an MCP server with a ledger of effects, which loses answers and dies on
// purpose. It serves over HTTP, or as a program on stdin and stdout.
//
// Its tools are book and cancel, whose annotations say nothing; put, which is idempotent by its
// annotation; and look, which only reads.
package mcpserver

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
)

// The faults of a call.
const (
	None      = ""
	Before    = "before"    // the server dies, or cuts the connection, before the effect
	After     = "after"     // likewise after the effect, without an answer
	Half      = "half"      // likewise after half of the answer
	Silence   = "silence"   // the effect happens, and no answer comes
	ErrorOf   = "error"     // the effect happens, and the tool reports an error
	ErrorNone = "no-effect" // the tool reports an error and does nothing
	RPCError  = "rpc"       // the effect happens, and the server answers with an internal error
)

// The revisions that a server speaks.
const (
	Stateless = "2026-07-28"
	Legacy    = "2025-11-25"
)

// Config configures a server.
type Config struct {
	Ledger   string   // a file, which gets a line for each effect and each call
	Honours  bool     // a second call with a key has no effect and gets the first one's answer
	Faults   []string // of the calls of tools that write, in their order; later calls have none
	Revision string
	Events   bool // HTTP responses are streams of events
	Grants   bool // the tools' annotations say nothing
}

// Entry is a line of the ledger.
type Entry struct {
	Call   bool   `json:"call,omitempty"` // a call arrived; otherwise an effect happened
	Tool   string `json:"tool"`
	Key    string `json:"key"`
	Answer string `json:"answer,omitempty"` // of an effect
}

// Ledger reads the entries of a ledger, and returns the effects of a tool.
func Ledger(path, tool string) (effects, calls []Entry) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil
	}
	for line := range bytes.Lines(text) {
		var e Entry
		switch {
		case json.Unmarshal(line, &e) != nil || e.Tool != tool:
		case e.Call:
			calls = append(calls, e)
		default:
			effects = append(effects, e)
		}
	}
	return effects, calls
}

// Server serves one client after another.
type Server struct {
	Config
	mu sync.Mutex
}

type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Name string          `json:"name"`
		Args json.RawMessage `json:"arguments"`
		Meta map[string]any  `json:"_meta"`
	} `json:"params"`
}

// answer returns the answer to a message, nil for none, and the fault to make.
func (s *Server) answer(text []byte) (out []byte, fault string) {
	var r request
	if json.Unmarshal(text, &r) != nil {
		return nil, None
	}
	var result any
	switch r.Method {
	case "initialize":
		if s.Revision == Stateless {
			return failed(r.ID, -32601, "no such method"), None
		}
		result = map[string]any{"protocolVersion": Legacy, "capabilities": map[string]any{"tools": map[string]any{}}, "serverInfo": map[string]any{"name": "ledger", "version": "1"}}
	case "server/discover":
		if s.Revision != Stateless {
			return failed(r.ID, -32601, "no such method"), None
		}
		result = map[string]any{"supportedVersions": []string{Stateless}, "capabilities": map[string]any{"tools": map[string]any{}}, "resultType": "complete"}
	case "tools/list":
		result = map[string]any{"tools": s.tools(), "resultType": "complete"}
	case "tools/call":
		return s.call(&r)
	default:
		if len(r.ID) == 0 {
			return nil, None
		}
		return failed(r.ID, -32601, "no such method"), None
	}
	return encode(map[string]any{"jsonrpc": "2.0", "id": r.ID, "result": result}), None
}

func (s *Server) tools() []any {
	one := func(name string, hints map[string]any) any {
		if s.Grants {
			hints = map[string]any{}
		}
		return map[string]any{"name": name, "inputSchema": map[string]any{"type": "object"}, "annotations": hints}
	}
	return []any{one("book", nil), one("cancel", nil), one("put", map[string]any{"idempotentHint": true}), one("look", map[string]any{"readOnlyHint": true})}
}

func (s *Server) call(r *request) (out []byte, fault string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tool := r.Params.Name
	if tool == "look" {
		effects, _ := Ledger(s.Config.Ledger, "book")
		_, before := Ledger(s.Config.Ledger, "look")
		s.write(Entry{Call: true, Tool: tool})
		if len(before) == 0 && slices.Contains(s.Faults, "look") {
			return nil, After
		}
		return result(r.ID, fmt.Sprintf(`{"there":%t}`, len(effects) > 0), false), None
	}
	if !slices.Contains([]string{"book", "cancel", "put"}, tool) {
		return failed(r.ID, -32602, "no such tool"), None
	}
	key, _ := r.Params.Meta["recourse/idempotency-key"].(string)
	number := 0
	for _, t := range []string{"book", "cancel", "put"} {
		_, calls := Ledger(s.Config.Ledger, t)
		number += len(calls)
	}
	s.write(Entry{Call: true, Tool: tool, Key: key})
	if number < len(s.Faults) {
		fault = s.Faults[number]
	}
	if fault == Before {
		return nil, Before
	}
	if fault == ErrorNone {
		return result(r.ID, `{}`, true), None
	}
	effects, _ := Ledger(s.Config.Ledger, tool)
	answer := fmt.Sprintf(`{"id":"%s-%d","price":19.10}`, tool, len(effects)+1)
	known := slices.IndexFunc(effects, func(e Entry) bool { return key != "" && e.Key == key })
	switch {
	case s.Honours && known >= 0:
		answer = effects[known].Answer
	case tool == "put" && len(effects) > 0:
	default:
		s.write(Entry{Tool: tool, Key: key, Answer: answer})
	}
	switch fault {
	case ErrorOf:
		return result(r.ID, answer, true), None
	case RPCError:
		return failed(r.ID, -32603, "internal error"), None
	}
	return result(r.ID, answer, false), fault
}

func (s *Server) write(e Entry) {
	f, err := os.OpenFile(s.Config.Ledger, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, err = f.Write(append(encode(e), '\n'))
	if err := errors.Join(err, f.Close()); err != nil {
		panic(err)
	}
}

func encode(v any) []byte {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}

func failed(id json.RawMessage, code int, text string) []byte {
	return encode(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": text}})
}

func result(id json.RawMessage, structured string, isError bool) []byte {
	r := map[string]any{"content": []any{map[string]any{"type": "text", "text": structured}}, "structuredContent": json.RawMessage(structured), "resultType": "complete"}
	if isError {
		r["isError"] = true
		r["content"] = []any{map[string]any{"type": "text", "text": "sold out"}}
	}
	return encode(map[string]any{"jsonrpc": "2.0", "id": id, "result": r})
}

// ServeHTTP implements http.Handler. The older revision has a session, which each request must
// name.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil || r.Method != http.MethodPost {
		http.Error(w, "POST only", http.StatusMethodNotAllowed)
		return
	}
	starts := bytes.Contains(body, []byte(`"initialize"`)) || bytes.Contains(body, []byte(`"server/discover"`))
	switch {
	case s.Revision == Legacy && starts:
		w.Header().Set("Mcp-Session-Id", "s-1")
	case s.Revision == Legacy && r.Header.Get("Mcp-Session-Id") != "s-1":
		http.Error(w, "no such session", http.StatusNotFound)
		return
	case s.Revision == Stateless && r.Header.Get("Mcp-Method") == "" && !starts:
		http.Error(w, "no Mcp-Method", http.StatusBadRequest)
		return
	}
	out, fault := s.answer(body)
	if out == nil && fault == None {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	kind := "application/json"
	if s.Events {
		kind, out = "text/event-stream", fmt.Appendf(nil, ": hello\n\nevent: message\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"notifications/progress\",\"params\":{}}\n\nevent: message\ndata: %s\n\n", out)
	}
	switch fault {
	case Before, After:
		panic(http.ErrAbortHandler)
	case Silence:
		<-r.Context().Done()
		return
	case Half:
		w.Header().Set("Content-Type", kind)
		w.Header().Set("Content-Length", fmt.Sprint(len(out)))
		_, _ = w.Write(out[:len(out)/2])
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", kind)
	_, _ = w.Write(out)
}

// variable has the configuration of a program that serves on stdin and stdout.
const variable = "MCPSERVER_CONFIG"

// Env returns the variables with which a program that calls [Main] first is this server.
func (c *Config) Env() map[string]string { return map[string]string{variable: string(encode(c))} }

// Main serves on stdin and stdout, if the environment says so, and then ends the process.
func Main() {
	text := os.Getenv(variable)
	if text == "" {
		return
	}
	s := &Server{}
	if err := json.Unmarshal([]byte(text), &s.Config); err != nil {
		panic(err)
	}
	fmt.Fprintln(os.Stderr, "serving")
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			os.Exit(0)
		}
		if strings.TrimSpace(line) == "" {
			continue
		}
		out, fault := s.answer([]byte(line))
		switch fault {
		case Before, After:
			os.Exit(1)
		case Half:
			fmt.Print(string(out[:len(out)/2]))
			os.Exit(1)
		case Silence:
			continue
		}
		if out != nil {
			fmt.Println(string(out))
		}
	}
}
