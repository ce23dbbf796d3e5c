package api

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"recourse/saga/machine"
)

// TestRepeat: after a divergence, a new call waits for a person if an earlier life has called the
// action and this life has not asked for that call. The answer of the same effect is that of the
// earlier call, in this life and in later ones.
func TestRepeat(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, "")
		ask := func(time string) {
			t.Helper()
			a.ask(modelRequests[0].path, `{"model": "m", "messages": [{"role": "user", "content": "It is `+time+`."}]}`).want(200)
		}
		const first, second = `{"action": "charge", "input": {"order": "A", "amount": 10}}`, `{"action": "charge", "input": {"order": "A\u202e", "amount": 11}}`
		ask("12:00")
		one := a.call(first)
		a.next()
		ask("12:05")

		var v machine.CallView
		a.do("POST", "/calls", strings.TrimSuffix(second, "}")+`, "wait": "100ms"}`).want(http.StatusAccepted).into(&v)
		if v.Status != machine.CallWaiting || v.WaitsFor != "repeat" || v.Inbox == "" {
			t.Fatalf("the call: %+v", v)
		}
		var inbox struct {
			Data []struct {
				ID      string          `json:"id"`
				Path    string          `json:"path"`
				Shown   json.RawMessage `json:"shown"`
				Actions []string        `json:"actions"`
				ETag    string          `json:"etag"`
			} `json:"data"`
		}
		x.do("GET", "/v1/inbox?kind=repeat&saga="+a.id, "").want(200).into(&inbox)
		if len(inbox.Data) != 1 || inbox.Data[0].ID != v.Inbox || inbox.Data[0].Path != "charge[1]" || strings.Join(inbox.Data[0].Actions, " ") != "same new" {
			t.Fatalf("inbox: %+v", inbox)
		}
		for _, want := range []string{`{"call":"charge[1]","life":2,"input":{"amount":11,"order":"A\\u{202e}"}}`, `{"call":"charge[0]","life":1,"input":{"amount":10,"order":"A"}}`, `"pointer":"/messages/0/content"`} {
			if !strings.Contains(string(inbox.Data[0].Shown), want) {
				t.Errorf("shown: %s, without %s", inbox.Data[0].Shown, want)
			}
		}
		if text := string(a.do("GET", "/summary", "").want(200).Body); !strings.Contains(text, "waits for: repeat") {
			t.Errorf("summary: %s", text)
		}
		a.do("POST", "/calls/charge%5B1%5D/undo", `{"reason": "no"}`).problem(409, "nothing_to_undo")
		a.do("POST", "/commit", "").problem(409, "calls_open")

		resolve := func(outcome string, more ...header) *answer {
			return x.do("POST", "/v1/sagas/"+a.id+"/steps/charge%5B1%5D/resolve", `{"outcome": "`+outcome+`", "reason": "compared"}`, append(more, header{"If-Match", `"` + inbox.Data[0].ETag + `"`})...)
		}
		resolve("same", header{"Authorization", "Bearer " + a.token()}, outside).problem(401, "key_invalid")
		resolve("retry").problem(409, "bad_outcome")
		// Another action does not wait, and the journal grows.
		other := a.call(`{"action": "mail", "input": {"order": "A", "text": "x"}}`)
		if other.Path != "mail[0]" {
			t.Errorf("another action: %+v", other)
		}
		resolve("same").want(200)
		v = a.call(second)
		if v.Path != "charge[1]" || string(v.Output) != string(one.Output) || v.Undo != machine.UndoNone || v.Key != one.Key || v.Cost != "0" {
			t.Errorf("the same: %+v, and the earlier call %+v", v, one)
		}
		a.do("POST", "/calls/charge%5B1%5D/undo", `{"reason": "no"}`).problem(409, "nothing_to_undo")
		resolve("new").problem(412, "changed")

		a.next()
		if v = a.call(second); v.Path != "charge[1]" || !v.Replayed || string(v.Output) != string(one.Output) {
			t.Errorf("in a later life: %+v", v)
		}
		if n := len(x.world.Ledger().Service("pay").Effects()); n != 1 {
			t.Errorf("%d charges, want 1", n)
		}
		// This life has asked for that effect, so a new call does not wait.
		if v = a.call(`{"action": "charge", "input": {"order": "B", "amount": 10}}`); v.Path != "charge[2]" {
			t.Errorf("a new call: %+v", v)
		}
		a.do("POST", "/commit", "").want(200)
	})
}

// TestRepeatNew: a person says that the call is another one. An abort sends nothing for a call that
// waits, and undoes the others.
func TestRepeatNew(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	waits := func(body string) {
		t.Helper()
		var v machine.CallView
		a.do("POST", "/calls", body).want(http.StatusAccepted).into(&v)
		if v.WaitsFor != "repeat" {
			t.Fatalf("the call: %+v", v)
		}
	}
	a.ask(modelRequests[0].path, `{"model": "m", "messages": [{"role": "user", "content": "x"}]}`).want(200)
	a.call(`{"action": "big", "input": {"amount": 1}}`)
	a.call(`{"action": "charge", "input": {"order": "A", "amount": 10}}`)
	a.next()
	a.ask(modelRequests[0].path, `{"model": "m", "messages": [{"role": "user", "content": "y"}]}`).want(200)
	waits(`{"action": "big", "input": {"amount": 51}, "wait": "50ms"}`)
	x.do("POST", "/v1/sagas/"+a.id+"/steps/big%5B1%5D/resolve", `{"outcome": "new", "reason": "two of them"}`, header{"If-Match", "*"}).want(200)
	x.until(a.id, func(machine.View) bool {
		var v machine.CallView
		a.do("GET", "/calls/big%5B1%5D?wait=5s", "").into(&v)
		return v.WaitsFor == "approval" // only now
	})
	if n := len(x.world.Ledger().Service("pay").Effects()); n != 2 {
		t.Errorf("%d charges, want 2", n)
	}
	waits(`{"action": "charge", "input": {"order": "B", "amount": 10}, "wait": "50ms"}`)
	a.do("POST", "/abort", `{"reason": "enough"}`).want(202)
	x.until(a.id, func(v machine.View) bool { return v.Status.Terminal() })
	for path, want := range map[string]machine.CallStatus{"big%5B0%5D": machine.CallUndone, "big%5B1%5D": machine.CallFailed, "charge%5B0%5D": machine.CallUndone, "charge%5B1%5D": machine.CallFailed} {
		var v machine.CallView
		if x.do("GET", "/v1/sessions/"+a.id+"/calls/"+path, "").want(200).into(&v); v.Status != want {
			t.Errorf("%s is %s, want %s", path, v.Status, want)
		}
	}
	var inbox struct{ Data []json.RawMessage }
	if x.do("GET", "/v1/inbox?saga="+a.id, "").want(200).into(&inbox); len(inbox.Data) > 0 {
		t.Errorf("inbox: %s", inbox.Data)
	}
}
