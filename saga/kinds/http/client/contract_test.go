package client

import (
	"context"
	"testing"

	"recourse/internal/egress"
	"recourse/internal/egress/egresstest"
)

func TestContract(t *testing.T) {
	egresstest.Run(t, egresstest.Sender{New: func(t *testing.T, cfg egresstest.Config) egresstest.Send {
		guard, err := egress.NewGuard(cfg.Allow())
		if err != nil {
			t.Fatal(err)
		}
		c := newCaller(t, Config{Egress: egress.Config{Guard: guard, TLS: cfg.TLS()}})
		return func(ctx context.Context, url string) egresstest.Result {
			a := c.Call(ctx, post(url, `{}`))
			return egresstest.Result{OK: of200(a), Reported: true, Sent: a.Sent, Code: a.Code}
		}
	}})
}
