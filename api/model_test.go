package api

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/llmstub"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/kinds/ask"
	"recourse/saga/machine"
)

// ask sends a request to a model with the agent's token.
func (a *agent) ask(path, body string, more ...header) *answer {
	a.x.t.Helper()
	method := "POST"
	if body == "" {
		method = "GET"
	}
	return a.x.do(method, path, body, append(more, header{"Authorization", "Bearer " + a.token()}, anthropicVersion)...)
}

var anthropicVersion = header{"Anthropic-Version", "2023-06-01"}

func (a *agent) token() string { return Token(uuid.FromStringOrNil(a.id), a.secret) }

// next lets the next process of the agent attach.
func (a *agent) next() {
	a.x.t.Helper()
	former := a.secret
	a.secret = NewSecret()
	a.attach(former).want(200)
}

const ticket = `"Trip: {\"trips\": [{\"trip\": \"t1\", \"to\": \"Rome\"}]}"`

// modelRequests are the same question in the form of each route.
var modelRequests = []struct{ name, path, body, call string }{ // call: how a tool call looks
	{"chat", "/llm/openai/v1/chat/completions", `{"model": "m", "max_tokens": 300, "messages": [{"role": "user", "content": ` + ticket + `}], "tools": [{"type": "function", "function": {"name": "book_flight", "parameters": {"type": "object", "properties": {"trip": {"type": "string"}}}}}]%s}`, `"tool_calls":[{`},
	{"responses", "/llm/openai/v1/responses", `{"model": "m", "max_output_tokens": 300, "input": [{"role": "user", "content": ` + ticket + `}], "tools": [{"type": "function", "name": "book_flight", "parameters": {"type": "object", "properties": {"trip": {"type": "string"}}}}]%s}`, `"function_call"`},
	{"messages", "/llm/anthropic/v1/messages", `{"model": "m", "max_tokens": 300, "messages": [{"role": "user", "content": ` + ticket + `}], "tools": [{"name": "book_flight", "input_schema": {"type": "object", "properties": {"trip": {"type": "string"}}}}]%s}`, `"tool_use"`},
	{"embeddings", "/llm/openai/v1/embeddings", `{"model": "m", "input": "text"%s}`, ""},
	{"count", "/llm/anthropic/v1/messages/count_tokens", `{"model": "m", "messages": [{"role": "user", "content": "text"}]%s}`, ""},
}

// TestModelJournal: the model answers at random, and each request of a later life gets the bytes
// that an earlier one has got. The second of two equal requests gets another answer.
func TestModelJournal(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, "")
		type pair struct{ first, second []byte }
		got := make(map[string]pair)
		requests := func(do func(name, path, body string)) {
			for _, r := range modelRequests {
				do(r.name, r.path, fmt.Sprintf(r.body, ""))
				if r.name != "embeddings" && r.name != "count" {
					do(r.name+" streamed", r.path, fmt.Sprintf(r.body, `, "stream": true`))
				}
			}
		}
		requests(func(name, path, body string) {
			one, two := a.ask(path, body).want(200), a.ask(path, body).want(200)
			if got[name] = (pair{one.Body, two.Body}); name != "embeddings" && name != "count" && bytes.Equal(one.Body, two.Body) {
				t.Errorf("%s: the same request again gets the same answer in one life: %s", name, one.Body)
			}
			if one.Header.Get("X-Recourse-Replayed") != "" || !strings.HasPrefix(one.Header.Get("X-Recourse-Step"), "llm[") {
				t.Errorf("%s: headers %v", name, one.Header)
			}
			if stream := strings.Contains(body, `"stream"`); stream != strings.HasPrefix(one.Header.Get("Content-Type"), "text/event-stream") {
				t.Errorf("%s: Content-Type %s", name, one.Header.Get("Content-Type"))
			}
		})
		billed := len(x.model.Bills())
		a.next()
		requests(func(name, path, body string) {
			for i, want := range [][]byte{got[name].first, got[name].second} {
				// Members in another order, and the user's name, do not make another request.
				r := a.ask(path, reordered(body)).want(200)
				if !bytes.Equal(r.Body, want) || r.Header.Get("X-Recourse-Replayed") != "true" {
					t.Errorf("%s %d, replayed %q:\n%s\nwant\n%s", name, i, r.Header.Get("X-Recourse-Replayed"), r.Body, want)
				}
			}
		})
		if n := len(x.model.Bills()); n != billed {
			t.Errorf("%d more requests were billed in the second life", n-billed)
		}
		v := a.do("GET", "", "").want(200)
		if strings.Contains(string(v.Body), modelKey) {
			t.Error("the provider's key is shown")
		}
		a.do("POST", "/commit", "").want(200)
		a.ask(modelRequests[0].path, fmt.Sprintf(modelRequests[0].body, "")).want(403)
	})
}

// reordered writes a request with its model last, and with a user.
func reordered(body string) string {
	rest := strings.TrimPrefix(body, `{"model": "m", `)
	return `{"user": "ann",  ` + strings.TrimSuffix(rest, "}") + `, "model": "m"}`
}

