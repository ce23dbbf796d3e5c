package machine_test

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// childOf plays the saga that a request to start a child asks for.
func childOf(t *testing.T, src string, r *saga.ChildRequest) *hand {
	t.Helper()
	def := parsed(t, src)
	return started(t, def, r.Saga, machine.StartOptions{Budget: machine.WithinBudget(def, r.Budget), Parent: &saga.ParentData{Saga: parentID, Path: "kid", Depth: 1, Budget: r.Budget}})
}

// report brings a child's report to the parent, whose attempt it ends.
func (h *hand) report(path string, way journal.Way, r *saga.TaskResult) {
	h.t.Helper()
	h.ends(path, way, r.Answer())
}

// must carries out commands.
func (h *hand) must(path string, list ...saga.Operation) {
	h.t.Helper()
	for _, do := range list {
		if err := h.do(saga.Command{Do: do, Path: path}); err != nil {
			h.t.Fatalf("%+v: %v\n%s", do, err, h.out.String())
		}
	}
}

func spent(amount string, tokens int64) *saga.TaskResult {
	return &saga.TaskResult{Outcome: saga.TaskCompleted, Output: json.RawMessage("1"), Child: &saga.ChildCost{Currency: "USD", Spent: amount, Tokens: saga.TokensView{Input: tokens}}}
}

// A child reports what it may still cost, and its parent releases the rest of the child's part: so
// nobody raises the child's budget from then on.
func TestBudgetAfterTheReport(t *testing.T) {
	p := byHand(t, "saga: top\nbudget: 0.50 USD\nsteps:\n  - {id: kid, run: kid}\n  - {id: pay, http: \"POST http://w/pay\", body: {}, compensate: none, cost: 0.10 USD}\n", "null")
	k := childOf(t, "saga: kid\nbudget: {amount: 0.30 USD, tokens: 10}\nsteps:\n  - {id: go, signal: go}\nfinally:\n  - {id: late, http: \"POST http://w/late\", body: {}, cost: 0.05 USD}\n", p.open[0].Request.Child)
	patch := func(amount string) error {
		return k.do(saga.Command{Do: saga.Patch{Budget: &saga.BudgetData{Amount: amount, Currency: "USD"}}})
	}
	if err := patch("0.40"); err != nil {
		t.Errorf("before the report: %v", err)
	}
	k.must("", saga.Signal{Name: "go"})
	p.report("kid", journal.Do, k.m.Report())
	if c := p.m.Cost(); c.Reserved != "0.50" { // with the 0.10 of pay
		t.Errorf("after the report, the parent's cost is %+v", c)
	}
	if patch("0.41") == nil {
		t.Error("the budget was raised although the parent has released the rest")
	}
	if err := patch("0.40"); err != nil {
		t.Errorf("the same budget: %v", err)
	}
}

// Only a child's report says what it has cost. A person's decision about the step in doubt does not
// book the cost, so the report does not book it a second time.
func TestResolvedChildIsBookedOnce(t *testing.T) {
	for _, outcome := range []string{"succeeded", "failed", "compensated"} {
		p := byHand(t, "saga: top\nbudget: {amount: 1.00 USD, tokens: 1000}\nsteps:\n  - {id: kid, run: kid, budget: {amount: 0.60 USD, tokens: 600}, retry: none, in_doubt: ask, on_error: continue}\n"+
			"  - {id: pay, http: \"POST http://w/pay\", body: {}, compensate: none}\n", "null")
		p.reply("kid", "connection")
		p.must("kid", saga.Resolve{Outcome: outcome, Output: json.RawMessage("1")})
		if c := p.m.Cost(); c.Spent != "0" || c.Reserved != "0.60" || c.Tokens.Reserved != 600 {
			t.Errorf("%s: the parent's cost is %+v", outcome, c)
		}
		p.reply("pay", "422 {}")
		if outcome == "succeeded" {
			p.report("kid", journal.Undo, spent("0.50", 500))
			if c := p.m.Cost(); c.Spent != "0.50" || c.Tokens.Input != 500 || c.Tokens.Reserved != 0 {
				t.Errorf("after the undo: %+v", c)
			}
		}
	}
}

