package machine_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// parentOf plays a saga to which sessions may belong. It waits until a person ends it.
func parentOf(t *testing.T, budget string) *hand {
	t.Helper()
	return byHand(t, "saga: desk\n"+budget+"steps:\n  - {id: go, signal: go}\nfinally:\n  - {id: last, signal: last}\n", "null")
}

func limits(amount string, tokens int64) *saga.BudgetData {
	return &saga.BudgetData{Amount: amount, Currency: "USD", Tokens: tokens}
}

// refusalOf returns why the saga refuses a command; the zero Refusal: it does not.
func (h *hand) refusalOf(do saga.Operation) machine.Refusal {
	h.t.Helper()
	_, err := h.m.Validate(uuid.Must(uuid.NewV7()), saga.Command{Do: do})
	no, is := errors.AsType[*machine.Refusal](err)
	if err != nil && !is {
		h.t.Fatal(err)
	}
	if no == nil {
		return machine.Refusal{}
	}
	return *no
}

// A session gets the part that it asks for, or else what is left of its parent's budget, but no
// more than its key allows.
func TestReservedPart(t *testing.T) {
	const (
		money  = "budget: 1.00 USD\n"
		tokens = "budget: {tokens: 1000}\n"
	)
	bare := saga.Patch{Budget: &saga.BudgetData{Amount: "1.00"}} // without a currency
	for name, c := range map[string]struct {
		budget     string
		before     []saga.Operation
		part, most *saga.BudgetData
		want       *saga.BudgetData
		code, why  string
	}{
		"the part":                      {budget: money, part: limits("0.40", 0), want: limits("0.40", 0)},
		"without a currency":            {budget: money, part: &saga.BudgetData{Amount: "0.40"}, want: limits("0.40", 0)},
		"all that is left":              {budget: money, before: []saga.Operation{saga.Reserve{Key: "a", Part: limits("0.30", 0)}}, want: limits("0.70", 0)},
		"the most":                      {budget: money, most: limits("0.30", 0), want: limits("0.30", 0)},
		"the most, without a currency":  {budget: money, most: &saga.BudgetData{Amount: "0.30"}, want: limits("0.30", 0)},
		"the most is not left":          {budget: money, most: limits("1.01", 0), want: limits("1.00", 0)},
		"the most does not bound it":    {budget: money, part: limits("0.40", 0), most: limits("0.30", 0), want: limits("0.40", 0)},
		"nothing is left":               {budget: money, before: []saga.Operation{saga.Reserve{Key: "a"}}, code: "budget_exhausted", why: "raise"},
		"too much":                      {budget: money, part: limits("1.01", 0), code: "budget_exhausted", why: "reserved 0 of 1.00 USD"},
		"another currency":              {budget: money, part: &saga.BudgetData{Amount: "0.10", Currency: "EUR"}, code: "bad_budget", why: "is in USD"},
		"the most in another currency":  {budget: money, most: &saga.BudgetData{Amount: "0.10", Currency: "EUR"}, code: "bad_budget", why: "is in USD"},
		"the budget has no currency":    {before: []saga.Operation{bare}, part: limits("0.10", 0), code: "bad_budget", why: "has no currency"},
		"unreadable":                    {budget: money, part: limits("much", 0), code: "bad_budget", why: "not an amount"},
		"the most is unreadable":        {budget: money, most: limits("much", 0), code: "bad_budget", why: "not an amount"},
		"unreadable, and no budget":     {part: limits("much", 0), code: "bad_budget", why: "not an amount"},
		"tokens":                        {budget: tokens, part: &saga.BudgetData{Tokens: 10}, want: &saga.BudgetData{Tokens: 10}},
		"all tokens that are left":      {budget: tokens, before: []saga.Operation{saga.Reserve{Key: "a", Part: &saga.BudgetData{Tokens: 300}}}, want: &saga.BudgetData{Tokens: 700}},
		"no tokens are left":            {budget: tokens, before: []saga.Operation{saga.Reserve{Key: "a"}}, code: "budget_exhausted", why: "raise"},
		"too many tokens":               {budget: tokens, part: &saga.BudgetData{Tokens: 1001}, code: "budget_exhausted", why: "used 0, reserved 0 of 1000"},
		"no budget":                     {part: limits("0.40", 5), want: limits("0.40", 5)},
		"no budget, and the most":       {most: limits("0.30", 0), want: limits("0.30", 0)},
		"no budget, and nothing asked":  {},
		"no budget, only a currency":    {part: limits("", 0)},
		"no budget, the part, the most": {part: limits("0.40", 0), most: limits("0.30", 0), want: limits("0.40", 0)},
	} {
		t.Run(name, func(t *testing.T) {
			h := parentOf(t, c.budget)
			h.must("", c.before...)
			ask := saga.Reserve{Key: "k", Part: c.part, Most: c.most}
			if no := h.refusalOf(ask); no.Code != c.code || !strings.Contains(no.Detail, c.why) {
				t.Fatalf("refused: %+v, want %q: %s", no, c.code, c.why)
			}
			if c.code != "" {
				return
			}
			h.must("", ask)
			if _, part, ok := h.m.Guest("k"); !ok || !cmp.Equal(part, c.want) {
				t.Errorf("reserved: %+v, want %+v", part, c.want)
			}
		})
	}
}

