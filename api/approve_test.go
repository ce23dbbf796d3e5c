package api

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// payDef asks for approval before it pays.
const payDef = `saga: payout
input: {amount: decimal}
steps:
  - id: ok
    approval:
      title: Pay ${input.amount}?
      show: {amount: "${input.amount}"}
      form: {limit: decimal, note: string = none}
    timeout: 48h
  - id: pay
    http: POST ${vars.pay}/charges
    in_doubt: retry
    body: {amount: "${steps.ok.output.data.limit}"}
output: ${steps.ok.output}
`

// asked starts a saga and waits for its inbox entry.
func asked(x *fixture, start string, n int) (machine.View, []inboxEntry) {
	x.t.Helper()
	id := x.do("POST", "/v1/sagas", start).want(201).saga().ID
	v := x.until(id, func(v machine.View) bool { return len(v.Open) == n })
	var list page[inboxEntry]
	x.do("GET", "/v1/inbox?kind=approval&saga="+id, "").want(200).into(&list)
	if len(list.Data) != n {
		x.t.Fatalf("inbox %+v, want %d", list, n)
	}
	return v, list.Data
}

func TestApprove(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(payDef)
		v, entries := asked(x, `{"definition": "payout", "input": {"amount": 19.10}}`, 1)
		e := entries[0]
		if v.Status != saga.Waiting || e.Title != "Pay 19.10?" || string(e.Shown) != `{"amount":19.10}` || len(e.ShownHash) != 64 || e.Path != "ok" || e.ID != v.Open[0] ||
			!strings.Contains(string(e.Form), `"limit"`) || cmp.Diff([]string{"approve", "reject"}, e.Actions) != "" || !strings.Contains(e.Detail, "expires at") {
			t.Errorf("status %s, entry %+v", v.Status, e)
		}
		before := x.dump()
		path := "/v1/sagas/" + v.ID + "/steps/ok/approve"
		body := fmt.Sprintf(`{"shown": %q, "data": {"limit": 12.50}, "comment": "fine"}`, e.ShownHash)
		for _, tt := range []struct {
			name, path, body string
			status           int
			code             code
			pointer, detail  string
		}{
			{"no body", path, ``, 422, "shown_missing", "/shown", "shown_hash"},
			{"no shown", path, `{"data": {"limit": 1}}`, 422, "shown_missing", "/shown", "shown_hash"},
			{"stale", path, `{"shown": "00", "data": {"limit": 1}}`, 409, "stale", "", e.ShownHash},
			{"no data", path, fmt.Sprintf(`{"shown": %q}`, e.ShownHash), 422, "bad_data", "/data/limit", "limit"},
			{"bad data", path, fmt.Sprintf(`{"shown": %q, "data": {"limit": "1"}}`, e.ShownHash), 422, "bad_data", "/data/limit", "number"},
			{"field too many", path, fmt.Sprintf(`{"shown": %q, "data": {"limit": 1, "nota": ""}}`, e.ShownHash), 422, "bad_data", "/data/nota", "nota"},
			{"other field", path, `{"show": "x"}`, 400, "invalid_request", "/show", `did you mean "shown"?`},
			{"type", path, `{"shown": 3}`, 422, "invalid_command", "/shown", "text"},
			{"long comment", path, `{"comment": "` + strings.Repeat("x", 2001) + `"}`, 422, "invalid_command", "/comment", "2000"},
			{"no step", strings.Replace(path, "/ok/", "/ko/", 1), body, 404, "step_not_found", "", "/steps"},
			{"no iteration", strings.Replace(path, "/ok/", "/pages[0].ok/", 1), body, 404, "step_not_found", "", "/steps"},
			{"other step", strings.Replace(path, "/ok/", "/pay/", 1), body, 409, "not_waiting", "", ""},
			{"no saga", strings.Replace(path, v.ID, "01a1fd50-0000-7000-8000-000000000000", 1), body, 404, "saga_not_found", "", "id"},
		} {
			p := x.do("POST", tt.path, tt.body, outside, header{"Idempotency-Key", "k"}).problem(tt.status, tt.code)
			if !strings.Contains(p.Detail, tt.detail) || tt.pointer != "" && (len(p.Errors) == 0 || p.Errors[0].Pointer != tt.pointer) {
				t.Errorf("%s: %+v", tt.name, p)
			}
		}
		if d := cmp.Diff(before, x.dump()); d != "" {
			t.Errorf("refused decisions changed something: %s", d)
		}
		a := x.do("POST", path, body, header{"Idempotency-Key", "k"}).want(200)
		var step machine.StepView
		a.into(&step)
		if want := `"data":{"limit":12.50,"note":"none"}`; step.Status != machine.StepSucceeded || !strings.Contains(string(step.Output), want) {
			t.Errorf("step %s", a.Body)
		}
		if again := x.do("POST", path, body, header{"Idempotency-Key", "k"}).want(200); again.Header.Get(replayHeader) != "true" || string(again.Body) != string(a.Body) {
			t.Errorf("replay: %v %s", again.Header, again.Body)
		}
		end := x.until(v.ID, is(saga.Succeeded))
		if !strings.Contains(string(end.Output), `"by":"anonymous"`) || !strings.Contains(string(end.Output), `"comment":"fine"`) {
			t.Errorf("output %s", end.Output)
		}
		// The same decision again gets the same response, without a key and after the saga's end,
		// too; any other is refused.
		x.do("POST", path, body).want(200).into(&step)
		x.do("POST", path, strings.Replace(body, "fine", strings.Repeat("é", maxReason), 1)).want(200)
		x.do("POST", path, `{"data": {"limit": 12.50, "note": "none"}}`, outside).want(200)
		for _, late := range []struct{ path, body string }{
			{path, strings.Replace(body, "12.50", "12.51", 1)}, {path, strings.Replace(body, e.ShownHash, "00", 1)}, {strings.Replace(path, "approve", "reject", 1), `{}`},
		} {
			if p := x.do("POST", late.path, late.body).problem(409, "decided"); !strings.Contains(p.Detail, "anonymous has approved it") {
				t.Errorf("detail %q", p.Detail)
			}
		}
		if got := len(x.world.Ledger().Op("pay", "charge").Effects()); got != 1 {
			t.Errorf("%d charges, want 1", got)
		}
	})
}