// TestModelStream: text passes at once; from the first part of a tool call on, nothing leaves
// before the outcome is in the journal.
func TestModelStream(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	x.fault.Store(&llmstub.Fault{Pace: 30 * time.Millisecond})
	for _, r := range modelRequests[:3] {
		outcome := func() bool {
			records, err := x.store.Records(t.Context(), uuid.FromStringOrNil(a.id), 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			last := records[len(records)-1]
			return last.Kind == journal.Outcome
		}
		text := strings.Replace(strings.Replace(fmt.Sprintf(r.body, `, "stream": true`), ticket, `"Say something longer than that, please, in many words, and more"`, 1), `"m"`, `"n"`, 1)
		first, early := a.streamed(t, r.path, text, outcome)
		if early == 0 {
			t.Errorf("%s: no part of a text left before the outcome: %s", r.name, first)
		}
		calls, early := a.streamed(t, r.path, fmt.Sprintf(r.body, `, "stream": true`), outcome)
		at := strings.Index(calls, r.call)
		if at < 0 {
			t.Fatalf("%s: no tool call: %s", r.name, calls)
		}
		if early > at {
			t.Errorf("%s: %d bytes left before the outcome, and the tool call begins at %d: %s", r.name, early, at, calls)
		}
	}
}

// streamed returns a streamed answer, and how many of its bytes came before outcome was true.
func (a *agent) streamed(t *testing.T, path, body string, outcome func() bool) (text string, early int) {
	t.Helper()
	text, early, err := a.streamOf(t, path, body, outcome)
	if err != nil {
		t.Fatalf("%v after %s", err, text)
	}
	return text, early
}

// streamOf is streamed, and returns the error with which the response breaks.
func (a *agent) streamOf(t *testing.T, path, body string, outcome func() bool) (text string, early int, _ error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", a.x.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+a.token())
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(anthropicVersion.name, anthropicVersion.value)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", 0, errors.New(resp.Status)
	}
	in := bufio.NewReader(resp.Body)
	var all strings.Builder
	for {
		line, err := in.ReadString('\n')
		all.WriteString(line)
		if !outcome() {
			early = all.Len()
		}
		if err == io.EOF {
			return all.String(), early, nil
		}
		if err != nil {
			return all.String(), early, err
		}
	}
}

// providerCode returns the code of an error in the form of either provider.
func (a *answer) providerCode() string {
	var doc struct {
		Type  string
		Error struct{ Type, Message, Code string }
	}
	a.into(&doc)
	if doc.Error.Message == "" || doc.Error.Type == "" {
		a.t.Errorf("not an error of a provider: %s", a.Body)
	}
	return doc.Error.Code
}

// TestModelClientLeaves: a client that leaves does not cancel what is paid. The next life gets the
// answer that its request has brought, also while it still arrives.
func TestModelClientLeaves(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, "")
		x.fault.Store(&llmstub.Fault{Delay: 200 * time.Millisecond, Pace: 60 * time.Millisecond})
		for _, stream := range []string{"", `, "stream": true`} {
			before := len(x.model.Bills())
			body := fmt.Sprintf(modelRequests[0].body, stream+fmt.Sprintf(`, "seed": %d`, before))
			ctx, leave := context.WithCancel(t.Context())
			req, err := http.NewRequestWithContext(ctx, "POST", x.url+modelRequests[0].path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", "Bearer "+a.token())
			req.Header.Set("Content-Type", "application/json")
			gone := make(chan error, 1)
			go func() {
				resp, err := http.DefaultClient.Do(req)
				if err == nil {
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				gone <- err
			}()
			for asked := false; !asked; <-time.After(time.Millisecond) {
				records, err := x.store.Records(t.Context(), uuid.FromStringOrNil(a.id), 0, 1000)
				if err != nil {
					t.Fatal(err)
				}
				asked = records[len(records)-1].Kind == journal.Intent
			}
			leave()
			if err := <-gone; err == nil {
				t.Fatal("the client has got its answer")
			}
			a.next()
			joined := a.ask(modelRequests[0].path, body).want(200)
			a.next()
			again := a.ask(modelRequests[0].path, body).want(200)
			if !bytes.Equal(joined.Body, again.Body) || !strings.Contains(string(joined.Body), "book_flight") {
				t.Errorf("answers %q and %q", joined.Body, again.Body)
			}
			if n := len(x.model.Bills()) - before; n != 1 {
				t.Errorf("%d requests were billed, want 1", n)
			}
		}
	})
}

// TestModelRetried: a client that sends a request again gets the same answer, and another request
// with the same content does not. The answers come in the same order in a later life.
func TestModelRetried(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	r := modelRequests[0]
	body := fmt.Sprintf(r.body, "")
	one := a.ask(r.path, body).want(200)
	again := a.ask(r.path, body, header{"X-Stainless-Retry-Count", "1"}).want(200)
	other := a.ask(r.path, body, header{"X-Stainless-Retry-Count", "0"}).want(200)
	if !bytes.Equal(one.Body, again.Body) || bytes.Equal(one.Body, other.Body) {
		t.Errorf("answers\n%s\n%s\n%s", one.Body, again.Body, other.Body)
	}
	a.next()
	for _, tt := range []struct {
		retries string
		want    *answer
	}{{"0", one}, {"1", one}, {"2", one}, {"0", other}, {"1", other}} {
		if got := a.ask(r.path, body, header{"X-Stainless-Retry-Count", tt.retries}).want(200); !bytes.Equal(got.Body, tt.want.Body) {
			t.Errorf("in a later life, after %s retries:\n%s, want\n%s", tt.retries, got.Body, tt.want.Body)
		}
	}
}

