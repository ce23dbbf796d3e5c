package outbox

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/egress"
	"recourse/internal/egress/egresstest"
	"recourse/journal"
)

func TestContract(t *testing.T) {
	egresstest.Run(t, egresstest.Sender{New: func(t *testing.T, cfg egresstest.Config) egresstest.Send {
		guard, err := egress.NewGuard(cfg.Allow())
		if err != nil {
			t.Fatal(err)
		}
		o := New(Config{Egress: egress.Config{Guard: guard, TLS: cfg.TLS()}, Now: time.Now, Sinks: []Sink{{Name: "one"}}})
		t.Cleanup(o.sender.Close)
		w := o.workers["one"]
		return func(ctx context.Context, url string) egresstest.Result {
			w.URL = url
			r := w.post(ctx, journal.Delivery{Event: journal.Event{ID: uuid.Must(uuid.NewV7()), Data: json.RawMessage(`{}`)}})
			return egresstest.Result{OK: r.ok}
		}
	}})
}
