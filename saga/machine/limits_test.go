package machine_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// begun compiles a definition and starts a saga of it.
func begun(t *testing.T, src string) *player {
	t.Helper()
	def, errs := dsl.Parse("t", []byte(src), dsl.Options{Kinds: kinds.With(kinds.Options{LLM: models})})
	if errs != nil {
		t.Fatal(errs)
	}
	p := &player{t: t, def: def, m: machine.New(def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001")))}
	p.write(p.m.Start(saga.StartedData{Definition: "x", Version: 1, SHA256: def.SHA256, Input: json.RawMessage("null")}))
	return p
}

// dispatched returns what the machine sends next, if it sends something.
func dispatched(p *player) (machine.Dispatch, bool) {
	ds := p.m.Decide()
	if len(ds) == 0 {
		return machine.Dispatch{}, false
	}
	d, ok := ds[len(ds)-1].(machine.Dispatch)
	return d, ok
}

// A budget of tokens covers an attempt that takes the last of them, and none that takes one more.
func TestLastToken(t *testing.T) {
	src := "saga: x\nbudget: {tokens: %d}\nsteps:\n  - {id: a, llm: {model: small, prompt: hello, max_tokens: 10}}\n"
	d, ok := dispatched(begun(t, fmt.Sprintf(src, 100_000)))
	if !ok {
		t.Fatal("nothing is sent")
	}
	var intent saga.IntentData
	if err := json.Unmarshal(saga.Encode(d.Intent.Data), &intent); err != nil || intent.ReserveTokens <= 10 {
		t.Fatalf("reserved: %d tokens, %v", intent.ReserveTokens, err)
	}
	for budget, want := range map[int64]bool{intent.ReserveTokens: true, intent.ReserveTokens - 1: false} {
		if _, ok := dispatched(begun(t, fmt.Sprintf(src, budget))); ok != want {
			t.Errorf("a budget of %d tokens for an attempt of %d: sent: %v", budget, intent.ReserveTokens, ok)
		}
	}
}

// While a saga is cancelled, the child that a step waits for gets a message that says so, and in
// which mode; one that has reported its end does not.
func TestOrphansAreCancelled(t *testing.T) {
	for _, mode := range []string{"", "stop"} {
		p := begun(t, "saga: x\nsteps:\n  - {id: kid, run: child}\n")
		d, ok := dispatched(p)
		if !ok {
			t.Fatal("the child is not asked for")
		}
		p.write(d.Intent)
		if list := p.m.Orphaned(); len(list) > 0 {
			t.Errorf("the child of a saga that continues gets %v", list)
		}
		order := saga.Command{Do: saga.Cancel{Mode: mode}, Reason: "enough"}
		r, err := p.m.Validate(uuid.Must(uuid.NewV7()), order)
		if err != nil {
			t.Fatal(err)
		}
		p.write(r)
		list := p.m.Orphaned()
		if len(list) != 1 {
			t.Fatalf("mode %q: %d messages, want one", mode, len(list))
		}
		var c saga.Command
		if err := json.Unmarshal(list[0].Data, &c); err != nil {
			t.Fatal(err)
		}
		kid := d.Send.Request.Child.Saga
		if list[0].Saga.String() != kid || c.Do != (saga.Cancel{Mode: mode}) {
			t.Errorf("mode %q: %s gets %+v; the child is %s", mode, list[0].Saga, c, kid)
		}
		reported := saga.TaskResult{Outcome: saga.TaskFailed, Error: &saga.Failure{Code: "cancelled", Title: "cancelled"}}
		r, err = p.m.RecordOutcome("kid", journal.Do, 1, reported.Answer(), p.now, 0)
		if err != nil {
			t.Fatal(err)
		}
		p.write(r)
		if list := p.m.Orphaned(); len(list) > 0 {
			t.Errorf("a child that has ended gets %v", list)
		}
	}
}

// A request that is sent again over a doubt must have left before the remote service may forget its
// key; one that follows what surely had no effect may leave whenever it does.
func TestResendEndsWithTheWindow(t *testing.T) {
	for answer, doubt := range map[string]bool{"503": true, "refused": false} {
		p := begun(t, "saga: x\nsteps:\n  - {id: pay, http: \"POST https://pay.example/x\", body: {}, key_window: 1m, retry: {initial: 1s, jitter: 0}}\n")
		p.script = []string{"pay do: " + answer}
		sent := p.m.At()
		p.step()
		if d, ok := dispatched(p); ok {
			t.Fatalf("sent again at once: %+v", d)
		}
		p.step() // the backoff is over
		d, ok := dispatched(p)
		if !ok {
			t.Fatal("it is not sent again")
		}
		if want := sent.Add(time.Minute); d.Send.Until.Equal(want) != doubt || d.Send.Until.IsZero() == doubt {
			t.Errorf("after %s it may be sent until %s; the window ends at %s", answer, d.Send.Until, want)
		}
	}
}