// Nothing is reserved by a saga that is ending or that must not act, and nothing twice.
func TestReservationsRefused(t *testing.T) {
	ask := saga.Reserve{Key: "k"}
	refused := func(name string, h *hand, want string) {
		t.Helper()
		if no := h.refusalOf(ask); no.Code != want {
			t.Errorf("%s: %+v, want %q", name, no, want)
		}
	}
	h := parentOf(t, "")
	refused("it waits", h, "")
	h.must("", saga.Pause{})
	refused("paused", h, "paused")
	h.must("", saga.Resume{}, saga.Reserve{Key: "l"})
	refused("another key", h, "")
	h.must("", ask)
	refused("the same key", h, "reserved")
	for n := range 998 {
		h.must("", saga.Reserve{Key: strconv.Itoa(n)})
	}
	ask.Key = "one too many"
	refused("1000 sessions", h, "limit")

	h = parentOf(t, "")
	h.must("", saga.Signal{Name: "go"})
	refused("only finally is left", h, "parent_ended")

	h = byHand(t, "saga: x\nsteps:\n  - {id: pay, http: \"POST http://w/pay\", body: {}, compensate: {http: \"DELETE http://w/pay\"}}\n", "null")
	h.must("", saga.Cancel{})
	refused("it fails, and a request is in flight", h, "parent_ended")
	h.reply("pay", "200 {}")
	refused("it is undone", h, "parent_ended")

	def, errs := dsl.Session(&saga.SessionData{Name: "s", Actions: []string{"look@1"}}, dsl.Options{Kinds: kinds.All(), Actions: actionsOf(sessionActions)})
	if errs != nil {
		t.Fatal(errs)
	}
	h = started(t, def, parentID, machine.StartOptions{})
	refused("an open session", h, "")
	h.must("", saga.Attach{Token: "x"}, saga.CommitSession{Life: 1})
	refused("a committed session", h, "terminal")

	for effects, want := range map[saga.Effects]string{saga.RealEffects: "", saga.HoldEffects: "fork_holds"} {
		h := parentOf(t, "")
		refused("a fork with the effects "+string(effects), h.fork(machine.ForkOptions{Effects: effects}), want)
	}
}

// The report of a session replaces what was reserved for it.
func TestSettledSession(t *testing.T) {
	h := parentOf(t, "budget: {amount: 1.00 USD, tokens: 1000}\n")
	h.must("", saga.Reserve{Key: "k", Part: limits("0.40", 400)}, saga.Reserve{Key: "l", Part: limits("0.10", 7)})
	if c := h.m.Cost(); c.Reserved != "0.50" || c.Tokens.Reserved != 407 || c.Children != nil {
		t.Errorf("before the report the cost is %+v", c)
	}
	report := saga.Settle{Key: "k", Cost: saga.ChildCost{Currency: "USD", Spent: "0.25", Reserved: "0.05", Tokens: saga.TokensView{Input: 100, Output: 50, Reserved: 20}}}
	h.must("", report)
	got := h.m.Cost()
	want := saga.CostView{Currency: "USD", Budget: "1.00", Spent: "0.25", Reserved: "0.15", Wasted: "0", Tokens: saga.TokensView{Input: 100, Output: 50, Reserved: 27, Budget: 1000},
		Children: &saga.ChildrenView{Spent: "0.25", Tokens: saga.TokensView{Input: 100, Output: 50}}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("after the report the cost is (-want +got):\n%s", d)
	}
	if no := h.refusalOf(report); no.Code != "settled" {
		t.Errorf("a second report: %+v", no)
	}
	if no := h.refusalOf(saga.Settle{Key: "none"}); no.Code != "settled" {
		t.Errorf("a report of no session: %+v", no)
	}
}

