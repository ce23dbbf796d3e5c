package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"

	"recourse/catalog"
	"recourse/engine"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

const waiter = `saga: waiter
input: {n: integer}
budget: {amount: 1.00 USD}
steps:
  - {id: a, when: input.n == 1, http: "POST http://w.example/a", body: {}, cost: 0.01 USD, timeout: 1s, in_doubt: ask, retry: 1}
  - {id: nap, when: input.n < 3, sleep: 24h}
`

// dumb is a remote service that never responds.
type dumb struct{}

// Call implements engine.Caller.
func (dumb) Call(context.Context, saga.Request) saga.Answer {
	return saga.Answer{Sent: true, Code: "timeout"}
}

// noted is an engine that accepts messages but never applies them.
type noted struct{ Engine }

func (noted) Send(context.Context, journal.Message) error { return nil }

// fuzzed is a server with three sagas: one needs a person, one sleeps and one has ended.
func fuzzed(tb testing.TB) (http.Handler, []string) {
	tb.Helper()
	store := memory.New(memory.Config{})
	cat := catalog.New(store, catalog.Options{Kinds: kinds.All()})
	eng := engine.New(engine.Config{Store: store, Definitions: cat, Callers: map[string]engine.Caller{"http": dumb{}}, Poll: 10 * time.Millisecond, Drain: time.Second})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	tb.Cleanup(func() {
		stop()
		if err := errors.Join(<-ended, store.Close()); err != nil {
			tb.Error(err)
		}
	})
	for deadline := time.Now().Add(time.Minute); !eng.Ready(); {
		if time.Now().After(deadline) {
			tb.Fatal("the engine does not get ready")
		}
		<-time.After(time.Millisecond)
	}
	if _, _, _, err := cat.Publish(ctx, "waiter", []byte(waiter), ""); err != nil {
		tb.Fatal(err)
	}
	h := New(Config{Store: store, Catalog: cat, Engine: noted{eng}, Limits: Limits{Command: time.Millisecond, Wait: time.Millisecond}})
	var ids []string
	for n, want := range []saga.Status{saga.Stuck, saga.Waiting, saga.Succeeded} {
		w := serveOne(h, "POST", "/v1/sagas", fmt.Appendf(nil, `{"definition":"waiter","input":{"n":%d}}`, n+1), nil)
		var v machine.View
		for deadline := time.Now().Add(time.Minute); v.Status != want; w = serveOne(h, "GET", "/v1/sagas/"+v.ID, nil, nil) {
			if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil || time.Now().After(deadline) {
				tb.Fatalf("saga %d is not %s: %s", n+1, want, w.Body)
			}
		}
		ids = append(ids, v.ID)
	}
	return h, ids
}