// deafEngine gives one request a feed that does not grow when the journal does.
type deafEngine struct {
	Engine
	feed atomic.Pointer[journal.Feed] // of the next request; nil: none
}

func (d *deafEngine) Follow(id uuid.UUID) *journal.Feed {
	if f := d.feed.Swap(nil); f != nil {
		return f
	}
	return d.Engine.Follow(id)
}

// TestModelParallel: of two equal requests at the same time each gets an answer of its own, also if
// the second one sees the record of the first before the first does. A later life gets both.
func TestModelParallel(t *testing.T) {
	deaf := &deafEngine{}
	x := newFixture(t, func(c *Config) {
		deaf.Engine = c.Engine
		c.Engine, c.Limits.Poll = deaf, time.Hour
	})
	a := openAgent(t, x, "")
	r := modelRequests[0]
	body := fmt.Sprintf(r.body, "")
	feed := journal.NewFeed(func() {})
	deaf.feed.Store(feed)
	first := make(chan *answer, 1)
	go func() { first <- a.ask(r.path, body) }()
	for recorded := false; !recorded; <-time.After(time.Millisecond) {
		records, err := x.store.Records(t.Context(), uuid.FromStringOrNil(a.id), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		recorded = slices.ContainsFunc(records, func(r journal.Record) bool { return r.Kind == journal.Called })
	}
	answers := map[string][]byte{}
	take := func(r *answer) {
		r.want(200)
		answers[r.Header.Get("X-Recourse-Step")] = r.Body
	}
	take(a.ask(r.path, body))
	for first != nil {
		feed.Add([]journal.Record{{}}) // it has grown: the request reads the journal
		select {
		case r := <-first:
			take(r)
			first = nil
		case <-time.After(time.Millisecond):
		}
	}
	if len(answers) != 2 || bytes.Equal(answers["llm[0]"], answers["llm[1]"]) {
		t.Errorf("the answers of two requests are %q", answers)
	}
	a.next()
	for _, step := range []string{"llm[0]", "llm[1]"} {
		if got := a.ask(r.path, body).want(200); !bytes.Equal(got.Body, answers[step]) || got.Header.Get("X-Recourse-Replayed") != "true" {
			t.Errorf("in a later life: %s, want that of %s: %s", got.Body, step, answers[step])
		}
	}
}

// TestModelFormerLife: a request of an earlier life that ends late does not change which answers
// the present life has got.
func TestModelFormerLife(t *testing.T) {
	var m lifeMemory
	session := uuid.Must(uuid.NewV7())
	use := func(life int, path string) {
		m.with(session, life, func(r *lifeRequests) { r.asks[path] = ask.Served })
	}
	use(1, "llm[0]")
	use(2, "llm[1]")
	use(1, "llm[2]")
	m.with(session, 2, func(r *lifeRequests) {
		if len(r.asks) != 1 || r.asks["llm[1]"] != ask.Served {
			t.Errorf("life 2 has %v", r.asks)
		}
	})
}

// TestModelFailures: errors of the provider pass as they come. They are no answers: the same
// request is sent again. A 4xx without usage costs nothing, and whatever else may have cost
// something stays reserved.
func TestModelFailures(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "1.00 USD"`)
	cost := func() saga.CostView {
		var v sessionView
		a.do("GET", "", "").want(200).into(&v)
		return v.Cost
	}
	same := func(one, other string) bool {
		a, err := retry.Amount(one, "USD")
		b, err2 := retry.Amount(other, "USD")
		if err := errors.Join(err, err2); err != nil {
			t.Fatal(err)
		}
		return a.Cmp(b) == 0
	}
	for _, r := range modelRequests[:3] {
		body := strings.Replace(fmt.Sprintf(r.body, ""), `"m"`, `"priced"`, 1)
		streamed := strings.TrimSuffix(body, "}") + `, "stream": true}`
		for _, tt := range []struct {
			fault llmstub.Fault
			body  string
			want  int
			again string // X-Should-Retry
		}{
			{llmstub.Fault{Status: 429, Code: "rate_limit_exceeded", RetryAfter: "7"}, body, 429, "true"},
			{llmstub.Fault{Status: 400, Code: "bad"}, body, 400, "false"},
			{llmstub.Fault{Status: 503, Code: "overloaded"}, streamed, 503, "true"},
			{llmstub.Fault{Malformed: true}, body, 502, "true"},
		} {
			x.fault.Store(&tt.fault)
			before := cost()
			got := a.ask(r.path, tt.body)
			after := cost()
			if free := tt.want < 500; !same(after.Spent, before.Spent) || same(after.Reserved, before.Reserved) != free {
				t.Errorf("%s %+v: the reservation is free: %v, but the cost changes from %+v to %+v", r.name, tt.fault, free, before, after)
			}
			if got.Status != tt.want || got.Header.Get("X-Should-Retry") != tt.again {
				t.Errorf("%s %+v: %d, X-Should-Retry %q: %s", r.name, tt.fault, got.Status, got.Header.Get("X-Should-Retry"), got.Body)
			}
			if tt.fault.RetryAfter != "" && got.Header.Get("Retry-After") != tt.fault.RetryAfter {
				t.Errorf("Retry-After %q", got.Header.Get("Retry-After"))
			}
		}
		x.fault.Store(&llmstub.Fault{Cut: 2})
		if _, _, err := a.streamOf(t, r.path, streamed, func() bool { return true }); err == nil {
			t.Errorf("%s: a broken stream looks whole", r.name)
		}
		x.fault.Store(nil)
		a.ask(r.path, body).want(200)
		a.ask(r.path, streamed).want(200)
	}
	if c := cost(); c.Models["priced"].Output == 0 || c.Spent == "0" {
		t.Errorf("cost %+v", c)
	}
}

// TestModelCutStaysReserved: a stream that breaks off has not reported what it has used, although
// it has begun with a count. The most that it may have cost stays reserved.
func TestModelCutStaysReserved(t *testing.T) {
	x := newFixture(t)
	x.fault.Store(&llmstub.Fault{Cut: 2, Usage: true})
	for _, r := range modelRequests[:3] {
		a := openAgent(t, x, `, "budget": "1.00 USD"`)
		body := strings.Replace(fmt.Sprintf(r.body, `, "stream": true`), `"m"`, `"priced"`, 1)
		if _, _, err := a.streamOf(t, r.path, body, func() bool { return true }); err == nil {
			t.Errorf("%s: a broken stream looks whole", r.name)
		}
		var v sessionView
		a.do("GET", "", "").want(200).into(&v)
		reserved, err := retry.Amount(v.Cost.Reserved, "USD")
		if err != nil {
			t.Fatal(err)
		}
		output, _ := retry.Amount("0.003", "USD") // of 300 tokens
		if v.Cost.Spent != "0" || reserved.Cmp(output) <= 0 {
			t.Errorf("%s: %s was spent, and %s is reserved", r.name, v.Cost.Spent, v.Cost.Reserved)
		}
	}
}

// TestModelUncountedStaysReserved: a usage that does not say how many tokens the input has is not
// one of zero tokens.
func TestModelUncountedStaysReserved(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "1.00 USD"`)
	a.ask(modelRequests[3].path, `{"model": "scripted-priced", "input": "text"}`).want(200)
	var v sessionView
	a.do("GET", "", "").want(200).into(&v)
	if v.Cost.Spent != "0" || strings.Trim(v.Cost.Reserved, "0.") == "" {
		t.Errorf("%s was spent, and %s is reserved", v.Cost.Spent, v.Cost.Reserved)
	}
}

