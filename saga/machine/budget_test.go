package machine_test

import (
	"fmt"
	"strings"
	"testing"

	"recourse/saga"
)

// asking plays a saga whose steps may ask models.
func asking(t *testing.T, src string) *hand {
	t.Helper()
	h := &hand{player: begun(t, src)}
	h.run()
	return h
}

// An attempt that does not fit into what is left of a budget of tokens waits while it would fit if
// the attempts in flight used none. Otherwise it is refused at once.
func TestTokensWaitForAttemptsInFlight(t *testing.T) {
	const src = `saga: x
budget: {%s}
steps:
  - id: both
    parallel:
      - {id: a, llm: {model: unpriced, prompt: hello, max_tokens: 8}}
      - {id: b, llm: {model: unpriced, prompt: "hello, and a bit more", max_tokens: 10}}
`
	one := asking(t, fmt.Sprintf(src, "tokens: 1")) // too few for either
	if len(one.open) > 0 {
		t.Fatal("an attempt was sent without a token")
	}
	a := asking(t, fmt.Sprintf(src, "tokens: 50")).m.Cost().Tokens.Reserved
	b := asking(t, fmt.Sprintf(src, "tokens: 500")).m.Cost().Tokens.Reserved - a
	if a < 10 || b <= a {
		t.Fatalf("a reserves %d tokens, and b %d", a, b)
	}
	used := func(n int64) string {
		return fmt.Sprintf(`200 {"choices":[{"finish_reason":"stop","message":{"content":"hi"}}],"usage":{"prompt_tokens":%d,"completion_tokens":3}}`, n-3)
	}
	for _, tt := range []struct {
		name, budget string
		waits        bool
		answer       string // of a
		refused      string // why b is refused; "": it is sent
	}{
		{"a uses few", fmt.Sprintf("tokens: %d", a+b-1), true, used(a - 1), ""},
		{"a uses too many", fmt.Sprintf("tokens: %d", a+b-1), true, used(a), fmt.Sprintf("it may use %d tokens; used %d, reserved 0 of %d", b, a, a+b-1)},
		{"nobody knows what a used", fmt.Sprintf("tokens: %d", a+b-1), true, "timeout", fmt.Sprintf("it may use %d tokens; used 0, reserved %d of %d", b, a, a+b-1)},
		{"b needs more than all", fmt.Sprintf("tokens: %d", b-1), false, "", fmt.Sprintf("it may use %d tokens; used 0, reserved %d of %d", b, a, b-1)},
		{"money is no substitute", fmt.Sprintf("amount: 1.00 USD, tokens: %d", b-1), false, "", fmt.Sprintf("it may use %d tokens; used 0, reserved %d of %d", b, a, b-1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := asking(t, fmt.Sprintf(src, tt.budget))
			waits := len(h.open) == 1 && !strings.Contains(h.out.String(), "budget_exhausted")
			if waits != tt.waits {
				t.Fatalf("b waits: %v, want %v\n%s", waits, tt.waits, h.out.String())
			}
			if tt.answer != "" {
				h.reply("a", tt.answer)
			}
			sent := strings.Contains(h.out.String(), "intent       b ")
			if sent != (tt.refused == "") || !strings.Contains(h.out.String(), tt.refused) {
				t.Errorf("b is sent: %v, want it refused with %q\n%s", sent, tt.refused, h.out.String())
			}
		})
	}
}

// A budget may be set to what is used and reserved, not below. A part that is left out of the new
// budget stays as it is.
func TestPatchOfTheBudget(t *testing.T) {
	h := asking(t, `saga: x
budget: {amount: 5.00 USD, tokens: 2000}
steps:
  - {id: a, llm: {model: small, prompt: hello, max_tokens: 8}, cost: 0.50 USD}
  - {id: b, llm: {model: small, prompt: hello, max_tokens: 8}, cost: 0.25 USD}
`)
	h.reply("a", `200 {"choices":[{"finish_reason":"stop","message":{"content":"hi"}}],"usage":{"prompt_tokens":100,"completion_tokens":9}}`)
	c := h.m.Cost()
	used := c.Tokens.Input + c.Tokens.Output + c.Tokens.Reserved
	if c.Tokens.Input != 100 || c.Tokens.Output != 9 || c.Tokens.Reserved < 9 || c.Spent != "0.50" || c.Reserved != "0.25" {
		t.Fatalf("the cost is %+v", c)
	}
	const below = "the budget cannot be below the tokens already used and reserved"
	for _, tt := range []struct {
		name    string
		budget  saga.BudgetData
		refused string
	}{
		{"all tokens", saga.BudgetData{Tokens: used}, ""},
		{"a token less", saga.BudgetData{Tokens: used - 1}, below},
		{"fewer than none", saga.BudgetData{Amount: "5.00", Currency: "USD", Tokens: -1}, below},
		{"all money", saga.BudgetData{Amount: "0.75", Currency: "USD"}, ""},
		{"a cent less", saga.BudgetData{Amount: "0.74", Currency: "USD"}, "the budget cannot be below the amount already spent and reserved"},
		{"nothing", saga.BudgetData{}, "the budget needs an amount, or tokens"},
		{"another currency", saga.BudgetData{Amount: "9.00", Currency: "EUR"}, "the saga's currency is USD"},
	} {
		t.Run(tt.name, func(t *testing.T) { patched(t, h, tt.budget, tt.refused) })
	}
	h.must("", saga.Patch{Budget: &saga.BudgetData{Amount: "0.75", Currency: "USD"}})
	if c := h.m.Cost(); c.Budget != "0.75" || c.Tokens.Budget != 2000 {
		t.Errorf("the budget is %s and %d tokens", c.Budget, c.Tokens.Budget)
	}
}

// patched checks whether a budget would be refused.
func patched(t *testing.T, h *hand, b saga.BudgetData, refused string) {
	t.Helper()
	if no := h.refusalOf(saga.Patch{Budget: &b}); no.Title != refused {
		t.Errorf("%+v: %v, want %q", b, no, refused)
	}
}

// A session has the currency of the budget that it was opened with.
func TestCurrencyOfASession(t *testing.T) {
	look := "action: look\nagents: auto\nhttp: GET http://w/look\n"
	h := sessionOf(t, saga.SessionData{Actions: []string{"look@1"}}, look, limits("1.00", 0))
	patched(t, h, saga.BudgetData{Amount: "2.00", Currency: "EUR"}, "the saga's currency is USD")
	patched(t, h, saga.BudgetData{Amount: "2.00", Currency: "USD"}, "")
}