func TestReject(t *testing.T) {
	x := newFixture(t)
	x.publish(payDef)
	v, _ := asked(x, `{"definition": "payout", "input": {"amount": 1}}`, 1)
	path := "/v1/sagas/" + v.ID + "/steps/ok/reject"
	x.do("POST", path, `{"shown": "00"}`).problem(409, "stale")
	var step machine.StepView
	x.do("POST", path, `{"comment": "no", "data": {"why": 1}}`).want(200).into(&step)
	if step.Status != machine.StepFailed || step.Error == nil || step.Error.Code != "rejected" || step.Error.Detail != "no" {
		t.Errorf("step %+v", step)
	}
	end := x.until(v.ID, is(saga.Compensated))
	if end.Reason == nil || end.Reason.Code != "rejected" {
		t.Errorf("reason %+v", end.Reason)
	}
	x.do("POST", path, `{"data": {"why":1}}`).want(200)
	x.do("POST", path, ``).problem(409, "decided")
	x.do("POST", strings.Replace(path, "reject", "approve", 1), `{"shown": "00"}`).problem(409, "decided")
}

func TestApprovalExpires(t *testing.T) {
	x := newFixture(t)
	x.publish(`saga: brief
steps:
  - id: ok
    approval: {title: Quick?}
    timeout: 1ms
    on_timeout: reject
`)
	id := x.do("POST", "/v1/sagas", `{"definition": "brief"}`).want(201).saga().ID
	x.until(id, is(saga.Compensated))
	x.do("POST", "/v1/sagas/"+id+"/steps/ok/approve", `{"shown": "00"}`).problem(409, "expired")
	x.publish(`saga: slow
steps:
  - id: ok
    approval: {title: Slow?}
`)
	v, e := asked(x, `{"definition": "slow"}`, 1)
	x.do("POST", "/v1/sagas/"+v.ID+"/cancel", `{}`).want(202)
	x.until(v.ID, is(saga.Compensated))
	x.do("POST", "/v1/sagas/"+v.ID+"/steps/ok/approve", fmt.Sprintf(`{"shown": %q}`, e[0].ShownHash)).problem(409, "terminal")
}

// keyOf stores a key and returns the header for it.
func keyOf(x *fixture, name, role string) header {
	x.t.Helper()
	k, secret, err := NewKey(name, role)
	if err != nil {
		x.t.Fatal(err)
	}
	if err := x.store.AddKey(x.t.Context(), k); err != nil {
		x.t.Fatal(err)
	}
	return header{"Authorization", "Bearer " + secret}
}

