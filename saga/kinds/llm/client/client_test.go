package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"recourse/examples/llmstub"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
	"recourse/saga/kinds/llm"
)

const never = time.Minute

func faulty(f llmstub.Fault) llmstub.Config {
	return llmstub.Config{APIKey: canary, Fault: func(llmstub.Call) llmstub.Fault { return f }}
}

// TestCallerAgainstStub asks the stub, which misbehaves, and says what the step makes of it.
func TestCallerAgainstStub(t *testing.T) {
	const prompt = "Tell me something about the sea and its many fishes"
	for _, tt := range []struct {
		name  string
		fault llmstub.Fault
		class journal.Class
		code  string // of the failure
		usage bool   // is known
	}{
		{"fine", llmstub.Fault{}, journal.Succeeded, "", true},
		{"slow", llmstub.Fault{Delay: 20 * time.Millisecond}, journal.Succeeded, "", true},
		{"in one piece", llmstub.Fault{NoStream: true}, journal.Succeeded, "", true},
		{"cut", llmstub.Fault{Cut: 2}, journal.Transient, "body_cut", false},
		{"cut with usage", llmstub.Fault{Cut: 2, Usage: true}, journal.Transient, "body_cut", true},
		{"without an end", llmstub.Fault{NoDone: true}, journal.Transient, "body_cut", false},
		{"silent", llmstub.Fault{Silence: 1}, journal.Transient, "timeout", false},
		{"silent with usage", llmstub.Fault{Silence: 1, Usage: true}, journal.Transient, "timeout", true},
		{"silent from the start", llmstub.Fault{Delay: never}, journal.Transient, "timeout", false},
		{"malformed", llmstub.Fault{Malformed: true}, journal.Transient, "body_invalid", false},
		{"malformed in one piece", llmstub.Fault{Malformed: true, NoStream: true}, journal.Transient, "body_invalid", false},
		{"refusal", llmstub.Fault{Refusal: true}, journal.Refused, llm.CodeRefused, true},
		{"error", llmstub.Fault{Status: 500}, journal.Transient, "http_500", false},
		{"error with usage", llmstub.Fault{Status: 500, Usage: true}, journal.Transient, "http_500", true},
		{"no such model", llmstub.Fault{Status: 404, Code: "model_not_found"}, journal.Refused, llm.CodeModel, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, faulty(tt.fault))
			cfg := priced(s.URL + "/v1")
			b := parse(t, cfg, `{model: a, prompt: "`+prompt+`"}`)
			r := render(t, b, nil)
			r.Headers["Idempotency-Key"] = "k-1"
			idle := never
			if strings.HasPrefix(tt.name, "silent") {
				idle = 300 * time.Millisecond
			}
			var beats atomic.Int32
			a := caller(t, cfg).Stream(t.Context(), r, idle, func() { beats.Add(1) })
			v := b.Judge(r, a)
			code := ""
			if v.Error != nil {
				code = v.Error.Code
			}
			if v.Class != tt.class || code != tt.code || !a.Sent {
				t.Errorf("got %s %q, want %s %q; the answer is %+v", v.Class, code, tt.class, tt.code, a)
			}
			u, ok := b.Used(r, a)
			if most := b.Reserve(r); ok != tt.usage || u.Input > most.Input || u.Output > most.Output || u.Cost.Cmp(most.Cost) > 0 {
				t.Errorf("used %v (%v), reserved %v", u, ok, most)
			}
			if a.Status > 0 && beats.Load() == 0 {
				t.Error("nobody was told that it is alive")
			}
			if v.Class == journal.Succeeded && !strings.Contains(string(v.Output), `"text":"A stub's answer to: Tell me something about the sea`) {
				t.Errorf("output %s", v.Output)
			}
			for _, bill := range s.Bills() {
				if bill.Key != "k-1" {
					t.Errorf("the key did not arrive: %+v", bill)
				}
			}
			mustNotHold(t, "the answer", fmt.Sprintf("%+v %s", a, a.Body))
		})
	}
}

// serve answers with a handler, as the provider of the model a.
func serve(t *testing.T, handler http.HandlerFunc) (llm.Config, *llm.Body, saga.Request) {
	t.Helper()
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	cfg := priced(s.URL + "/v1")
	b := parse(t, cfg, `{model: [a, b], prompt: "${input}"}`)
	return cfg, b, render(t, b, expr.MapEnv{"input": "hi ${x}"})
}

