package api

import (
	"context"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// below opens a session that belongs to a saga.
func (x *fixture) below(parent, key, fields string, more ...header) *answer {
	return x.do("POST", "/v1/sessions", `{"name": "helper", "key": "`+key+`", "actions": ["charge"], "parent": "`+parent+`"`+fields+`}`, more...)
}

// work attaches a process to a session, which does one step at this cost, and commits.
func (x *fixture) work(session, cost string) {
	x.t.Helper()
	a := &agent{x: x, id: session, secret: NewSecret()}
	a.attach("").want(200)
	a.begin(201, `{"id": "work", "effect": "none", "reserve": "`+cost+`"}`)
	a.finish("work", `{"attempt": 1, "status": "succeeded", "cost": "`+cost+`"}`).want(200)
	a.do("POST", "/commit", "").want(200)
}

func (x *fixture) cost(id string) saga.CostView {
	x.t.Helper()
	return x.do("GET", "/v1/sagas/"+id, "").want(200).saga().Cost
}

// A session reserves from the budget of the session that it belongs to, and what it has cost is
// booked there at its end.
func TestSessionParent(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, `, "budget": "1.00 USD"`)
		var one, two sessionView
		x.below(a.id, "one", `, "budget": "0.40 USD"`).want(201).into(&one)
		if c := x.cost(a.id); one.Parent != a.id || one.Cost.Budget != "0.40" || c.Reserved != "0.40" {
			t.Errorf("opened %+v; the parent's cost is %+v", one.View, c)
		}
		var again sessionView
		x.below(a.id, "one", `, "budget": "0.40 USD"`).want(200).into(&again)
		if c := x.cost(a.id); again.ID != one.ID || c.Reserved != "0.40" {
			t.Errorf("opened again as %s, not %s; the parent's cost is %+v", again.ID, one.ID, c)
		}
		x.below(a.id, "one", `, "budget": "0.50 USD"`).problem(422, "idempotency_key_reused")
		x.below(a.id, "large", `, "budget": "0.70 USD"`).problem(402, "budget_exhausted")
		x.below(a.id, "foreign", `, "budget": "0.10 EUR"`).problem(409, "bad_budget")
		x.below(a.id, "two", "").want(201).into(&two)
		if two.Cost.Budget != "0.60" {
			t.Errorf("without a budget it has %s, want all that is left", two.Cost.Budget)
		}
		x.below(a.id, "three", "").problem(402, "budget_exhausted")
		patch := func(amount string) *answer {
			return x.do("PATCH", "/v1/sagas/"+one.ID, `{"budget": "`+amount+`", "reason": "more"}`, header{"If-Match", "*"})
		}
		patch("0.41 USD").problem(409, "over_parents_budget")
		patch("0.40 USD").want(200)

		x.work(one.ID, "0.25")
		x.until(a.id, func(v machine.View) bool { return v.Cost.Children != nil })
		if c := x.cost(a.id); c.Spent != "0.25" || c.Children.Spent != "0.25" || c.Reserved != "0.60" {
			t.Errorf("after the end of the first session the parent's cost is %+v", c)
		}
		a.begin(201, `{"id": "own", "effect": "none", "reserve": "0.15"}`)
		a.finish("own", `{"attempt": 1, "status": "succeeded", "cost": "0.15"}`).want(200)
		a.do("POST", "/steps", `{"id": "more", "effect": "none", "reserve": "0.01"}`).problem(402, "budget_exhausted")

		a.do("POST", "/abort", `{"reason": "enough"}`).want(202)
		a.do("POST", "/detach", "").want(200)
		x.until(a.id, func(v machine.View) bool { return v.Status.Terminal() })
		if v := x.do("GET", "/v1/sagas/"+two.ID, "").want(200).saga(); v.Status.Terminal() {
			t.Errorf("the parent's abort has ended the session: %s", v.Status)
		}
		x.below(a.id, "late", "").problem(409, "parent_ended")
		x.work(two.ID, "0.10") // its report finds nobody who listens
	})
}

// reserve lets a saga reserve a part of its budget, as a request does that then dies.
func (x *fixture) reserve(parent, key string, part *saga.BudgetData) {
	x.t.Helper()
	x.message(parent, saga.Reserve{Key: startKey(key), Part: part})
	x.until(parent, func(v machine.View) bool { return v.Cost.Reserved == part.Amount })
}

