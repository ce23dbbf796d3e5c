package ui

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/api"
	"recourse/examples/world"
	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
)

const asks = `saga: asks
secrets: [PAY_KEY]
input: {n: integer}
budget: {amount: 1.00 EUR, on_exceed: ask}
steps:
  - id: reserve
    http: POST ${vars.things}
    auth: ${secrets.PAY_KEY}
    body: {n: "${input.n}"}
    cost: 0.10 EUR
    in_doubt:
      verify: {http: "GET ${vars.things}?ref=${key}&n=${input.n}", auth: "${secrets.PAY_KEY}", found: "result.body.count > 0", after: 0s}
      otherwise: ask
    timeout: 500ms
    retry: none
    compensate: {http: "DELETE ${vars.things}/${output.id}", retry: none}
  - id: big
    when: input.n > 5
    http: POST ${vars.things}
    body: {n: "${input.n}", big: true}
    cost: 3.00 EUR
    in_doubt: ask
  - id: check
    when: input.n > 3
    fail: it is too much
`

// rule adds a fault to the world.
func (x *site) rule(r world.Rule) {
	x.t.Helper()
	if err := x.world.AddFault(r); err != nil {
		x.t.Fatal(err)
	}
}

func status(method, prefix string, code int) world.Rule {
	return world.Rule{Match: world.Match{Method: method, PathPrefix: prefix}, Times: 1, Do: world.Do{Before: world.FaultStatus, Status: code}}
}

// waits returns a saga's inbox entry's id as soon as there is one.
func (x *site) waits(id string) string {
	x.t.Helper()
	x.until("saga "+id+" waits for a person", func() bool { return len(x.saga(id).Open) > 0 })
	return x.saga(id).Open[0]
}

func TestInboxEmpty(t *testing.T) {
	x := newSite(t)
	x.page("/inbox").want(200).has("Inbox is empty", "appear here").lacks("Decide together")
	x.page("/inbox?kind=approval").want(200).has("No matching entries")
	x.page("/inbox?kind=odd").want(400).has("there is no kind")
	x.page("/inbox?saga=odd").want(400).has("a saga&#39;s id")
}

func TestInboxInDoubt(t *testing.T) {
	x := newSite(t)
	x.publish(asks)
	x.lose(0)
	x.rule(world.Rule{Match: world.Match{Method: "GET", PathPrefix: "/things"}, Do: world.Do{Before: world.FaultStatus, Status: 404}})
	id := x.start("asks", `{"n": 2}`)
	e := x.waits(id)
	key := idempotency.Key(uuid.FromStringOrNil(id), "reserve", journal.Do, 0)
	at := x.world.URL + "/things?ref=" + key + "&amp;n=2"
	a := x.page("/inbox").want(200).has(`id="`+e+`"`, "It is unknown whether step reserve has happened", `href="/sagas/`+id+`"`, "POST "+x.world.URL+"/things", key,
		"The definition&#39;s own status check", "it happened if result.body.count &gt; 0", "GET "+at, "curl -sS &#39;"+at+"&#39;", `&#34;$PAY_KEY&#34;`, "It happened", "It did not happen").
		lacks("sesame")
	to := "/sagas/" + id + "/steps/reserve/resolve"
	a = x.post(to, append(a.hidden(to), "outcome", "succeeded", "output", `{"id": "th_1"}`, "reason", "it is there")...).want(303)
	if got := a.header.Get("Location"); !strings.HasPrefix(got, "/inbox") {
		t.Errorf("sent to %s", got)
	}
	x.becomes(id, saga.Succeeded)
	x.page("/inbox").want(200).has("Inbox is empty")
}

func TestInboxStuck(t *testing.T) {
	x := newSite(t)
	x.publish(asks)
	x.rule(status("DELETE", "/things", 422))
	id := x.start("asks", `{"n": 4}`)
	x.waits(id)
	a := x.page("/inbox?kind=stuck").want(200).has("Undoing step reserve was refused", "DELETE "+x.world.URL+"/things/", ", undoing", "no status check", "curl -sS", "I have undone it by hand", "Leave its effect")
	to := "/sagas/" + id + "/steps/reserve/resolve"
	x.post(to, append(a.hidden(to), "outcome", "retry", "reason", "fixed")...).want(303)
	x.becomes(id, saga.Compensated)
}

