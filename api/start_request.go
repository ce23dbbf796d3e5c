package api

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"recourse/retry"
	"recourse/saga"
	"recourse/saga/expr"
)

// startRequest is the body of a start.
type startRequest struct {
	definition string
	version    int // 0: the newest
	input      json.RawMessage
	budget     *saga.BudgetData
	labels     map[string]string
}

func readStart(o *object) (startRequest, error) {
	r := startRequest{definition: o.str("definition"), version: o.version(), input: o.raw("input"), budget: o.budget(), labels: o.labels(false)}
	if r.definition == "" {
		o.bad("/definition", "missing_field", `name the definition: {"definition": "…", "input": …}`)
	}
	return r, o.err()
}

var versionForm = regexp.MustCompile(`^v?[1-9][0-9]{0,8}$`)

// parseVersion reads "v3" or "3"; it returns 0 for other texts.
func parseVersion(text string) int {
	if !versionForm.MatchString(text) {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimPrefix(text, "v"))
	if err != nil {
		return 0
	}
	return n
}

func (o *object) version() int {
	raw := o.fields["version"]
	if raw == nil || string(raw) == "null" {
		return 0
	}
	n := parseVersion(strings.Trim(string(raw), `"`))
	if n == 0 {
		o.bad("/version", "bad_version", `version is "v3" or 3`)
	}
	return n
}

// budget reads "2.00 USD", or {amount, currency, tokens}; nil if it is absent.
func (o *object) budget() *saga.BudgetData { return o.budgetOr(nil) }

// budgetOr reads a budget. If it is that of a new session, onExceed is not nil, and is set.
func (o *object) budgetOr(onExceed *saga.OnExceed) *saga.BudgetData {
	raw := o.fields["budget"]
	if raw == nil || string(raw) == "null" {
		return nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return o.money(text, "/budget")
	}
	in, fields := &object{}, []string{"amount", "currency", "tokens"}
	if onExceed != nil {
		fields = append(fields, "on_exceed")
	}
	if err := in.parse(raw, "/budget", fields); err != nil {
		o.bad("/budget", "bad_budget", `a budget is "2.00 USD", or {"amount": "2.00 USD", "tokens": 100000}`)
		o.wrong = append(o.wrong, in.wrong...)
		return nil
	}
	amount, currency := in.str("amount"), in.str("currency")
	b := &saga.BudgetData{Amount: amount, Currency: currency}
	if strings.Contains(amount, " ") {
		if b = o.money(amount, "/budget/amount"); b == nil {
			return nil
		}
		if currency != "" && currency != b.Currency {
			o.bad("/budget/currency", "bad_budget", "the amount is in %s, the currency says %.10q: leave one out", b.Currency, currency)
		}
	} else if amount != "" {
		if _, err := retry.Amount(amount, currency); err != nil {
			o.bad("/budget/amount", "bad_budget", "%s", err.Error())
		}
	}
	in.into("tokens", &b.Tokens, "a whole number")
	if b.Tokens < 0 {
		in.bad("/tokens", "bad_budget", "tokens cannot be negative")
	}
	if b.Tokens > saga.MostTokens {
		in.bad("/tokens", "bad_budget", "at most %d tokens; leave them out for no limit", int64(saga.MostTokens))
	}
	if onExceed != nil {
		*onExceed = saga.OnExceed(in.str("on_exceed"))
		if *onExceed != "" && *onExceed != saga.ExceedFail && *onExceed != saga.ExceedAsk {
			in.bad("/on_exceed", "bad_budget", "on_exceed is fail (the default: what the budget does not cover is refused) or ask (it waits until a person raises the budget)")
		}
	}
	o.adopt(in, "/budget")
	return b
}

func (o *object) money(text, at string) *saga.BudgetData {
	m, err := retry.ParseMoney(text)
	if err != nil {
		o.bad(at, "bad_budget", "%s", err.Error())
		return nil
	}
	return &saga.BudgetData{Amount: m.Decimal(), Currency: m.Currency}
}

// Limits of labels.
const (
	maxLabels     = 64
	maxLabelValue = 256
)

var labelForm = regexp.MustCompile(`^[a-z][a-z0-9_.-]{0,62}$`)

// labels reads a map of labels. In a patch null removes a label; the result then has "" for it.
func (o *object) labels(patch bool) map[string]string {
	raw := o.fields["labels"]
	if raw == nil || string(raw) == "null" {
		return nil
	}
	var fields map[string]*string
	if err := json.Unmarshal(raw, &fields); err != nil {
		o.bad("/labels", "wrong_type", "labels are an object whose values are text; put quotes around numbers")
		return nil
	}
	if len(fields) > maxLabels {
		o.bad("/labels", "too_many", "a saga has at most %d labels", maxLabels)
		return nil
	}
	labels := make(map[string]string, len(fields))
	for _, name := range sortedKeys(fields) {
		v := fields[name]
		at := "/labels/" + expr.PointerToken(name)
		switch {
		case !labelForm.MatchString(name):
			o.bad(at, "bad_label", "a label's name is a small letter, then up to 62 small letters, digits or any of _ . -")
		case v == nil && !patch:
			o.bad(at, "bad_label", "a label's value is text")
		case v == nil:
			labels[name] = ""
		case utf8.RuneCountInString(*v) > maxLabelValue || *v == "" || strings.ContainsFunc(*v, unicode.IsControl):
			o.bad(at, "bad_label", "a label's value is text of 1 to %d characters, without line breaks and other control characters", maxLabelValue)
		default:
			labels[name] = *v
		}
	}
	return labels
}