// Approvers are selected by role and by name, and the starter of the saga is excluded.
func TestApprovers(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	admin, ann, bob, eve, shop := keyOf(x, "root", "admin"), keyOf(x, "ann", "approver"), keyOf(x, "bob", "approver"), keyOf(x, "eve", "operator"), keyOf(x, "shop", "client")
	viewer, worker := keyOf(x, "v", "viewer"), keyOf(x, "w", "worker")
	for name, tt := range map[string]struct {
		step    string
		starter header
		may     []header
		code    map[header]code // of callers who may not decide
	}{
		"anybody":          {`approval: {title: Yes?}`, admin, []header{admin, ann, bob, eve}, map[header]code{shop: "forbidden", viewer: "forbidden", worker: "forbidden"}},
		"by name":          {`approval: {title: Yes?, approvers: [ann]}`, admin, []header{ann}, map[header]code{bob: "not_approver", eve: "not_approver", admin: "not_approver"}},
		"by role":          {`approval: {title: Yes?, approvers: [operator, ann]}`, admin, []header{ann, eve}, map[header]code{bob: "not_approver", admin: "not_approver"}},
		"a name is a name": {`approval: {title: Yes?, approvers: [shop, ann]}`, admin, []header{ann}, map[header]code{shop: "forbidden"}},
		"four eyes":        {`approval: {title: Yes?}, four_eyes: true`, eve, []header{ann, bob, admin}, map[header]code{eve: "four_eyes"}},
	} {
		t.Run(name, func(t *testing.T) {
			y := *x
			y.t, y.auth = t, admin.value
			y.publish("saga: who\nsteps:\n  - {id: ok, " + tt.step + "}\n")
			for _, who := range tt.may {
				y.auth = tt.starter.value
				v, e := asked(&y, `{"definition": "who"}`, 1)
				path := "/v1/sagas/" + v.ID + "/steps/ok/"
				body := fmt.Sprintf(`{"shown": %q}`, e[0].ShownHash)
				for not, c := range tt.code {
					for _, do := range []string{"approve", "reject"} {
						y.auth = not.value
						y.do("POST", path+do, body).problem(403, c)
					}
				}
				y.auth = who.value
				y.do("POST", path+"approve", body).want(200)
				y.do("POST", path+"approve", body).want(200)
				y.auth = admin.value
				if who != admin && tt.code[admin] == "" {
					y.do("POST", path+"approve", body).problem(409, "decided")
				}
				y.until(v.ID, is(saga.Succeeded))
			}
		})
	}
}

// Without keys every caller counts as an approver, and the record says that the caller is unknown.
// Four eyes cannot be guaranteed then, nor if the saga was started without a key.
func TestApproveWithoutKeys(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.NoAuth = true })
	x.publish("saga: who\nsteps:\n  - {id: ok, approval: {title: Yes?, approvers: [finance]}}\n")
	v, e := asked(x, `{"definition": "who"}`, 1)
	x.do("POST", "/v1/sagas/"+v.ID+"/steps/ok/approve", fmt.Sprintf(`{"shown": %q}`, e[0].ShownHash), keyOf(x, "bob", "approver")).problem(403, "not_approver")
	x.do("POST", "/v1/sagas/"+v.ID+"/steps/ok/approve", fmt.Sprintf(`{"shown": %q}`, e[0].ShownHash)).want(200)
	if end := x.until(v.ID, is(saga.Succeeded)); !strings.Contains(string(end.Output), `"by":"anonymous"`) {
		t.Errorf("output %s", end.Output)
	}
	x.publish("saga: two\nsteps:\n  - {id: ok, approval: {title: Yes?}, four_eyes: true}\n")
	v, e = asked(x, `{"definition": "two"}`, 1)
	for _, who := range []header{{"X-Nobody", "1"}, keyOf(x, "ann", "approver")} {
		p := x.do("POST", "/v1/sagas/"+v.ID+"/steps/ok/approve", fmt.Sprintf(`{"shown": %q}`, e[0].ShownHash), who).problem(403, "four_eyes")
		if !strings.Contains(p.Detail, "API keys") {
			t.Errorf("detail %q", p.Detail)
		}
	}
}

// Two people decide at once: one decision is recorded, and the other caller gets a problem.
func TestDecideAtOnce(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish("saga: who\nsteps:\n  - {id: ok, approval: {title: Yes?}}\n")
		ann, bob := keyOf(x, "ann", "approver"), keyOf(x, "bob", "approver")
		_, admin := addKey(x, "admin", time.Time{})
		x.auth = "Bearer " + admin
		for range 10 {
			v, e := asked(x, `{"definition": "who"}`, 1)
			path, body := "/v1/sagas/"+v.ID+"/steps/ok/", fmt.Sprintf(`{"shown": %q}`, e[0].ShownHash)
			var answers [4]*answer
			var wg sync.WaitGroup
			for i, r := range []struct {
				do  string
				who header
			}{{"approve", ann}, {"reject", bob}, {"approve", ann}, {"reject", bob}} {
				wg.Go(func() { answers[i] = x.do("POST", path+r.do, body, r.who) })
			}
			wg.Wait()
			statuses := [4]int{}
			for i, a := range answers {
				statuses[i] = a.Status
			}
			end := x.until(v.ID, func(v machine.View) bool { return v.Status.Terminal() })
			want := [4]int{200, 409, 200, 409}
			if end.Status != saga.Succeeded {
				want = [4]int{409, 200, 409, 200}
			}
			if statuses != want {
				t.Errorf("ended as %s, statuses %v, want %v", end.Status, statuses, want)
			}
		}
	})
}

