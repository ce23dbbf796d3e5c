package agent

import (
	"encoding/json"
	"slices"
	"testing"

	"recourse/internal/cli"
	"recourse/internal/cli/remote"
)

// The process gets the routes that the server names, with its own token as the key, and none of the
// variables that are for the server.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	const server = "http://127.0.0.1:8080"
	set := func(token string) []string {
		return []string{"OPENAI_BASE_URL=" + server + "/llm/openai/v1", "OPENAI_API_KEY=" + token, "ANTHROPIC_BASE_URL=https://llm.example/anthropic", "ANTHROPIC_API_KEY=" + token, "RECOURSE_MCP_URL=" + server + "/mcp"}
	}
	for _, tt := range []struct {
		answer string
		want   func(token string) []string
	}{
		{`{"life": 1}`, func(string) []string { return nil }},
		{`{"life": 1, "llm": {"openai": "/llm/openai/v1", "anthropic": "https://llm.example/anthropic"}, "mcp": "/mcp"}`, set},
		{`{"life": 1, "llm": {"openai": "/llm/openai/v1"}}`, func(token string) []string { return set(token)[:2] }},
	} {
		env := []string{"PATH=/bin", "RECOURSE_API_KEY=rk_1", "RECOURSE_SECRET_PAY=s", "RECOURSE_SECRET_DIR=/s", "RECOURSE_LLM_API_KEY=k", "RECOURSE_DATABASE=postgres://u:p@h/d", "RECOURSE_VAR_pay=http://pay"}
		r := &runner{app: &cli.App{Ctx: t.Context(), Env: env}, flags: remote.ServerFlags{Server: server + "/"}, session: session{}}
		r.session.ID = "01890a5d-ac96-774b-bcce-b302099a8057"
		var d attached
		if err := json.Unmarshal([]byte(tt.answer), &d); err != nil {
			t.Fatal(err)
		}
		r.life = r.newLife("secret", d)
		r.life.stop()
		token := r.token("secret")
		want := slices.Concat([]string{"PATH=/bin", "RECOURSE_VAR_pay=http://pay"}, tt.want(token), []string{"RECOURSE_URL=" + server, "RECOURSE_SESSION=" + r.session.ID,
			"RECOURSE_TOKEN=" + token, "RECOURSE_LIFE=1", "RECOURSE_RESUMED=false", "RECOURSE_INPUT=null"})
		if got := r.environment(); !slices.Equal(got, want) {
			t.Errorf("%s:\n%q\nwant\n%q", tt.answer, got, want)
		}
	}
}
