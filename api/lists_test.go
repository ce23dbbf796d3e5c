package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/compensation"
	"recourse/examples/world"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// walk follows a list's cursors to its end.
func walk[T any](x *fixture, path string, limit int) []T {
	x.t.Helper()
	sep := "?"
	if strings.Contains(path, "?") {
		sep = "&"
	}
	var all []T
	cursor := ""
	for pages := 0; ; pages++ {
		var p page[T]
		at := fmt.Sprintf("%s%slimit=%d", path, sep, limit)
		if cursor != "" {
			at += "&cursor=" + url.QueryEscape(cursor)
		}
		x.do("GET", at, "").want(200).into(&p)
		all = append(all, p.Data...)
		if p.Next == "" {
			return all
		}
		if len(p.Data) != limit && !strings.Contains(path, "q=") || pages > 100 {
			x.t.Fatalf("page %d of %s has %d entries and a next one", pages, path, len(p.Data))
		}
		cursor = p.Next
	}
}

func ids(list []machine.View) []string {
	var out []string
	for _, v := range list {
		out = append(out, v.ID)
	}
	return out
}

func TestListSagas(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		x.publish(echoDef)
		var want []string // newest first
		for i := range 7 {
			def, tier := "nap", "gold"
			if i%2 == 1 {
				def, tier = "echo", "Silver & Co"
			}
			v := x.do("POST", "/v1/sagas", fmt.Sprintf(`{"definition": %q, "labels": {"tier": %q, "n": "%d"}}`, def, tier, i)).want(201).saga()
			if def == "echo" {
				x.until(v.ID, is(saga.Succeeded))
			}
			want = append([]string{v.ID}, want...)
		}
		for _, limit := range []int{1, 2, 3, 7, 200} {
			if d := cmp.Diff(want, ids(walk[machine.View](x, "/v1/sagas", limit))); d != "" {
				t.Errorf("limit %d: %s", limit, d)
			}
		}
		odd := []string{want[1], want[3], want[5]}
		even := []string{want[0], want[2], want[4], want[6]}
		created := x.do("GET", "/v1/sagas/"+want[2], "").want(200).saga().CreatedAt.Time
		tests := []struct {
			query string
			want  []string
		}{
			{"?definition=echo", odd},
			{"?status=succeeded", odd},
			{"?status=waiting,running", even},
			{"?status=waiting&status=succeeded", want},
			{"?label.tier=gold", even},
			{"?label.tier=" + url.QueryEscape("Silver & Co") + "&label.n=3", []string{want[3]}},
			{"?q=SILVER", odd},
			{"?q=" + want[3][:24], []string{want[3]}},
			{"?definition=none", nil},
			{"?definition=echo&status=succeeded&label.n=3", []string{want[3]}},
			{"?started_before=" + created.Add(time.Hour).Format(time.RFC3339), want},
			{"?started_before=" + created.Add(-time.Hour).Format(time.RFC3339), nil},
			{"?started_after=" + created.Add(-time.Hour).Format(time.RFC3339) + "&started_before=" + created.Add(time.Hour).Format(time.RFC3339) + "&q=gold", even},
			{"?started_after=" + created.Add(time.Hour).Format(time.RFC3339), nil},
			{"?started_after=" + url.QueryEscape(created.Add(-time.Hour).In(time.FixedZone("", 3600)).Format(time.RFC3339)), want},
		}
		for _, tt := range tests {
			if d := cmp.Diff(tt.want, ids(walk[machine.View](x, "/v1/sagas"+tt.query, 2))); d != "" {
				t.Errorf("%s: %s", tt.query, d)
			}
		}
	})
}

const nilID = "00000000-0000-0000-0000-000000000000"