// TestModelBudget: a request that the budget does not cover is not sent, nor one whose cost has no
// bound.
func TestModelBudget(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "0.004 USD"`)
	for _, r := range modelRequests[:3] {
		body := strings.Replace(fmt.Sprintf(r.body, ""), `"m"`, `"priced"`, 1)
		if code := a.ask(r.path, strings.Replace(body, "300", "3000", 1)).want(402).providerCode(); code != "budget_exhausted" {
			t.Errorf("%s: code %s", r.name, code)
		}
		for _, limit := range []string{`"max_tokens": 300, `, `"max_output_tokens": 300, `} {
			body = strings.Replace(body, limit, "", 1)
		}
		if code := a.ask(r.path, body).want(400).providerCode(); code != "max_tokens_missing" {
			t.Errorf("%s: code %s", r.name, code)
		}
	}
	if n := len(x.model.Bills()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
	priced := strings.Replace(fmt.Sprintf(modelRequests[0].body, ""), `"m"`, `"priced"`, 1)
	a.ask(modelRequests[0].path, priced).want(200)
	a.follow()
	a.ask(modelRequests[0].path, priced).want(200)
	metrics := string(x.do("GET", "/metrics", "").want(200).Body)
	for _, line := range []string{`asks_total{result="refused"} 6`, `asks_total{result="fresh"} 1`, `asks_total{result="replayed"} 1`, `ask_overhead_seconds_count 2`} {
		if !strings.Contains(metrics, "recourse_session_"+line+"\n") {
			t.Errorf("/metrics does not have %s", line)
		}
	}
}

// TestModelBudgetContinued: the conversation that a request continues at the provider counts as
// input. If its length is unknown, the request is refused.
func TestModelBudgetContinued(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "budget": "0.05 USD"`)
	ask := func(model, more string) *answer {
		return a.ask(modelRequests[1].path, `{"model": "`+model+`", "max_output_tokens": 10, `+more+`}`)
	}
	var response struct{ ID string }
	ask("priced", fmt.Sprintf(`"input": %q`, strings.Repeat("word and ", 6000))).want(200).into(&response)
	sent := 0
	for status := 200; status == 200; sent++ {
		if sent == 20 {
			t.Fatal("the conversation is free")
		}
		got := ask("priced", fmt.Sprintf(`"input": "and %d?", "previous_response_id": %q`, sent, response.ID))
		if status = got.Status; status != 200 && (status != 402 || got.providerCode() != "budget_exhausted") {
			t.Fatalf("%d %s", status, got.Body)
		}
	}
	var v sessionView
	a.do("GET", "", "").want(200).into(&v)
	spent, err := retry.Amount(v.Cost.Spent, "USD")
	if err != nil {
		t.Fatal(err)
	}
	most, err := retry.Amount(v.Cost.Budget, "USD")
	if err != nil {
		t.Fatal(err)
	}
	if spent.Cmp(most) > 0 || sent == 1 {
		t.Errorf("%d requests were sent, and %s was spent of %s", sent, v.Cost.Spent, v.Cost.Budget)
	}

	ask("scripted", `"input": "x"`).want(200).into(&response)
	got := ask("scripted", fmt.Sprintf(`"input": "y", "previous_response_id": %q`, response.ID))
	if code := got.providerCode(); got.Status != 422 || code != "foreign_state" {
		t.Errorf("after a response of unknown length: %d %s", got.Status, got.Body)
	}
	a = openAgent(t, x, "")
	ask("scripted", `"input": "x"`).want(200)
	ask("scripted", fmt.Sprintf(`"input": "y", "previous_response_id": %q`, response.ID)).want(200)
}