func TestInboxHeld(t *testing.T) {
	x := newSite(t)
	x.publish(asks)
	x.rule(status("POST", "/things", 401))
	id := x.start("asks", `{"n": 1}`)
	x.waits(id)
	a := x.page("/inbox?saga="+id).want(200).has("rejects the credentials of step reserve", "held credentials", "It is fixed: send it again", `<b>1</b>`)
	to := "/sagas/" + id + "/steps/reserve/resolve"
	x.post(to, append(a.hidden(to), "outcome", "retry", "reason", "a new key is in place")...).want(303)
	x.becomes(id, saga.Succeeded)
}

// To leave out a step whose earlier attempt is in doubt leaves it in doubt, also if the last one
// had the wrong credentials.
func TestInboxHeldInDoubt(t *testing.T) {
	x := newSite(t)
	x.publish("saga: both\nsteps:\n  - {id: make, http: \"POST ${vars.things}\", body: {}, in_doubt: retry, retry: {attempts: 3, initial: 1ms}}\n")
	x.lose(0)
	x.rule(world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/things"}, Times: 1, Do: world.Do{Before: world.FaultStatus, Status: 401}})
	x.waits(x.start("both", `null`))
	x.page("/inbox?kind=held").want(200).has("An earlier attempt may have had an effect", "although the step stays in doubt").lacks("The saga continues without the step.")
}

func TestInboxOnHold(t *testing.T) {
	x := newSite(t)
	x.publish("saga: holds\nsteps:\n  - {id: reserve, http: \"POST ${vars.things}\", body: {}, retry: none, on_error: hold}\n")
	x.rule(status("POST", "/things", 429))
	id := x.start("holds", `{}`)
	x.until("it is on hold", func() bool { return len(x.saga(id).Open) == 1 })
	x.page("/inbox?kind=exhausted").want(200).has("Step reserve is on hold: its attempts are used up", "/sagas/"+id+"#do-resume", "<b>new</b> idempotency")
	a := x.page("/sagas/" + id).want(200).has("The steps that are on hold are tried again")
	x.post("/sagas/"+id+"/command/resume", append(a.hidden("/sagas/"+id+"/command/resume"), "reason", "it is over")...).want(303)
	x.becomes(id, saga.Succeeded)
}

func TestInboxBudget(t *testing.T) {
	x := newSite(t)
	x.publish(asks)
	id := x.start("asks", `{"n": 6}`)
	x.waits(id)
	a := x.page("/inbox?definition=asks").want(200).has("Raise the budget…", "0.10 EUR", "1.00 EUR", "continues as soon as its maximum cost fits into it")
	form := a.hidden("/inbox/budget")
	x.post("/inbox/budget", append(form, "amount", "4.00 EUR", "reason", "it is worth it")...).want(303)
	x.until("the write is made", func() bool { return x.saga(id).Cost.Spent != "0.10" })
}

func TestInboxBudgetRefused(t *testing.T) {
	x := newSite(t)
	x.publish(asks)
	id := x.start("asks", `{"n": 6}`)
	x.waits(id)
	form := x.page("/inbox").want(200).hidden("/inbox/budget")
	x.post("/inbox/budget", append(form, "reason", "x")...).want(409).has(`<details class="action" id="raise-`, " open>", "the budget needs an amount")
	x.post("/inbox/budget", append(form, "amount", "much", "reason", "it is <b>worth</b> it")...).want(422).has("not an amount of money", `value="much"`, "it is &lt;b&gt;worth")
	x.post("/inbox/budget", append(form, "amount", "0.01 EUR", "reason", "x")...).want(409).has("cannot be below the amount already spent")
	x.post("/inbox/budget", "saga", id, "seen", "0.90 EUR", "amount", "5.00 EUR", "reason", "x").want(412).has("The budget has changed since you opened the page", `value="5.00 EUR"`)
	if b := x.saga(id).Cost.Budget; b != "1.00" {
		t.Errorf("the budget is %s", b)
	}
}

// The inbox says whether a saga continues after its budget was raised.
func TestInboxBudgetContinues(t *testing.T) {
	x := newSite(t)
	x.publish(asks)
	id := x.start("asks", `{"n": 6}`)
	x.waits(id)
	raise := func(amount string) *answer {
		t.Helper()
		form := x.page("/inbox").want(200).hidden("/inbox/budget")
		x.post("/inbox/budget", append(form, "amount", amount, "reason", "r")...).want(303)
		return x.page("/inbox").want(200)
	}
	raise("1.01 EUR").has("is now 1.01 EUR. It still waits for a person").lacks("continues.</p>")
	x.rest("POST", "/v1/sagas/"+id+"/pause", `{}`).want(202)
	raise("4.00 EUR").has("is now 4.00 EUR. It is paused: it continues when somebody resumes it").lacks("continues.</p>")
	x.rest("POST", "/v1/sagas/"+id+"/resume", `{}`).want(202)

	id = x.start("asks", `{"n": 6}`)
	x.waits(id)
	raise("4.00 EUR").has("is now 4.00 EUR, and the saga continues.</p>")
}

// A budget is raised if it is the one that the user saw, even if the saga has changed otherwise.
func TestInboxBudgetMeanwhile(t *testing.T) {
	m := &meddler{before: func(string) {}}
	x := newSite(t, func(a *api.Config, _ *Config) { m.Engine, a.Engine = a.Engine, m })
	x.publish(asks + "  - {id: never, signal: com.shop.go}\n")
	id := x.start("asks", `{"n": 6}`)
	x.waits(id)
	signal := func() {
		seq := x.saga(id).Seq
		x.rest("POST", "/v1/sagas/"+id+"/signals/com.shop.go", "1").want(202)
		x.until("it is read", func() bool { return x.saga(id).Seq > seq })
	}
	form := x.page("/inbox").want(200).hidden("/inbox/budget")
	signal() // after the page was rendered
	times := 0
	m.before = func(string) {
		if times++; times == 1 {
			signal() // and after it was read again
		}
	}
	x.post("/inbox/budget", append(form, "amount", "1.50 EUR", "reason", "r")...).want(303)
	if b := x.saga(id).Cost.Budget; b != "1.50" || times != 2 {
		t.Errorf("the budget is %s, ordered %d times", b, times)
	}
	x.post("/inbox/budget", append(form, "amount", "1.60 EUR", "reason", "r")...).want(412)
	form = x.page("/inbox").want(200).hidden("/inbox/budget")
	m.before = func(string) { signal() }
	x.post("/inbox/budget", append(form, "amount", "1.60 EUR", "reason", "r")...).want(409).has("The saga changes too fast")
	if b := x.saga(id).Cost.Budget; b != "1.50" {
		t.Errorf("the budget is %s", b)
	}
}

func TestInboxApproval(t *testing.T) {
	x := newSite(t)
	x.publish(approval)
	id := x.start("approval", `{"amount": 12}`)
	x.waits(id)
	a := x.page("/inbox").want(200).has("Pay 12 EUR?", "Exact JSON that is approved", `&#34;amount&#34;: 12`, "Ada &amp; &lt;script&gt;").lacks("<script>alert")
	to := "/sagas/" + id + "/steps/ok/approve"
	a.has(pairsOf(a.hidden(to))["shown_hash"])
	_, form, _ := strings.Cut(a.body, `action="`+to+`"`)
	_, buttons, _ := strings.Cut(form, "<button")
	if first, _, _ := strings.Cut(buttons, ">"); !strings.Contains(first, "disabled") {
		t.Errorf("Enter in a field of the form presses <button%s>", first)
	}
	x.post(to, append(a.hidden(to), "/data/limit", "12345678901234567890", "comment", "fine")...).want(303)
	x.becomes(id, saga.Succeeded)
	if got := string(x.saga(id).Output); !strings.Contains(got, `"limit":12345678901234567890`) {
		t.Errorf("output %s", got)
	}
}

// An approval shows hidden characters as escapes, and so those that change how others read: here
// the account 321 would read as 123.
func TestInboxApprovalOfHiddenText(t *testing.T) {
	x := newSite(t)
	x.publish(`saga: hides
input: {to: string}
steps:
  - id: ok
    approval: {title: "Pay?", show: {to: "${input.to}", list: ["${input.to}"]}, covers: [pay]}
  - {id: pay, http: "POST ${vars.things}", body: {to: "${input.to}"}, in_doubt: retry}
`)
	id := x.start("hides", `{"to": "account \u202e321"}`)
	entry := x.waits(id)
	for _, a := range []*answer{x.page("/inbox"), x.page("/sagas/" + id), x.post("/inbox/together", "entry", id+"/"+entry)} {
		_, shown, _ := strings.Cut(a.want(200).body, "Pay?")
		shown, _, _ = strings.Cut(shown, "<form") // which returns what was shown, as it is
		if strings.Contains(shown, "\u202e") || !strings.Contains(shown, `account \u{202e}321`) {
			t.Errorf("%s", shown)
		}
	}
}

func pairsOf(list []string) map[string]string {
	m := map[string]string{}
	for i := 0; i+1 < len(list); i += 2 {
		m[list[i]] = list[i+1]
	}
	return m
}

// A decision about content that has changed is refused, and the difference is shown.
func TestInboxStale(t *testing.T) {
	x := newSite(t)
	x.publish(approval)
	other, id := x.start("approval", `{"amount": 12}`), x.start("approval", `{"amount": 13}`)
	x.waits(other)
	x.waits(id)
	seen := x.page("/inbox").want(200).hidden("/sagas/" + other + "/steps/ok/approve")
	to := "/sagas/" + id + "/steps/ok/approve"
	a := x.post(to, append(seen, "/data/limit", "5", "comment", "as I saw it")...).want(409)
	a.has("Changes since you opened this page", `<tr class="went"><td class="n">2</td><td class="n"></td><td class="m">-</td><td><code>  &#34;amount&#34;: 12,`,
		`<tr class="come"><td class="n"></td><td class="n">2</td><td class="m">&#43;</td><td><code>  &#34;amount&#34;: 13,`, "as I saw it").lacks("<script>alert")
	if len(x.saga(id).Open) != 1 {
		t.Fatal("it was decided")
	}
	x.post(to, append(a.hidden(to), "/data/limit", "5", "comment", "now I have seen it")...).want(303)
	x.becomes(id, saga.Succeeded)
}

const nod = `saga: nod
input: {n: integer}
steps:
  - id: ok
    approval: {title: "Pay ${input.n}?", show: {n: "${input.n}"}}
`

// itemForm matches the entries in the confirmation page's form.
var itemForm = regexp.MustCompile(`<input type="hidden" name="item" value="([^"]*)">`)

// together confirms a selection, and returns the second form.
func (x *site) together(pairs ...string) (*answer, []string) {
	x.t.Helper()
	a := x.post("/inbox/together", pairs...).want(200)
	return a, a.hidden("/inbox/together/run")
}

func TestBulkApprove(t *testing.T) {
	x := newSite(t)
	x.publish(nod)
	x.publish(asks)
	var ids, ticks []string
	for n := range 4 {
		id := x.start("nod", fmt.Sprintf(`{"n": %d}`, 100+n))
		ids = append(ids, id)
		ticks = append(ticks, "entry", id+"/"+x.waits(id))
	}
	x.rule(status("POST", "/things", 401))
	held := x.start("asks", `{"n": 1}`)
	ticks = append(ticks, "entry", held+"/"+x.waits(held), "back", "/inbox?kind=approval")
	x.page("/inbox").want(200).has("selected…", "all of approval · nod…", `value="`+ticks[1]+`"`).lacks("all of held")

	x.post("/sagas/"+ids[3]+"/steps/ok/reject", x.page("/inbox").hidden("/sagas/"+ids[3]+"/steps/ok/approve")...).want(303)
	a, form := x.together(ticks...)
	a.has("Decide 3 entries together", "Nothing has been done yet", "Pay 100?", "&#34;n&#34;: 102", "2 entries are left out", "it is of another kind", "it is no longer in the inbox", "Approves exactly what is shown above").lacks("Pay 103?")
	if n := len(itemForm.FindAllString(a.body, -1)); n != 3 {
		t.Fatalf("the page is about %d entries", n)
	}
	for _, id := range ids[:3] {
		if x.saga(id).Status != saga.Waiting {
			t.Error("asking has decided")
		}
	}
	x.post("/inbox/together/run", append(form, "outcome", "approve")...).want(422).has("Nothing was decided")
	// Before the form is sent, someone else decides one entry, and another one changes.
	x.post("/sagas/"+ids[1]+"/steps/ok/reject", x.page("/inbox").hidden("/sagas/"+ids[1]+"/steps/ok/approve")...).want(303)
	for i := range form {
		if strings.Contains(form[i], "saga="+ids[2]) {
			q, _ := url.ParseQuery(form[i])
			q.Set("shown", strings.Repeat("0", 64))
			form[i] = q.Encode()
		}
	}
	send := append(slices.Clip(form), "outcome", "approve", "reason", "the list of Monday")
	a = x.post("/inbox/together/run", send...).want(200)
	a.has("1 done", "2 not", "✓ done", "The approval is decided", "the inbox entry has changed since it was shown", `href="/inbox?kind=approval"`)
	x.becomes(ids[0], saga.Succeeded)
	x.becomes(ids[1], saga.Compensated)
	if x.saga(ids[2]).Status != saga.Waiting {
		t.Error("what was not shown was approved")
	}
	// A form sent twice is applied once, and shows the same result.
	x.post("/inbox/together/run", send...).want(200).has("1 done", "2 not")
}

func TestBulkResolve(t *testing.T) {
	x := newSite(t)
	x.publish(charge)
	x.rule(world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/things", BodyContains: `"amount"`}, Times: 3, Do: world.Do{After: world.FaultDrop}})
	var ids []string
	for n := range 3 {
		id := x.start("charge", fmt.Sprintf(`{"amount": %d, "note": "x"}`, n))
		x.waits(id)
		ids = append(ids, id)
	}
	a, form := x.together("group", "in_doubt/charge")
	a.has("Decide 3 entries together", "It did not happen", "POST "+x.world.URL+"/things", "A joint decision has no output")
	to := "/sagas/" + ids[1] + "/steps/charge/resolve"
	x.post(to, append(x.page("/inbox").hidden(to), "outcome", "succeeded", "output", "null", "reason", "this one is there")...).want(303)
	x.becomes(ids[1], saga.Succeeded)
	x.post("/inbox/together/run", append(form, "outcome", "failed", "reason", "looked: not there")...).want(200).has("2 done", "1 not", "ended")
	want := []saga.Status{saga.Compensated, saga.Succeeded, saga.Compensated}
	for i, id := range ids {
		x.becomes(id, want[i])
	}
	x.post("/inbox/together", "entry", ids[0]+"/"+ids[0]).want(422).has("No entry is selected, or none of them is in the inbox any longer")
}

// A whole group is decided in parts, and the page always says that there are more.
func TestBulkOfMany(t *testing.T) {
	x := newSite(t)
	x.publish(nod)
	x.publish(strings.Replace(nod, "saga: nod", "saga: other", 1))
	const many = 450
	ids := map[string]bool{}
	for n := range many {
		ids[x.start("nod", fmt.Sprintf(`{"n": %d}`, n))] = true
		if n%10 == 0 {
			x.start("other", `{"n": 1}`)
		}
	}
	x.until("all wait", func() bool {
		return strings.Contains(x.page("/inbox").body, fmt.Sprintf("<b>%d</b>", many+many/10))
	})
	taken := regexp.MustCompile(`name="item" value="[^"]*saga=([0-9a-f-]+)`)
	of := func(a *answer) (list []string) {
		for _, m := range taken.FindAllStringSubmatch(a.body, -1) {
			if !ids[m[1]] {
				t.Errorf("saga %s is not one of them", m[1])
			}
			list = append(list, m[1])
		}
		return list
	}
	a, form := x.together("group", "approval/nod")
	first := of(a.has("Decide 100 entries together", "These are the first 100", "350 more are not included"))
	to := form[slices.Index(form, "to")+1]
	second := of(x.post("/inbox/together", "group", "approval/nod", "from", to).want(200).has("These are the next 100", "250 more are not"))
	if len(first) != 100 || len(second) != 100 || slices.ContainsFunc(second, func(id string) bool { return slices.Contains(first, id) }) {
		t.Errorf("%d and %d entries", len(first), len(second))
	}
	for part := 1; ; part++ {
		for _, id := range of(a) {
			delete(ids, id)
		}
		a = x.post("/inbox/together/run", append(form, "outcome", "approve", "reason", "the list of Monday")...).want(200)
		if part == 5 {
			a.has("50 done", "There are no further entries").lacks("still wait")
			break
		}
		a.has("100 done", fmt.Sprintf("%d more entries", many-100*part))
		a = x.post("/inbox/together", a.hidden("/inbox/together")...).want(200)
		form = a.hidden("/inbox/together/run")
	}
	if len(ids) != 0 {
		t.Errorf("%d were never shown", len(ids))
	}
	x.until("only the others wait", func() bool { return strings.Contains(x.page("/inbox").body, fmt.Sprintf("<b>%d</b>", many/10)) })
	x.post("/inbox/together", "group", "approval/nod").want(422).has("None of these entries is in the inbox any longer")
}

// If more entries are selected than can be decided together, the page lists those left out.
func TestBulkTooManyTicked(t *testing.T) {
	x := newSite(t)
	x.publish(nod)
	var ticks []string
	for n := range mostTogether + 2 {
		id := x.start("nod", fmt.Sprintf(`{"n": %d}`, n))
		ticks = append(ticks, "entry", id+"/"+x.waits(id))
	}
	x.post("/inbox/together", ticks...).want(200).has("Decide 100 entries together", "2 entries are left out", tooMany)
}

// A saga may have more entries than a page of the inbox.
func TestBulkOfOneSaga(t *testing.T) {
	x := newSite(t)
	const many = 2*inboxPage + 3
	x.publish(fmt.Sprintf("saga: pages\nsteps:\n  - id: each\n    foreach: [%s0]\n    as: n\n    max_parallel: %d\n    steps:\n      - {id: ok, approval: {title: \"Page ${n}?\"}}\n", strings.Repeat("1, ", many-1), many))
	id := x.start("pages", `{}`)
	x.until("all wait", func() bool { return len(x.saga(id).Open) == many })
	ticks := []string{}
	for _, e := range x.saga(id).Open {
		ticks = append(ticks, "entry", id+"/"+e)
	}
	x.post("/inbox/together", ticks...).want(200).has(fmt.Sprintf("Decide %d entries together", many)).lacks("left out")
}

// The page says once, for all its entries, what a decision means. Entries for which it means
// something else are left out.
func TestBulkLeavesOtherMeanings(t *testing.T) {
	x := newSite(t)
	x.publish(asks)
	x.rule(status("POST", "/things", 401))
	forward := x.start("asks", `{"n": 1}`)
	x.waits(forward)
	x.rule(status("DELETE", "/things", 401))
	undo := x.start("asks", `{"n": 4}`)
	x.waits(undo)
	a := x.post("/inbox/together", "group", "held/asks").want(200).has("Decide 1 entry together", "1 entry is left out", "a decision means something else for it",
		"The saga continues without the step.").lacks("The effect counts as remaining")
	if item := itemForm.FindStringSubmatch(a.body); item == nil || !strings.Contains(item[1], forward) {
		t.Errorf("the entry is %q", item)
	}
	x.post("/inbox/together", "entry", undo+"/"+x.waits(undo)).want(200).has("Decide 1 entry together", ", undoing", "The effect counts as remaining").lacks("left out")
}

// Approvals that need data of their own are not decided in bulk.
func TestBulkLeavesForms(t *testing.T) {
	x := newSite(t)
	x.publish(approval)
	for n := range 2 {
		x.waits(x.start("approval", fmt.Sprintf(`{"amount": %d}`, n)))
	}
	a := x.post("/inbox/together", "group", "approval/approval").want(200).has("2 entries are left out", "needs data of its own")
	a.lacks("/inbox/together/run")
}

func TestInboxByRole(t *testing.T) {
	for role, may := range map[string]string{"viewer": "", "client": "", "approver": "decide", "operator": "decide operate"} {
		t.Run(role, func(t *testing.T) {
			x := newSite(t, keysRequired)
			x.key("boss", "admin")
			x.publish(nod)
			x.publish(asks)
			var waiting []string
			for n := range 2 {
				id := x.start("nod", fmt.Sprintf(`{"n": %d}`, n))
				waiting = append(waiting, id+"/"+x.waits(id))
			}
			x.waits(x.start("asks", `{"n": 6}`))
			for range 2 {
				x.rule(status("POST", "/things", 401))
				x.waits(x.start("asks", `{"n": 1}`))
			}
			items := x.post("/inbox/together", "group", "approval/nod").want(200).hidden("/inbox/together/run")
			x.key("the desk", role)
			a := x.page("/inbox").want(200).has("Pay 0?", "rejects the credentials")
			offered := func(what string, on bool) {
				t.Helper()
				if got := strings.Contains(a.body, what); got != on {
					t.Errorf("%q is offered: %v", what, got)
				}
			}
			decide, operate := strings.Contains(may, "decide"), strings.Contains(may, "operate")
			offered(">Approve</button>", decide)
			offered("all of approval · nod…", decide)
			offered("Resolve reserve…", operate)
			offered("Raise the budget…", operate)
			offered("all of held credentials · asks…", operate)
			if !decide {
				x.post("/inbox/together/run", append(items, "outcome", "approve", "reason", "no")...).want(200).has("0 done", "2 not")
				if x.saga(strings.SplitN(waiting[0], "/", 2)[0]).Status != saga.Waiting {
					t.Error("it was decided")
				}
			}
			if !operate {
				x.post("/inbox/budget", "saga", strings.SplitN(waiting[0], "/", 2)[0], "seen", "none", "amount", "9.00 EUR", "reason", "x").want(403)
			}
		})
	}
}

// Pages of the inbox are disjoint and complete, also with a filter.
func TestInboxPages(t *testing.T) {
	x := newSite(t)
	x.publish(nod)
	x.publish(strings.Replace(nod, "saga: nod", "saga: other", 1))
	var want []string
	for n := range 60 {
		id := x.start([]string{"nod", "other"}[n%2], fmt.Sprintf(`{"n": %d}`, n))
		x.waits(id)
		if n%2 == 0 {
			want = append(want, id)
		}
	}
	row := regexp.MustCompile(`class="row" href="/sagas/([0-9a-f-]+)"`)
	newer := regexp.MustCompile(`<a href="([^"]+)" rel="next">`)
	for at, all := range map[string]int{"/inbox": 60, "/inbox?definition=nod": 30} {
		var got []string
		for at != "" {
			a := x.page(at).want(200)
			for _, m := range row.FindAllStringSubmatch(a.body, -1) {
				got = append(got, m[1])
			}
			m := newer.FindStringSubmatch(a.body)
			at = ""
			if m != nil {
				at = strings.ReplaceAll(m[1], "&amp;", "&")
			}
		}
		if len(got) != all {
			t.Errorf("%d entries are listed, want %d", len(got), all)
		}
		if all == 30 {
			slices.Sort(want)
			slices.Sort(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		}
	}
}

func TestInShell(t *testing.T) {
	for sealed, want := range map[string]string{
		"https://x.example/a?b=c&d":     `'https://x.example/a?b=c&d'`,
		"it's; rm -rf $(x)":             `'it'\''s; rm -rf $(x)'`,
		"Bearer ${secrets.PAY_KEY}":     `'Bearer '"$PAY_KEY"`,
		"${secrets.A}:${secrets.B}":     `"$A"':'"$B"`,
		"$${secrets.A}":                 `'${secrets.A}'`,
		"a\x00b${secrets.A}":            `'ab'"$A"`,
		"${secrets.A\"; echo ${HOME}}'": `'${secrets.A"; echo ${HOME}}'\'''`,
	} {
		if got := inShell(sealed); got != want {
			t.Errorf("%q: %s, want %s", sealed, got, want)
		}
	}
}