// startKey is the key under which a session is started that below opens.
func startKey(key string) string { return caller{name: saga.Anonymous}.scope() + ":session:" + key }

// message sends a command to a saga, as another saga does.
func (x *fixture) message(id string, do saga.Operation) {
	x.t.Helper()
	m, err := saga.Command{Do: do}.Message(uuid.Must(uuid.NewV7()), uuid.FromStringOrNil(id))
	if err == nil {
		err = x.eng.Send(context.Background(), m)
	}
	if err != nil {
		x.t.Fatal(err)
	}
}

// A request that is repeated after the parent has reserved, and before the session was started,
// starts it with the same part.
func TestSessionParentReservedBefore(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "1.00 USD"`)
	x.reserve(a.id, "k", &saga.BudgetData{Amount: "0.30", Currency: "USD"})
	var v sessionView
	x.below(a.id, "k", `, "budget": "0.30 USD"`).want(201).into(&v)
	if c := x.cost(a.id); c.Reserved != "0.30" || v.Cost.Budget != "0.30" {
		t.Errorf("the session has %s, and its parent has reserved %s", v.Cost.Budget, c.Reserved)
	}
}

// A part that is reserved for a session whose start was lost is only for a request that asks for
// this part. A request with the same key that asks for another one, or whose actions are in another
// currency now, is refused.
func TestSessionParentReservedForAnother(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "1.00 USD"`)
	x.do("PUT", "/v1/actions/euro", "action: euro\nagents: auto\nhttp: POST ${vars.pay}/charges\nin_doubt: retry\ncompensate: none\ncost: 0.10 EUR\n").want(201)
	x.reserve(a.id, "k", &saga.BudgetData{Amount: "0.90", Currency: "USD"})
	x.below(a.id, "k", `, "budget": "0.10 USD"`).problem(422, "idempotency_key_reused")
	x.below(a.id, "k", `, "budget": {"tokens": 5}`).problem(422, "idempotency_key_reused")
	x.do("POST", "/v1/sessions", `{"name": "helper", "key": "k", "actions": ["euro"], "parent": "`+a.id+`"}`).problem(422, "idempotency_key_reused")
	var v sessionView
	x.below(a.id, "k", `, "budget": "0.90 USD"`).want(201).into(&v)
	if v.Cost.Budget != "0.90" {
		t.Errorf("the session's budget is %+v", v.Cost)
	}
}

// The cost of a session is a sum, and may have more digits than a single amount.
func TestSessionParentDigits(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "100.00 USD"`)
	x.do("PUT", "/v1/actions/priced", "action: priced\nagents: auto\ninput: {price: number}\nhttp: POST ${vars.mail}/send\nbody: {to: a@example.com, text: x}\nin_doubt: fail\ncost: {from: input.price, reserve: 20 USD}\n").want(201)
	var v sessionView
	x.do("POST", "/v1/sessions", `{"name": "helper", "key": "k", "actions": ["priced"], "budget": "60.00 USD", "parent": "`+a.id+`"}`).want(201).into(&v)
	helper := &agent{x: x, id: v.ID, secret: NewSecret()}
	helper.attach("").want(200)
	for _, price := range []string{"1e-30", "10"} {
		helper.do("POST", "/calls", `{"action": "priced", "input": {"price": `+price+`}}`).want(200)
	}
	helper.do("POST", "/commit", "").want(200)
	x.until(a.id, func(v machine.View) bool { return v.Cost.Children != nil })
	const spent = "10.000000000000000000000000000001"
	if c := x.cost(a.id); c.Spent != spent || strings.Trim(c.Reserved, "0.") != "" {
		t.Errorf("the parent's cost is %+v", c)
	}
	x.below(a.id, "rest", "").want(201).into(&v) // has all that is left
	if v.Cost.Budget != "89.999999999999999999999999999999" {
		t.Errorf("the second session has %s", v.Cost.Budget)
	}
	x.work(v.ID, "0.5")
	x.until(a.id, func(v machine.View) bool { return strings.HasPrefix(v.Cost.Spent, "10.5") })
}

// No number of tokens is so large that it fits.
func TestSessionParentTokens(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": {"tokens": 1000}`)
	x.below(a.id, "one", `, "budget": {"tokens": 10}`).want(201)
	x.below(a.id, "two", `, "budget": {"tokens": 1000000000000000}`).problem(402, "budget_exhausted")
	x.below(a.id, "three", `, "budget": {"tokens": 9223372036854775807}`, outside).problem(400, "invalid_request")
}