// TestModelReferences: an item that a request only names counts as input, as the conversation that
// it continues does, and must be one that the session has got.
func TestModelReferences(t *testing.T) {
	x := newFixture(t)
	ask := func(a *agent, model, input string) *answer {
		return a.ask(modelRequests[1].path, `{"model": "`+model+`", "max_output_tokens": 10, "input": [{"role": "user", "content": "counted?"}`+input+`]}`)
	}
	refused := func(got *answer, status int, code string) {
		t.Helper()
		if got.Status != status || got.providerCode() != code {
			t.Errorf("%d %s, want %d %s", got.Status, got.Body, status, code)
		}
	}
	a := openAgent(t, x, `, "budget": "0.2101 USD"`)
	// The response costs 0.20001 USD, and another input of as many tokens 0.02.
	a.ask(modelRequests[1].path, `{"model": "scripted-priced", "max_output_tokens": 20000, "input": "counted"}`).want(200)
	for _, input := range []string{`{"type": "item_reference", "id": "msg-s"}`, `{"id": "msg-s"}`, `{"type": "reasoning", "id": "rs-s", "summary": []}`} {
		refused(ask(a, "scripted-priced", ", "+input), 402, "budget_exhausted")
	}
	refused(ask(a, "scripted-priced", `, {"type": "item_reference", "id": "msg-other"}`), 422, "foreign_state")

	// The items of streams count, too, and are those of one session only.
	a, b := openAgent(t, x, `, "budget": "1.00 USD"`), openAgent(t, x, "")
	text := string(a.ask(modelRequests[1].path, `{"model": "priced", "max_output_tokens": 10, "input": "x", "stream": true}`).want(200).Body)
	item := regexp.MustCompile(`"id":"(msg_\w+)"`).FindStringSubmatch(text)
	if item == nil {
		t.Fatal(text)
	}
	reference := fmt.Sprintf(`, {"type": "item_reference", "id": %q}`, item[1])
	ask(a, "priced", reference).want(200)
	refused(ask(b, "priced", reference), 422, "foreign_state")
	// An item with its content is none that the provider has to add.
	ask(b, "priced", fmt.Sprintf(`, {"type": "message", "role": "assistant", "id": %q, "content": "x"}`, item[1])).want(200)

	for more, status := range map[string]int{"": 200, `, "budget": "1.00 USD"`: 422} {
		a = openAgent(t, x, more)
		a.ask(modelRequests[1].path, `{"model": "scripted", "max_output_tokens": 10, "input": "unknown"}`).want(200)
		if got := ask(a, "scripted", `, {"type": "item_reference", "id": "msg-s"}`); got.Status != status {
			t.Errorf("after a response of unknown length%s: %d %s", more, got.Status, got.Body)
		}
	}
}

