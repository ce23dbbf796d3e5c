package tracing

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"testing"

	"recourse/internal/egress"
	"recourse/internal/egress/egresstest"
)

func TestContract(t *testing.T) {
	egresstest.Run(t, egresstest.Sender{Unguarded: true, New: func(t *testing.T, cfg egresstest.Config) egresstest.Send {
		env := make(map[string]string)
		if cfg.CA != nil {
			env["OTEL_EXPORTER_OTLP_CERTIFICATE"] = filepath.Join(t.TempDir(), "ca.pem")
			if err := os.WriteFile(env["OTEL_EXPORTER_OTLP_CERTIFICATE"], cfg.CA, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		c, err := newCollector("https://collector.example", env)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Stop(context.Background()) })
		return func(ctx context.Context, text string) egresstest.Result {
			if c.url, err = url.Parse(text); err != nil {
				t.Fatal(err)
			}
			err := c.UploadTraces(ctx, nil)
			r := egresstest.Result{OK: err == nil, Reported: true, Sent: true}
			if f := new(egress.Failure); errors.As(err, &f) {
				r.Sent, r.Code = f.Sent, f.Code
			}
			return r
		}
	}})
}