// A session may belong to a saga, too.
func TestSessionOfSaga(t *testing.T) {
	x := newFixture(t)
	openAgent(t, x, "") // publishes the actions
	x.publish("saga: desk\nbudget: {amount: 0.50 USD, tokens: 1000}\nsteps:\n  - {id: done, signal: done}\n")
	id := x.do("POST", "/v1/sagas", `{"definition": "desk"}`).want(201).saga().ID
	var v sessionView
	x.below(id, "k", "").want(201).into(&v)
	if v.Cost.Budget != "0.50" || v.Cost.Tokens.Budget != 1000 {
		t.Errorf("the session's budget is %+v", v.Cost)
	}
	x.work(v.ID, "0.20")
	x.until(id, func(v machine.View) bool {
		return v.Cost.Spent == "0.20" && strings.Trim(v.Cost.Reserved, "0.") == "" && v.Cost.Tokens.Reserved == 0
	})
	x.do("POST", "/v1/sagas/"+id+"/signals/done", "{}").want(202)
	x.until(id, func(v machine.View) bool { return v.Status == saga.Succeeded })
}

// A session whose actions cost money in another currency than its parent's budget is refused, and
// nothing stays reserved for it.
func TestSessionParentCurrency(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "1.00 USD"`)
	x.do("PUT", "/v1/actions/euro", "action: euro\nagents: auto\nhttp: POST ${vars.pay}/charges\nin_doubt: retry\ncompensate: none\ncost: 0.10 EUR\n").want(201)
	for _, budget := range []string{"", `, "budget": "0.20 EUR"`, `, "budget": {"tokens": 5}`} {
		x.do("POST", "/v1/sessions", `{"name": "helper", "key": "k", "actions": ["euro"], "parent": "`+a.id+`"`+budget+`}`).problem(409, "bad_budget")
	}
	if c := x.cost(a.id); c.Reserved != "0" {
		t.Errorf("the parent's cost is %+v", c)
	}
}

// What is wrong with the request is said before anything is reserved.
func TestSessionParentRefused(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "1.00 USD"`)
	for _, tt := range []struct {
		body   string
		status int
		code   code
	}{
		{`{"name": "helper", "actions": ["charge"], "parent": "` + a.id + `"}`, 400, "invalid_request"},
		{`{"name": "helper", "key": "k", "actions": ["charge"], "parent": "x"}`, 400, "invalid_request"},
		{`{"name": "helper", "key": "k", "actions": ["charge"], "parent": "01a219eb-09e4-7024-83d5-9dfecf343704"}`, 404, "saga_not_found"},
		{`{"name": "helper", "key": "k", "actions": ["nothing"], "parent": "` + a.id + `"}`, 422, "invalid_session"},
	} {
		x.do("POST", "/v1/sessions", tt.body).problem(tt.status, tt.code)
	}
	a.do("POST", "/abort", `{"reason": "enough"}`).want(202)
	x.below(a.id, "k", "").problem(409, "parent_ended")
	if c := x.cost(a.id); c.Reserved != "0" {
		t.Errorf("the parent's cost is %+v", c)
	}
}

// A budget that the parent gets later counts what its open sessions may cost.
func TestSessionParentBudgetLater(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	var v sessionView
	x.below(a.id, "k", `, "budget": {"amount": "0.40 USD", "tokens": 100}`).want(201).into(&v)
	patch := func(budget string) *answer {
		return x.do("PATCH", "/v1/sagas/"+a.id, `{"budget": `+budget+`, "reason": "a limit"}`, header{"If-Match", "*"})
	}
	patch(`"0.39 USD"`).problem(409, "bad_budget")
	patch(`{"tokens": 99}`).problem(409, "bad_budget")
	patch(`{"amount": "0.50 USD", "tokens": 120}`).want(200)
	if c := x.cost(a.id); c.Reserved != "0.40" || c.Tokens.Reserved != 100 {
		t.Errorf("the parent's cost is %+v", c)
	}
	x.below(a.id, "second", `, "budget": "0.11 USD"`).problem(402, "budget_exhausted")
	patch(`"0.60 USD"`).want(200) // it is counted once
	if c := x.cost(a.id); c.Reserved != "0.40" {
		t.Errorf("after another budget the parent's cost is %+v", c)
	}
	x.work(v.ID, "0.25")
	x.until(a.id, func(v machine.View) bool {
		return v.Cost.Spent == "0.25" && strings.Trim(v.Cost.Reserved, "0.") == "" && v.Cost.Tokens.Reserved == 0
	})
}

