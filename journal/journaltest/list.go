package journaltest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

var listTests = []test{
	{"filters", filters},
	{"a walk by cursor finds all, once", walkSagas},
	{"a list examines up to a limit, and returns where it stopped", scans},
	{"sagas in an index are found, however old", scansByIndex},
	{"changed labels", relabelled},
	{"changed texts", retexted},
}

// listed returns the ids of a list.
func (b *bench) listed(f journal.Filter) []uuid.UUID {
	b.Helper()
	got, err := b.Sagas(b.ctx, f)
	b.must(err)
	if f.MaxScanned == 0 && !got.ScannedTo.IsNil() {
		b.Errorf("%+v: it ends at %s although it has no limit", f, got.ScannedTo)
	}
	var ids []uuid.UUID
	for _, h := range got.Heads {
		ids = append(ids, h.ID)
	}
	return ids
}

// idAt returns an id with this time.
func idAt(at time.Time) uuid.UUID {
	id := newID()
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at.UnixMilli()))
	copy(id[:], ms[2:])
	return id
}

// made creates a saga that a list may find. It releases every second one, because stores may have
// different indexes for sagas with and without an owner.
func (b *bench) made(id uuid.UUID, definition, status, reason string, labels map[string]string) uuid.UUID {
	b.Helper()
	a := begin(id)
	a.Start.Definition = definition
	text := definition + "\n" + reason
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		text += "\n" + labels[name]
	}
	a.Row = &journal.Row{Status: status, Reason: reason, Labels: labels, Text: journal.SearchText(text), Seq: 1, UpdatedAt: epoch}
	b.released = !b.released
	a.Release = b.released
	b.ok(a)
	return id
}