func TestWhatLeaves(t *testing.T) {
	var got *http.Request
	var body []byte
	cfg, _, r := serve(t, func(rw http.ResponseWriter, req *http.Request) {
		got = req
		body, _ = io.ReadAll(req.Body)
		http.Redirect(rw, req, "/elsewhere", http.StatusTemporaryRedirect)
	})
	a := caller(t, cfg).Call(t.Context(), r)
	if a.Status != 307 || !a.Sent || a.Code != "" {
		t.Errorf("a redirect is the answer, not %+v", a)
	}
	if got.URL.Path != "/v1/chat/completions" || got.Header.Get("Authorization") != "Bearer "+canary || got.Header.Get("User-Agent") != "recourse" ||
		got.Header.Get("Accept") != "text/event-stream" || got.Header.Get("X-Recourse-Course") != "" {
		t.Errorf("%s with %v", got.URL, got.Header)
	}
	var sent struct{ Messages []struct{ Content string } }
	if err := json.Unmarshal(body, &sent); err != nil || sent.Messages[0].Content != "hi ${x}" {
		t.Errorf("%v: %s", err, body)
	}
}

// A provider that tells the key does not get it into a journal, whole or in pieces.
func TestKeyDoesNotComeBack(t *testing.T) {
	for _, status := range []int{200, 401, 500} {
		for _, kind := range []string{"application/json", "text/event-stream", "text/plain"} {
			cfg, b, r := serve(t, func(rw http.ResponseWriter, req *http.Request) {
				rw.Header().Set("Content-Type", kind)
				rw.Header().Set("X-Echo", req.Header.Get("Authorization"))
				rw.WriteHeader(status)
				if kind == "text/event-stream" {
					half := len(canary) / 2
					fmt.Fprintf(rw, "data: {\"choices\":[{\"delta\":{\"content\":%q}}],\"error\":{\"message\":%q}}\n\n", canary[:half], canary)
					fmt.Fprintf(rw, "data: {\"choices\":[{\"delta\":{\"content\":%q}}]}\n\n", canary[half:])
					return
				}
				fmt.Fprintf(rw, `{"error":{"message":"the key %s is wrong"}}`, canary)
			})
			a := caller(t, cfg).Call(t.Context(), r)
			v := b.Judge(r, a)
			mustNotHold(t, "the answer", fmt.Sprintf("%+v %s", a, a.Body))
			mustNotHold(t, "the verdict", fmt.Sprintf("%+v %v", v, v.Error))
			if v.Error == nil || a.Headers["x-echo"] != "Bearer ***" {
				t.Errorf("%d %s: %+v", status, kind, a)
			}
		}
	}
}

func TestRetryAfter(t *testing.T) {
	f := llmstub.Fault{Status: 429, Code: "rate_limit_exceeded", RetryAfter: "7"}
	s := start(t, faulty(f))
	cfg := priced(s.URL + "/v1")
	r := render(t, parse(t, cfg, `{model: a, prompt: hi}`), nil)
	if a := caller(t, cfg).Call(t.Context(), r); a.Status != 429 || a.RetryAfter != 7*time.Second {
		t.Errorf("%+v", a)
	}
}

func TestNotSent(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + l.Addr().String() + "/v1"
	l.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	done, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name, base, code string
		ctx              context.Context
	}{
		{"nobody listens", refused, "connection", t.Context()},
		{"no such name", "http://nobody.invalid/v1", "dns", t.Context()},
		{"no TLS", strings.Replace(plain.URL, "http", "https", 1) + "/v1", "tls", t.Context()},
		{"metadata", "http://169.254.169.254/v1", "egress_denied", t.Context()},
		{"a private address", "http://10.1.2.3/v1", "egress_denied", t.Context()},
		{"stopped", plain.URL + "/v1", "not_sent", done},
	} {
		cfg := priced(tt.base)
		r := render(t, parse(t, cfg, `{model: a, prompt: hi}`), nil)
		a := caller(t, cfg).Call(tt.ctx, r)
		if a.Sent || a.Code != tt.code || a.Status != 0 || a.Detail == "" {
			t.Errorf("%s: %+v, want %s", tt.name, a, tt.code)
		}
		mustNotHold(t, tt.name, fmt.Sprintf("%+v", a))
	}
}

// A request to a base URL that the configuration no longer has gets nobody's key.
func TestForeignProvider(t *testing.T) {
	s := start(t, faulty(llmstub.Fault{}))
	r := render(t, parse(t, priced(s.URL+"/v1"), `{model: a, prompt: hi}`), nil)
	a := caller(t, priced("http://llm.test/v1")).Call(t.Context(), r)
	if a.Sent || a.Code != "secret_missing" || len(s.Bills()) > 0 {
		t.Errorf("%+v", a)
	}
}