// In a session, which goes on after the undo of a call.
func TestResolvedCallIsBookedOnce(t *testing.T) {
	def, errs := dsl.Session(&saga.SessionData{Name: "s", Actions: []string{"go@1"}}, dsl.Options{Kinds: kinds.All(),
		Actions: actionsOf("action: go\nagents: auto\nrun: kid\nbudget: 0.60 USD\nretry: none\nin_doubt: ask\n")})
	if errs != nil {
		t.Fatal(errs)
	}
	p := started(t, def, parentID, machine.StartOptions{Budget: &saga.BudgetData{Amount: "1.00", Currency: "USD"}})
	p.must("", saga.Attach{Token: "x"}, saga.CallAction{Life: 1, Action: "go"})
	p.reply("go[0]", "connection")
	p.must("go[0]", saga.Resolve{Outcome: "succeeded", Output: json.RawMessage("1")}, saga.UndoCall{Life: 1})
	p.report("go[0]", journal.Undo, spent("0.50", 0))
	if c := p.m.Cost(); c.Spent != "0.50" {
		t.Errorf("the session is %s, and its cost is %+v", p.m.Status(), c)
	}
}

// A child's tokens count for a parent that has a budget of tokens alone.
func TestTokensOfAChild(t *testing.T) {
	p := byHand(t, "saga: top\nbudget: {tokens: 1000}\nsteps:\n  - {id: one, run: kid, budget: {tokens: 600}}\n  - {id: two, run: kid, budget: {tokens: 600}}\n", "null")
	p.report("one", journal.Do, spent("0.01", 200))
	if c := p.m.Cost().Tokens; c.Input != 200 || c.Reserved != 600 || p.m.Status() != saga.Waiting {
		t.Errorf("the tokens are %+v, and the saga is %s\n%s", c, p.m.Status(), p.out.String())
	}
}

