package client

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"recourse/internal/egress"
	"recourse/internal/httptext"
	"recourse/saga"
	"recourse/saga/kinds/mcp"
)

// canary is longer than what messages quote of a server.
var canary = strings.Repeat("s3cr3t-", 100)

// A server that echoes its credentials does not write them into a journal, in whole or in part.
func TestNoSecretInAnswers(t *testing.T) {
	answers := map[string]func(w http.ResponseWriter, id int64, key string){
		"a result": func(w http.ResponseWriter, id int64, key string) {
			fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": %d, "result": {"content": [{"type": "text", "text": %q}]}}`, id, key)
		},
		"an error": func(w http.ResponseWriter, id int64, key string) {
			fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": %d, "error": {"code": -32603, "message": %q}}`, id, strings.Repeat(".", 450)+key)
		},
		"a page": func(w http.ResponseWriter, _ int64, key string) {
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, strings.Repeat(".", maxErrorBody-50)+key)
		},
		"a page that breaks off": func(w http.ResponseWriter, _ int64, key string) {
			w.Header().Set("Content-Length", "1000")
			w.WriteHeader(http.StatusInternalServerError)
			_, _ = io.WriteString(w, key[:50])
		},
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				var q struct {
					ID     int64
					Method string
				}
				if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
					t.Error(err)
				}
				result := ""
				switch q.Method {
				case "server/discover":
					result = `{"supportedVersions": ["2026-07-28"]}`
				case "tools/list":
					result = `{"tools": [{"name": "book"}]}`
				default:
					answer(w, q.ID, r.Header.Get("X-Api-Key"))
					return
				}
				fmt.Fprintf(w, `{"jsonrpc": "2.0", "id": %d, "result": %s}`, q.ID, result)
			}))
			defer s.Close()
			guard, err := egress.NewGuard([]string{"127.0.0.1"})
			if err != nil {
				t.Fatal(err)
			}
			c := New(Config{MCP: mcp.Config{{Name: "s", URL: s.URL, Headers: map[string]string{"X-Api-Key": "${secrets.KEY}"}}},
				Egress: egress.Config{Guard: guard}, Secret: func(string) (string, error) { return canary, nil }})
			defer c.Close()
			a := c.Call(t.Context(), book)
			if text := string(saga.Encode(a)); !a.Sent || !strings.Contains(text, "***") || strings.Contains(text, canary[:6]) {
				t.Errorf("the answer is %.200s … of %d bytes", text, len(text))
			}
		})
	}
}

// The end of a program's stderr has no part of a secret, however long that is.
func TestNoSecretInTail(t *testing.T) {
	for name, text := range map[string]string{
		"in the middle":  "the key " + canary + " is wrong",
		"at the end":     "cannot log in with the key " + canary,
		"cut before":     canary + strings.Repeat(" is wrong", kept/len(" is wrong")),
		"not whole yet":  "the key " + canary[:len(canary)-10],
		"in many pieces": strings.Repeat(canary+" is wrong\n", 50),
	} {
		last := &tail{redact: httptext.NewRedactor([]string{canary})}
		for len(text) > 0 {
			n := min(len(text), 64)
			_, _ = last.Write([]byte(text[:n]))
			text = text[n:]
		}
		if got := last.String(); got == "" || len(got) > maxTail || strings.Contains(got, canary[:6]) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
