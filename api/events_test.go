package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"recourse/saga"
	"recourse/saga/machine"
)

type acceptedEvents struct{ Accepted []acceptedEvent }

const onPaid = "saga: on-paid\ntriggers:\n  - event: shop.order.*\n    if: event.data.total > 10\n    input: {order: '${event.data.id}', by: '${event.source}'}\ninput: {order: integer, by: string}\nsteps:\n  - {id: a, set: '${input}'}\n"

func paid(id string, more string) string {
	return `{"specversion":"1.0","id":"` + id + `","source":"/shop","type":"shop.order.paid","data":{"id":9007199254740993,"total":10.01}` + more + `}`
}

func (x *fixture) events(contentType, body string, more ...header) []acceptedEvent {
	x.t.Helper()
	var got acceptedEvents
	x.do("POST", "/v1/events", body, append(more, header{"Content-Type", contentType})...).want(202).into(&got)
	return got.Accepted
}

func TestEventsStart(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.do("PUT", "/v1/definitions/on-paid", onPaid).want(201)
		first := x.events(typeEvent, paid("1", ""))
		if len(first) != 1 || first[0].ID != "1" || len(first[0].Started) != 1 || first[0].Started[0].Definition != "on-paid" || len(first[0].Delivered)+len(first[0].Refused) > 0 {
			t.Fatalf("%+v", first)
		}
		id := first[0].Started[0].Saga
		var v machine.View
		x.do("GET", "/v1/sagas/"+id, "", header{"Prefer", "wait=10"}).want(200).into(&v)
		if v.Status != saga.Succeeded || string(v.Output) != `{"order":9007199254740993,"by":"/shop"}` && string(v.Output) != `{"by":"/shop","order":9007199254740993}` {
			t.Errorf("%s %s", v.Status, v.Output)
		}
		// All three forms carry the same event.
		binary := []header{{"ce-specversion", "1.0"}, {"ce-id", "1"}, {"ce-source", "/sh%6Fp"}, {"ce-type", "shop.order.paid"}}
		for _, again := range [][]acceptedEvent{
			x.events(typeEvent, paid("1", `,"subject":"x","time":"2026-01-31T09:00:00.5+01:00","comexampleext":3,"dataschema":null`)),
			x.events("application/json", `{"id":9007199254740993,"total":10.01}`, binary...),
			x.events(typeEvents, "["+paid("1", "")+"]"),
			x.events(typeEvent+"; charset=utf-8", `{"specversion":"1.0","id":"1","source":"/shop","type":"shop.order.paid","data_base64":"eyJpZCI6MSwidG90YWwiOjExfQ=="}`),
		} {
			if len(again) != 1 || len(again[0].Started) != 1 || again[0].Started[0].Saga != id {
				t.Errorf("%+v, want saga %s again", again, id)
			}
		}
		batch := x.events(typeEvents, "["+paid("2", "")+","+paid("3", `,"source":"/else"`)[:0]+`{"specversion":"1.0","id":"1","source":"/else","type":"shop.order.paid","data":{"id":"x","total":11}},`+
			`{"specversion":"1.0","id":"4","source":"/shop","type":"shop.order.paid","data":{"total":1}},{"specversion":"1.0","id":"5","source":"/shop","type":"other"}]`)
		if len(batch) != 4 || len(batch[0].Started) != 1 || len(batch[1].Refused) != 1 || len(batch[2].Started)+len(batch[2].Refused)+len(batch[3].Started)+len(batch[3].Refused) != 0 {
			t.Fatalf("%+v", batch)
		}
		if r := batch[1].Refused[0]; r.Definition != "on-paid" || r.Trigger != 0 || r.Errors[0].Pointer != "/input/order" {
			t.Errorf("%+v", r)
		}
		if n := x.events(typeEvents, "[]"); len(n) != 0 {
			t.Errorf("%+v", n)
		}
	})
}

// No client can use an event's key, or find the event's saga by a key.
func TestEventKeysAreNobodys(t *testing.T) {
	x := newFixture(t)
	x.do("PUT", "/v1/definitions/on-paid", onPaid).want(201)
	x.do("POST", "/v1/sagas", `{"definition":"on-paid","input":{"order":1,"by":"me"}}`, header{"Idempotency-Key", "event:on-paid:com.shop.order.paid:%2Fshop:1"}).want(201)
	if got := x.events(typeEvent, paid("1", "")); len(got[0].Started) != 1 || x.count("on-paid") != 2 {
		t.Errorf("%+v", got)
	}
}

