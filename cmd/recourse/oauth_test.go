package main

import (
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/cli"
	"recourse/internal/test/issuer"
)

// A server takes the tokens of the issuer in its config file or its flags, and never logs one;
// `doctor` fetches the issuer's keys.
func TestOAuth(t *testing.T) {
	t.Parallel()
	i := issuer.New(t)
	config := file(t, "c.yaml", "public-url: https://recourse.example\nmcp_oauth: {issuer: \""+i.URL+"\", audience: wrong, jwks_url: \""+i.JWKS()+"\"}\n")
	s := serve(t, nil, "--database", filepath.Join(t.TempDir(), "a.db"), "--config", config, "--mcp-oauth-audience", issuer.Audience, "--log-level", "debug")
	ok(t, s.env, "definitions", "apply", file(t, "a.yaml", "action: refund\nagents: auto\nhttp: GET https://pay.example/\n"))
	send := func(method, path, token string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, s.url+path, strings.NewReader(`{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		if token != "" {
			r.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp, string(body)
	}
	resp, _ := send("POST", "/mcp", "")
	if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != http.StatusUnauthorized || !strings.Contains(got, `resource_metadata="https://recourse.example/.well-known/oauth-protected-resource/mcp"`) {
		t.Errorf("%d, WWW-Authenticate %q", resp.StatusCode, got)
	}
	if resp, body := send("GET", "/.well-known/oauth-protected-resource/mcp", ""); resp.StatusCode != http.StatusOK || !strings.Contains(body, i.URL) || !strings.Contains(body, "action:refund") {
		t.Errorf("metadata: %d %s", resp.StatusCode, body)
	}
	token := i.Token("ann", "action:refund")
	if resp, body := send("POST", "/mcp", token); resp.StatusCode != http.StatusOK || !strings.Contains(body, `"refund"`) {
		t.Errorf("tools: %d %s", resp.StatusCode, body)
	}
	if resp, _ := send("POST", "/mcp", i.Token("ann", "action:refund", issuer.Claims{"aud": "wrong"})); resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("the flag does not take precedence: %d", resp.StatusCode)
	}
	if strings.Contains(s.log.String(), "eyJ") {
		t.Error("the log has a token")
	}
	if strings.Contains(s.log.String(), "server connecting") {
		t.Errorf("the log has a line for each request:\n%s", s.log.String())
	}

	out := ok(t, nil, "doctor", "--config", config, "--database", filepath.Join(t.TempDir(), "b.db"))
	if !strings.Contains(out, i.URL+" has 3 keys") {
		t.Errorf("doctor:\n%s", out)
	}
	i.Down.Store(true)
	if r := run(t, nil, "doctor", "--config", config, "--database", filepath.Join(t.TempDir(), "b.db")); r.code != cli.Failed || !strings.Contains(r.out, "jwks_url") {
		t.Errorf("doctor without the issuer: %d\n%s", r.code, r.out)
	}
}
