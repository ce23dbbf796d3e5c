package client

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/httptext"
	"recourse/saga"
	"recourse/saga/kinds/llm"
)

func TestStreams(t *testing.T) {
	const head = `{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":`
	first := `data: {"id":"1","model":"a-1","choices":[{"index":0,"delta":{"role":"assistant","content":"Hi"},"finish_reason":null}]}` + "\n\n"
	named := `{"id":"1","object":"chat.completion","model":"a-1","choices":[{"index":0,"message":{"role":"assistant","content":`
	used := `"usage":{"prompt_tokens":3,"completion_tokens":1}}`
	for _, tt := range []struct{ name, in, code, want string }{
		{"whole", first + `data: {"choices":[{"delta":{"content":" there"},"finish_reason":null}],"usage":null}` + "\n\n" + `data: {"choices":[{"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
			`data: {"choices":[],` + used + "\n\ndata: [DONE]\n\n", "", named + `"Hi there","refusal":null},"finish_reason":"stop"}],` + used},
		{"without DONE", first + `data: {"choices":[{"delta":{},"finish_reason":"length"}]}`, "", named + `"Hi","refusal":null},"finish_reason":"length"}]}`},
		{"without a finish_reason", first + "data: [DONE]\n\n", "", named + `"Hi","refusal":null},"finish_reason":null}]}`},
		{"nothing counts after DONE", "data: [DONE]\n\n" + first, "", head + `"","refusal":null},"finish_reason":null}]}`},
		{"cut", first, "body_cut", named + `"Hi","refusal":null},"finish_reason":null}]}`},
		{"cut with usage", first + `data: {"choices":[],` + used + "\n\n", "body_cut", named + `"Hi","refusal":null},"finish_reason":null}],` + used},
		{"empty", "", "body_cut", head + `"","refusal":null},"finish_reason":null}]}`},
		{"broken", first + "data: {oops\n\n", "body_invalid", named + `"Hi","refusal":null},"finish_reason":null}]}`},
		{"not objects", "data: 1\n\n", "body_invalid", head + `"","refusal":null},"finish_reason":null}]}`},
		{"events without a blank line", `data: {"choices":[{"delta":{"content":"a"}}]}` + "\n" + `data: {"choices":[{"delta":{"content":"b"}}]}` + "\ndata: [DONE]\n", "", head + `"ab","refusal":null},"finish_reason":null}]}`},
		{"one event on several lines", "data: {\"choices\":\ndata: [{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n", "", head + `"a","refusal":null},"finish_reason":null}]}`},
		{"messages for deltas", `data: {"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n", "", head + `"a","refusal":null},"finish_reason":"stop"}]}`},
		{"other choices", `data: {"choices":[{"index":1,"delta":{"content":"no"}},{"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\n", "", head + `"a","refusal":null},"finish_reason":"stop"}]}`},
		{"a refusal", `data: {"choices":[{"delta":{"refusal":"I "}}]}` + "\n\n" + `data: {"choices":[{"delta":{"refusal":"won't"},"finish_reason":"stop"}]}` + "\n\n", "", head + `"","refusal":"I won't"},"finish_reason":"stop"}]}`},
		{"an error", first + `data: {"error":{"message":"overloaded","code":503}}` + "\n\n", "", named + `"Hi","refusal":null},"finish_reason":null}],"error":{"message":"overloaded","code":503}}`},
		{"an error that no journal takes", `data: {"error":{"message":"\ud800"}}` + "\n\n", "", head + `"","refusal":null},"finish_reason":null}],"error":{}}`},
		{"a secret", `data: {"choices":[{"delta":{"content":"sk-canary"}}]}` + "\n\n" + `data: {"choices":[{"delta":{"content":"-5f20c1"},"finish_reason":"stop"}]}` + "\n\n", "", head + `"***","refusal":null},"finish_reason":"stop"}]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := saga.Answer{Status: 200}
			why := read(context.Background(), &a, "text/event-stream; charset=utf-8", strings.NewReader(tt.in), httptext.NewRedactor([]string{canary}))
			if a.Code != tt.code || (why == "") != (a.Code == "") {
				t.Errorf("code %q (%s), want %q", a.Code, why, tt.code)
			}
			if diff := cmp.Diff(tt.want, string(a.Body)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBounds(t *testing.T) {
	var redact *httptext.Redactor
	word := `data: {"choices":[{"delta":{"content":"` + strings.Repeat("x", 1<<20) + `"}}]}` + "\n\n"
	for name, in := range map[string]string{"a long line": "data: " + strings.Repeat("x", llm.MaxBody+1), "a long event": strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 9), "a long text": strings.Repeat(word, 9)} {
		a := saga.Answer{Status: 200}
		if read(t.Context(), &a, "text/event-stream", strings.NewReader(in), redact); a.Code != "body_too_large" {
			t.Errorf("%s: code %q", name, a.Code)
		}
	}
	a := saga.Answer{Status: 200}
	if read(t.Context(), &a, "application/json", strings.NewReader(`"`+strings.Repeat("x", llm.MaxBody)+`"`), redact); a.Code != "body_too_large" || a.Body != nil {
		t.Errorf("a long document: code %q", a.Code)
	}
}

// A stream that has been read to [DONE] leaves its connection for the next one, unless the provider
// does not end it.
func TestStreamsShareAConnection(t *testing.T) {
	for _, tt := range []struct {
		name  string
		ends  bool
		conns int32
	}{{"the stream ends", true, 1}, {"the stream stays open", false, 3}} {
		t.Run(tt.name, func(t *testing.T) {
			var conns atomic.Int32
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, `data: {"choices":[{"delta":{"content":"a"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
				_ = http.NewResponseController(w).Flush()
				if tt.ends {
					time.Sleep(time.Millisecond) // the end comes in a packet of its own
				} else {
					<-r.Context().Done()
				}
			}))
			s.Config.ConnState = func(_ net.Conn, is http.ConnState) {
				if is == http.StateNew {
					conns.Add(1)
				}
			}
			s.Start()
			defer s.Close()
			cfg := priced(s.URL + "/v1")
			c := caller(t, cfg)
			defer c.Close()
			if tt.ends {
				c.drains = time.Minute // the end may come late on a busy machine
			}
			r := render(t, parse(t, cfg, `{model: a, prompt: hi}`), nil)
			for range 3 {
				if a := c.Call(t.Context(), r); a.Code != "" || !strings.Contains(string(a.Body), `"content":"a"`) {
					t.Fatalf("%s %s: %s", a.Code, a.Detail, a.Body)
				}
			}
			if n := conns.Load(); n != tt.conns {
				t.Errorf("%d connections, want %d", n, tt.conns)
			}
		})
	}
}