func filters(b *bench) {
	one := b.made(idAt(epoch), "book_trip", "running", "", map[string]string{"tier": "gold", "city": "Oslo", `it's "so`: `\"<é>`})
	two := b.made(idAt(epoch.Add(time.Second)), "book_trip", "waiting", "approval", map[string]string{"tier": "gold"})
	three := b.made(idAt(epoch.Add(time.Minute)), "refund", "failed", "budget_exceeded", map[string]string{"tier": "100%_\\off"})
	started := func(after, before time.Time) (f journal.Filter) {
		f.Started(after, before)
		return f
	}
	named := func(text string) (f journal.Filter) {
		if !f.Named(text) {
			b.Errorf("no id can begin with %q", text)
		}
		return f
	}
	never := time.Time{}
	for _, tt := range []struct {
		name string
		f    journal.Filter
		want []uuid.UUID
	}{
		{"all", journal.Filter{}, []uuid.UUID{three, two, one}},
		{"definition", journal.Filter{Definition: "book_trip"}, []uuid.UUID{two, one}},
		{"no such definition", journal.Filter{Definition: "book"}, nil},
		{"status", journal.Filter{Status: []string{"failed"}}, []uuid.UUID{three}},
		{"two statuses", journal.Filter{Status: []string{"failed", "running"}}, []uuid.UUID{three, one}},
		{"a status twice", journal.Filter{Status: []string{"failed", "running", "failed"}, Limit: 2}, []uuid.UUID{three, one}},
		{"label", journal.Filter{Labels: map[string]string{"tier": "gold"}}, []uuid.UUID{two, one}},
		{"two labels", journal.Filter{Labels: map[string]string{"tier": "gold", "city": "Oslo"}}, []uuid.UUID{one}},
		{"label of another value", journal.Filter{Labels: map[string]string{"tier": "Gold"}}, nil},
		{"label of another name", journal.Filter{Labels: map[string]string{"city": "gold"}}, nil},
		{"label with quotes", journal.Filter{Labels: map[string]string{`it's "so`: `\"<é>`}}, []uuid.UUID{one}},
		{"label and label with quotes", journal.Filter{Labels: map[string]string{"tier": "gold", `it's "so`: `\"<é>`}}, []uuid.UUID{one}},
		{"label and status", journal.Filter{Labels: map[string]string{"tier": "gold"}, Status: []string{"waiting"}}, []uuid.UUID{two}},
		{"label and definition", journal.Filter{Labels: map[string]string{"tier": "gold"}, Definition: "refund"}, nil},
		{"definition and status", journal.Filter{Definition: "book_trip", Status: []string{"waiting"}}, []uuid.UUID{two}},
		{"definition and statuses", journal.Filter{Definition: "book_trip", Status: []string{"waiting", "failed", "running"}, Limit: 1}, []uuid.UUID{two}},
		{"started after", started(epoch, never), []uuid.UUID{three, two}},
		{"started after a part of a millisecond", started(epoch.Add(-1), never), []uuid.UUID{three, two, one}},
		{"started before", started(never, epoch.Add(time.Second)), []uuid.UUID{one}},
		{"started before a part of a millisecond", started(never, epoch.Add(time.Second+1)), []uuid.UUID{two, one}},
		{"started between", started(epoch, epoch.Add(time.Minute)), []uuid.UUID{two}},
		{"started between, of a definition", journal.Filter{Definition: "book_trip", From: two, Before: three}, []uuid.UUID{two}},
		{"started between, of a status", journal.Filter{Status: []string{"waiting"}, From: two, Before: three}, []uuid.UUID{two}},
		{"started between, with a label", journal.Filter{Labels: map[string]string{"tier": "gold"}, From: two, Before: three}, []uuid.UUID{two}},
		{"started before all", started(never, time.UnixMilli(-1)), nil},
		{"started after all", started(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), never), nil},
		{"a whole id", named(two.String()), []uuid.UUID{two}},
		{"an id's beginning", named(three.String()[:13]), []uuid.UUID{three}},
		{"no id's beginning", named("ffffffff"), nil},
		{"text in definition", journal.Filter{Text: "K_TR"}, []uuid.UUID{two, one}},
		{"text in reason", journal.Filter{Text: "BUDGET"}, []uuid.UUID{three}},
		{"text in label value", journal.Filter{Text: "oslo"}, []uuid.UUID{one}},
		{"text in label name is not meant", journal.Filter{Text: "tier"}, nil},
		{"text in an id is not meant", journal.Filter{Text: one.String()}, nil},
		{"percent is a character", journal.Filter{Text: "%"}, []uuid.UUID{three}},
		{"underscore is a character", journal.Filter{Text: "%_\\o"}, []uuid.UUID{three}},
		{"text and label", journal.Filter{Text: "oslo", Labels: map[string]string{"tier": "gold"}}, []uuid.UUID{one}},
		{"before", journal.Filter{Before: two}, []uuid.UUID{one}},
		{"from", journal.Filter{From: two}, []uuid.UUID{three, two}},
		{"from after before", journal.Filter{From: three, Before: two}, nil},
		{"limit", journal.Filter{Limit: 1}, []uuid.UUID{three}},
		{"everything", journal.Filter{Definition: "book_trip", Status: []string{"waiting", "running"}, Labels: map[string]string{"tier": "gold"},
			Text: "trip", From: one, Before: three, Limit: 1}, []uuid.UUID{two}},
	} {
		diff(b, tt.name, b.listed(tt.f), tt.want)
	}
}

func walkSagas(b *bench) {
	var want []uuid.UUID
	for range 25 {
		saga, _ := b.started()
		want = append(want, saga)
	}
	slices.Reverse(want)
	var got []uuid.UUID
	for f := (journal.Filter{Limit: 4}); ; {
		page := b.listed(f)
		if len(page) == 0 {
			break
		}
		got = append(got, page...)
		f.Before = got[len(got)-1]
	}
	diff(b, "walk", got, want)
}

// mixed creates sagas and returns them, the newest first.
func (b *bench) mixed(n int) (ids []uuid.UUID, find func(func(i int) bool) []uuid.UUID) {
	b.Helper()
	for i := range n {
		status, labels := []string{"running", "waiting", "stuck"}[i%3], map[string]string{"n": fmt.Sprint(i % 5)}
		if i < 3 {
			labels["batch"] = "Pilot"
		}
		ids = append(ids, b.made(newID(), []string{"even", "odd"}[i%2], status, "", labels))
	}
	slices.Reverse(ids)
	return ids, func(match func(i int) bool) (out []uuid.UUID) {
		for k, id := range ids {
			if match(n - 1 - k) {
				out = append(out, id)
			}
		}
		return out
	}
}

