package ui

import (
	"html"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/api"
	"recourse/examples/world"
	"recourse/saga"
)

const charge = `saga: charge
input: {amount: integer, note: string?}
budget: 5.00 EUR
steps:
  - id: reserve
    http: POST ${vars.things}
    body: {n: "${input.amount}"}
    cost: 0.10 EUR
    compensate: {http: "DELETE ${vars.things}/${output.id}"}
  - id: charge
    http: POST ${vars.things}
    body: {amount: "${input.amount}", note: "${input.note}"}
    cost: 0.25 EUR
    in_doubt: ask
    compensate: {http: "DELETE ${vars.things}/${output.id}"}
`

const approval = `saga: approval
input: {amount: integer}
steps:
  - id: ok
    approval:
      title: Pay ${input.amount} EUR?
      show: {amount: "${input.amount}", to: "Ada & <script>alert(1)</script>"}
      form: {limit: integer, note: "string?", kind: "string = plain", fast: "boolean?"}
  - id: last
    set: {limit: "${steps.ok.output.data.limit}"}
output: ${steps.ok.output.data}
`

// lose makes the world lose the response to the nth request that creates something.
func (x *site) lose(skip int) {
	x.t.Helper()
	if err := x.world.AddFault(world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/things"}, Skip: skip, Times: 1, Do: world.Do{After: world.FaultDrop}}); err != nil {
		x.t.Fatal(err)
	}
}

var hidden = regexp.MustCompile(`<input type="hidden" name="([a-z_]+)" value="([^"]*)"(?: id="[a-z-]+")?>`)

// hidden returns the hidden inputs of the form with this action.
func (a *answer) hidden(action string) (pairs []string) {
	a.t.Helper()
	_, form, ok := strings.Cut(a.body, `action="`+html.EscapeString(action)+`"`)
	if !ok {
		a.t.Fatalf("no form posts to %s:\n%s", action, a.body)
	}
	form, _, _ = strings.Cut(form, "</form>")
	for _, m := range hidden.FindAllStringSubmatch(form, -1) {
		pairs = append(pairs, m[1], html.UnescapeString(m[2]))
	}
	return pairs
}

// key creates an API key of a role and signs the site's browser in with it.
func (x *site) key(name, role string) {
	x.t.Helper()
	k, secret, err := api.NewKey(name, role)
	if err != nil {
		x.t.Fatal(err)
	}
	if err := x.store.AddKey(x.t.Context(), k); err != nil {
		x.t.Fatal(err)
	}
	x.secret = secret
	x.post("/sign-in", "key", secret, "to", "/").want(303)
}

func TestResolve(t *testing.T) {
	x := newSite(t)
	x.publish(charge)
	x.lose(1)
	id := x.start("charge", `{"amount": 3, "note": "<b>x</b>"}`)
	x.becomes(id, saga.Stuck)
	at := "/sagas/" + id
	to := at + "/steps/charge/resolve"
	a := x.page(at).want(200).has("It is unknown whether step charge has happened", "POST http", "It happened", "&lt;b&gt;x&lt;/b&gt;", "Resolve the step").
		lacks("<b>x</b>")
	fields := a.hidden(to)

	// A refused form is shown with the typed values, and changes nothing.
	x.post(to, append(fields, "outcome", "succeeded", "output", `{"id":`, "reason", "seen on the account")...).want(422).
		has("This is not JSON", "seen on the account", `value="succeeded" required checked`, " open>")
	x.post(to, append(fields, "outcome", "succeeded", "output", "null")...).want(422).has("say why")
	x.post(to, append(fields, "outcome", "succeeded", "reason", "seen on the account")...).want(422).has("The step&#39;s output is missing", "or null, if nothing reads it")
	x.post(to, append(fields, "outcome", "compensated", "new_key", "1", "reason", "no")...).want(422).has("new_key goes with the outcome retry")
	x.post(to, "etag", "1", "outcome", "failed", "reason", "from an old page").want(412).has("The saga has changed since you opened the page", "from an old page")
	x.post(at+"/steps/nothing/resolve", append(fields, "outcome", "failed", "reason", "no")...).want(404)
	x.becomes(id, saga.Stuck)

	done := x.post(to, append(fields, "outcome", "succeeded", "output", `{"id": "th_7"}`, "reason", "seen on the account", "back", "/inbox")...).want(303)
	if got := done.header.Get("Location"); got != at {
		t.Errorf("sent to %s", got)
	}
	const notice = `<p class="notice" role="status">Step charge is resolved as succeeded.</p>`
	x.page(at).want(200).has(notice)
	x.page(at).want(200).lacks(notice) // once
	x.page(at + "?done=Pay+here").want(200).lacks("Pay here")
	x.becomes(id, saga.Succeeded)
	x.post(to, append(fields, "outcome", "failed", "reason", "late")...).want(409).has("ended as succeeded")
}