func (x *fixture) count(definition string) int {
	x.t.Helper()
	var page struct{ Data []json.RawMessage }
	x.do("GET", "/v1/sagas?definition="+definition, "").want(200).into(&page)
	return len(page.Data)
}

func TestEventsReachSagas(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.do("PUT", "/v1/definitions/waits", "saga: waits\nsteps:\n  - {id: a, signal: shop.order.paid}\n  - {id: b, signal: shop.order.paid}\noutput: ['${steps.a.output}', '${steps.b.output}']\n").want(201)
		var v machine.View
		x.do("POST", "/v1/sagas", `{"definition":"waits"}`).want(201).into(&v)
		subject := `,"subject":"` + v.ID + `"`
		for _, tt := range []struct {
			body string
			want int
		}{
			{paid("1", subject), 1}, {paid("1", subject), 1}, // once
			{strings.Replace(paid("2", subject), "order.paid", "order.sent", 1), 0}, // no step waits for it
			{paid("3", `,"subject":"0196a5d0-0000-7000-8000-000000000001"`), 0},
			{paid("4", `,"subject":"order 7"`), 0},
		} {
			if got := x.events(typeEvent, tt.body); len(got[0].Delivered) != tt.want {
				t.Errorf("%s: %+v, want %d", tt.body, got, tt.want)
			}
		}
		if got := x.events("text/plain; charset=utf-8", "hello", header{"ce-specversion", "1.0"}, header{"ce-id", "9"}, header{"ce-source", "/x"}, header{"ce-type", "shop.order.paid"}, header{"ce-subject", v.ID}); len(got[0].Delivered) != 1 {
			t.Errorf("%+v", got)
		}
		x.do("GET", "/v1/sagas/"+v.ID, "", header{"Prefer", "wait=10"}).want(200).into(&v)
		if want := `[{"id":9007199254740993,"total":10.01},"hello"]`; v.Status != saga.Succeeded || !sameItems(string(v.Output), want) {
			t.Errorf("%s %s, want %s", v.Status, v.Output, want)
		}
		if got := x.events(typeEvent, paid("5", subject)); len(got[0].Delivered) != 0 {
			t.Errorf("a saga that has ended: %+v", got)
		}
	})
}

// sameItems compares two lists of two: concurrent messages have no fixed order.
func sameItems(a, b string) bool {
	var x, y []json.RawMessage
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	order := func(p, q json.RawMessage) int { return strings.Compare(string(p), string(q)) }
	slices.SortFunc(x, order)
	slices.SortFunc(y, order)
	return fmt.Sprintf("%s", x) == fmt.Sprintf("%s", y)
}

