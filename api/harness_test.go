package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/gofrs/uuid/v5"

	"recourse/catalog"
	"recourse/engine"
	"recourse/examples/llmstub"
	"recourse/examples/world"
	"recourse/internal/egress"
	"recourse/internal/test/pgserver"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/journal/postgres"
	"recourse/journal/sqlite"
	"recourse/saga"
	"recourse/saga/kinds"
	"recourse/saga/kinds/ask"
	askclient "recourse/saga/kinds/ask/client"
	"recourse/saga/kinds/ask/relay"
	httpclient "recourse/saga/kinds/http/client"
	"recourse/saga/kinds/llm"
	llmclient "recourse/saga/kinds/llm/client"
	runclient "recourse/saga/kinds/run/client"
	"recourse/saga/machine"
)

// contractRouter finds routes of the contract, and checks requests and responses against it.
type contractRouter struct {
	routers.Router
	schemas *schemas
}

// contract returns the contract as kin-openapi reads it.
var contract = sync.OnceValues(func() (*contractRouter, error) {
	b, err := openapiJSON()
	if err != nil {
		return nil, err
	}
	loader := openapi3.NewLoader()
	doc, err := loader.LoadFromData(b)
	if err != nil {
		return nil, err
	}
	if err := doc.Validate(context.Background(), openapi3.IsOpenAPI31OrLater()); err != nil {
		return nil, err
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		return nil, err
	}
	schemas, err := newSchemas(b)
	return &contractRouter{router, schemas}, err
})

// fixture is a server with a real engine and store, and the mock services of a world.
type fixture struct {
	t       testing.TB
	store   journal.Store
	world   *world.Server
	model   *llmstub.Server                // answers at random
	fault   *atomic.Pointer[llmstub.Fault] // of the model's responses; nil: none
	eng     *engine.Engine
	callers func() (map[string]engine.Caller, *relay.Relay) // of a new node
	cfg     Config
	h       http.Handler
	url     string
	auth    string // the Authorization header of requests

	// scripted is a text: what the models "scripted" and "scripted-priced" say. They do not report
	// what they have used, except for responses to a request with the word "counted".
	scripted *atomic.Value
	cooling  *atomic.Bool // the model "cooling" answers 429
}

type setup func(*Config)

// stores are the stores that the tests use.
var stores = map[string]func(t testing.TB) journal.Store{
	"memory": func(testing.TB) journal.Store { return memory.New(memory.Config{}) },
	"sqlite": func(t testing.TB) journal.Store {
		s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "test.db"), sqlite.Options{Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	},
	"postgres": func(t testing.TB) journal.Store {
		s, err := postgres.Open(t.Context(), pgserver.DSN(t), postgres.Options{Migrate: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	},
}

// eachStore runs a test on every store in parallel: the runs share nothing, and tests mostly wait.
// It returns when all have ended.
func eachStore(t *testing.T, f func(t *testing.T, x *fixture)) {
	t.Run("on", func(t *testing.T) {
		for name, open := range stores {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f(t, newFixtureOn(t, open(t)))
			})
		}
	})
}

func newFixture(t testing.TB, more ...setup) *fixture {
	return newFixtureOn(t, stores["memory"](t), more...)
}