func TestResolveReturns(t *testing.T) {
	x := newSite(t)
	for back, want := range map[string]string{"/inbox?kind=stuck": "/inbox?kind=stuck", "//evil.example": "", "https://evil.example/": ""} {
		x.world.ClearFaults()
		x.publish(charge)
		x.lose(1)
		id := x.start("charge", `{"amount": 3, "note": "x"}`)
		x.becomes(id, saga.Stuck)
		to := "/sagas/" + id + "/steps/charge/resolve"
		if want == "" {
			want = "/sagas/" + id
		}
		etag := x.page("/sagas/" + id).hidden(to)[1]
		if got := x.post(to, "etag", etag, "back", back, "outcome", "failed", "reason", "not there").want(303).header.Get("Location"); got != want {
			t.Errorf("sent to %s, want %s", got, want)
		}
		x.page(want).want(200).has("Step charge is resolved as failed.</p>")
		x.becomes(id, saga.Compensated)
	}
}

func TestApprove(t *testing.T) {
	x := newSite(t)
	x.publish(approval)
	id := x.start("approval", `{"amount": 12}`)
	at := "/sagas/" + id
	to := at + "/steps/ok/approve"
	x.until("the approval is asked for", func() bool { return len(x.saga(id).Open) > 0 })
	a := x.page(at).want(200).has("Pay 12 EUR?", "Ada &amp; &lt;script&gt;alert(1)&lt;/script&gt;", `name="/data/limit"`, "default plain", `name="/data/fast"`, "Reject").
		lacks("<script>alert")
	fields := a.hidden(to)
	x.post(to, append(fields, "/data/limit", "much", "comment", "why not")...).want(422).has("why not", `value="much"`, `aria-invalid="true"`)
	x.post(to, "shown_hash", strings.Repeat("0", 64), "/data/limit", "5").want(409).has("has changed since it was shown")
	x.post(to, append(fields, "/data/limit", "9007199254740993", "/data/note", `a "b"`, "/data/kind", "", "/data/fast", "true", "comment", "go")...).want(303)
	x.becomes(id, saga.Succeeded)
	want := `{"fast":true,"kind":"plain","limit":9007199254740993,"note":"a \"b\""}`
	if d := cmp.Diff(want, string(x.saga(id).Output)); d != "" {
		t.Errorf("output (-want +got):\n%s", d)
	}
	x.post(at+"/steps/ok/reject", fields...).want(409).has("a decision is final")

	id = x.start("approval", `{"amount": 12}`)
	x.until("the approval is asked for", func() bool { return len(x.saga(id).Open) > 0 })
	to = "/sagas/" + id + "/steps/ok/reject"
	x.post(to, append(x.page("/sagas/"+id).hidden("/sagas/"+id+"/steps/ok/approve"), "comment", "too much")...).want(303)
	x.becomes(id, saga.Compensated)
}

// Users who may not decide see no form, and their requests are refused.
func TestFormsOfRoles(t *testing.T) {
	x := newSite(t, keysRequired)
	x.key("ops", "admin")
	x.publish(charge)
	x.publish(approval)
	x.lose(1)
	doubt, ask := x.start("charge", `{"amount": 3, "note": "x"}`), x.start("approval", `{"amount": 12}`)
	x.becomes(doubt, saga.Stuck)
	x.until("the approval is asked for", func() bool { return len(x.saga(ask).Open) > 0 })
	resolve, approve := "/sagas/"+doubt+"/steps/charge/resolve", "/sagas/"+ask+"/steps/ok/approve"
	x.page("/sagas/" + doubt).has(resolve)
	for role, may := range map[string][2]bool{"viewer": {false, false}, "client": {false, false}, "approver": {false, true}, "operator": {true, true}} {
		x.key("a "+role, role)
		for i, at := range []string{resolve, approve} {
			saga, _, _ := strings.Cut(at, "/steps")
			page := x.page(saga).want(200)
			if got := strings.Contains(page.body, `action="`+at+`"`); got != may[i] {
				t.Errorf("%s is offered %s: %t", role, at, got)
			}
			if !may[i] {
				x.post(at, "etag", "*", "outcome", "failed", "reason", "no").want(403)
			}
		}
	}
}

