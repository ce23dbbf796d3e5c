package egress

import (
	"context"
	"testing"

	"recourse/internal/egress/egresstest"
)

func TestContract(t *testing.T) {
	egresstest.Run(t, egresstest.Sender{New: func(t *testing.T, cfg egresstest.Config) egresstest.Send {
		c := newCaller(t, Config{Guard: mustGuard(t, cfg.Allow()...), TLS: cfg.TLS()})
		return func(ctx context.Context, url string) egresstest.Result {
			a := c.Call(ctx, post(url, `{}`))
			return egresstest.Result{OK: a.ok(), Reported: true, Sent: a.Sent, Code: a.Code}
		}
	}})
}
