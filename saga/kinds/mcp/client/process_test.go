package client

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"recourse/internal/egress"
	"recourse/saga"
	"recourse/saga/kinds/mcp"
)

// This test is also the program of a server, which does one thing after another, as most do.
func TestMain(m *testing.M) {
	gate := os.Getenv("GATE")
	if gate == "" {
		os.Exit(m.Run())
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		var q struct {
			ID     int64
			Method string
		}
		_ = json.Unmarshal(in.Bytes(), &q) // a request that cannot be read gets no answer
		out := "{}"
		switch q.Method {
		case "initialize":
			out = `{"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x", "version": "1"}}`
		case "tools/list":
			out = `{"tools": [{"name": "book"}]}`
		case "tools/call":
			if c, err := net.Dial("tcp", gate); err == nil { //nolint:gosec // the test listens there
				_, _ = io.Copy(io.Discard, c) // until the test closes the connection
			}
			out = fmt.Sprintf(`{"content": [{"type": "text", "text": "booked with a token of %d bytes"}]}`, len(os.Getenv("TOKEN")))
		}
		if q.ID != 0 {
			fmt.Printf(`{"jsonrpc": "2.0", "id": %d, "result": %s}`+"\n", q.ID, out)
		}
	}
	os.Exit(0)
}

var book = saga.Request{Tool: &saga.ToolRequest{Server: "s", Tool: "book"}}

// A call that gives up does not end the call of another saga that keeps the program busy. Once no
// call waits for a program that does not answer, the next call starts it again.
func TestBusyProgram(t *testing.T) {
	gate, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	var later atomic.Int64
	c := New(Config{MCP: mcp.Config{{Name: "s", Command: os.Args[0], Env: map[string]string{"GATE": gate.Addr().String()}}},
		Now: func() time.Time { return time.Now().Add(time.Duration(later.Load())) }})
	defer c.Close()
	begin := func(ctx context.Context) (chan saga.Answer, net.Conn) {
		t.Helper()
		answer := make(chan saga.Answer, 1)
		go func() { answer <- c.Call(ctx, book) }()
		atWork, err := gate.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return answer, atWork
	}
	givesUp := func() {
		later.Add(int64(2 * listFor)) // it lists the tools again
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if a := c.Call(ctx, book); a.Sent || a.Code != mcp.CodeNotReady && a.Code != egress.CodeTimeout {
			t.Errorf("the call that gave up: %+v", a)
		}
	}
	first, atWork := begin(t.Context())
	givesUp()
	_ = atWork.Close()
	if a := <-first; a.Status != 200 {
		t.Errorf("the call that was being made: %+v", a)
	}

	ctx, cancel := context.WithCancel(t.Context())
	left, leftAtWork := begin(ctx)
	cancel()
	if a := <-left; !a.Sent || a.Code != egress.CodeInterrupted {
		t.Errorf("the call that was left: %+v", a)
	}
	stuck := c.servers["s"].link.(*process)
	go func() {
		<-stuck.over
		_ = leftAtWork.Close() // it sees the end of its stdin
	}()
	givesUp()
	last, atWork := begin(t.Context())
	_ = atWork.Close()
	if a := <-last; a.Status != 200 || c.servers["s"].link == stuck {
		t.Errorf("the call after that: %+v", a)
	}
}

// A program whose secret was replaced is started again. A call that waits there gets its answer
// first.
func TestRotatedSecret(t *testing.T) {
	gate, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	var secret atomic.Value
	c := New(Config{MCP: mcp.Config{{Name: "s", Command: os.Args[0], Env: map[string]string{"GATE": gate.Addr().String(), "TOKEN": "${secrets.T}"}}},
		Secret: func(string) (string, error) { return secret.Load().(string), nil }})
	defer c.Close()
	program := func() *process {
		s := c.servers["s"]
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.link.(*process)
	}
	begin := func() (chan saga.Answer, net.Conn) {
		t.Helper()
		answer := make(chan saga.Answer, 1)
		go func() { answer <- c.Call(t.Context(), book) }()
		atWork, err := gate.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return answer, atWork
	}
	ends := func(answer chan saga.Answer, atWork net.Conn, token string) *process {
		t.Helper()
		_ = atWork.Close()
		want := fmt.Sprintf("a token of %d bytes", len(token))
		if a := <-answer; a.Status != 200 || !strings.Contains(string(a.Body), want) {
			t.Errorf("%+v, want %s: %s", a, want, a.Body)
		}
		return program()
	}
	const first, second, third = "the-first-secret", "the-second-secret", "a-third-secret"
	secret.Store(first)
	slow, slowAtWork := begin()
	old := program()
	secret.Store(second)
	next, atWork := begin()
	now := ends(next, atWork, second)
	if now == old || !old.usable() {
		t.Error("the program in which a call waits was ended")
	}
	if ends(slow, slowAtWork, first) != now {
		t.Error("the program was started again")
	}
	<-old.exited
	next, atWork = begin()
	if ends(next, atWork, second) != now {
		t.Error("the program was started again, although its secret is the same")
	}
	secret.Store(third)
	next, atWork = begin()
	<-now.exited // no call waited there
	last := ends(next, atWork, third)

	// A node that stops ends also the programs with earlier secrets.
	_, slowAtWork = begin()
	defer slowAtWork.Close()
	secret.Store(first)
	next, atWork = begin()
	ends(next, atWork, first)
	c.Close()
	select {
	case <-last.exited:
	default:
		t.Error("a program with an earlier secret goes on")
	}
}

// A line that has begun is written to its end, so that the program can read the next one.
func TestLinesAreWhole(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = out.Close() }()
	p := &process{s: &server{}, in: in, errors: &tail{}, writing: make(chan struct{}, 1), over: make(chan struct{})}
	ctx, cancel := context.WithCancel(t.Context())
	long := strings.Repeat("x", 1<<20) // more than a pipe holds
	wrote := make(chan *failure, 1)
	go func() { wrote <- p.write(ctx, []byte(long)) }()
	lines := bufio.NewReader(out)
	if _, err := lines.Peek(1); err != nil { // the line has begun
		t.Fatal(err)
	}
	cancel()
	if f := <-wrote; f == nil || !f.sent || f.code != egress.CodeInterrupted {
		t.Errorf("the line that was interrupted: %+v", f)
	}
	if f := p.write(ctx, []byte("unsent")); f == nil || f.sent {
		t.Errorf("a line after the end of its context: %+v", f)
	}
	go func() { wrote <- p.write(t.Context(), []byte("next")) }()
	for _, want := range []string{long, "next"} {
		if line, err := lines.ReadString('\n'); line != want+"\n" {
			t.Errorf("read %.20q of %d bytes (%v), want %.20q", line, len(line), err, want)
		}
	}
	if f := <-wrote; f != nil || !p.usable() {
		t.Errorf("the next line: %+v", f)
	}
}
