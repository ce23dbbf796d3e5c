package invariant_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/invariant"
	"recourse/journal"
	"recourse/saga"
)

// family is a parent with a budget, whose step one runs a child, or to which a session belongs.
type family struct {
	guest         bool // a session
	twice         bool // it reserves twice
	silent        bool // it has ended, and does not report
	tokens        int64
	parent, child uuid.UUID
	first         string // the part in the intent of an attempt before; "": there is none
	doubt         bool   // that attempt is in doubt; otherwise it surely started nothing
	part          string // of the budget, in the intent
	reserve       string // in the intent
	cost          string // in the outcome
	spent         string // by the child's step
	limit         string // of the child
}

func (f *family) sagas() []invariant.Saga {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	records := func(id uuid.UUID, list ...journal.Record) []journal.Record {
		var prev []byte
		for i := range list {
			list[i].Seq, list[i].At, list[i].Node = int64(i+1), at.Add(time.Duration(i)*time.Second), "n1"
			if list[i].Kind == journal.Intent || list[i].Kind == journal.Outcome {
				list[i].Way, list[i].Attempt = journal.Do, 1
			}
			journal.Seal(id, prev, &list[i])
			prev = list[i].Hash
		}
		return list
	}
	usd := func(amount string) *saga.BudgetData { return &saga.BudgetData{Amount: amount, Currency: "USD"} }
	ask := func(part, reserve string) journal.Record {
		return journal.Record{Kind: journal.Intent, Path: "one", Data: saga.Encode(saga.IntentData{Reserve: reserve,
			Request: &saga.Request{Child: &saga.ChildRequest{Saga: f.child.String(), Parent: f.parent.String(), Budget: usd(part)}}})}
	}
	run := []journal.Record{{Kind: journal.Started, Data: saga.Encode(saga.StartedData{Definition: "p", Budget: usd("1.00")})}}
	switch {
	case f.first == "":
	case f.doubt:
		run = append(run, ask(f.first, f.first), journal.Record{Kind: journal.Outcome, Path: "one", Class: journal.InDoubt, Data: saga.Encode(saga.OutcomeData{Next: saga.NextRetry})})
	default:
		run = append(run, ask(f.first, f.first), journal.Record{Kind: journal.Outcome, Path: "one", Class: journal.Transient, Data: saga.Encode(saga.OutcomeData{Cost: "0", Next: saga.NextRetry})})
	}
	parent := records(f.parent, append(run, ask(f.part, f.reserve),
		journal.Record{Kind: journal.Outcome, Path: "one", Class: journal.Succeeded, Data: saga.Encode(saga.OutcomeData{Cost: f.cost, Next: saga.NextDone})},
		journal.Record{Kind: journal.Finished, Data: saga.Encode(saga.FinishedData{Status: saga.Succeeded})},
	)...)
	started := saga.StartedData{Definition: "c", Budget: usd(f.limit), Parent: &saga.ParentData{Saga: f.parent.String(), Path: "one", Depth: 1, Budget: usd(f.part)}}
	if f.guest {
		command := func(o saga.Operation) journal.Record {
			return journal.Record{Kind: journal.Operator, Data: saga.Encode(saga.Command{Do: o}.Record(uuid.Must(uuid.NewV7()), nil))}
		}
		settle := saga.Settle{Key: "k", Session: f.child.String(), Cost: saga.ChildCost{Currency: "USD", Spent: f.cost}}
		list := []journal.Record{parent[0], command(saga.Reserve{Key: "k", Session: f.child.String(), Part: usd(f.part)}), command(settle), parent[3]}
		if f.silent {
			list = list[:2]
		}
		if f.twice {
			list = slices.Insert(list, 1, list[1])
		}
		parent = records(f.parent, list...)
		started.Parent, started.BelongsTo = nil, &saga.BelongsTo{Saga: f.parent.String(), Key: "k", Budget: usd(f.part)}
	}
	child := records(f.child,
		journal.Record{Kind: journal.Started, Data: saga.Encode(started)},
		journal.Record{Kind: journal.Intent, Path: "a", Data: saga.Encode(saga.IntentData{Reserve: f.spent, Request: &saga.Request{Method: "POST", URL: "http://w/a"}})},
		journal.Record{Kind: journal.Outcome, Path: "a", Class: journal.Succeeded, Data: saga.Encode(saga.OutcomeData{Cost: f.spent, Tokens: &saga.TokensView{Input: f.tokens}, Next: saga.NextDone})},
		journal.Record{Kind: journal.Finished, Data: saga.Encode(saga.FinishedData{Status: saga.Succeeded})},
	)
	return []invariant.Saga{{ID: f.parent, Records: parent}, {ID: f.child, Records: child}}
}

