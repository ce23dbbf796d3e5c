package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/api"
	"recourse/catalog"
	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/egress"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/kinds"
	"recourse/saga/kinds/ask"
	askclient "recourse/saga/kinds/ask/client"
	"recourse/saga/kinds/ask/relay"
	httpclient "recourse/saga/kinds/http/client"
	"recourse/saga/kinds/llm"
	llmclient "recourse/saga/kinds/llm/client"
	"recourse/saga/machine"
)

// site is the UI on a real API, engine and store, with the mock services of a world.
type site struct {
	t     testing.TB
	store journal.Store
	world *world.Server
	url   string
	http  *http.Client // keeps cookies and does not follow redirects
	// secret is the API key that rest uses; "" for none.
	secret string
	said   *atomic.Value // what the language model says, a text
}

type setup func(*api.Config, *Config)

// keysRequired makes the server require API keys.
func keysRequired(a *api.Config, _ *Config) { a.RequireKeys = true }

func newSite(t testing.TB, more ...setup) *site {
	t.Helper()
	return newSiteOn(t, memory.New(memory.Config{}), more...)
}

func newSiteOn(t testing.TB, store journal.Store, more ...setup) *site {
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
	caller := httpclient.New(httpclient.Config{Egress: egress.Config{Guard: guard}, Secret: func(string) (string, error) { return "sesame-sesame", nil }})
	said := new(atomic.Value)
	model := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"id": "c-1", "object": "chat.completion", "created": 1, "model": "gpt-5-mini",
			"usage":   map[string]any{"prompt_tokens": 1200, "completion_tokens": 80},
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop", "message": map[string]any{"role": "assistant", "content": said.Load()}}}})
	}))
	models := llm.Config{Providers: []llm.Provider{{Name: "o", BaseURL: model.URL + "/v1", APIKey: "sk-secret"}},
		Prices: map[string]llm.Price{"gpt-5-mini": {Input: "1", Output: "10"}}, Elsewhere: true}
	passed := relay.New()
	asks := askclient.New(askclient.Config{Config: llmclient.Config{LLM: models, Egress: egress.Config{Guard: guard}}, Relay: passed, Content: func(ctx context.Context, session, hash string) ([]byte, error) {
		return api.Content(ctx, store, uuid.FromStringOrNil(session), hash)
	}})
	cat := catalog.New(store, catalog.Options{Kinds: kinds.With(kinds.Options{LLM: models}), Vars: vars})
	eng := engine.New(engine.Config{Store: store, Definitions: cat, Callers: map[string]engine.Caller{"http": caller, ask.Kind: asks}, Poll: 20 * time.Millisecond, Drain: time.Second})
	rest := api.Config{Relay: passed, Store: store, Catalog: cat, Engine: eng, Vars: vars, EngineStats: func() api.EngineStats { return api.EngineStats(eng.Stats()) },
		Limits: api.Limits{Poll: 20 * time.Millisecond}}
	page := Config{Definitions: cat, Version: "test", Tick: 20 * time.Millisecond}
	for _, m := range more {
		m(&rest, &page)
	}
	page.API = api.New(rest)
	srv := httptest.NewServer(New(page))
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	x := &site{t: t, store: store, world: w, url: srv.URL, said: said,
		http: &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}

	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- eng.Run(ctx) }()
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		w.Close()
		model.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		caller.Close()
		asks.Close()
		store.Close()
	})
	x.until("the engine is ready", eng.Ready)
	return x
}

// until waits until a condition holds.
func (x *site) until(what string, holds func() bool) {
	x.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			x.t.Fatalf("waited in vain until %s", what)
		}
	}
}

// answer is a response that was read.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

func (x *site) do(req *http.Request) *answer {
	x.t.Helper()
	resp, err := x.http.Do(req)
	if err != nil {
		x.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		x.t.Fatal(err)
	}
	return &answer{x.t, resp.StatusCode, resp.Header, string(b)}
}

func (x *site) request(method, path string, body io.Reader) *http.Request {
	x.t.Helper()
	req, err := http.NewRequestWithContext(x.t.Context(), method, x.url+path, body)
	if err != nil {
		x.t.Fatal(err)
	}
	return req
}

// page gets a page, as a browser would.
func (x *site) page(path string) *answer {
	x.t.Helper()
	req := x.request("GET", path, nil)
	req.Header.Set("Accept", "text/html")
	return x.do(req)
}

// post submits a form, as a browser would: pairs of names and values.
func (x *site) post(path string, pairs ...string) *answer {
	x.t.Helper()
	form := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	req := x.request("POST", path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "text/html")
	req.Header.Set("Origin", x.url)
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	return x.do(req)
}

// rest calls the API, as a program would.
func (x *site) rest(method, path, body string) *answer {
	x.t.Helper()
	req := x.request(method, path, strings.NewReader(body))
	req.Header.Set("Content-Type", "application/json")
	if strings.HasPrefix(body, "saga:") || strings.HasPrefix(body, "action:") {
		req.Header.Set("Content-Type", "application/yaml")
	}
	if x.secret != "" {
		req.Header.Set("Authorization", "Bearer "+x.secret)
	}
	return x.do(req)
}

// publish publishes a definition.
func (x *site) publish(source string) {
	x.t.Helper()
	name := strings.TrimSpace(strings.TrimPrefix(strings.SplitN(source, "\n", 2)[0], "saga:"))
	if a := x.rest("PUT", "/v1/definitions/"+name, source); a.status >= 300 {
		x.t.Fatalf("publish %s: %d %s", name, a.status, a.body)
	}
}

// start starts a saga and returns its id.
func (x *site) start(definition, input string) string {
	x.t.Helper()
	a := x.rest("POST", "/v1/sagas", fmt.Sprintf(`{"definition": %q, "input": %s}`, definition, input)).want(201)
	var v machine.View
	if err := json.Unmarshal([]byte(a.body), &v); err != nil {
		x.t.Fatal(err)
	}
	return v.ID
}

// saga reads a saga.
func (x *site) saga(id string) machine.View {
	x.t.Helper()
	var v machine.View
	if err := json.Unmarshal([]byte(x.rest("GET", "/v1/sagas/"+id, "").want(200).body), &v); err != nil {
		x.t.Fatal(err)
	}
	return v
}

// becomes waits until a saga has a status.
func (x *site) becomes(id string, want saga.Status) {
	x.t.Helper()
	x.until(fmt.Sprintf("saga %s is %s", id, want), func() bool { return x.saga(id).Status == want })
}

func (a *answer) want(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// has fails unless the page contains these texts.
func (a *answer) has(texts ...string) *answer {
	a.t.Helper()
	for _, s := range texts {
		if !strings.Contains(a.body, s) {
			a.t.Errorf("the page lacks %q:\n%s", s, a.body)
		}
	}
	return a
}

// lacks fails if the page contains one of these texts.
func (a *answer) lacks(texts ...string) *answer {
	a.t.Helper()
	for _, s := range texts {
		if strings.Contains(a.body, s) {
			a.t.Errorf("the page has %q:\n%s", s, a.body)
		}
	}
	return a
}

// sameJSON reports whether two documents are equal except for the order of their fields; numbers
// are compared as text.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var values [2]any
	for i, text := range []string{a, b} {
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if err := d.Decode(&values[i]); err != nil {
			t.Fatal(err)
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
