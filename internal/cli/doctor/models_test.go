package doctor

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"recourse/internal/egress"
	"recourse/saga/kinds/llm"
)

// Each provider is asked as its API wants it: by the path and the header of requests to its models.
func TestDoctorModels(t *testing.T) {
	t.Parallel()
	const key = "sk-right"
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/v1/models":
			w.WriteHeader(http.StatusNotFound)
		case r.Header.Get("Anthropic-Version") != "" && r.Header.Get("X-Api-Key") == key && r.Header.Get("Authorization") == "":
		case r.Header.Get("Authorization") == "Bearer "+key && r.Header.Get("X-Api-Key") == "":
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer s.Close()
	for _, tt := range []struct {
		api          llm.API
		base, key    string
		result, says string
	}{
		{llm.OpenAIAPI, s.URL + "/v1", key, fine, "accepts the key"},
		{llm.OpenAIAPI, s.URL, key, unwise, "has its version, as in https://api.openai.com/v1"},
		{llm.AnthropicAPI, s.URL, key, fine, "accepts the key"},
		{llm.AnthropicAPI, s.URL + "/", key, fine, "accepts the key"},
		{llm.AnthropicAPI, s.URL, "sk-wrong", broken, "refuses the key (HTTP 401)"},
		{llm.AnthropicAPI, s.URL + "/v1", key, unwise, "has no version, as in https://api.anthropic.com"},
	} {
		f := finding(t, func(d *doctor) {
			d.calls = egress.Config{Guard: egress.AllowAll()}
			d.provider(t.Context(), llm.Provider{Name: "ours", API: tt.api, BaseURL: tt.base, APIKey: llm.Secret(tt.key)})
		})
		if f.Result != tt.result || !strings.Contains(f.Text+" "+f.Fix, tt.says) || strings.Contains(f.Text+f.Fix, tt.key) {
			t.Errorf("%+v: %+v", tt, f)
		}
	}
}
