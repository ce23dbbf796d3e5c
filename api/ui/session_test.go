package ui

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/api"
	"recourse/api/ui/activity"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// sessionActions are the actions of the tests' agents.
var sessionActions = map[string]string{
	"charge": `action: charge
agents: auto
input: {order: string, amount: number, note: string?}
http: POST ${vars.pay}/charges
body: {order: "${input.order}", amount: "${input.amount}"}
output: {id: "${result.body.id}"}
compensate: {http: "POST ${vars.pay}/charges/${output.id}/refund", undo_within: 1h}
`,
	"mail": `action: mail
agents: auto
input: {text: string}
http: POST ${vars.mail}/send
body: {to: "a@example.com", text: "${input.text}"}
in_doubt: fail
`,
}

// process is a process of an agent, attached to a session.
type process struct {
	x          *site
	id, secret string
}

// session opens a session with more fields, and attaches a process.
func (x *site) session(fields string) *process {
	x.t.Helper()
	for name, source := range sessionActions {
		if a := x.rest("PUT", "/v1/actions/"+name, source); a.status >= 300 {
			x.t.Fatalf("publish %s: %d %s", name, a.status, a.body)
		}
	}
	var v machine.View
	if err := json.Unmarshal([]byte(x.rest("POST", "/v1/sessions", `{"name": "support", "actions": ["charge", "mail"]`+fields+`}`).want(201).body), &v); err != nil {
		x.t.Fatal(err)
	}
	p := &process{x: x, id: v.ID}
	p.attach("worker-1")
	return p
}

// attach lets the next process take over.
func (p *process) attach(holder string) {
	p.x.t.Helper()
	former := p.secret
	p.secret = api.NewSecret()
	body, _ := json.Marshal(map[string]string{"holder": holder, "secret": p.secret, "previous": former})
	if former == "" {
		body, _ = json.Marshal(map[string]string{"holder": holder, "secret": p.secret})
	}
	p.x.rest("POST", "/v1/sessions/"+p.id+"/attach", string(body)).want(200)
}

// do sends a request with the token of the process.
func (p *process) do(method, path, body string) *answer {
	p.x.t.Helper()
	req := p.x.request(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+api.Token(uuid.FromStringOrNil(p.id), p.secret))
	return p.x.do(req)
}

func (p *process) call(action, input string) machine.CallView {
	p.x.t.Helper()
	a := p.do("POST", "/v1/sessions/"+p.id+"/calls", fmt.Sprintf(`{"action": %q, "input": %s, "wait": "5s"}`, action, input))
	var v machine.CallView
	if err := json.Unmarshal([]byte(a.body), &v); err != nil || a.status > 202 {
		p.x.t.Fatalf("%d %s", a.status, a.body)
	}
	return v
}

// ask asks the model, which says something.
func (p *process) ask(system, user, says string) {
	p.x.t.Helper()
	p.x.said.Store(says)
	body, err := json.Marshal(map[string]any{"model": "gpt-5-mini", "max_tokens": 500, "messages": []any{
		map[string]string{"role": "system", "content": system}, map[string]string{"role": "user", "content": user}}})
	if err != nil {
		p.x.t.Fatal(err)
	}
	p.do("POST", "/llm/openai/v1/chat/completions", string(body)).want(200)
}

// hostile is a text that would run a script if a page did not escape it.
const hostile = `</pre></script><script>alert("x")</script><img src=x onerror=alert(1)>'"` + "\u202e"

// twoLives is a session whose second process has asked the model something else than the first.
func (x *site) twoLives(fields string) *process {
	x.t.Helper()
	p := x.session(`, "budget": "1.00 USD"` + fields)
	p.ask("You refund orders.\nIt is 12:00.\nBe brief.", "Refund order A-17", "I charge it.")
	p.ask("You refund orders.\nIt is 12:01.\nBe brief.", "Anything else?", hostile)
	p.call("charge", `{"order": "A-17", "amount": 10, "note": "x"}`)
	p.attach("worker-2 " + hostile)
	p.ask("You refund orders.\nIt is 12:05.\nBe brief.", "Refund order A-17", "Again?")
	return p
}