func newFixtureOn(t testing.TB, store journal.Store, more ...setup) *fixture {
	t.Helper()
	w, err := world.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	vars := map[string]json.RawMessage{}
	for _, name := range []string{"air", "hotels", "pay", "stock", "shipping", "ship", "mail", "orders", "things"} {
		vars[name], _ = json.Marshal(w.URL + "/" + name)
	}
	guard, err := egress.NewGuard([]string{"127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	caller := httpclient.New(httpclient.Config{Egress: egress.Config{Guard: guard}, Secret: func(name string) (string, error) {
		if name == goneSecret {
			return "", errors.New("secret " + name + " is missing: set RECOURSE_SECRET_" + name)
		}
		return "sesame-sesame", nil
	}})
	x := &fixture{t: t, store: store, world: w, fault: new(atomic.Pointer[llmstub.Fault]), scripted: new(atomic.Value), cooling: new(atomic.Bool)}
	x.model, err = llmstub.New(llmstub.Config{APIKey: modelKey, Seed: 1, Fault: func(c llmstub.Call) llmstub.Fault {
		if c.Model == "cooling" && x.cooling.Load() {
			return llmstub.Fault{Status: 429, Code: "rate_limit_exceeded"}
		}
		if f := x.fault.Load(); f != nil {
			return *f
		}
		return llmstub.Fault{}
	}}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	scripted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/responses") {
			used := "null"
			if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), "counted") {
				used = `{"input_tokens": 10, "output_tokens": 20000}`
			}
			_, _ = io.WriteString(w, `{"id": "resp-s", "object": "response", "status": "completed", "model": "scripted", "usage": `+used+`,
				"output": [{"id": "rs-s", "type": "reasoning"}, {"id": "msg-s", "type": "message", "role": "assistant", "content": []}]}`)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/embeddings") {
			_, _ = io.WriteString(w, `{"object": "list", "data": [], "model": "scripted", "usage": {"total_tokens": 900}}`)
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "c-1", "object": "chat.completion", "created": 1, "model": "scripted", "choices": []any{
			map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": x.scripted.Load()}}}})
	}))
	models := llm.Config{
		Providers: []llm.Provider{{Name: "o", BaseURL: x.model.URL + "/v1", APIKey: modelKey}, {Name: "a", API: llm.AnthropicAPI, BaseURL: x.model.URL, APIKey: modelKey},
			{Name: "s", BaseURL: scripted.URL, APIKey: modelKey, Models: []string{"scripted"}}},
		Prices: map[string]llm.Price{"priced": {Input: "1", Output: "10"}, "scripted-priced": {Input: "1", Output: "10"}}, Elsewhere: true,
	}
	x.callers = func() (map[string]engine.Caller, *relay.Relay) {
		passed := relay.New()
		asks := askclient.New(askclient.Config{Config: llmclient.Config{LLM: models, Egress: egress.Config{Guard: guard}}, Relay: passed, Content: func(ctx context.Context, session, hash string) ([]byte, error) {
			return Content(ctx, store, uuid.FromStringOrNil(session), hash)
		}})
		t.Cleanup(asks.Close)
		return map[string]engine.Caller{"http": caller, "llm": llmclient.New(llmclient.Config{LLM: models, Egress: egress.Config{Guard: guard}}), ask.Kind: asks}, passed
	}
	callers, passed := x.callers()
	cat := catalog.New(store, catalog.Options{Kinds: kinds.With(kinds.Options{LLM: models}), Vars: vars})
	eng := engine.New(engine.Config{Store: store, Definitions: cat, Callers: callers, Poll: 20 * time.Millisecond, Drain: time.Second})
	callers["run"] = &runclient.Caller{Engine: eng, Sagas: store, Definitions: cat}
	x.eng = eng
	x.cfg = Config{Relay: passed, Store: store, Catalog: cat, Engine: eng, Vars: vars, EngineStats: func() EngineStats { return EngineStats(eng.Stats()) },
		Limits: Limits{Poll: 20 * time.Millisecond}}
	for _, m := range more {
		m(&x.cfg)
	}
	x.h = New(x.cfg)
	srv := httptest.NewServer(x.h)
	x.url = srv.URL

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		w.Close()
		scripted.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		caller.Close()
		if err := x.model.Close(); err != nil {
			t.Error(err)
		}
		store.Close()
	})
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !eng.Ready() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the engine does not get ready")
		}
	}
	return x
}

// modelKey is the provider's API key, which only the server has.
const modelKey = "sk-canary-77e1"

// answer is a response that was read.
type answer struct {
	t      testing.TB
	Status int
	Header http.Header
	Body   []byte
}

// header is one of a request's headers.
type header struct{ name, value string }

// outside marks requests that violate the contract on purpose: only their responses are checked.
var outside = header{"X-Test-Outside-Contract", "yes"}

// do sends a request, and checks it and its response against the contract. body is JSON unless it
// is YAML text.
func (x *fixture) do(method, path, body string, headers ...header) *answer {
	x.t.Helper()
	return x.send(x.t, method, path, body, headers...)
}

func (x *fixture) send(t testing.TB, method, path, body string, headers ...header) *answer {
	t.Helper()
	req, checked := x.request(t, method, path, body, headers)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	x.hold(t, req, body, resp, b, checked)
	return &answer{t: t, Status: resp.StatusCode, Header: resp.Header, Body: b}
}

func (x *fixture) request(t testing.TB, method, path, body string, headers []header) (*http.Request, bool) {
	t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, x.url+path, r)
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		if strings.HasPrefix(body, "saga:") || strings.HasPrefix(body, "action:") {
			req.Header.Set("Content-Type", typeYAML)
		}
	}
	if x.auth != "" {
		req.Header.Set("Authorization", x.auth)
	}
	checked := true
	for _, h := range headers {
		switch {
		case h == outside:
			checked = false
		case h.name == "Host":
			req.Host = h.value
		default:
			req.Header.Set(h.name, h.value)
		}
	}
	return req, checked
}