// A report that cannot be read does not break the parent's journal.
func TestUnreadableReport(t *testing.T) {
	for _, kept := range []string{"-1", "much", "1e99"} {
		p := byHand(t, "saga: top\nbudget: 1.00 USD\nsteps:\n  - {id: kid, run: kid}\n", "null")
		s := p.open[0]
		r := saga.TaskResult{Outcome: saga.TaskCompleted, Child: &saga.ChildCost{Currency: "USD", Spent: "0", Reserved: kept}}
		d, err := p.m.RecordOutcome(s.Path, s.Way, s.Attempt, r.Answer(), p.now, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.m.Append(d, p.now, "n"); err != nil {
			t.Errorf("%s: %v", kept, err)
		}
	}
}

// Amounts without a currency are in that of the saga which reserves or books them.
func TestSessionsWithoutACurrency(t *testing.T) {
	const src = "saga: top\nsteps:\n  - {id: go, signal: go}\n"
	for _, c := range [][2]string{{"", "USD"}, {"USD", ""}} {
		p := byHand(t, src, "null")
		p.must("", saga.Reserve{Key: "k", Part: &saga.BudgetData{Amount: "0.40", Currency: c[0]}})
		if p.do(saga.Command{Do: saga.Patch{Budget: &saga.BudgetData{Amount: "0.30", Currency: c[1]}}}) == nil {
			t.Errorf("part in %q, budget in %q: a session that may cost 0.40 is open, and the budget is now %+v", c[0], c[1], p.m.Cost())
		}
	}
	p := byHand(t, src, "null")
	p.must("", saga.Patch{Budget: &saga.BudgetData{Amount: "1.00"}}, saga.Reserve{Key: "k", Part: &saga.BudgetData{Amount: "0.40"}},
		saga.Patch{Budget: &saga.BudgetData{Amount: "1.00", Currency: "USD"}}, saga.Reserve{Key: "l", Part: &saga.BudgetData{Amount: "0.40"}},
		saga.Settle{Key: "k", Cost: saga.ChildCost{Spent: "0.25"}}, saga.Settle{Key: "l", Cost: saga.ChildCost{Spent: "0.25", Currency: "USD"}})
	if c := p.m.Cost(); c.Spent != "0.50" || c.Reserved != "0.00" {
		t.Errorf("the cost is %+v", c)
	}
}

// A child whose output cannot be computed has had its effects, but gives its parent nothing to go
// on with: the step that runs it is in doubt, and the child is undone with its parent.
func TestChildWithoutAnOutput(t *testing.T) {
	const kid = "saga: kid\nsteps:\n  - {id: book, http: \"POST http://w/book\", body: {}, compensate: {http: \"DELETE http://w/book\"}}\noutput: {id: \"${steps.book.output.id}\"}\n"
	for _, c := range []struct{ keys, resolve, end string }{
		{"", "", "compensated"},
		{", retry: none", "", "compensated"},
		{", in_doubt: fail", "", "compensated"},
		{", in_doubt: ask", "succeeded", "succeeded"},
		{", in_doubt: ask", "skip", "succeeded"},
		{", retry: none, on_error: continue", "", "succeeded"},
	} {
		t.Run(c.keys+c.resolve, func(t *testing.T) {
			p := byHand(t, "saga: top\nsteps:\n  - {id: kid, run: kid"+c.keys+"}\n  - {id: pay, http: \"POST http://w/pay\", body: \"${steps.kid.output}\", compensate: none}\n", "null")
			k := childOf(t, kid, p.open[0].Request.Child)
			k.reply("book", "201 {}")
			attempts := 0
			for ; len(p.open) > 0 && p.open[0].Path == "kid" && p.open[0].Way == journal.Do; p.wait() {
				if attempts++; p.open[0].Request.Child.Saga != k.m.ID().String() {
					t.Fatalf("attempt %d asks for another saga", attempts)
				}
				r := k.m.Report()
				if r == nil || r.Outcome != saga.TaskFailed || !r.InDoubt || r.Error.Code != "expression_error" {
					t.Fatalf("the child reports %+v", r)
				}
				p.report("kid", journal.Do, r)
			}
			if c.resolve != "" {
				p.must("kid", saga.Resolve{Outcome: c.resolve, Output: json.RawMessage(`{"id":"b1"}`)})
			}
			if c.end == "succeeded" {
				p.reply("pay", "200 {}")
				want := "release"
				if c.resolve != "succeeded" { // the parent has gone on without it
					want = "revert"
				}
				var sent []string
				for _, m := range p.m.Messages(p.records[len(p.records)-1]) {
					sent = append(sent, string(m.Data))
				}
				if len(sent) != 1 || !strings.Contains(sent[0], `"`+want+`"`) {
					t.Errorf("the child is sent %q, want %s", sent, want)
				}
			} else {
				k.must("", saga.Revert{})
				k.reply("book", "200 {}")
				if r := k.m.Report(); k.m.Status() != saga.Compensated || r.Outcome != saga.TaskCompleted {
					t.Errorf("the child is %s, and reports %+v", k.m.Status(), r)
				}
				p.report("kid", journal.Undo, k.m.Report())
			}
			if p.m.Status() != saga.Status(c.end) {
				t.Errorf("%s after %d attempts\n%s", p.m.Status(), attempts, p.out.String())
			}
		})
	}
}

// A status check has no budget, so it cannot ask a model.
func TestStatusCheckAsksNoModel(t *testing.T) {
	_, errs := dsl.Parse("x", []byte("saga: x\nsteps:\n  - id: pay\n    http: POST http://w/pay\n    body: {}\n    compensate: none\n    in_doubt: {verify: {llm: {model: small, prompt: hi, max_tokens: 9}, found: \"true\"}}\n"),
		dsl.Options{Kinds: kinds.With(kinds.Options{LLM: models})})
	if errs == nil || errs.List[0].Code != "verify_writes" {
		t.Errorf("got %v", errs)
	}
}

// A child has the budget that its parent has reserved for it, or its definition's if that is lower.
func TestWithinBudget(t *testing.T) {
	usd := func(amount string, tokens int64) *saga.BudgetData {
		return &saga.BudgetData{Amount: amount, Currency: "USD", Tokens: tokens}
	}
	for _, c := range []struct {
		own        string
		part, want *saga.BudgetData
	}{
		{"", nil, nil},
		{"", usd("0.50", 20), usd("0.50", 20)},
		{"budget: 0.30 USD\n", nil, nil},
		{"budget: 0.30 USD\n", usd("0.50", 20), usd("0.30", 20)},
		{"budget: 0.30 USD\n", usd("0.300", 0), usd("0.300", 0)},
		{"budget: 0.30 USD\n", usd("0.20", 0), usd("0.20", 0)},
		{"budget: 0.30 USD\n", &saga.BudgetData{Amount: "0.50", Currency: "EUR"}, &saga.BudgetData{Amount: "0.50", Currency: "EUR"}},
		{"budget: 0.30 USD\n", &saga.BudgetData{Tokens: 20}, &saga.BudgetData{Tokens: 20}},
		{"budget: 0.30 USD\n", usd("much", 0), usd("much", 0)},
		{"budget: {tokens: 10}\n", usd("0.50", 20), usd("0.50", 10)},
		{"budget: {tokens: 10}\n", usd("0.50", 5), usd("0.50", 5)},
		{"budget: {tokens: 10}\n", usd("0.50", 0), usd("0.50", 0)},
	} {
		def := parsed(t, "saga: kid\n"+c.own+"steps:\n  - {id: a, set: 1}\n")
		if d := cmp.Diff(c.want, machine.WithinBudget(def, c.part)); d != "" {
			t.Errorf("%q of %+v (-want +got):\n%s", c.own, c.part, d)
		}
	}
}

// A child may cost the part that its step names, or what is left. What has no limit for its parent
// is not counted there.
func TestPartOfAChild(t *testing.T) {
	const other = "      - {id: pay, http: \"POST http://w/pay\", body: {}, compensate: none, cost: 0.30 USD}\n"
	for _, c := range []struct {
		budget, branches, keys string
		want                   *saga.BudgetData // nil: it is not asked for
		reserved               string
		tokens                 int64
	}{
		{"1.00 USD", other, "", &saga.BudgetData{Amount: "0.70", Currency: "USD"}, "1.00", 0},
		{"0.30 USD", other, "", nil, "0.30", 0},
		{"1.00 USD", "", ", budget: {amount: 0.40 USD, tokens: 5}", &saga.BudgetData{Amount: "0.40", Currency: "USD", Tokens: 5}, "0.40", 0},
		{"{tokens: 50}", "", ", budget: {amount: 0.40 USD, tokens: 5}", &saga.BudgetData{Amount: "0.40", Currency: "USD", Tokens: 5}, "0", 5},
		{"{tokens: 50}", "", "", &saga.BudgetData{Tokens: 50}, "0", 50},
	} {
		h := byHand(t, "saga: top\nbudget: "+c.budget+"\nsteps:\n  - id: both\n    parallel:\n"+c.branches+"      - {id: kid, run: kid"+c.keys+"}\n", "null")
		var got *saga.BudgetData
		for _, s := range h.open {
			if s.Path == "kid" {
				got = s.Request.Child.Budget
			}
		}
		cost := h.m.Cost()
		if d := cmp.Diff(c.want, got); d != "" || cost.Reserved != c.reserved || cost.Tokens.Reserved != c.tokens || strings.Contains(h.out.String(), "budget_exhausted") {
			t.Errorf("%+v: reserved %s and %d tokens (-want +got):\n%s\n%s", c, cost.Reserved, cost.Tokens.Reserved, d, h.out.String())
		}
	}
	h := byHand(t, "saga: top\nbudget: 0.30 USD\nsteps:\n  - {id: pay, http: \"POST http://w/pay\", body: {}, compensate: none, cost: 0.30 USD}\n  - {id: kid, run: kid}\n", "null")
	h.reply("pay", "200 {}")
	if len(h.open) != 1 || h.open[0].Request.Child.Budget.Amount != "0.00" {
		t.Errorf("nothing is left, and nothing in flight, but the child waits\n%s", h.out.String())
	}
}

// The reports of a child about its work and about its undo are booked as what they add, and a
// replay finds in the outcomes what was reported.
func TestReportsAreBooked(t *testing.T) {
	p := byHand(t, "saga: top\nbudget: {amount: 1.00 USD, tokens: 1000}\nsteps:\n  - {id: kid, run: kid, budget: {amount: 0.60 USD, tokens: 600}}\n  - {id: pay, http: \"POST http://w/pay\", body: {}, compensate: none}\n", "null")
	for _, c := range []struct {
		way  journal.Way
		cost saga.ChildCost
		want saga.TokensView
	}{
		{journal.Do, saga.ChildCost{Currency: "USD", Spent: "0.25", Reserved: "0.05", Tokens: saga.TokensView{Input: 100, Output: 50, Reserved: 20}}, saga.TokensView{Input: 100, Output: 50, Reserved: 20, Budget: 1000}},
		{journal.Undo, saga.ChildCost{Currency: "USD", Spent: "0.35", Tokens: saga.TokensView{Input: 130, Output: 57}}, saga.TokensView{Input: 130, Output: 57, Budget: 1000}},
	} {
		before := len(p.records)
		p.report("kid", c.way, &saga.TaskResult{Outcome: saga.TaskCompleted, Output: json.RawMessage("1"), Child: &c.cost})
		got := p.m.Cost()
		if got.Spent != c.cost.Spent || got.Tokens != c.want || got.Children.Spent != c.cost.Spent || got.Children.Tokens.Input != c.want.Input || got.Children.Tokens.Output != c.want.Output {
			t.Errorf("%s: the cost is %+v, of children %+v", c.way, got, got.Children)
		}
		m, err := machine.Replay(p.def, p.m.ID(), p.records[:before])
		if err != nil {
			t.Fatal(err)
		}
		var d saga.OutcomeData
		if err := json.Unmarshal(p.records[before].Data, &d); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&c.cost, m.ChildCost("kid", &d)); diff != "" {
			t.Errorf("%s: a replay finds (-want +got):\n%s", c.way, diff)
		}
		if m.ChildCost("none", &d) != nil || m.ChildCost("kid", &saga.OutcomeData{Cost: "much"}) != nil || m.ChildCost("kid", &saga.OutcomeData{Cost: "0", Kept: "0.01"}) == nil {
			t.Error("a cost that is unknown is found, or one that is known is not")
		}
		if c.way == journal.Do {
			p.reply("pay", "422 {}")
		}
	}
}