// Paths of steps in loops, percent-encoded and not.
func TestApproveInALoop(t *testing.T) {
	x := newFixture(t)
	x.publish(`saga: pages
steps:
  - id: pages
    foreach: [a, b, c, d]
    max_parallel: 3
    steps:
      - id: ok
        approval: {title: "Publish ${item}?", show: "${item}"}
`)
	v, entries := asked(x, `{"definition": "pages"}`, 3)
	// Their times are equal.
	slices.SortFunc(entries, func(a, b inboxEntry) int { return strings.Compare(a.Path, b.Path) })
	for i, path := range []string{"pages[0].ok", "pages%5B1%5D.ok", "pages%5b2%5d%2Eok"} {
		e := entries[i]
		if want := fmt.Sprintf("pages[%d].ok", i); e.Path != want || e.Title != "Publish "+string("abc"[i])+"?" {
			t.Fatalf("entry %+v, want %s", e, want)
		}
		at := "/v1/sagas/" + v.ID + "/steps/" + path + "/approve"
		other := entries[(i+1)%3]
		x.do("POST", at, fmt.Sprintf(`{"shown": %q}`, other.ShownHash)).problem(409, "stale")
		x.do("POST", "/v1/sagas/"+v.ID+"/steps/pages[9].ok/approve", fmt.Sprintf(`{"shown": %q}`, e.ShownHash)).problem(404, "step_not_found")
		var step machine.StepView
		x.do("POST", at, fmt.Sprintf(`{"shown": %q}`, e.ShownHash)).want(200).into(&step)
		if step.Path != e.Path {
			t.Errorf("step %+v", step)
		}
		x.do("POST", at, fmt.Sprintf(`{"shown": %q}`, e.ShownHash)).want(200)
		x.do("POST", strings.Replace(at, "/approve", "/reject", 1), `{}`).problem(409, "decided")
	}
}

// After the pivot a rejection leaves the saga stuck. A retry asks for another decision. If nobody
// has made that one, the earlier decision is not reported as one about it.
func TestApproveAskedAgain(t *testing.T) {
	x := newFixture(t)
	x.publish("saga: again\nsteps:\n  - {id: go, set: 1, pivot: true}\n  - {id: ok, approval: {title: Yes?}}\n")
	for _, end := range []saga.Status{saga.Succeeded, saga.Compensated} {
		v, e := asked(x, `{"definition": "again"}`, 1)
		path, body := "/v1/sagas/"+v.ID+"/steps/ok/", fmt.Sprintf(`{"shown": %q}`, e[0].ShownHash)
		x.do("POST", path+"reject", body).want(200)
		x.until(v.ID, is(saga.Stuck))
		x.do("POST", path+"approve", body).problem(409, "decided")
		x.do("POST", "/v1/sagas/"+v.ID+"/retry", `{"reason": "asked again"}`).want(202)
		if end == saga.Succeeded {
			x.do("POST", path+"approve", body).want(200)
			x.until(v.ID, is(end))
			continue
		}
		x.do("POST", "/v1/sagas/"+v.ID+"/compensate", `{"reason": "r"}`).want(202)
		x.until(v.ID, is(end))
		x.do("POST", path+"reject", body).problem(409, "terminal")
	}
}

// Of two decisions that were both valid when they were sent, the later one is refused. The server
// says so if it cannot send a decision.
func TestDecisionOvertaken(t *testing.T) {
	x := newFixture(t)
	x.publish("saga: who\nsteps:\n  - {id: ok, approval: {title: Yes?}}\n  - {id: rest, sleep: 1h}\n")
	v, e := asked(x, `{"definition": "who"}`, 1)
	path, body := "/v1/sagas/"+v.ID+"/steps/ok/", fmt.Sprintf(`{"shown": %q}`, e[0].ShownHash)
	overtaken(t, x, rival{fails: saga.ErrUnavailable}).do("POST", path+"reject", body).problem(503, "unavailable")
	y := overtaken(t, x, rival{before: func() { x.do("POST", path+"approve", body).want(200) }})
	if p := y.do("POST", path+"reject", body).problem(409, "decided"); !strings.Contains(p.Detail, "has approved it") {
		t.Errorf("detail %q", p.Detail)
	}
}

