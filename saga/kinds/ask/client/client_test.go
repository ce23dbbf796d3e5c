package client

import (
	"strings"
	"testing"

	"recourse/internal/httptext"
	"recourse/saga"
	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/ask/relay"
)

// An error of a provider that quotes a key does not bring it into a journal, whole or cut.
func TestNoSecretInAnswers(t *testing.T) {
	canary := strings.Repeat("s3cr3t-", 100)
	event := `{"error": {"message": "` + strings.Repeat(".", 470) + canary + `"}}`
	for kind, body := range map[string]string{"text/event-stream": "data: " + event + "\n\n", httptext.JSON: event} {
		a := &saga.Answer{Status: 200}
		r := reader{ctx: t.Context(), relay: relay.New(), redact: httptext.NewRedactor([]string{canary}), a: a, key: "k",
			meaning: ask.NewReading(ask.Routes()[0], &ask.Question{}), in: strings.NewReader(body)}
		if err := r.all(kind); err != nil {
			t.Error(err)
		}
		if text := string(a.Body) + string(a.Content); !strings.Contains(text, "...***") || strings.Contains(text, canary[:6]) {
			t.Errorf("%s: %s", kind, text)
		}
	}
}