// The cost of a session counts for a budget that its parent got later, if it can be in the same
// currency, also if nothing was reserved for it.
func TestSettledInAnotherCurrency(t *testing.T) {
	for currency, want := range map[string]string{"USD": "0.25", "": "0.25", "EUR": "0"} {
		h := parentOf(t, "")
		h.must("", saga.Reserve{Key: "k"}, saga.Patch{Budget: limits("1.00", 0)}, saga.Settle{Key: "k", Cost: saga.ChildCost{Currency: currency, Spent: "0.25"}})
		if c := h.m.Cost(); c.Spent != want {
			t.Errorf("a session has cost 0.25 %s, and the parent's cost is %+v", currency, c)
		}
	}
}

// A budget that a saga gets later counts, once, what was reserved for sessions that have not ended.
func TestBudgetCountsSessions(t *testing.T) {
	h := parentOf(t, "")
	h.must("", saga.Reserve{Key: "k", Part: limits("0.40", 100)}, saga.Reserve{Key: "free"},
		saga.Reserve{Key: "euro", Part: &saga.BudgetData{Amount: "5", Currency: "EUR"}},
		saga.Reserve{Key: "over", Part: limits("0.30", 30)}, saga.Settle{Key: "over", Cost: saga.ChildCost{Spent: "0"}})
	patched(t, h, *limits("0.39", 0), "the budget cannot be below the amount already spent and reserved")
	for _, b := range []*saga.BudgetData{limits("0.40", 99), {Tokens: 99}} {
		patched(t, h, *b, "the budget cannot be below the tokens already used and reserved")
	}
	for _, step := range []struct {
		budget *saga.BudgetData
		money  string
		tokens int64
	}{
		{limits("0.40", 0), "0.40", 0},
		{&saga.BudgetData{Tokens: 100}, "0.40", 100},
		{limits("0.60", 150), "0.40", 100},
	} {
		h.must("", saga.Patch{Budget: step.budget})
		if c := h.m.Cost(); c.Reserved != step.money || c.Tokens.Reserved != step.tokens {
			t.Errorf("with a budget of %+v the cost is %+v", step.budget, c)
		}
	}
	h.must("", saga.Settle{Key: "k", Cost: saga.ChildCost{Currency: "USD", Spent: "0.10", Tokens: saga.TokensView{Input: 9, Output: 5}}})
	if c := h.m.Cost(); c.Spent != "0.10" || strings.Trim(c.Reserved, "0.") != "" || c.Tokens.Input != 9 || c.Tokens.Output != 5 || c.Tokens.Reserved != 0 {
		t.Errorf("after the report the cost is %+v", c)
	}
}

// A journal whose reservations and reports are incomplete, or about no session, is refused.
func TestUnreadableSessionParts(t *testing.T) {
	cost := &saga.ChildCost{Spent: "0"}
	id := parentID
	for name, c := range map[string]struct {
		command string
		part    *saga.SessionPart
	}{
		"no session":              {"reserve", nil},
		"no id":                   {"reserve", &saga.SessionPart{ID: "x", Key: "l"}},
		"a report of none":        {"settle", nil},
		"a report without a cost": {"settle", &saga.SessionPart{ID: id, Key: "k"}},
		"of another":              {"settle", &saga.SessionPart{ID: id, Key: "l", Cost: cost}},
		"an unreadable cost":      {"settle", &saga.SessionPart{ID: id, Key: "k", Cost: &saga.ChildCost{Spent: "much"}}},
	} {
		h := parentOf(t, "")
		h.must("", saga.Reserve{Key: "k"})
		r := journal.Record{Seq: h.m.Seq() + 1, Kind: journal.Operator, Data: saga.Encode(saga.CommandData{Kind: c.command, Session: c.part})}
		if err := h.m.Apply(r); !errors.Is(err, saga.ErrUnreadable) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