// scans reads lists that may examine a few sagas at a time. They find the same sagas as lists
// without a limit.
func scans(b *bench) {
	ids, find := b.mixed(40)
	for _, tt := range []struct {
		name string
		f    journal.Filter
		want []uuid.UUID
	}{
		{"text of all", journal.Filter{Text: "1"}, find(func(i int) bool { return i%5 == 1 })},
		{"text of the oldest", journal.Filter{Text: "pilot"}, find(func(i int) bool { return i < 3 })},
		{"text of none", journal.Filter{Text: "zebra"}, nil},
		{"text of a definition's", journal.Filter{Definition: "odd", Text: "4"}, find(func(i int) bool { return i%2 == 1 && i%5 == 4 })},
		{"text of a status's", journal.Filter{Status: []string{"stuck"}, Text: "pilot"}, find(func(i int) bool { return i == 2 })},
		{"text of statuses'", journal.Filter{Status: []string{"stuck", "waiting"}, Text: "3"}, find(func(i int) bool { return i%3 > 0 && i%5 == 3 })},
		{"text of a label's", journal.Filter{Labels: map[string]string{"n": "2"}, Text: "pilot"}, find(func(i int) bool { return i == 2 })},
		{"definition and status", journal.Filter{Definition: "even", Status: []string{"running"}}, find(func(i int) bool { return i%6 == 0 })},
		{"definition and statuses", journal.Filter{Definition: "even", Status: []string{"running", "stuck"}}, find(func(i int) bool { return i%2 == 0 && i%3 != 1 })},
		{"label and statuses", journal.Filter{Labels: map[string]string{"n": "0"}, Status: []string{"running", "stuck"}}, find(func(i int) bool { return i%5 == 0 && i%3 != 1 })},
		{"labels", journal.Filter{Labels: map[string]string{"n": "1", "batch": "Pilot"}}, find(func(i int) bool { return i == 1 })},
		{"labels that none has both of", journal.Filter{Labels: map[string]string{"n": "4", "batch": "Pilot"}}, nil},
		{"between ids", journal.Filter{Text: "even", From: ids[39-19], Before: ids[39-29]}, find(func(i int) bool { return i%2 == 0 && i >= 19 && i < 29 })},
	} {
		for _, scanned := range []int{1, 2, 7, 39, 40, 41} {
			for _, limit := range []int{0, 1, 3} {
				tt.f.MaxScanned, tt.f.Limit = scanned, limit
				b.walkScanned(fmt.Sprintf("%s, %d at a time, %d a page", tt.name, scanned, limit), tt.f, 2*len(ids), tt.want)
			}
		}
	}
	text := journal.Filter{Text: "zebra", MaxScanned: 7}
	got, err := b.Sagas(b.ctx, text)
	b.must(err)
	diff(b, "scanned", got, journal.Listed{ScannedTo: ids[6]})
}

func (b *bench) walkScanned(name string, f journal.Filter, most int, want []uuid.UUID) {
	b.Helper()
	var got []uuid.UUID
	for calls := 0; ; calls++ {
		page, err := b.Sagas(b.ctx, f)
		b.must(err)
		full := f.Limit > 0 && len(page.Heads) == f.Limit
		for _, h := range page.Heads {
			got = append(got, h.ID)
			if !page.ScannedTo.IsNil() && slices.Compare(h.ID[:], page.ScannedTo[:]) < 0 {
				b.Fatalf("%s: %s is older than %s, the last saga examined", name, h.ID, page.ScannedTo)
			}
		}
		switch {
		case full && !page.ScannedTo.IsNil():
			b.Fatalf("%s: a full page has ScannedTo %s", name, page.ScannedTo)
		case full:
			f.Before = got[len(got)-1]
		case !page.ScannedTo.IsNil():
			if !f.Before.IsNil() && slices.Compare(page.ScannedTo[:], f.Before[:]) >= 0 {
				b.Fatalf("%s: the list does not continue", name)
			}
			f.Before = page.ScannedTo
		default:
			diff(b, name, got, want)
			return
		}
		if calls > most {
			b.Fatalf("%s: no end", name)
		}
	}
}