func TestTree(t *testing.T) {
	for name, tt := range map[string]struct {
		spin func(*family)
		want string // "" for none
	}{
		"right":                     {func(*family) {}, ""},
		"not reserved":              {func(f *family) { f.reserve = "" }, "it reserves 0 for saga"},
		"more than reserved":        {func(f *family) { f.spent, f.cost, f.limit = "0.60", "0.60", "0.50" }, "but its parent has reserved 0.50 for it"},
		"more than was booked":      {func(f *family) { f.cost = "0.10" }, "but its parent has booked 0.10 for it"},
		"booked too much":           {func(f *family) { f.cost = "0.30" }, "it has spent 0.20 in all, but its parent has booked 0.30 as its cost"},
		"a first try in vain":       {func(f *family) { f.first = "0.10" }, ""},
		"a first try in doubt":      {func(f *family) { f.first, f.doubt = "0.10", true }, "but its parent has reserved 0.10 for it"},
		"a higher limit":            {func(f *family) { f.limit = "0.70" }, "its budget is 0.70"},
		"more than the whole tree":  {func(f *family) { f.part, f.reserve, f.limit, f.spent, f.cost = "1.20", "1.20", "1.20", "1.20", "1.20" }, "it and its children have spent 1.20 of 1.00"},
		"a session":                 {func(f *family) { f.guest = true }, ""},
		"a session's higher limit":  {func(f *family) { f.guest, f.limit = true, "0.70" }, "its budget is 0.70"},
		"a session booked too low":  {func(f *family) { f.guest, f.cost = true, "0.10" }, "but its parent has booked 0.10 for it"},
		"a session booked too high": {func(f *family) { f.guest, f.cost = true, "0.30" }, "it has spent 0.20 in all, but its parent has booked 0.30 as its cost"},
		"a session without a part":  {func(f *family) { f.guest, f.part = true, "" }, "it reserves no part of its budget"},
		"a session reserved twice":  {func(f *family) { f.guest, f.twice = true, true }, "it reserves twice for the session"},
		"a session too dear":        {func(f *family) { f.guest, f.spent, f.cost, f.limit = true, "0.60", "0.60", "0.50" }, "but its parent has reserved 0.50 for it"},
		"a session unheard":         {func(f *family) { f.guest, f.silent = true, true }, "has not booked its cost"},
		"tokens":                    {func(f *family) { f.tokens = 7 }, "it has used 7 tokens, but its parent has booked 0"},
		"a session's tokens":        {func(f *family) { f.guest, f.tokens = true, 7 }, "it has used 7 tokens, but its parent has booked 0"},
		"a part that is not a part": {func(f *family) { f.part = "" }, "without a part of its budget"},
	} {
		t.Run(name, func(t *testing.T) {
			f := &family{parent: uuid.Must(uuid.NewV7()), child: uuid.Must(uuid.NewV7()), part: "0.50", reserve: "0.50", cost: "0.20", spent: "0.20", limit: "0.50"}
			tt.spin(f)
			c := invariant.New(invariant.Config{Clock: time.Now()})
			for _, s := range f.sagas() {
				c.Add(c.Check(s))
			}
			found := ""
			for _, v := range c.End() {
				if v.N == 35 {
					found += v.String() + "\n"
				}
			}
			if tt.want == "" && found != "" || !strings.Contains(found, tt.want) {
				t.Errorf("found %q, want %q", found, tt.want)
			}
		})
	}
}