// A list that scans three sagas at a time says how far it has scanned, and its cursors lead to
// every saga.
func TestListLooksBack(t *testing.T) {
	for name, open := range stores {
		t.Run(name, func(t *testing.T) {
			x := newFixtureOn(t, open(t), func(c *Config) { c.Limits.Listed = 3 })
			x.publish(sleepDef)
			var all []string // newest first
			for i := range 8 {
				tier := "silver"
				if i == 1 {
					tier = "gold"
				}
				v := x.do("POST", "/v1/sagas", fmt.Sprintf(`{"definition": "nap", "labels": {"tier": %q}}`, tier)).want(201).saga()
				all = append([]string{v.ID}, all...)
			}
			var p sagaPage
			x.do("GET", "/v1/sagas?q=gold", "").want(200).into(&p)
			if want := journal.IDTime(uuid.FromStringOrNil(all[2])); len(p.Data) > 0 || p.Next == "" || p.LookedBackTo == nil || !p.LookedBackTo.Equal(want) {
				t.Errorf("the first page is %+v, want nothing, back to %s", p, want)
			}
			for query, want := range map[string][]string{"?q=gold": all[6:7], "?q=GOLD&status=waiting,running": all[6:7], "?q=silver": append(all[:6:6], all[7]), "?q=zebra": nil} {
				if d := cmp.Diff(want, ids(walk[machine.View](x, "/v1/sagas"+query, 2))); d != "" {
					t.Errorf("%s: %s", query, d)
				}
			}
			p = sagaPage{}
			x.do("GET", "/v1/sagas?label.tier=gold", "").want(200).into(&p)
			if d := cmp.Diff(all[6:7], ids(p.Data)); d != "" || p.Next != "" || p.LookedBackTo != nil {
				t.Errorf("a label, however far: %+v", p)
			}
			x.do("GET", "/v1/sagas?q="+all[7], "").want(200).into(&p)
			if d := cmp.Diff(all[7:], ids(p.Data)); d != "" {
				t.Errorf("an id, however far: %s", d)
			}
		})
	}
}

// A search text that ids begin with also matches other texts; those sagas follow, and no saga
// appears twice.
func TestListByIDAndText(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		start := func(label string) string {
			return x.do("POST", "/v1/sagas", fmt.Sprintf(`{"definition": "nap", "labels": {"of": %q}}`, label)).want(201).saga().ID
		}
		first := start("nobody")
		second, third := start(first), start("run "+first)
		x.do("PATCH", "/v1/sagas/"+first, fmt.Sprintf(`{"labels": {"of": %q}}`, first), header{"If-Match", "*"}).want(200)
		for _, limit := range []int{1, 2, 50} {
			got := ids(walk[machine.View](x, "/v1/sagas?q="+strings.ToUpper(first), limit))
			if d := cmp.Diff([]string{first, third, second}, got); d != "" {
				t.Errorf("limit %d: %s", limit, d)
			}
		}
		if got := ids(walk[machine.View](x, "/v1/sagas?q="+first+"&label.of="+first, 50)); !slices.Equal(got, []string{first, second}) {
			t.Errorf("with a label: %v", got)
		}
		if got := walk[machine.View](x, "/v1/sagas?q="+first[:7], 50); len(got) != 3 { // every saga has it as a label
			t.Errorf("%d sagas by 7 characters, want 3", len(got))
		}
	})
}

// An item of the list is the saga without the fields that only its journal has.
func TestListShowsTheSaga(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		id := finished(x)
		want := x.do("GET", "/v1/sagas/"+id, "").want(200).saga()
		want.Input, want.Output, want.TraceID = nil, nil, ""
		var p page[machine.View]
		x.do("GET", "/v1/sagas", "").want(200).into(&p)
		// The row has the time of the start, the journal the time of its first record.
		near := cmp.Comparer(func(a, b saga.Time) bool { return a.Sub(b.Time).Abs() < time.Second })
		if d := cmp.Diff([]machine.View{want}, p.Data, near); d != "" {
			t.Error(d)
		}
	})
}