// A session's page shows its lives, its calls, and between them the requests to models, folded.
func TestSession(t *testing.T) {
	x := newSite(t)
	p := x.twoLives("")
	page := x.page("/sagas/" + p.id).want(200)
	page.has(`<span class="dim ver">session</span>`, "life <b>2</b>, attached as worker-2", "Life 1", "attached by <b>worker-1</b>", "life 2 has taken its place",
		"2 requests to <code>gpt-5-mini</code>", "1 request to <code>gpt-5-mini</code>", "1 diverged", "0.0020 USD", "0.0040 USD", `id="step-charge[0]"`, `\u{202e}`, "action and input", "an abort undoes it",
		"differs from llm[0]", "Abort the session", "2.4k in").
		lacks("/definitions/~support", "<script>alert", "<img src=x", "Cancel the saga", "Run it again")
	order := []string{"Life 1", "2 requests", `id="step-charge[0]"`, "Life 2", "1 request to"}
	for i, at := 0, strings.Index(page.body, `id="steps"`); i < len(order); i++ {
		next := strings.Index(page.body[at:], order[i])
		if next < 0 {
			t.Fatalf("%q is not after %q", order[i], order[max(i-1, 0)])
		}
		at += next
	}
	x.page("/sagas/"+p.id+"?step=charge").want(200).has(`id="step-charge[0]"`).lacks("Life 1<", "2 requests")
	x.page("/sagas/"+p.id+"?from=1").want(200).has("2 requests", `rel="prev"`).lacks("<h3>Life 1")
	x.page("/sagas/"+p.id+"/steps/charge%5B0%5D").want(200).has("Back to the session", "A-17")
	x.page("/sagas/" + p.id + "/journal").want(200)

	first := x.page("/sagas/" + p.id + "/steps/llm%5B1%5D").want(200)
	first.has("You refund orders.\nIt is 12:01.", "Anything else?", "&lt;script&gt;alert", `rel="prev"`, `rel="next"`).lacks("<script>alert", "<img src=x", "Divergence")
	x.page("/sagas/"+p.id+"/steps/llm%5B2%5D").want(200).has("Divergence", "/messages/0/content", "steps/llm%5B0%5D", "Life 1",
		`<tr class="went"><td class="n">2</td><td class="n"></td><td class="m">-</td><td><code>It is 12:00.</code>`, `<code>It is 12:05.</code>`, "All differences of the prompts").lacks(`rel="next"`)
	if a := x.page("/sagas/" + p.id + "/steps/llm%5B0%5D/ask.json").want(200); a.header.Get("Content-Type") != "application/json" || !strings.Contains(a.body, "I charge it.") {
		t.Errorf("%s %s", a.header, a.body)
	}

	x.post("/sagas/"+p.id+"/command/cancel", "seen", seenOf(t, page, "cancel"), "reason", "wrong customer "+hostile).want(303)
	x.becomes(p.id, saga.Compensated)
	x.page("/sagas/"+p.id).want(200).has("The session is aborted", "The session was aborted", "wrong customer", "it was undone", "The session has ended as compensated").
		lacks("<script>alert", "Abort the session", "Run it again")
}

// A session that was committed is undone by a saga, as long as the windows of its calls last.
func TestSessionUndoneLater(t *testing.T) {
	x := newSite(t)
	p := x.session("")
	p.call("charge", `{"order": "A", "amount": 1}`)
	p.call("charge", `{"order": "B", "amount": 2}`)
	p.do("POST", "/v1/sessions/"+p.id+"/commit", "{}").want(200)
	x.becomes(p.id, saga.Succeeded)
	page := x.page("/sagas/"+p.id).want(200).has("Undo…", "2 steps are undone", "This session does not change").lacks("Abort the session")
	if first, second := strings.Index(page.body, "charge[1]: POST "), strings.Index(page.body, "charge[0]: POST "); first < 0 || second < first {
		t.Errorf("charge[1] is listed at %d, charge[0] at %d", first, second)
	}
	to := x.post("/sagas/"+p.id+"/command/compensate", "seen", seenOf(t, page, "compensate"), "reason", "wrong customer").want(303).header.Get("Location")
	by, _, _ := strings.Cut(strings.TrimPrefix(to, "/sagas/"), "?")
	x.becomes(by, saga.Succeeded)
	x.page("/sagas/" + by).want(200).has("Undoes saga " + p.id[:8]).lacks("Undo…")
}