// A report without a cost in its parent's currency books nothing if it says so, and otherwise what
// was reserved stays reserved. One without tokens releases those that were reserved.
func TestReportInAnotherCurrency(t *testing.T) {
	for _, c := range []struct {
		cost     saga.ChildCost
		reserved string
		tokens   int64
	}{
		{saga.ChildCost{Currency: "EUR", Spent: "0"}, "0.00", 0},
		{saga.ChildCost{Currency: "EUR", Spent: "0.50"}, "0.60", 600},
		{saga.ChildCost{Currency: "EUR", Spent: "0", Reserved: "0.10"}, "0.60", 600},
	} {
		p := byHand(t, "saga: top\nbudget: {amount: 1.00 USD, tokens: 1000}\nsteps:\n  - {id: kid, run: kid, budget: {amount: 0.60 USD, tokens: 600}}\n  - {id: go, signal: go}\n", "null")
		p.report("kid", journal.Do, &saga.TaskResult{Outcome: saga.TaskCompleted, Child: &c.cost})
		if got := p.m.Cost(); strings.Trim(got.Spent, "0.") != "" || got.Reserved != c.reserved || got.Tokens.Reserved != c.tokens {
			t.Errorf("%+v: the cost is %+v", c.cost, got)
		}
	}
}

// Until the steps of `finally` have run, a child reports all that its budget leaves for them, and
// then what is still reserved.
func TestReportWithFinally(t *testing.T) {
	p := byHand(t, "saga: top\nbudget: {tokens: 200}\nsteps:\n  - {id: kid, run: kid, budget: {tokens: 100}}\n", "null")
	k := childOf(t, "saga: kid\nsteps:\n  - {id: sub, run: sub}\nfinally:\n  - {id: late, http: \"POST http://w/late\", body: {}, cost: 0.05 USD}\n", p.open[0].Request.Child)
	k.report("sub", journal.Do, &saga.TaskResult{Outcome: saga.TaskCompleted, Output: json.RawMessage("1"), Child: &saga.ChildCost{Currency: "USD", Spent: "0", Tokens: saga.TokensView{Input: 30, Output: 12}}})
	if got := k.m.Report().Child.Tokens; got != (saga.TokensView{Input: 30, Output: 12, Reserved: 58}) {
		t.Errorf("before `finally` it reports %+v", got)
	}
	k.must("", saga.Release{})
	k.reply("late", "200 {}")
	if got := k.m.Report().Child.Tokens; !k.m.Ended() || got != (saga.TokensView{Input: 30, Output: 12}) {
		t.Errorf("%s, it reports %+v", k.m.Status(), got)
	}
}

