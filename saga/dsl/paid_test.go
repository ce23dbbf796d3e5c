package dsl_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/kinds/llm"
)

// TestPaid holds prices of the server to the definition's currency and budget.
func TestPaid(t *testing.T) {
	priced := llm.Config{Prices: map[string]llm.Price{"cheap": {Input: "0.25", Output: "2"}}}
	steps := "steps:\n  - {id: a, llm: {model: [cheap, dear], prompt: hi}}\n"
	tests := []struct {
		name, src string
		cfg       llm.Config
		currency  string
		want      []string // codes of warnings, or of errors
	}{
		{"no budget", steps, priced, "USD", nil},
		{"a budget", "budget: 1 USD\n" + steps, priced, "USD", []string{"unpriced-model"}},
		{"a budget of tokens", "budget: {tokens: 100}\n" + steps, priced, "USD", nil},
		{"all priced", "budget: 1 USD\n" + strings.Replace(steps, "dear", `"${vars.dear}"`, 1), priced, "USD", nil},
		{"a cost", "budget: 1 EUR\n" + strings.Replace(steps, "hi}", "hi}, cost: 0.01 EUR", 1), priced, "EUR", nil},
		{"another currency", "budget: 1 EUR\n" + steps, priced, "", []string{"currency_mixed"}},
		{"no prices", "budget: 1 EUR\n" + steps, llm.Config{}, "EUR", []string{"unpriced-model"}},
		{"in finally", "budget: 1 USD\nsteps:\n  - {id: b, set: 1}\nfinally:" + strings.TrimPrefix(steps, "steps:"), priced, "USD", []string{"unpriced-model"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			def, errs := dsl.Parse("x.yaml", []byte("saga: x\n"+tt.src), dsl.Options{Kinds: kinds.With(kinds.Options{LLM: tt.cfg})})
			var got []string
			currency := ""
			if errs != nil {
				for _, e := range errs.List {
					got = append(got, e.Code)
				}
			} else {
				currency = def.Currency
				for _, w := range def.Warnings {
					got = append(got, w.Code)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || currency != tt.currency {
				t.Errorf("currency %q, findings (-want +got):\n%s", currency, diff)
			}
		})
	}
}