// TestRepeatForm: the form about a call that may repeat an earlier one has both outcomes.
func TestRepeatForm(t *testing.T) {
	f := entryForms{entry: entry{Kind: saga.InboxRepeat, Path: "refund[1]", Entry: saga.Entry{Way: "do", Actions: []string{saga.SameEffect, saga.NewEffect}}}}
	var words []string
	for _, o := range f.Outcomes() {
		if words = append(words, o.Word); o.Title == "" || o.Then == "" {
			t.Errorf("%+v", o)
		}
	}
	if got := strings.Join(words, " "); got != "same new" || !f.Repeat() || f.Program() || f.NewKey() || f.Output() != "" {
		t.Errorf("outcomes %s of %+v", got, f)
	}
	if n := groupsOf([]entry{f.entry, f.entry}, who{May: []string{"operate"}}); len(n) != 0 {
		t.Errorf("calls are compared together: %v", n)
	}
}

// An approval that covers a step shows its request. It is asked again if the request changes, and
// says where.
func TestApprovalCovers(t *testing.T) {
	x := newSite(t)
	x.publish(`saga: covering
input: {amount: integer}
steps:
  - id: ok
    approval: {title: "Pay ${input.amount} EUR?", covers: [pay, thank]}
  - id: pay
    http: POST ${vars.things}
    in_doubt: retry
    body: {amount: "${input.amount}", team: "${saga.labels?.team ?? 'no \u202eone'}"}
    compensate: {http: "DELETE ${vars.things}/${output.id}"}
  - id: thank
    when: steps.ok.output.comment != null
    http: PUT ${vars.things}
`)
	id := x.start("covering", `{"amount": 12}`)
	x.until("the approval is asked for", func() bool { return len(x.saga(id).Open) > 0 })
	first := x.saga(id).Open[0]
	to := "/sagas/" + id + "/steps/ok/approve"
	a := x.page("/sagas/"+id).want(200).has("Exactly these requests are approved", "&#34;amount&#34;: 12", "‹pay.id›", "if <code>steps.ok.output.comment != null</code>").lacks("Asked again.")
	x.page("/inbox").want(200).has("Exactly these requests are approved")
	patch := x.request("PATCH", "/v1/sagas/"+id, strings.NewReader(`{"labels": {"team": "blue"}}`))
	patch.Header.Set("Content-Type", "application/json")
	patch.Header.Set("If-Match", strconv.Quote(strconv.FormatInt(x.saga(id).Seq, 10)))
	x.do(patch).want(200)
	fields := a.hidden(to)
	x.post(to, fields...).want(303)
	x.until("it is asked again", func() bool { open := x.saga(id).Open; return len(open) > 0 && open[0] != first })
	a = x.page("/sagas/"+id).want(200).has("Asked again.", "it differs at /body/team", "blue")
	x.post(to, fields...).want(409).has("has changed since it was shown", "Changes since you opened this page")
	x.post(to, a.hidden(to)...).want(303)
	x.becomes(id, saga.Succeeded)
}

// An approval that is asked again because an answer has changed says so, also if it covers nothing.
func TestApprovalAskedForAnAnswer(t *testing.T) {
	x := newSite(t)
	x.publish(`saga: aging
steps:
  - {id: look, http: "GET ${vars.things}/x", expect: {status: [404, 410]}, output: {status: "${result.status}"}, fresh_for: 1s, on_change: ask}
  - {id: ok, approval: {title: "Create it after ${steps.look.output.status}?"}}
  - {id: nap, sleep: 1s}
  - {id: make, http: "POST ${vars.things}", body: {}, in_doubt: retry}
`)
	id := x.start("aging", "null")
	x.until("the approval is asked for", func() bool { return len(x.saga(id).Open) > 0 })
	first := x.saga(id).Open[0]
	if err := x.world.AddFault(world.Rule{Match: world.Match{Method: "GET", PathPrefix: "/things"}, Do: world.Do{Before: world.FaultStatus, Status: 410}}); err != nil {
		t.Fatal(err)
	}
	to := "/sagas/" + id + "/steps/ok/approve"
	a := x.page("/sagas/" + id).want(200).lacks("Asked again.")
	x.post(to, a.hidden(to)...).want(303)
	x.until("it is asked again", func() bool { open := x.saga(id).Open; return len(open) > 0 && open[0] != first })
	a = x.page("/sagas/"+id).want(200).has("Asked again.", "The answer of step <code>look</code> has changed since this was decided", "it differs at /status", "Create it after 410?")
	x.post(to, a.hidden(to)...).want(303)
	x.becomes(id, saga.Succeeded)
}