func TestBadEvents(t *testing.T) {
	x := newFixture(t)
	x.do("PUT", "/v1/definitions/on-paid", onPaid).want(201)
	for _, tt := range []struct {
		contentType, body string
		pointers          string // of the errors
		headers           []header
	}{
		{typeEvent, `{}`, "/specversion /id /source /type", nil},
		{typeEvent, `[]`, "", nil},
		{typeEvent, `{"specversion":"0.3","id":"","source":"a\u0001","type":5,"time":"today","subject":""}`, "/type /specversion /id /source /subject /time", nil},
		{typeEvent, paid("1", `,"eventTime":1,"my_ext":{},"ext":{}`), "/eventTime /ext /my_ext", nil},
		{typeEvent, paid("1", `,"data_base64":"AA=="`), "/data_base64", nil},
		{typeEvent, `{"specversion":"1.0","id":"1","source":"/shop","type":"a","data_base64":"%"}`, "/data_base64", nil},
		{typeEvent, `{"specversion":"1.0","id":"1","source":"/shop","type":"a","data_base64":"AAAA"}`, "/data_base64", nil},
		{typeEvent, `{"specversion":"1.0","id":"1","source":"/shop","type":"a","data":"` + strings.Repeat("x", maxEventData) + `"}`, "/data", nil},
		{typeEvent, `{"specversion":"1.0","id":"1","source":"%zz","type":"a"}`, "/source", nil},
		{typeEvents, "[" + paid("1", "") + `,{"specversion":"1.0","id":"2"},7]`, "/1/source /1/type /2", nil},
		{typeEvents, "[" + strings.Repeat(paid("1", "")+",", 100) + paid("1", "") + "]", "", nil},
		{typeEvents, paid("1", ""), "", nil},
		{"application/json", paid("1", ""), "-", nil},
		{"application/json", `{`, "/data", []header{{"ce-specversion", "1.0"}, {"ce-id", "1"}, {"ce-source", "/x"}, {"ce-type", "a"}}},
		{"text/plain", `x`, "/source /id /type", []header{{"ce-specversion", "1.0"}, {"ce-id", ""}, {"ce-source", "%zz"}}},
	} {
		p := x.do("POST", "/v1/events", tt.body, append(tt.headers, header{"Content-Type", tt.contentType}, outside)...).problem(400, "invalid_request")
		var got []string
		for _, f := range p.Errors {
			got = append(got, f.Pointer)
			if f.Detail == "" || f.Code == "" {
				t.Errorf("%+v", f)
			}
		}
		if want := strings.Join(strings.Fields(tt.pointers), " "); want != "-" && strings.Join(got, " ") != want || want == "-" && len(got) > 0 {
			t.Errorf("%.80s: %q, want %q: %+v", tt.body, got, want, p.Errors)
		}
	}
	x.do("POST", "/v1/events", `{"id":1,"id":2}`, header{"Content-Type", typeEvent}, outside).problem(400, "invalid_json")
	if n := x.count("on-paid"); n != 0 {
		t.Errorf("%d sagas were started", n)
	}
}

// /metrics shows waiting events and deliveries by sink.
func TestOutboxMetrics(t *testing.T) {
	x := newFixture(t, func(c *Config) {
		c.OutboxStats = func() []OutboxStats { return []OutboxStats{{Sink: "audit", Delivered: 3, Failed: 2, Dropped: 1}} }
	})
	x.do("PUT", "/v1/definitions/tells", "saga: tells\nsteps:\n  - {id: a, emit: com.shop.x, to: [audit, crm]}\n").want(201)
	var v machine.View
	x.do("POST", "/v1/sagas", `{"definition":"tells"}`, header{"Prefer", "wait=10"}).want(201).into(&v)
	page := string(x.do("GET", "/metrics", "").want(200).Body)
	for _, want := range []string{`recourse_outbox_events{sink="audit"} 1`, `recourse_outbox_events{sink="crm"} 1`, `recourse_outbox_oldest_seconds{sink="crm"} `,
		`recourse_outbox_deliveries_total{result="delivered",sink="audit"} 3`, `result="failed",sink="audit"} 2`, `result="dropped",sink="audit"} 1`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s", want)
		}
	}
	events, err := x.store.ClaimEvents(t.Context(), []string{"audit", "crm"}, 10, time.Minute)
	if err != nil || len(events) != 2 {
		t.Fatal(events, err)
	}
	var e struct{ SpecVersion, ID, Source, Type, Subject string }
	if err := json.Unmarshal(events[0].Data, &e); err != nil || e.ID != events[0].ID.String() || e.SpecVersion != "1.0" || e.Source != "/recourse/tells" || e.Type != "com.shop.x" || e.Subject != v.ID {
		t.Errorf("%+v %v", e, err)
	}
}

// Every input is accepted as an event or refused with a problem.
func FuzzEvents(f *testing.F) {
	h, _ := fuzzed(f)
	for _, body := range []string{paid("1", ""), "[" + paid("1", `,"subject":"x"`) + "]", `{"specversion":"1.0","id":"\u0000"}`, `[1,{}]`, `{"data_base64":"AA=="}`, `x`} {
		for _, t := range []string{typeEvent, typeEvents, "text/plain", "application/json", ""} {
			f.Add(t, body, "1.0", "1%20", "/x")
		}
	}
	f.Fuzz(func(t *testing.T, contentType, body, version, id, source string) {
		r := httptest.NewRequest("POST", "/v1/events", strings.NewReader(body))
		r.Host = "127.0.0.1"
		r.Header = http.Header{"Content-Type": {contentType}, "Ce-Specversion": {version}, "Ce-Id": {id}, "Ce-Source": {source}, "Ce-Type": {"a.b"}}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusAccepted && (w.Code < 400 || w.Code >= 500) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	})
}
