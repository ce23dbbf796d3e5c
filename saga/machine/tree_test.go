package machine_test

import (
	"encoding/json"
	"strings"
	"testing"

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