// A decision that no node reads in time is kept.
func TestDecisionNotReadInTime(t *testing.T) {
	x := newFixture(t)
	x.publish("saga: who\nsteps:\n  - {id: ok, approval: {title: Yes?}}\n")
	v, e := asked(x, `{"definition": "who"}`, 1)
	cfg := x.cfg
	cfg.Limits.Command = time.Millisecond
	cfg.Engine = silent{cfg.Engine}
	y := *x
	y.url = serve(t, cfg)
	var step machine.StepView
	y.do("POST", "/v1/sagas/"+v.ID+"/steps/ok/approve", fmt.Sprintf(`{"shown": %q}`, e[0].ShownHash)).want(202).into(&step)
	if step.Status != machine.StepWaiting {
		t.Errorf("step %+v", step)
	}
}

const signalDef = `saga: paid
steps:
  - id: nap
    approval: {title: Go on?}
  - id: first
    signal: com.shop.paid
  - id: second
    signal: com.shop.paid
    timeout: 1h
output: ["${steps.first.output}", "${steps.second.output}"]
`

func TestSignal(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(signalDef)
		v, e := asked(x, `{"definition": "paid"}`, 1)
		path := "/v1/sagas/" + v.ID + "/signals/com.shop.paid"
		a := x.do("POST", path, `{"n": 9007199254740993}`, header{"Idempotency-Key", "s"}).want(202) // early
		var got signalled
		a.into(&got)
		if got.Saga != v.ID || got.Name != "com.shop.paid" || got.ID == "" {
			t.Errorf("%s", a.Body)
		}
		if again := x.do("POST", path, `{"n": 9007199254740993}`, header{"Idempotency-Key", "s"}).want(202); again.Header.Get(replayHeader) != "true" || string(again.Body) != string(a.Body) {
			t.Errorf("replay: %v %s", again.Header, again.Body)
		}
		before := x.dump()
		for _, tt := range []struct {
			path, body string
			status     int
			code       code
			detail     string
		}{
			{strings.Replace(path, "paid", "payd", 1), `1`, 422, "unknown_signal", `did you mean "com.shop.paid"?`},
			{strings.Replace(path, "com.shop.paid", "zzzzzzz", 1), `1`, 422, "unknown_signal", `there are com.shop.paid`},
			{path, `{"a": 1, "a": 2}`, 400, "invalid_json", "twice"},
			{path, `{`, 400, "invalid_json", "ends too early"},
			{path, `"` + strings.Repeat("x", maxPayload) + `"`, 413, "body_too_large", "fetch the content"},
			{strings.Replace(path, v.ID, "01a1fd50-0000-7000-8000-000000000000", 1), `1`, 404, "saga_not_found", "id"},
		} {
			if p := x.do("POST", tt.path, tt.body, outside).problem(tt.status, tt.code); !strings.Contains(p.Detail, tt.detail) {
				t.Errorf("%s %.30s: %q does not say %q", tt.path, tt.body, p.Detail, tt.detail)
			}
		}
		x.do("POST", path, `a=1`, outside, header{"Content-Type", "text/plain"}).problem(415, "unsupported_media_type")
		if d := cmp.Diff(before, x.dump()); d != "" {
			t.Errorf("refused signals changed something: %s", d)
		}
		x.do("POST", "/v1/sagas/"+v.ID+"/steps/nap/approve", fmt.Sprintf(`{"shown": %q}`, e[0].ShownHash)).want(200)
		x.until(v.ID, func(v machine.View) bool { return v.WakeAt != nil }) // the second waits
		x.do("POST", strings.Replace(path, "com.shop.paid", "com%2Eshop%2Epaid", 1), ``).want(202)
		end := x.until(v.ID, is(saga.Succeeded))
		if want := `[{"n":9007199254740993},null]`; string(end.Output) != want {
			t.Errorf("output %s, want %s", end.Output, want)
		}
		x.do("POST", path, `1`).problem(409, "terminal")
		x.publish(sleepDef)
		id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
		x.do("POST", "/v1/sagas/"+id+"/signals/paid", `1`).problem(422, "unknown_signal")
		records, err := x.store.Records(t.Context(), uuid.Must(uuid.FromString(v.ID)), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, r := range records {
			if r.Kind == journal.Signalled {
				n++
			}
		}
		if n != 2 {
			t.Errorf("%d signals in the journal, want 2", n)
		}
	})
}