// TestModelBudgetRaised: a request that waits for a higher budget is refused for now, and sent once
// a person has raised the budget. The same request gets its answer, also in a later life.
func TestModelBudgetRaised(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, `, "budget": {"amount": "0.001 USD", "on_exceed": "ask"}`)
		ask := func(status int, n string) *answer {
			return a.ask(modelRequests[0].path, `{"model": "priced", "max_tokens": 300, "messages": [{"role": "user", "content": "`+n+`"}]}`).want(status)
		}
		for range 2 {
			if refused := ask(402, "one"); refused.providerCode() != "budget_exhausted" || refused.Header.Get("X-Should-Retry") != "false" {
				t.Fatalf("refused: %v %s", refused.Header, refused.Body)
			}
		}
		a.do("POST", "/commit", "").problem(409, "calls_open")
		inbox := func() string { return string(x.do("GET", "/v1/inbox?saga="+a.id, "").want(200).Body) }
		if list := inbox(); strings.Count(list, `"kind":"budget"`) != 1 || !strings.Contains(list, `"path":"llm[0]"`) {
			t.Errorf("the inbox: %s", list)
		}
		if n := len(x.model.Bills()); n > 0 {
			t.Errorf("%d requests were sent", n)
		}
		if m := string(x.do("GET", "/metrics", "").want(200).Body); !strings.Contains(m, `asks_total{result="refused"} 2`) {
			t.Error("the requests that wait do not count as refused")
		}
		// A request that costs less does not wait for it, and one that costs as much is refused at
		// once, too.
		a.ask(modelRequests[0].path, `{"model": "priced", "max_tokens": 1, "messages": [{"role": "user", "content": "short"}]}`).want(200)
		ask(402, "two")
		a.call(`{"action": "charge", "input": {"order": "A", "amount": 10}}`)
		a.follow()
		x.do("PATCH", "/v1/sagas/"+a.id, `{"budget": "1.00 USD"}`, header{"If-Match", "*"}).want(200)
		got := ask(200, "one")
		if step := got.Header.Get("X-Recourse-Step"); step != "llm[0]" {
			t.Errorf("answered by %s", step)
		}
		if again := ask(200, "two"); len(x.model.Bills()) != 3 || strings.Contains(inbox(), "llm[") {
			t.Errorf("%d requests were sent: %s", len(x.model.Bills()), again.Body)
		}
		a.do("POST", "/commit", "").want(200)

		b := openAgent(t, x, `, "budget": {"amount": "0.001 USD", "on_exceed": "ask"}, "keep": "answers"`)
		if refused := b.ask(modelRequests[0].path, `{"model": "priced", "max_tokens": 300, "messages": []}`).want(402); refused.providerCode() != "budget_exhausted" {
			t.Errorf("without prompts: %s", refused.Body)
		}
		b.do("POST", "/commit", "").want(200)
		// A person is not asked either for a request that has waited for the cost of another one.
		c := openAgent(t, x, `, "budget": {"amount": "0.001 USD", "on_exceed": "ask"}, "keep": "answers"`)
		x.fault.Store(&llmstub.Fault{Delay: 300 * time.Millisecond})
		ends := make(chan int)
		send := func(most string) {
			ends <- c.ask(modelRequests[0].path, `{"model": "priced", "max_tokens": `+most+`, "messages": [{"role": "user", "content": "`+most+`"}]}`).Status
		}
		go send("60")
		x.until(c.id, func(v machine.View) bool { return v.Cost.Reserved != "0" && v.Cost.Reserved != "" })
		go send("92")
		if one, two := <-ends, <-ends; min(one, two) != 200 || max(one, two) != 402 {
			t.Errorf("at once: %d and %d", one, two)
		}
		if list := string(x.do("GET", "/v1/inbox?saga="+c.id, "").want(200).Body); strings.Contains(list, "llm[") {
			t.Errorf("the inbox: %s", list)
		}
		x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["charge"], "budget": {"amount": "1 USD", "on_exceed": "wait"}}`, outside).problem(400, "invalid_request")
	})
}

// TestModelRefusals: what recourse does not journal, or the session may not ask, is refused in the
// provider's form, and nothing is sent.
func TestModelRefusals(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, `, "models": ["m", "gpt-*"]`)
	chat, responses, messages := modelRequests[0].path, modelRequests[1].path, modelRequests[2].path
	for _, tt := range []struct {
		path, body, code string
		status           int
	}{
		{chat, `{"model": "other", "messages": []}`, "model_not_allowed", 403},
		{chat, `{"messages": []}`, "bad_input", 422},
		{chat, `[]`, "bad_input", 422},
		{chat, `{"model": "m", "model": "other", "messages": []}`, "bad_input", 422},
		{chat, `{"model": "m", "Model": "other", "messages": []}`, "bad_input", 422},
		{chat, `{"model": "m", "messages": [], "n": 1e2}`, "bad_input", 422},
		{responses, `{"model": "m", "input": "x", "background": true}`, "background", 422},
		{responses, `{"model": "m", "input": "x", "previous_response_id": "resp_1"}`, "foreign_state", 422},
		{responses, `{"model": "m", "input": "x", "conversation": "conv_1"}`, "foreign_state", 422},
		{responses, `{"model": "m", "prompt": {"id": "pmpt_1"}}`, "foreign_state", 422},
		{responses, `{"model": "m", "input": "x", "tools": [{"type": "mcp", "server_url": "https://x.example"}]}`, "foreign_tool", 403},
		{messages, `{"model": "m", "max_tokens": 9, "messages": [], "mcp_servers": [{"url": "https://x.example"}]}`, "foreign_tool", 403},
	} {
		got := a.ask(tt.path, tt.body, outside)
		if code := got.providerCode(); got.Status != tt.status || code != tt.code || got.Header.Get("X-Should-Retry") != "false" {
			t.Errorf("%s %s: %d %s, want %d %s: %s", tt.path, tt.body, got.Status, code, tt.status, tt.code, got.Body)
		}
	}
	files := x.do("GET", "/llm/openai/v1/files", "", outside, header{"Authorization", "Bearer " + a.token()})
	if code := files.providerCode(); files.Status != 404 || code != "not_journaled" {
		t.Errorf("files: %d %s", files.Status, files.Body)
	}
	for _, key := range []string{"", "Bearer sk-foreign", "Bearer " + TokenPrefix + "1"} {
		if got := x.do("POST", chat, `{"model": "m", "messages": []}`, header{"Authorization", key}); got.Status != 401 {
			t.Errorf("key %q: %d", key, got.Status)
		}
	}
	if got := x.do("POST", messages, `{"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}`, anthropicVersion, header{"X-Api-Key", a.token()}); got.Status != 200 {
		t.Errorf("x-api-key: %d %s", got.Status, got.Body)
	}
	former := *a
	a.next()
	if got := former.ask(chat, `{"model": "m", "messages": []}`); got.Status != 403 || got.providerCode() != "superseded" {
		t.Errorf("a former life: %d %s", got.Status, got.Body)
	}
	if n := len(x.model.Bills()); n != 1 {
		t.Errorf("%d requests were sent, want 1", n)
	}
}

