package machine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

const incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A start's traceparent is pinned as far as it is one.
func TestTraceparentOfStart(t *testing.T) {
	def := &saga.Definition{Name: "x"}
	for given, want := range map[string]string{incoming: incoming, "": "", "rubbish": "", "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more": incoming} {
		d, _, wrong := machine.Begin(def, machine.StartOptions{Traceparent: given})
		if wrong != nil || d.Traceparent != want {
			t.Errorf("%q: %q, %v", given, d.Traceparent, wrong)
		}
		if written := strings.Contains(string(saga.Encode(d)), "traceparent"); written != (want != "") {
			t.Errorf("%q is written as %s", given, saga.Encode(d))
		}
	}
}

// A start gives the saga's unique value, or says what is wrong with the request.
func TestBegin(t *testing.T) {
	const (
		plain  = "saga: x\nsteps: [{id: a, set: 1}]\n"
		priced = "saga: x\nsteps: [{id: a, http: \"GET http://w/a\", cost: 0.10 USD}]\n"
		unique = "saga: x\ninput: {id: any}\nunique: ${input.id}\nsteps: [{id: a, set: 1}]\n"
		vars   = "saga: x\nunique: ${vars.pay}\nsteps: [{id: a, set: 1}]\n"
	)
	id := func(size int) string { return `{"id":"` + strings.Repeat("i", size) + `"}` }
	for name, c := range map[string]struct {
		src, input, pay string
		budget          *saga.BudgetData
		want, code, at  string
	}{
		"without a unique value":       {src: plain, input: "null"},
		"a unique value":               {src: unique, input: `{"id":[1,2]}`, want: "[1,2]"},
		"it is null":                   {src: unique, input: `{"id":null}`},
		"as long as it may be":         {src: unique, input: id(1022), want: `"` + strings.Repeat("i", 1022) + `"`},
		"too long":                     {src: unique, input: id(1023), code: "unique_too_long", at: "/input"},
		"it cannot be evaluated":       {src: strings.Replace(unique, "input.id", "input.id.x", 1), input: `{"id":1}`, code: "bad_unique", at: "/input"},
		"an unreadable variable":       {src: vars, input: "null", pay: "{", code: "invalid_input"},
		"a variable":                   {src: vars, input: "null", pay: "7", want: "7"},
		"an unknown variable":          {src: vars, input: "null", code: "unknown_var"},
		"the input is wrong":           {src: unique, input: `{"id":1,"it":1}`, code: "unknown_field", at: "/input/it"},
		"a budget":                     {src: priced, input: "null", budget: &saga.BudgetData{Amount: "1.00", Currency: "USD"}},
		"a budget without prices":      {src: plain, input: "null", budget: &saga.BudgetData{Amount: "1.00", Currency: "USD"}},
		"a budget of tokens":           {src: priced, input: "null", budget: &saga.BudgetData{Tokens: 7}},
		"an unreadable budget":         {src: priced, input: "null", budget: &saga.BudgetData{Amount: "much", Currency: "USD"}, code: "bad_budget", at: "/budget"},
		"a budget in no currency":      {src: plain, input: "null", budget: &saga.BudgetData{Amount: "1.00", Currency: "money"}, code: "bad_budget", at: "/budget/currency"},
		"a budget in another currency": {src: priced, input: "null", budget: &saga.BudgetData{Amount: "1.00", Currency: "EUR"}, code: "bad_budget", at: "/budget"},
	} {
		t.Run(name, func(t *testing.T) {
			o := machine.StartOptions{Version: 1, Input: json.RawMessage(c.input), Budget: c.budget}
			if c.pay != "" {
				o.Vars = map[string]json.RawMessage{"pay": json.RawMessage(c.pay)}
			}
			_, got, wrong := machine.Begin(parsed(t, c.src), o)
			code, at := "", ""
			if len(wrong) > 0 {
				code, at = wrong[0].Code, wrong[0].Pointer
			}
			if got != c.want || code != c.code || at != c.at || (wrong != nil) != (code != "") {
				t.Errorf("%q, %v; want %q, %q at %q", got, wrong, c.want, c.code, c.at)
			}
		})
	}
}

// A start keeps the latest time that it may be if a wait begins with it: the saga's timeout, or
// that for a session's first process.
func TestLatestTimeOfAStart(t *testing.T) {
	session, errs := dsl.Session(&saga.SessionData{Name: "s", Actions: []string{"look@1"}}, dsl.Options{Kinds: kinds.All(), Actions: actionsOf("action: look\nagents: auto\nhttp: GET http://w/look\n")})
	if errs != nil {
		t.Fatal(errs)
	}
	latest := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	for name, c := range map[string]struct {
		def  *saga.Definition
		want bool
	}{
		"no timeout": {parsed(t, "saga: x\nsteps: [{id: a, set: 1}]\n"), false},
		"a timeout":  {parsed(t, "saga: x\ntimeout: 1h\nsteps: [{id: a, set: 1}]\n"), true},
		"a session":  {session, true},
	} {
		m := machine.New(c.def, uuid.Must(uuid.FromString(parentID)))
		m.Clock(latest)
		d, _ := m.Start(saga.StartedData{}).Data.(saga.StartedData)
		if got := d.Latest != nil && d.Latest.Equal(latest); got != c.want {
			t.Errorf("%s: %v", name, d.Latest)
		}
	}
}

// The first view of a saga is that of one which has done nothing yet.
func TestFirstView(t *testing.T) {
	def := parsed(t, "saga: x\nsteps: [{id: a, set: 1}]\n")
	d, _, _ := machine.Begin(def, machine.StartOptions{Version: 3})
	at := time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)
	v, err := machine.FirstView(def, uuid.Must(uuid.FromString(parentID)), d, at)
	if err != nil || v.ID != parentID || v.Version != "v3" || v.Status != saga.Running || v.Seq != 1 || !v.CreatedAt.Equal(at) {
		t.Errorf("%+v, %v", v, err)
	}
	d.Budget = &saga.BudgetData{Amount: "much", Currency: "USD"}
	if v, err := machine.FirstView(def, uuid.Nil, d, at); err == nil {
		t.Errorf("with an unreadable budget: %+v", v)
	}
}