func TestListRefused(t *testing.T) {
	x := newFixture(t)
	for query, detail := range map[string]string{
		"?limt=3":                       `did you mean "limit"?`,
		"?limit=0":                      "1 to 200",
		"?limit=201":                    "1 to 200",
		"?limit=x":                      "1 to 200",
		"?limit=1&limit=2":              "twice",
		"?status=runing":                "there are running",
		"?started_after=yesterday":      "started_after is a time such as 2026",
		"?started_before=":              "started_before is a time such as 2026",
		"?cursor=abc":                   "next_cursor",
		"?cursor=" + pack("inbox", "x"): "next_cursor",
		"?cursor=" + pack("sagas", "x"): "next_cursor",
		"?cursor=" + pack("sagas", stageAll, "x"):             "next_cursor",
		"?q=01234567&cursor=" + pack("sagas", "first", nilID): "next_cursor",
		"?q=gold&cursor=" + pack("sagas", stageNamed, nilID):  "the same filter",
		"?q=%zz":                           "percent-encode",
		"?q=%ff":                           "UTF-8",
		"?q=%00":                           "UTF-8",
		"?definition=a;b=c":                "percent-encode",
		"?label=x":                         "label.",
		"?cursor=" + pack("sagas") + "%00": "",
	} {
		p := x.do("GET", "/v1/sagas"+query, "", outside).problem(400, "invalid_request")
		text := p.Detail
		for _, f := range p.Errors {
			text += " " + f.Detail
		}
		if !strings.Contains(text, detail) {
			t.Errorf("%s: %q does not say %q", query, text, detail)
		}
	}
	x.do("GET", "/v1/inbox?kind=everything", "", outside).problem(400, "invalid_request")
	x.do("GET", "/v1/inbox?saga=x", "", outside).problem(400, "invalid_request")
	x.do("GET", "/v1/inbox?cursor="+pack("inbox", "x", "y"), "").problem(400, "invalid_request")
	x.do("GET", "/v1/stats?x=1", "", outside).problem(400, "invalid_request")
}

func TestInboxWalk(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(askDef)
		if err := x.world.AddFault(world.Rule{Match: world.Match{PathPrefix: "/pay/charges"}, Do: world.Do{After: world.FaultDrop}}); err != nil {
			t.Fatal(err)
		}
		want := map[string]bool{}
		for range 5 {
			id := x.do("POST", "/v1/sagas", `{"definition": "careful", "input": {"amount": 1}}`).want(201).saga().ID
			x.until(id, is(saga.Stuck))
			want[id] = true
		}
		list := walk[inboxEntry](x, "/v1/inbox", 2)
		for i, e := range list {
			if !want[e.Saga] {
				t.Errorf("entry of saga %s twice, or not expected", e.Saga)
			}
			delete(want, e.Saga)
			if i > 0 && e.Since.Before(list[i-1].Since.Time) {
				t.Error("not the oldest first")
			}
		}
		if len(want) > 0 {
			t.Errorf("missing: %v", want)
		}
		if got := walk[inboxEntry](x, "/v1/inbox?kind=held", 2); len(got) != 0 {
			t.Errorf("held: %+v", got)
		}
		var st statsView
		x.do("GET", "/v1/stats", "").want(200).into(&st)
		if st.Sagas["stuck"] != 5 || st.Inbox["in_doubt"] != 5 || st.Live["careful"] != 5 || st.OldestInbox == nil || len(st.Nodes) != 1 {
			t.Errorf("stats %+v", st)
		}
	})
}

// Filters are bounded, because the limits of databases would make them fail.
func TestListFiltersAreBounded(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.do("GET", "/v1/sagas?q="+strings.Repeat("%C3%A9", 256), "").want(200)
		x.do("GET", "/v1/sagas?q="+strings.Repeat("x", 60_000), "", outside).problem(400, "invalid_request")
		x.do("GET", "/v1/sagas?definition=d&status="+strings.Repeat("running,", 40_000)+"failed", "").want(200)
		var labels []string
		for i := range 1200 {
			labels = append(labels, "label.a"+strconv.Itoa(i)+"=b")
		}
		x.do("GET", "/v1/sagas?"+strings.Join(labels, "&"), "", outside).problem(400, "invalid_request")
		x.do("GET", "/v1/sagas?"+strings.Join(labels[:64], "&"), "").want(200)
	})
}

// oddly is a store whose lists fail with an unknown error.
type oddly struct{ journal.Store }

// Sagas implements journal.Index.
func (oddly) Sagas(context.Context, journal.Filter) (journal.Listed, error) {
	return journal.Listed{}, errors.New("the disk is odd")
}

// If a response refers to the log, the log has the details.
func TestMistakesAreLogged(t *testing.T) {
	var log bytes.Buffer
	x := newFixture(t, func(c *Config) {
		c.Store, c.Log = oddly{c.Store}, slog.New(slog.NewTextHandler(&log, nil))
	})
	x.do("GET", "/v1/sagas", "", outside).problem(500, "internal")
	if !strings.Contains(log.String(), "the disk is odd") {
		t.Errorf("the log says %q", log.String())
	}
}