// scansByIndex reads lists for which there is an index: one call finds the oldest saga.
func scansByIndex(b *bench) {
	_, find := b.mixed(20)
	rare := b.made(idAt(epoch), "rare", "paused", "", map[string]string{"order": "4711"})
	for _, tt := range []struct {
		name string
		f    journal.Filter
		want []uuid.UUID
	}{
		{"definition", journal.Filter{Definition: "rare"}, []uuid.UUID{rare}},
		{"status", journal.Filter{Status: []string{"paused"}}, []uuid.UUID{rare}},
		{"statuses", journal.Filter{Status: []string{"paused", "compensating"}}, []uuid.UUID{rare}},
		{"label", journal.Filter{Labels: map[string]string{"order": "4711"}}, []uuid.UUID{rare}},
		{"the oldest", journal.Filter{Labels: map[string]string{"batch": "Pilot"}}, find(func(i int) bool { return i < 3 })},
	} {
		tt.f.MaxScanned, tt.f.Limit = 1, 10
		got, err := b.Sagas(b.ctx, tt.f)
		b.must(err)
		var ids []uuid.UUID
		for _, h := range got.Heads {
			ids = append(ids, h.ID)
		}
		diff(b, tt.name, ids, tt.want)
		diff(b, tt.name+": until", got.ScannedTo, uuid.Nil)
	}
}

// retexted gives a saga one text after the other. Searches ignore case, in every script, and
// nothing else.
func retexted(b *bench) {
	saga, hash := b.started()
	b.ok(journal.Append{Saga: saga, Row: ended()})
	all := []string{"ÅNGSTRÖM's \"x\"", "Жук 402", "a%b_c\\d", "line one\nline two", "nul \x00 and \xff", ""}
	for i, text := range all {
		r := rowOf("succeeded", int64(i)+2)
		r.Text = journal.SearchText(text)
		a := journal.Append{Saga: saga, Records: chain(saga, hash, int64(i)+2, 1), Row: r}
		hash = a.Records[0].Hash
		b.ok(a)
		for _, tt := range []struct {
			text string
			of   int
		}{{"ångström", 0}, {"STRÖM'S \"X\"", 0}, {"жУК", 1}, {"402", 1}, {"A%B", 2}, {"b_C\\", 2}, {"one\nLINE", 3}, {"NUL \x00", 4}, {"\xff", 4}, {"angstrom", -1}, {"a_b", -1}} {
			var want []uuid.UUID
			if tt.of == i {
				want = append(want, saga)
			}
			diff(b, fmt.Sprintf("%q in %q", tt.text, text), b.listed(journal.Filter{Text: tt.text}), want)
		}
		list, err := b.Sagas(b.ctx, journal.Filter{})
		b.must(err)
		diff(b, "the list's text", list.Heads[0].Text+b.head(saga).Text, "")
	}
}

func relabelled(b *bench) {
	saga, hash := b.started()
	last := ended()
	b.ok(journal.Append{Saga: saga, Row: last})
	for i, labels := range []map[string]string{{"a": "1"}, {"a": "1", "b": "2"}, {"a": "2"}, nil, {"a": "1"}} {
		r := rowOf("succeeded", int64(i)+2)
		r.Labels = labels
		a := journal.Append{Saga: saga, Records: chain(saga, hash, int64(i)+2, 1), Row: r}
		hash = a.Records[0].Hash
		b.ok(a)
		for _, l := range []map[string]string{{"a": "1"}, {"a": "2"}, {"b": "2"}} {
			for name, value := range l {
				var want []uuid.UUID
				if labels[name] == value {
					want = append(want, saga)
				}
				diff(b, fmt.Sprintf("%s=%s of %v", name, value, labels), b.listed(journal.Filter{Labels: l}), want)
			}
		}
	}
	b.must(b.Delete(b.ctx, saga))
	diff(b, "deleted", b.listed(journal.Filter{Labels: map[string]string{"a": "1"}}), nil)
	again, _ := b.started() // its row has no labels
	diff(b, "another", b.listed(journal.Filter{Labels: map[string]string{"a": "1"}}), nil)
	b.head(again)
}