func serveOne(h http.Handler, method, target string, body []byte, headers map[string]string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "/", bytes.NewReader(body))
	u, err := url.Parse(target)
	if err != nil {
		panic(err)
	}
	r.URL, r.Host = u, "127.0.0.1"
	for name, value := range headers {
		r.Header[name] = []string{value}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// badAnswer returns how a response violates the API's rules for all responses.
func badAnswer(body []byte, w *httptest.ResponseRecorder) error {
	b := w.Body.Bytes()
	switch {
	case w.Code >= 500 && w.Code != 503:
		return fmt.Errorf("status %d: %s", w.Code, b)
	case !utf8.Valid(b):
		return fmt.Errorf("the answer is not UTF-8: %q", b)
	case w.Code >= 400:
		return badProblem(w)
	case len(b) > 0 && strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && !json.Valid(b):
		return fmt.Errorf("the answer is not JSON: %q", b)
	case len(body) > 0 && strictJSON(body) != nil && w.Header().Get("X-Read-Body") == "yes":
		return fmt.Errorf("%d to a body that is not strict JSON: %q", w.Code, body)
	}
	return nil
}

func badProblem(w *httptest.ResponseRecorder) error {
	var p problem
	d := json.NewDecoder(w.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return fmt.Errorf("%d without a problem: %w", w.Code, err)
	}
	e, known := codes[code(strings.TrimPrefix(p.Type, problemType))]
	if !known || p.Status != w.Code || e.status != w.Code || p.Title == "" || p.Detail == "" || w.Header().Get("Content-Type") != "application/problem+json" {
		return fmt.Errorf("%d with the problem %+v", w.Code, p)
	}
	if len(p.Detail) > 4000 {
		return fmt.Errorf("%d with a detail of %d bytes", w.Code, len(p.Detail))
	}
	for _, f := range p.Errors {
		if f.Code == "" || f.Detail == "" || len(f.Detail) > 2000 {
			return fmt.Errorf("%d with the finding %+v", w.Code, f)
		}
	}
	return nil
}

// commandRoutes are the routes with a body about one saga.
var commandRoutes = []struct{ method, suffix string }{
	{"POST", "/cancel"}, {"POST", "/pause"}, {"POST", "/resume"}, {"POST", "/compensate"}, {"POST", "/retry"},
	{"POST", "/steps/a/resolve"}, {"POST", "/steps/nap/resolve"}, {"PATCH", ""},
}

// FuzzCommand sends commands to sagas, with any body and any headers.
func FuzzCommand(f *testing.F) {
	for i, body := range []string{`{"reason":"x","mode":"stop"}`, `{"reason":"x"}`, `{"reason":""}`, `{"reason":"late"}`, `{"reason":"again","from":"a","new_key":true}`,
		`{"outcome":"succeeded","output":{"id":9007199254740993},"reason":"seen"}`, `{"outcome":"retry","new_key":true,"reason":"x"}`, `{"labels":{"a":"b","c":null},"budget":"2.00 USD"}`,
		`{"budget":{"amount":"1e3","currency":"USD","tokens":-1}}`, `{"labels":{"A":"x"}}`, `{"reason":"x","reason":"y"}`, `{"reason":"\ud800"}`, "{\"reason\":\"\\u0000\"}", `[]`, `null`, `{"labels":{"a":1}}`,
		`{"output":1e400,"outcome":"succeeded","reason":"x"}`, `{"reason":1}`, `{"mode":{"a":[]}}`, "", " ", "\xff"} {
		f.Add(uint8(i%len(commandRoutes)), uint8(i%3), []byte(body), []string{"*", `"3"`, `W/"4"`, "", "1,2", "9223372036854775808", "-1"}[i%7], []string{"", "key-1", "a b", "é"}[i%4])
	}
	h, ids := fuzzed(f)
	f.Fuzz(func(t *testing.T, route, which uint8, body []byte, match, key string) {
		r := commandRoutes[int(route)%len(commandRoutes)]
		headers := map[string]string{"Content-Type": "application/json"}
		if match != "" {
			headers["If-Match"] = match
		}
		if key != "" {
			headers["Idempotency-Key"] = key
		}
		target := "/v1/sagas/" + ids[int(which)%len(ids)] + r.suffix
		w := serveOne(h, r.method, target, body, headers)
		if w.Code < 300 && r.method == "POST" {
			w.Header().Set("X-Read-Body", "yes")
		}
		if err := badAnswer(body, w); err != nil {
			t.Errorf("%s %s %q, If-Match %q, key %q: %v", r.method, target, body, match, key, err)
		}
		if w.Code < 300 && key != "" && r.method == "POST" && !keyForm.MatchString(key) {
			t.Errorf("the key %q was taken", key)
		}
	})
}

var keyForm = regexp.MustCompile(`^[!-~]{1,255}$`)

// FuzzQuery requests lists and journals, with any query and any headers.
func FuzzQuery(f *testing.F) {
	targets := []string{"/v1/sagas", "/v1/inbox", "/v1/definitions", "/v1/definitions/waiter/versions", "journal", "saga", "steps"}
	for i, query := range []string{"limit=1", "cursor=" + pack("sagas", "x"), "cursor=" + pack("inbox", "9223372036854775808", "x"), "cursor=" + pack("sagas", "019aa5d0-0000-7000-8000-000000000001"), "after=2&limit=1", "",
		"status=running,stuck&status=x", "label.a=b&label.=c", "started_after=2026-11-21T08:00:00Z", "started_after=99999-01-01", "started_before=0000-01-01T00:00:00Z", "q=0193abcd&cursor=c2FnYXMKbmFtZWQKeA", "q=%00", "q=%ff", "q=%25_\\", "limit=0&limit=1", "limit=1e3", "a;b", "%zz", "after=4611686018427387904", "cursor=-1", "cursor=%00",
		"cursor=" + pack("inbox", "-9223372036854775808", "019aa5d0-0000-7000-8000-000000000001"), "definition=waiter&kind=approval", "saga=x", strings.Repeat("q=a&", 100)} {
		f.Add(uint8(i), uint8(i), query, []string{"", "application/x-ndjson", "text/event-stream", "*/*;q=0", "text/html, application/json", ";;;"}[i%6], []string{"", `"3"`, "*", "-1", "x"}[i%5], []string{"", "wait=1", "wait=99999999999", "respond-async, wait=\"0\"", "wait"}[i%5])
	}
	h, ids := fuzzed(f)
	f.Fuzz(func(t *testing.T, route, which uint8, query, accept, none, prefer string) {
		target := targets[int(route)%len(targets)]
		id := ids[int(which)%len(ids)]
		switch target {
		case "journal":
			target = "/v1/sagas/" + id + "/journal"
			if strings.Contains(accept, "stream") {
				id = ids[2] // a saga that has ended, so that the stream ends
				target = "/v1/sagas/" + id + "/journal"
			}
		case "saga":
			target = "/v1/sagas/" + id
		case "steps":
			target = "/v1/sagas/" + id + "/steps"
		}
		r := httptest.NewRequest("GET", target, nil)
		r.URL.RawQuery, r.Host = query, "127.0.0.1"
		for name, value := range map[string]string{"Accept": accept, "If-None-Match": none, "Prefer": prefer, "Last-Event-ID": none} {
			if value != "" {
				r.Header[name] = []string{value}
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r.WithContext(ctx))
		if err := badAnswer(nil, w); err != nil {
			t.Errorf("GET %s?%s, Accept %q, If-None-Match %q, Prefer %q: %v", target, query, accept, none, prefer, err)
		}
		if ctx.Err() != nil {
			t.Errorf("GET %s?%s, Accept %q: no end", target, query, accept)
		}
	})
}

// FuzzCursor: a cursor returns what a list packed into it, in this list only.
func FuzzCursor(f *testing.F) {
	f.Add("1767322645000", "019aa5d0-0000-7000-8000-000000000001", "")
	f.Add("-1", "", "inbox")
	f.Add("a\nb", "\x00\xff", "=")
	f.Fuzz(func(t *testing.T, one, two, raw string) {
		if err := badCursor(pack, one, two); err != nil {
			t.Error(err)
		}
		q := &query{Values: url.Values{"cursor": {raw}}}
		if parts := q.cursor("inbox", 2); (parts == nil) != (len(q.wrong) == 1) || parts != nil && pack("inbox", parts...) != strings.NewReplacer("\r", "", "\n", "").Replace(raw) {
			t.Errorf("%q is %q, wrong %v", raw, parts, q.wrong)
		}
	})
}

// badCursor returns how packed cursors are wrong.
func badCursor(pack func(string, ...string) string, one, two string) error {
	text := pack("inbox", one, two)
	if url.QueryEscape(text) != text {
		return fmt.Errorf("the cursor %q has to be encoded", text)
	}
	q := &query{Values: url.Values{"cursor": {text}}}
	if strings.Contains(one+two, "\n") {
		return nil // lists pack only numbers, names and ids
	}
	if parts := q.cursor("inbox", 2); len(parts) != 2 || parts[0] != one || parts[1] != two {
		return fmt.Errorf("%q and %q come out as %q", one, two, parts)
	}
	q = &query{Values: url.Values{"cursor": {text}}}
	if parts := q.cursor("sagas", 2); parts != nil {
		return fmt.Errorf("another list takes the cursor %q", text)
	}
	return nil
}

// The check catches responses that violate the rules.
func TestFuzzAnswersCanFail(t *testing.T) {
	answer := func(status int, contentType, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("X-Read-Body", "yes")
		w.Code, w.Body = status, bytes.NewBufferString(body)
		return w
	}
	const problem = "application/problem+json"
	good := `{"type":"urn:recourse:problem:terminal","title":"x","status":409,"detail":"y"}`
	if err := badAnswer(nil, answer(409, problem, good)); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"a mistake":               answer(500, problem, strings.ReplaceAll(strings.ReplaceAll(good, "409", "500"), "terminal", "internal")),
		"another status":          answer(404, problem, good),
		"an unknown code":         answer(409, problem, strings.ReplaceAll(good, "terminal", "x")),
		"no detail":               answer(409, problem, strings.ReplaceAll(good, "y", "")),
		"no problem":              answer(409, "text/plain", "no"),
		"another type":            answer(409, "application/json", good),
		"an unknown field":        answer(409, problem, strings.Replace(good, "{", `{"more":1,`, 1)),
		"a finding without code":  answer(409, problem, strings.Replace(good, "{", `{"errors":[{"detail":"z"}],`, 1)),
		"half a document":         answer(200, "application/json", `{"a":`),
		"no text":                 answer(200, "text/plain", "\xff"),
		"a body that was no JSON": answer(200, "application/json", `{}`),
	} {
		if badAnswer([]byte(`{"a":1,"a":1}`), w) == nil {
			t.Errorf("not noticed: %s", name)
		}
	}
	bare := func(_ string, parts ...string) string { return strings.Join(parts, "\n") }
	if badCursor(bare, "1", uuid.Nil.String()) == nil {
		t.Error("not noticed: cursors as they are")
	}
}