// A search finds a text in input, output and reason.
func TestListFindsWhatIsShown(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish("saga: pay\ninput: {order: string, amount: number}\noutput: {receipt: \"R-${input.order}-Ü\"}\nsteps:\n" +
			"  - id: charge\n    when: input.amount > 100\n    http: POST ${vars.pay}/charges\n    body: {amount: 1}\n    in_doubt: retry\n    compensate: none\n")
		if err := x.world.AddFault(world.Rule{Match: world.Match{PathPrefix: "/pay/charges"}, Do: world.Do{Before: world.FaultStatus, Status: 402, Body: `{"message": "The card was declined"}`}}); err != nil {
			t.Fatal(err)
		}
		refused := x.do("POST", "/v1/sagas", `{"definition": "pay", "input": {"order": "A-17", "amount": 1005}, "labels": {"tier": "gold"}}`).want(201).saga().ID
		x.until(refused, is(saga.Compensated))
		paid := x.do("POST", "/v1/sagas", `{"definition": "pay", "input": {"order": "B-18", "amount": 99.50}}`).want(201).saga().ID
		x.until(paid, is(saga.Succeeded))
		x.publish("saga: remind\nsteps:\n  - {id: sms, http: \"POST ${vars.pay}/texts\", in_doubt: retry, compensate: none, on_error: continue, retry: none}\n  - {id: done, set: 1}\n")
		if err := x.world.AddFault(world.Rule{Match: world.Match{PathPrefix: "/pay/texts"}, Do: world.Do{Before: world.FaultStatus, Status: 410, Body: `{"message": "Number gone"}`}}); err != nil {
			t.Fatal(err)
		}
		lost := x.do("POST", "/v1/sagas", `{"definition": "remind"}`).want(201).saga().ID
		x.until(lost, is(saga.Succeeded))
		for q, want := range map[string][]string{
			"http_410": {lost}, "number gone": {lost},
			"http 402": {refused}, "step_failed": {refused}, "DECLINED": {refused}, "charge": {refused}, "a-17": {refused}, "1005": {refused}, "gold": {refused},
			"b-18": {paid}, "r-b-18-ü": {paid}, "99.50": {paid}, "pay": {paid, refused}, "amount": nil, "receipt": nil, "zebra": nil,
		} {
			if d := cmp.Diff(want, ids(walk[machine.View](x, "/v1/sagas?q="+url.QueryEscape(q), 50))); d != "" {
				t.Errorf("%s: %s", q, d)
			}
		}
	})
}

// A saga that succeeds with a step in doubt names the step: in the saga, in lists, in its last
// record, and in the response to its start.
func TestDoubtsAreNamed(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish("saga: remind\nsteps:\n  - {id: sms, http: \"POST ${vars.pay}/texts\", in_doubt: fail, compensate: none, on_error: continue, retry: none}\n  - {id: done, set: 1}\n")
		x.publish("saga: calm\nsteps:\n  - {id: done, set: 1}\n")
		if err := x.world.AddFault(world.Rule{Match: world.Match{PathPrefix: "/pay/texts"}, Do: world.Do{After: world.FaultStatus, Status: 502}}); err != nil {
			t.Fatal(err)
		}
		begun := x.do("POST", "/v1/sagas", `{"definition": "remind"}`, header{"Prefer", "wait=20"}).want(201).saga()
		id := begun.ID
		x.until(id, is(saga.Succeeded))
		named := func(where string, got []compensation.Residue) {
			t.Helper()
			if len(got) != 1 || got[0].Path != "sms" || !strings.HasPrefix(got[0].Why, "it may have happened, and the saga went on without it: HTTP 502 Bad Gateway") {
				t.Errorf("%s: %+v", where, got)
			}
		}
		named("the answer to the start", begun.Doubts)
		named("the saga", x.do("GET", "/v1/sagas/"+id, "").want(200).saga().Doubts)
		list := walk[machine.View](x, "/v1/sagas?definition=remind", 50)
		if len(list) != 1 {
			t.Fatalf("%d sagas", len(list))
		}
		named("the list", list[0].Doubts)
		records := walk[journal.Record](x, "/v1/sagas/"+id+"/journal", 50)
		var end saga.FinishedData
		if err := json.Unmarshal(records[len(records)-1].Data, &end); err != nil {
			t.Fatal(err)
		}
		named("the last record", end.Doubts)
		other := x.do("POST", "/v1/sagas", `{"definition": "calm"}`, header{"Prefer", "wait=20"}).want(201)
		if bytes.Contains(other.Body, []byte("doubts")) {
			t.Errorf("a saga without a doubt: %s", other.Body)
		}
	})
}

