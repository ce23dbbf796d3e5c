package signal_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds/kindtest"
	"recourse/saga/kinds/signal"
)

func TestSignal(t *testing.T) {
	step, errs := kindtest.Suite{Kind: signal.Kind()}.Parse(`{signal: com.shop.paid, timeout: 2h}`)
	if errs != nil {
		t.Fatal(errs)
	}
	body := step.Body.(*signal.Body)
	a, err := body.Await(nil)
	if err != nil || a.Signal != "com.shop.paid" || a.Approval != nil || step.Timeout != 2*time.Hour {
		t.Errorf("%+v, %v, timeout %v", a, err, step.Timeout)
	}
	if out, f := body.Expired(a, time.Time{}); out != nil || f == nil || f.Code != "signal_timeout" {
		t.Errorf("expired: %s %+v", out, f)
	}
}

func TestSignals(t *testing.T) {
	def, errs := dsl.Parse("t", []byte("saga: x\nsteps:\n  - {id: a, signal: paid}\n  - {id: b, signal: collected}\n  - {id: c, signal: paid}\n"), dsl.Options{Kinds: []dsl.Kind{signal.Kind()}})
	if errs != nil {
		t.Fatal(errs)
	}
	if d := cmp.Diff([]string{"collected", "paid"}, def.Signals()); d != "" {
		t.Error(d)
	}
	if _, ok := def.ByID["a"].Body.(saga.Receiver); !ok {
		t.Error("a signal step receives")
	}
}