// TestModelDivergence: a process that asks something else than an earlier one at the same place is
// noticed, with the place; what the session ignores is the same request.
func TestModelDivergence(t *testing.T) {
	x := newFixture(t)
	at := func(time string) string {
		return `{"model": "m", "messages": [{"role": "system", "content": "It is ` + time + `."}, {"role": "user", "content": "x"}]}`
	}
	path := modelRequests[0].path
	diverged := func(a *agent) (list []saga.Divergence) {
		records, err := x.store.Records(t.Context(), uuid.FromStringOrNil(a.id), 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for i := range records {
			if d, ok := history.DataOf[saga.CalledData](&records[i]); ok && d.Diverged != nil {
				list = append(list, *d.Diverged)
			}
		}
		return list
	}
	a := openAgent(t, x, "")
	a.ask(path, at("12:00")).want(200)
	a.next()
	a.ask(path, at("12:05")).want(200)
	if d := diverged(a); len(d) != 1 || d[0] != (saga.Divergence{From: "llm[0]", Pointer: "/messages/0/content"}) {
		t.Errorf("diverged: %+v", d)
	}
	a = openAgent(t, x, `, "on_divergence": "stop"`)
	a.ask(path, at("12:00")).want(200)
	a.ask(path, at("12:01")).want(200) // the same life may ask what it wants
	a.next()
	if got := a.ask(path, at("12:05")).want(422); got.providerCode() != "diverged" || !strings.Contains(string(got.Body), "/messages/0/content") {
		t.Errorf("stopped: %s", got.Body)
	}
	a = openAgent(t, x, `, "on_divergence": "stop", "ignore": ["\\d\\d:\\d\\d"], "keep": "answers"`)
	one := a.ask(path, at("12:00")).want(200)
	a.next()
	two := a.ask(path, at("12:05")).want(200)
	if !bytes.Equal(one.Body, two.Body) || len(diverged(a)) != 0 {
		t.Errorf("ignored: %s and %s, %+v", one.Body, two.Body, diverged(a))
	}
}

// TestModelOtherNode: a node that does not run the session stores the request, and its owner sends
// it.
func TestModelOtherNode(t *testing.T) {
	x := newFixture(t)
	y := otherNode(t, x)
	a := openAgent(t, x, "")
	b := *a
	b.x = y
	for _, r := range modelRequests[:3] {
		body := fmt.Sprintf(r.body, `, "stream": true`)
		one := b.ask(r.path, body).want(200)
		b.next()
		a.secret = b.secret
		if two := a.ask(r.path, body).want(200); !bytes.Equal(one.Body, two.Body) {
			t.Errorf("%s: %s, then %s", r.name, one.Body, two.Body)
		}
	}
	if n := len(x.model.Bills()); n != 3 {
		t.Errorf("%d requests were sent, want 3", n)
	}
}

// TestModelKeepAnswers: whichever node a request reaches, its prompt is sent, and is stored nowhere
// afterwards. SQLite has one node.
func TestModelKeepAnswers(t *testing.T) {
	for _, store := range []string{"memory", "postgres"} {
		x := newFixtureOn(t, stores[store](t))
		a := openAgent(t, x, `, "keep": "answers"`)
		id := uuid.FromStringOrNil(a.id)
		for i, node := range []*fixture{x, otherNode(t, x)} {
			b := *a
			b.x = node
			for _, r := range modelRequests[:3] {
				body := fmt.Sprintf(r.body, fmt.Sprintf(`, "seed": %d`, i))
				if got := b.ask(r.path, body).want(200); got.Header.Get("X-Recourse-Replayed") != "" || !strings.Contains(string(got.Body), "book_flight") {
					t.Errorf("%s, node %d: %s", r.name, i, got.Body)
				}
				hash := sha256.Sum256([]byte(body))
				if blobs, err := x.store.Blobs(t.Context(), id, [][32]byte{hash}); err != nil || len(blobs) != 0 {
					t.Errorf("%s, node %d: the body is stored: %v", r.name, i, err)
				}
			}
		}
		records, err := x.store.Records(t.Context(), id, 0, 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			if strings.Contains(string(r.Data), "Rome") || strings.Contains(string(r.Data), base64.StdEncoding.EncodeToString([]byte(`{"model":`))) {
				t.Errorf("record %d has the prompt: %s", r.Seq, r.Data)
			}
		}
		if messages, err := x.store.Messages(t.Context(), []uuid.UUID{id}, 1000, 1<<20); err != nil || len(messages) != 0 {
			t.Errorf("messages %v, %v", messages, err)
		}
		var shown askView
		if x.do("GET", "/v1/sessions/"+a.id+"/asks/llm%5B3%5D", "").want(200).into(&shown); shown.Request != nil || shown.Answer == nil {
			t.Errorf("the request is shown as %+v", shown)
		}
	}
}

// TestModelContentErased: what a session has asked and heard can be erased once it has ended. The
// journal stays, without the texts.
func TestModelContentErased(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := openAgent(t, x, "")
		id := uuid.FromStringOrNil(a.id)
		a.ask(modelRequests[0].path, fmt.Sprintf(modelRequests[0].body, "")).want(200)
		texts := func() (n int) {
			records, err := x.store.Records(t.Context(), id, 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			var hashes [][32]byte
			for i := range records {
				if strings.Contains(string(records[i].Data), "book_flight") {
					t.Errorf("record %d has a text: %s", records[i].Seq, records[i].Data)
				}
				for _, hash := range regexp.MustCompile(`[0-9a-f]{64}`).FindAll(records[i].Data, -1) {
					b, _ := hex.DecodeString(string(hash))
					hashes = append(hashes, [32]byte(b))
				}
			}
			blobs, err := x.store.Blobs(t.Context(), id, hashes)
			if err != nil {
				t.Fatal(err)
			}
			return len(blobs)
		}
		if n := texts(); n < 3 {
			t.Errorf("%d contents, want the rest of the request, its conversation and the answer", n)
		}
		var shown askView
		ask := "/v1/sessions/" + a.id + "/asks/llm%5B0%5D"
		x.do("GET", ask, "").want(200).into(&shown)
		if !strings.Contains(string(shown.Request), "book_flight") || shown.Answer == nil || !strings.Contains(shown.Answer.Text, "book_flight") || shown.Life != 1 || shown.Status != machine.CallSucceeded {
			t.Errorf("the request is shown as %+v", shown)
		}
		a.do("GET", "/asks/llm%5B0%5D", "").want(401) // the prompts of other lives are not the agent's
		x.do("GET", "/v1/sessions/"+a.id+"/asks/llm%5B1%5D", "").problem(404, "call_not_found")
		x.do("DELETE", "/v1/sessions/"+a.id+"/content", "").want(409)
		a.do("POST", "/commit", "").want(200)
		x.do("DELETE", "/v1/sessions/"+a.id+"/content", "").want(204)
		shown = askView{}
		if x.do("GET", ask, "").want(200).into(&shown); shown.Request != nil || shown.Answer != nil || shown.Status != machine.CallSucceeded {
			t.Errorf("the erased request is shown as %+v", shown)
		}
		if n := texts(); n != 0 {
			t.Errorf("%d contents after they were erased", n)
		}
	})
}