// hold checks a request and its response against the contract.
func (x *fixture) hold(t testing.TB, req *http.Request, body string, resp *http.Response, b []byte, checked bool) {
	t.Helper()
	router, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	again := req.Clone(t.Context())
	again.URL.Host, again.URL.Scheme = "", ""
	again.Body = io.NopCloser(strings.NewReader(body))
	route, params, err := router.FindRoute(again)
	if err != nil {
		if resp.StatusCode != http.StatusNotFound && resp.StatusCode != http.StatusMethodNotAllowed && resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s %s answered %d, but is not in the contract", req.Method, req.URL.Path, resp.StatusCode)
		}
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: again, PathParams: params, Route: route,
		Options: &openapi3filter.Options{IncludeResponseStatus: true, AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, SkipSettingDefaults: true}}
	for name := range in.GetQueryParams() {
		if strings.HasPrefix(name, "label.") {
			in.Options.ExcludeRequestQueryParams = true
		}
	}
	if checked {
		if err := router.request(in, body); err != nil {
			t.Errorf("%s %s: the request is not in the contract: %v", req.Method, req.URL, err)
		}
	}
	if err := router.response(in, resp.StatusCode, resp.Header, b); err != nil {
		t.Errorf("%s %s: answer %d is not in the contract: %v\n%s", req.Method, req.URL, resp.StatusCode, err, b)
	}
}

// want fails unless the response has this status.
func (a *answer) want(status int) *answer {
	a.t.Helper()
	if a.Status != status {
		a.t.Fatalf("status %d, want %d: %s", a.Status, status, a.Body)
	}
	return a
}

// problem fails unless the response is this problem.
func (a *answer) problem(status int, c code) problem {
	a.t.Helper()
	a.want(status)
	var p problem
	a.into(&p)
	if got := a.Header.Get("Content-Type"); got != "application/problem+json" {
		a.t.Errorf("content type %q", got)
	}
	if want := problemType + string(c); p.Type != want || p.Status != status {
		a.t.Fatalf("problem %s (%d), want %s: %s", p.Type, p.Status, want, a.Body)
	}
	if p.Detail == "" {
		a.t.Errorf("problem without detail: %s", a.Body)
	}
	return p
}

func (a *answer) into(v any) {
	a.t.Helper()
	if err := json.Unmarshal(a.Body, v); err != nil {
		a.t.Fatalf("%v: %s", err, a.Body)
	}
}

func (a *answer) saga() machine.View {
	a.t.Helper()
	var v machine.View
	a.into(&v)
	return v
}

// publish publishes a definition and fails if it is refused.
func (x *fixture) publish(source string) {
	x.t.Helper()
	name := strings.TrimSpace(strings.TrimPrefix(strings.SplitN(source, "\n", 2)[0], "saga:"))
	if a := x.do("PUT", "/v1/definitions/"+name, source); a.Status != 201 && a.Status != 200 {
		x.t.Fatalf("publish: %d %s", a.Status, a.Body)
	}
}

// until reads a saga until the condition is true, or fails.
func (x *fixture) until(id string, holds func(machine.View) bool) machine.View {
	x.t.Helper()
	tag := ""
	for range 100 {
		var headers []header
		if tag != "" {
			headers = []header{{"Prefer", "wait=10"}, {"If-None-Match", tag}}
		}
		a := x.do("GET", "/v1/sagas/"+id, "", headers...)
		if a.Status == 304 {
			continue
		}
		v := a.want(200).saga()
		if holds(v) {
			return v
		}
		if v.Status.Terminal() {
			x.t.Fatalf("saga %s ended as %s: %s", id, v.Status, a.Body)
		}
		tag = a.Header.Get("ETag")
		if tag == "" {
			x.t.Fatal("no ETag")
		}
	}
	x.t.Fatalf("saga %s does not get there", id)
	return machine.View{}
}

func is(status saga.Status) func(machine.View) bool {
	return func(v machine.View) bool { return v.Status == status }
}

// dump is everything that the store holds, as text.
func (x *fixture) dump() map[string]string {
	x.t.Helper()
	ctx, out := x.t.Context(), map[string]string{}
	found, err := x.store.Sagas(ctx, journal.Filter{Limit: 1000})
	if err != nil {
		x.t.Fatal(err)
	}
	for _, h := range found.Heads {
		records, err := x.store.Records(ctx, h.ID, 0, 1000)
		if err != nil {
			x.t.Fatal(err)
		}
		lines, err := journal.Encode(records)
		if err != nil {
			x.t.Fatal(err)
		}
		out["saga "+h.ID.String()] = string(lines)
	}
	docs, err := x.store.Documents(ctx, catalog.Kind, "", 1000)
	if err != nil {
		x.t.Fatal(err)
	}
	for _, d := range docs {
		out["definition "+d.Name] = versionName(d.Version) + " " + d.SHA256
	}
	return out
}

// serve starts another server with this configuration.
func serve(t *testing.T, cfg Config) string {
	srv := httptest.NewServer(New(cfg))
	t.Cleanup(srv.Close)
	return srv.URL
}

// silent is an engine that loses messages.
type silent struct{ Engine }

func (silent) Send(context.Context, journal.Message) error { return nil }
