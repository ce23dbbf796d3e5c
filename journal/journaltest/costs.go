package journaltest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

var costTests = []test{
	{"costs", costs},
	{"a walk of costs finds all of a range, once", walkCosts},
}

func costs(b *bench) {
	at := func(ms int64) uuid.UUID {
		id := journal.FirstID(epoch.Add(time.Duration(ms) * time.Millisecond))
		copy(id[6:], newID().Bytes()[6:])
		return id
	}
	cost := func(id uuid.UUID, definition string, r *journal.Row) journal.Cost {
		a := begin(id)
		a.Start.Definition, a.Row = definition, r
		b.released = !b.released
		a.Release = b.released
		b.ok(a)
		return journal.Cost{ID: id, Definition: definition, Labels: r.Labels, Summary: r.Summary, CreatedAt: epoch, EndedAt: r.EndedAt}
	}
	over := ended()
	over.Labels, over.Summary = map[string]string{"tier": "gold"}, json.RawMessage(`{"cost":{"spent":"9007199254740993.10"}}`)
	one := cost(at(0), "trip", row("running"))
	two := cost(at(1), "refund", over)
	three := cost(at(2), "trip", over)
	four := cost(at(1000), "trip", row("waiting"))
	from := func(ms int64) uuid.UUID { return journal.FirstID(epoch.Add(time.Duration(ms) * time.Millisecond)) }
	for _, tt := range []struct {
		name string
		f    journal.CostFilter
		want []journal.Cost
	}{
		{"all", journal.CostFilter{}, []journal.Cost{four, three, two, one}},
		{"definition", journal.CostFilter{Definition: "trip"}, []journal.Cost{four, three, one}},
		{"no such definition", journal.CostFilter{Definition: "tri"}, nil},
		{"from a moment on", journal.CostFilter{From: from(1)}, []journal.Cost{four, three, two}},
		{"before a moment", journal.CostFilter{Before: from(2)}, []journal.Cost{two, one}},
		{"between", journal.CostFilter{From: from(1), Before: from(1000)}, []journal.Cost{three, two}},
		{"between two of the same", journal.CostFilter{From: from(1), Before: from(1)}, nil},
		{"of a definition, from", journal.CostFilter{Definition: "trip", From: from(2)}, []journal.Cost{four, three}},
		{"of a definition, between", journal.CostFilter{Definition: "trip", From: from(0), Before: from(1000)}, []journal.Cost{three, one}},
		{"limit", journal.CostFilter{Limit: 2}, []journal.Cost{four, three}},
		{"of a definition, limit", journal.CostFilter{Definition: "refund", Limit: 2}, []journal.Cost{two}},
		{"before the year 1970 there is nothing", journal.CostFilter{From: journal.FirstID(time.Unix(-1, 0)), Limit: 1}, []journal.Cost{four}},
	} {
		got, err := b.Costs(b.ctx, tt.f)
		b.must(err)
		diff(b, tt.name, got, tt.want)
	}
}

func walkCosts(b *bench) {
	var want []uuid.UUID
	for i := range 24 {
		a := begin(newID())
		a.Start.Definition = fmt.Sprint("d", i%2)
		if i%4 < 2 {
			a.Row, a.Release = row("waiting"), true
		}
		b.ok(a)
		want = append(want, a.Saga)
	}
	slices.Reverse(want)
	for _, of := range []string{"", "d1"} {
		var expected, got []uuid.UUID
		for i, id := range want {
			if of == "" || i%2 == 0 { // the newest saga is of d1
				expected = append(expected, id)
			}
		}
		for f := (journal.CostFilter{Definition: of, From: expected[len(expected)-2], Limit: 4}); ; {
			page, err := b.Costs(b.ctx, f)
			b.must(err)
			if len(page) == 0 {
				break
			}
			for _, c := range page {
				got = append(got, c.ID)
			}
			f.Before = got[len(got)-1]
		}
		diff(b, "walk of "+of, got, expected[:len(expected)-1])
	}
}
