package api

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/examples/world"
	"recourse/saga"
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
		if len(p.Data) != limit || pages > 100 {
			x.t.Fatalf("page %d of %s has %d entries and a next one", pages, path, len(p.Data))
		}
		cursor = p.Next
	}
}

func ids(list []saga.View) []string {
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
			if d := cmp.Diff(want, ids(walk[saga.View](x, "/v1/sagas", limit))); d != "" {
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
			{"?started_after=" + created.Add(time.Hour).Format(time.RFC3339), nil},
			{"?started_after=" + url.QueryEscape(created.Add(-time.Hour).In(time.FixedZone("", 3600)).Format(time.RFC3339)), want},
		}
		for _, tt := range tests {
			if d := cmp.Diff(tt.want, ids(walk[saga.View](x, "/v1/sagas"+tt.query, 2))); d != "" {
				t.Errorf("%s: %s", tt.query, d)
			}
		}
	})
}

// An entry of the list is the saga without what only its journal knows.
func TestListShowsTheSaga(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		id := finished(x)
		want := x.do("GET", "/v1/sagas/"+id, "").want(200).saga()
		want.Input, want.Output, want.TraceID = nil, nil, ""
		var p page[saga.View]
		x.do("GET", "/v1/sagas", "").want(200).into(&p)
		// The row has the time at which the start came in, the journal that of its record.
		near := cmp.Comparer(func(a, b saga.Time) bool { return a.Sub(b.Time).Abs() < time.Second })
		if d := cmp.Diff([]saga.View{want}, p.Data, near); d != "" {
			t.Error(d)
		}
	})
}

func TestListRefused(t *testing.T) {
	x := newFixture(t)
	for query, detail := range map[string]string{
		"?limt=3":                          `did you mean "limit"?`,
		"?limit=0":                         "1 to 200",
		"?limit=201":                       "1 to 200",
		"?limit=x":                         "1 to 200",
		"?limit=1&limit=2":                 "twice",
		"?status=runing":                   "there are running",
		"?started_after=yesterday":         "2026",
		"?cursor=abc":                      "next_cursor",
		"?cursor=" + pack("inbox", "x"):    "next_cursor",
		"?cursor=" + pack("sagas", "x"):    "next_cursor",
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