// The most that a key allows a session bounds what is left of the parent's budget, and does not
// have to be left.
func TestSessionParentGrant(t *testing.T) {
	x := newFixture(t)
	openAgent(t, x, "") // publishes the actions
	x.auth = "Bearer " + addAgentKey(x, "desk", journal.AgentGrant{Actions: []string{"charge@1"}, Budget: "0.50 USD"})
	var parent, one, two sessionView
	x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["charge"], "budget": "0.50 USD", "key": "p"}`).want(201).into(&parent)
	x.below(parent.ID, "one", `, "budget": "0.30 USD"`).want(201).into(&one)
	x.below(parent.ID, "two", "").want(201).into(&two)
	if two.Cost.Budget != "0.20" {
		t.Errorf("the session's budget is %q, want what is left", two.Cost.Budget)
	}
	x.below(parent.ID, "two", "").want(200)

	x.auth = "Bearer " + addAgentKey(x, "poor", journal.AgentGrant{Actions: []string{"charge@1"}, Budget: "0.10 USD"})
	x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["charge"], "budget": {"tokens": 1000}, "key": "p"}`).want(201).into(&parent)
	x.do("POST", "/v1/sessions", `{"name": "helper", "actions": ["charge"], "parent": "`+parent.ID+`", "key": "h", "budget": {"tokens": 10}}`).want(201).into(&one)
	if one.Cost.Budget != "0.10" || one.Cost.Tokens.Budget != 10 {
		t.Errorf("the session's budget is %+v", one.Cost)
	}
}

// A report that cannot be read is refused. It does not break the parent's journal.
func TestSessionParentUnreadable(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "1.00 USD"`)
	var v sessionView
	x.below(a.id, "k", `, "budget": "0.40 USD"`).want(201).into(&v)
	for _, c := range []saga.ChildCost{{Currency: "USD", Spent: "much"}, {Currency: "USD", Spent: "0", Reserved: "-1"}} {
		x.message(a.id, saga.Settle{Key: startKey("k"), Session: v.ID, Cost: c})
	}
	x.work(v.ID, "0.25")
	x.until(a.id, func(v machine.View) bool { return v.Cost.Spent == "0.25" })
}

// Amounts without a currency are in that of the parent's budget, also the most that a key allows.
func TestSessionParentWithoutCurrency(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "1.00 USD"`)
	open := func(parent, budget string) *answer {
		return x.do("POST", "/v1/sessions", `{"name": "helper", "key": "k", "actions": ["mail"], "parent": "`+parent+`"`+budget+`}`)
	}
	open(a.id, `, "budget": {"amount": "0.40"}`).want(201)
	open(a.id, `, "budget": {"amount": "0.40"}`).want(200)

	x.auth = "Bearer " + addAgentKey(x, "desk", journal.AgentGrant{Actions: []string{"charge@1", "mail@1"}, Budget: "0.50"})
	var parent sessionView
	x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["charge"], "budget": "0.50 USD", "key": "p"}`).want(201).into(&parent)
	open(parent.ID, "").want(201)
}

// A budget that the parent got later counts the cost of its session, also if nothing was reserved
// for it.
func TestSessionParentCountsLater(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	var v sessionView
	x.do("POST", "/v1/sessions", `{"name": "helper", "key": "k", "actions": ["mail"], "parent": "`+a.id+`"}`).want(201).into(&v)
	x.do("PATCH", "/v1/sagas/"+a.id, `{"budget": "1.00 USD", "reason": "a limit"}`, header{"If-Match", "*"}).want(200)
	x.work(v.ID, "0.25")
	x.until(v.ID, func(v machine.View) bool { return v.Status.Terminal() })
	x.below(a.id, "after", `, "budget": "0.10 USD"`).want(201) // later than the report
	if c := x.cost(a.id); c.Spent != "0.25" || c.Children.Spent != "0.25" {
		t.Errorf("the parent's cost is %+v", c)
	}
}