// A unique prefix of an id stands for the id in every route.
func TestSagaByTheBeginningOfItsID(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		start := func() string {
			return x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
		}
		id := start()
		for n := leastName; n < len(id); n++ {
			if got := x.do("GET", "/v1/sagas/"+id[:n], "").want(200).saga().ID; got != id {
				t.Fatalf("%s is %s, want %s", id[:n], got, id)
			}
		}
		x.do("GET", "/v1/sagas/"+id[:leastName-1], "").problem(404, "saga_not_found")
		x.do("GET", "/v1/sagas/"+strings.ToUpper(id), "").problem(404, "saga_not_found")
		x.do("GET", "/v1/sagas/ffffffff", "").problem(404, "saga_not_found")
		for _, path := range []string{"", "/journal", "/steps"} {
			p := x.do("GET", "/v1/sagas/0193abcd-1234-8005-8000-00000000ffff"+path, "").problem(404, "unknown_cell")
			if !strings.Contains(p.Detail, "cell 5") {
				t.Errorf("%q does not name the cell", p.Detail)
			}
		}
		x.do("POST", "/v1/sagas/0193abcd-1234-8005-8000-00000000ffff/cancel", `{"reason": "r"}`).problem(404, "unknown_cell")
		x.do("GET", "/v1/inbox?saga=0193abcd-1234-8005-8000-00000000ffff", "").problem(400, "invalid_request")
		for _, path := range []string{"/journal", "/steps", "/steps/rest"} {
			x.do("GET", "/v1/sagas/"+id[:13]+path, "").want(200)
		}
		x.do("GET", "/v1/inbox?saga="+id[:13], "").want(200)
		x.do("GET", "/v1/stalled?saga="+id[:13], "").want(200)
		x.do("GET", "/v1/inbox?saga=ffffffff", "").problem(404, "saga_not_found")

		key := header{"Idempotency-Key", "pause-1"}
		x.do("POST", "/v1/sagas/"+id[:leastName]+"/pause", `{"reason": "why not"}`, key).want(202)
		second := start()
		for second[:leastName] != id[:leastName] { // both ids need the same prefix, which changes every minute
			id = second
			key.value = "pause-" + id
			x.do("POST", "/v1/sagas/"+id[:leastName]+"/pause", `{"reason": "why not"}`, key).want(202)
			second = start()
		}
		p := x.do("GET", "/v1/sagas/"+id[:leastName], "").problem(409, "ambiguous_id")
		for _, want := range []string{id + " (nap, ", second + " (nap, "} {
			if !strings.Contains(p.Detail, want) {
				t.Errorf("%q does not name %s", p.Detail, want)
			}
		}
		x.do("POST", "/v1/sagas/"+id[:leastName]+"/resume", `{}`).problem(409, "ambiguous_id")
		x.do("GET", "/v1/inbox?saga="+id[:leastName], "").problem(409, "ambiguous_id")
		if r := x.do("POST", "/v1/sagas/"+id[:leastName]+"/pause", `{"reason": "why not"}`, key).want(202); r.Header.Get(replayHeader) != "true" {
			t.Error("a request that was carried out is not answered again")
		}
		for same := 2; same < maxCandidates+2; same++ {
			if next := start(); next[:leastName] != id[:leastName] { // that minute has ended here
				id, same = next, 0
			}
		}
		if p := x.do("GET", "/v1/sagas/"+id[:leastName], "").problem(409, "ambiguous_id"); !strings.HasSuffix(p.Detail, ", and others") || strings.Count(p.Detail, "(nap, ") != maxCandidates {
			t.Errorf("of %d: %s", maxCandidates+2, p.Detail)
		}
	})
}