// seenOf returns the digest of the consequences in an action's form.
func seenOf(t *testing.T, page *answer, action string) string {
	t.Helper()
	_, form, _ := strings.Cut(page.body, `id="form-`+action+`"`)
	_, value, ok := strings.Cut(form, `name="seen" value="`)
	if !ok {
		t.Fatalf("the page has no form %s", action)
	}
	seen, _, _ := strings.Cut(value, `"`)
	return seen
}

// The page does not show prompts and answers that are not stored, and says why.
func TestSessionWithoutPrompts(t *testing.T) {
	x := newSite(t)
	p := x.session(`, "keep": "answers"`)
	p.ask("secret prompt", "x", "public answer")
	x.page("/sagas/"+p.id+"/steps/llm%5B0%5D").want(200).has("keeps answers only", "public answer").lacks("secret prompt")
	p.attach("worker-2")
	p.ask("other prompt", "x", "other answer")
	x.page("/sagas/" + p.id + "/steps/llm%5B1%5D").want(200).has("The prompts cannot be compared").lacks("other prompt")
	p.do("POST", "/v1/sessions/"+p.id+"/commit", "").want(200)
	x.rest("DELETE", "/v1/sessions/"+p.id+"/content", "").want(204)
	x.page("/sagas/" + p.id + "/steps/llm%5B0%5D").want(200).has("The answer was erased").lacks("public answer")
	x.page("/sagas/"+p.id).want(200).has("The agent has committed the session", ", over")
}

// The head says that no process is attached.
func TestSessionWithoutProcess(t *testing.T) {
	x := newSite(t)
	p := x.session("")
	p.do("POST", "/v1/sessions/"+p.id+"/detach", "").want(200)
	x.becomes(p.id, saga.Waiting)
	x.page("/sagas/"+p.id).want(200).has("no process</b> since", "its process has detached")
}

// A large session lists a part of its activity, and each page of the rest is as small.
func TestLargeSession(t *testing.T) {
	log := new(activity.Log)
	add := func(path string, d saga.CalledData) {
		log.Add(&journal.Record{Kind: journal.Called, Path: path, Data: saga.Encode(d)})
	}
	d := &sagaPage{Session: &sessionView{Log: log}, now: time.Now()}
	d.Saga.ID = uuid.Nil.String()
	for i := range 200 {
		path := fmt.Sprintf("charge[%d]", i)
		add(path, saga.CalledData{What: saga.ActionCall, Life: 1, Identity: "id:" + path})
		d.Steps = append(d.Steps, machine.StepView{Path: path, Status: machine.StepSucceeded, Cost: "0"})
		for k := range 10 {
			add(fmt.Sprintf("llm[%d]", 10*i+k), saga.CalledData{What: saga.ModelAsk, Life: 1})
		}
	}
	count := func(rows []activityRow) (steps, asks, folded int) {
		for _, r := range rows {
			switch {
			case r.Step != nil:
				steps++
			case r.Asks != nil && r.Asks.List == "":
				asks += len(r.Asks.Asks)
			}
			folded += r.Folded
		}
		return steps, asks, folded
	}
	rows, _, _ := d.activity("", -1, maxSteps)
	if steps, asks, folded := count(rows); len(rows) > 2*maxSteps || steps == 0 || asks == 0 || asks > mostAskRows || folded != 400-maxSteps {
		t.Errorf("%d rows with %d steps and %d requests, %d folded", len(rows), steps, asks, folded)
	}
	all, at := 0, 0
	for {
		rows, _, after := d.activity("", at, maxSteps)
		steps, asks, _ := count(rows)
		if all += steps; asks > mostAskRows || asks == 0 {
			t.Errorf("%d requests on one page", asks)
		}
		if at += maxSteps; after == "" {
			break
		}
	}
	if all != 200 {
		t.Errorf("the pages list %d calls, want 200", all)
	}
	if rows, _, _ := d.activity("llm[77]", -1, maxSteps); len(rows) != 1 || len(rows[0].Asks.Asks) != 1 {
		t.Errorf("found %+v", rows)
	}
}

// Prompts that differ only in characters that a reader cannot see are shown to differ.
func TestHiddenDivergence(t *testing.T) {
	x := newSite(t)
	p := x.session("")
	p.ask("Pay Ann.", "x", "yes")
	p.attach("worker-2")
	p.ask("Pay\u200b Ann.", "x", "yes")
	x.page("/sagas/"+p.id+"/steps/llm%5B1%5D").want(200).has("<code>Pay Ann.</code>", `<code>Pay\u{200b} Ann.</code>`)
}