// What ends a call while the answer is coming.
func TestInterrupted(t *testing.T) {
	s := start(t, faulty(llmstub.Fault{Silence: 1}))
	cfg := priced(s.URL + "/v1")
	r := render(t, parse(t, cfg, `{model: a, prompt: hi}`), nil)
	ctx, cancel := context.WithCancel(t.Context())
	a := caller(t, cfg).Stream(ctx, r, never, func() { cancel() })
	if !a.Sent || a.Code != "interrupted" {
		t.Errorf("cancelled: %+v", a)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if a := caller(t, cfg).Stream(ctx, r, never, func() {}); !a.Sent || a.Code != "timeout" {
		t.Errorf("at its deadline: %+v", a)
	}
}

// The timeout is for silence: an answer may take many times as long.
func TestTimeoutIsForSilence(t *testing.T) {
	const idle, gap, words = 400 * time.Millisecond, 100 * time.Millisecond, 8
	cfg, b, r := serve(t, func(rw http.ResponseWriter, req *http.Request) {
		rw.Header().Set("Content-Type", "text/event-stream")
		tick := time.NewTicker(gap)
		defer tick.Stop()
		for i := range words {
			<-tick.C
			if i%2 == 0 {
				io.WriteString(rw, ": still there\n\n")
			} else {
				io.WriteString(rw, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n")
			}
			_ = http.NewResponseController(rw).Flush()
		}
		io.WriteString(rw, "data: [DONE]\n\n")
	})
	a := caller(t, cfg).Stream(t.Context(), r, idle, func() {})
	if v := b.Judge(r, a); v.Class != journal.Succeeded || !strings.Contains(string(v.Output), `"text":"xxxx"`) {
		t.Errorf("%+v, %+v", a, v)
	}
}

// An answer is over when it says so, though the connection stays open.
func TestOpenEnd(t *testing.T) {
	for _, end := range []string{"\n\n", "\r\n\r\n", "\r\r"} {
		cfg, b, r := serve(t, func(rw http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body) // so that the server notices when the client leaves
			rw.Header().Set("Content-Type", "text/event-stream")
			io.WriteString(rw, `data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}`+end+"data: [DONE]"+end)
			_ = http.NewResponseController(rw).Flush()
			<-req.Context().Done()
		})
		a := caller(t, cfg).Stream(t.Context(), r, never, func() {})
		if v := b.Judge(r, a); v.Class != journal.Succeeded {
			t.Errorf("%q: %+v, %+v", end, a, v)
		}
	}
}

// One call is one send, whatever becomes of the connection.
func TestSentOnce(t *testing.T) {
	var calls atomic.Int32
	cfg, _, r := serve(t, func(http.ResponseWriter, *http.Request) {
		calls.Add(1)
		panic(http.ErrAbortHandler)
	})
	r.Headers["Idempotency-Key"] = "k"
	c := caller(t, cfg)
	for range 3 {
		if a := c.Call(t.Context(), r); !a.Sent || a.Code != "connection" || a.Status != 0 {
			t.Errorf("%+v", a)
		}
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("%d requests for 3 calls", n)
	}
}

// A whole step: an answer that breaks the schema is repaired, and each request is billed under a
// key of its own.
func TestRepairAgainstStub(t *testing.T) {
	s := start(t, llmstub.Config{APIKey: canary, Fault: func(c llmstub.Call) llmstub.Fault { return llmstub.Fault{BadSchema: c.Number == 1} }})
	cfg := priced(s.URL + "/v1")
	b := parse(t, cfg, `{model: a, prompt: Four queries, schema: {queries: [string], n: integer}}`)
	r, c := render(t, b, nil), caller(t, cfg)
	a := c.Call(t.Context(), r)
	v := b.Judge(r, a)
	if v.Class != journal.Refused || v.Error.Code != llm.CodeMismatch {
		t.Fatalf("%+v", v)
	}
	hint, now := b.Next(r, a, v, 1)
	r, err := b.Follow(r, hint)
	if err != nil || !now {
		t.Fatal(err, now)
	}
	a = c.Call(t.Context(), r)
	if v = b.Judge(r, a); v.Class != journal.Succeeded || !strings.Contains(string(v.Output), `"json":{"n":7,"queries":["queries 1",`) {
		t.Errorf("%+v %s", v, v.Output)
	}
}

var _ interface {
	Call(context.Context, saga.Request) saga.Answer
	Stream(context.Context, saga.Request, time.Duration, func()) saga.Answer
} = (*Caller)(nil)