// A person may raise a child's budget to what its parent has reserved, in each dimension that has a
// limit, and after its report not at all.
func TestRaiseOfAChild(t *testing.T) {
	usd := func(amount string) *saga.BudgetData { return &saga.BudgetData{Amount: amount, Currency: "USD"} }
	tokens := func(n int64) *saga.BudgetData { return &saga.BudgetData{Tokens: n} }
	for _, c := range []struct {
		name, own string
		part, to  *saga.BudgetData
		reported  bool
		refused   bool
	}{
		{"to all tokens", "{tokens: 10}", tokens(20), tokens(20), false, false},
		{"over all tokens", "{tokens: 10}", tokens(20), tokens(21), false, true},
		{"no part of tokens", "{amount: 0.10 USD, tokens: 10}", usd("0.30"), tokens(999), false, false},
		{"reported, the same tokens", "{tokens: 10}", tokens(20), tokens(10), true, false},
		{"reported, more tokens", "{tokens: 10}", tokens(20), tokens(11), true, true},
		{"reported, no part of tokens", "{amount: 0.10 USD, tokens: 10}", usd("0.30"), tokens(999), true, false},
		{"reported, no part of money", "{amount: 0.10 USD, tokens: 10}", tokens(20), usd("9.00"), true, false},
		{"reported, more money", "0.10 USD", usd("0.30"), usd("0.11"), true, true},
	} {
		def := parsed(t, "saga: kid\nbudget: "+c.own+"\nsteps:\n  - {id: go, signal: go}\nfinally:\n  - {id: last, signal: last}\n")
		k := started(t, def, parentID, machine.StartOptions{Budget: machine.WithinBudget(def, c.part), Parent: &saga.ParentData{Saga: parentID, Path: "kid", Depth: 1, Budget: c.part}})
		if c.reported {
			k.must("", saga.Signal{Name: "go"})
		}
		if err := k.do(saga.Command{Do: saga.Patch{Budget: c.to}}); (err != nil) != c.refused {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A child that does not exist yet costs nothing if its start was not sent. An undo that was not
// sent releases nothing of what the child may still cost, unless there is no such child.
func TestReportsThatDidNotCome(t *testing.T) {
	p := byHand(t, "saga: top\nbudget: {amount: 1.00 USD, tokens: 1000}\nsteps:\n  - {id: kid, run: kid, budget: {amount: 0.60 USD, tokens: 600}}\n  - {id: pay, http: \"POST http://w/pay\", body: {}, compensate: none}\n", "null")
	check := func(when, money string, tokens int64) {
		t.Helper()
		if c := p.m.Cost(); c.Reserved != money || c.Tokens.Reserved != tokens {
			t.Errorf("%s: the cost is %+v\n%s", when, c, p.out.String())
		}
	}
	p.reply("kid", "refused")
	check("not sent", "0.00", 0)
	p.wait()
	p.report("kid", journal.Do, &saga.TaskResult{Outcome: saga.TaskCompleted, Child: &saga.ChildCost{Currency: "USD", Spent: "0.25", Reserved: "0.05", Tokens: saga.TokensView{Reserved: 20}}})
	p.reply("pay", "422 {}")
	check("reported", "0.05", 20)
	p.reply("kid", "refused")
	check("its undo was not sent", "0.05", 20)
	p.wait()
	p.ends("kid", journal.Undo, saga.Answer{Code: saga.NoSaga})
	check("it does not exist", "0.00", 0)
}

// A child asks a person for more tokens if its parent has reserved enough for one more attempt,
// with all that was used and is still reserved. Otherwise nobody can raise its budget, and the step
// fails.
func TestChildAsksForTokens(t *testing.T) {
	ask := func(id, keys string) string {
		return "  - {id: " + id + ", llm: {model: unpriced, prompt: hello, max_tokens: 8}, on_error: continue" + keys + "}\n"
	}
	until := func(own, part int64) *hand {
		src := "saga: kid\nbudget: {tokens: " + strconv.FormatInt(own, 10) + ", on_exceed: ask}\nsteps:\n" + ask("a", "") + ask("b", ", retry: none, in_doubt: fail") + ask("c", "")
		def, errs := dsl.Parse("kid", []byte(src), dsl.Options{Kinds: kinds.With(kinds.Options{LLM: models})})
		if errs != nil {
			t.Fatal(errs)
		}
		b := &saga.BudgetData{Tokens: part}
		k := started(t, def, parentID, machine.StartOptions{Budget: machine.WithinBudget(def, b), Parent: &saga.ParentData{Saga: parentID, Path: "kid", Depth: 1, Budget: b}})
		k.reply("a", `200 {"choices":[{"finish_reason":"stop","message":{"content":"hi"}}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`)
		k.reply("b", "timeout")
		return k
	}
	c := until(1000, 1000).m.Cost().Tokens
	need := c.Input + c.Output + c.Reserved
	if c.Input != 7 || c.Output < 3 || c.Reserved < 16 {
		t.Fatalf("the tokens are %+v", c)
	}
	for part, asks := range map[int64]bool{need: true, need - 1: false} {
		k := until(need-1, part)
		if refused := strings.Contains(k.out.String(), "budget_exhausted"); len(k.m.Inbox()) == 1 != asks || refused == asks {
			t.Errorf("it needs %d tokens of %d: %d entries, refused: %v\n%s", need, part, len(k.m.Inbox()), refused, k.out.String())
		}
	}
}

// The cost of a saga says what of it is that of its children, in money or in tokens.
func TestCostOfChildren(t *testing.T) {
	for _, c := range []struct {
		cost *saga.TaskResult
		want *saga.ChildrenView
	}{
		{spent("0", 0), nil},
		{spent("0.20", 0), &saga.ChildrenView{Spent: "0.20"}},
		{spent("0", 5), &saga.ChildrenView{Spent: "0", Tokens: saga.TokensView{Input: 5}}},
	} {
		p := byHand(t, "saga: top\nbudget: {amount: 1.00 USD, tokens: 1000}\nsteps:\n  - {id: kid, run: kid}\n", "null")
		p.report("kid", journal.Do, c.cost)
		if d := cmp.Diff(c.want, p.m.Cost().Children); d != "" {
			t.Errorf("%+v (-want +got):\n%s", c.cost.Child, d)
		}
	}
}

// The outcome of a child that has used no tokens, and had none reserved, says nothing of tokens.
func TestReportWithoutTokens(t *testing.T) {
	for tokens, want := range map[int64]bool{0: false, 7: true} {
		p := byHand(t, "saga: top\nsteps:\n  - {id: kid, run: kid}\n", "null")
		p.report("kid", journal.Do, spent("0", tokens))
		for _, r := range p.records {
			if r.Kind == journal.Outcome && bytes.Contains(r.Data, []byte(`"tokens"`)) != want {
				t.Errorf("with %d tokens: %s", tokens, r.Data)
			}
		}
	}
}