// slowReader is a client that does not read its response until it is told to.
type slowReader struct {
	*httptest.ResponseRecorder
	written chan struct{} // closed at the first write
	read    chan struct{}
	once    sync.Once
}

func (w *slowReader) Write(b []byte) (int, error) {
	w.once.Do(func() { close(w.written) })
	<-w.read
	return w.ResponseRecorder.Write(b)
}

// TestModelSlowReader: while a client does not read its answer, the other requests of its session
// are served.
func TestModelSlowReader(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	r := modelRequests[0]
	for name, body := range map[string]string{"fresh": `"max_tokens": 300, `, "streamed": `"max_tokens": 300, "stream": true, `, "replayed": `"max_tokens": 300, `} {
		req := httptest.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1"+r.path, strings.NewReader(strings.Replace(fmt.Sprintf(r.body, ""), `"max_tokens": 300, `, body, 1)))
		req.Header.Set("Authorization", "Bearer "+a.token())
		req.Header.Set("Content-Type", "application/json")
		if name == "replayed" {
			req.Header.Set("X-Stainless-Retry-Count", "1")
		}
		w := &slowReader{ResponseRecorder: httptest.NewRecorder(), written: make(chan struct{}), read: make(chan struct{})}
		done := make(chan struct{})
		go func() {
			defer close(done)
			x.h.ServeHTTP(w, req)
		}()
		<-w.written
		a.do("POST", "/heartbeat", "").want(200)
		close(w.read)
		<-done
		if w.Code != 200 || !strings.Contains(w.Body.String(), "book_flight") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}
