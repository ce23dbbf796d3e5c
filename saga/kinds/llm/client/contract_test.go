package client

import (
	"context"
	"encoding/json"
	"testing"

	"recourse/internal/egress"
	"recourse/internal/egress/egresstest"
	"recourse/saga"
	"recourse/saga/kinds/llm"
)

func TestContract(t *testing.T) {
	egresstest.Run(t, egresstest.Sender{New: func(t *testing.T, cfg egresstest.Config) egresstest.Send {
		guard, err := egress.NewGuard(cfg.Allow())
		if err != nil {
			t.Fatal(err)
		}
		c := New(Config{Egress: egress.Config{Guard: guard, TLS: cfg.TLS()}})
		t.Cleanup(c.Close)
		return func(ctx context.Context, url string) egresstest.Result {
			c.LLM = llm.Config{Providers: []llm.Provider{{Name: "it", BaseURL: url}}}
			a := c.Call(ctx, saga.Request{Method: "POST", URL: url + "/chat/completions", Body: json.RawMessage(`{}`)})
			return egresstest.Result{OK: a.Status == 200 && a.Code == "", Reported: true, Sent: a.Sent, Code: a.Code}
		}
	}})
}
