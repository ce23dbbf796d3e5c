package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"recourse/catalog"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/kinds"
)

var batched = header{"Content-Type", typeNDJSON}

// batch sends a batch, and returns the results, whose number and order it checks.
func (x *fixture) batch(lines []string, headers ...header) []batchResult {
	x.t.Helper()
	a := x.do("POST", "/v1/sagas:batch", strings.Join(lines, "\n"), append(headers, batched)...).want(200)
	if got := a.Header.Get("Content-Type"); got != typeNDJSON {
		x.t.Errorf("content type %q", got)
	}
	results := batchResults(x.t, a.Body)
	if len(results) != len(lines) {
		x.t.Fatalf("%d results for %d starts: %s", len(results), len(lines), a.Body)
	}
	return results
}

func batchResults(t testing.TB, body []byte) (list []batchResult) {
	t.Helper()
	for line := range bytes.Lines(body) {
		var r batchResult
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if r.Index != len(list) {
			t.Errorf("result %d has the index %d", len(list), r.Index)
		}
		list = append(list, r)
	}
	return list
}

func echoLine(key string, input any) string {
	return fmt.Sprintf(`{"idempotency_key": %q, "definition": "echo", "input": %v}`, key, input)
}

// brief is a result without its id: the status, and the code of the problem.
func brief(r batchResult) string {
	if r.Error == nil {
		return fmt.Sprint(r.Status)
	}
	return fmt.Sprint(r.Status, " ", strings.TrimPrefix(r.Error.Type, problemType))
}

func TestStartBatch(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(echoDef)
		x.publish(sleepDef)
		x.publish(orderDef)
		before := x.do("POST", "/v1/sagas", `{"definition": "echo", "input": {"n": 1.50}}`, header{"Idempotency-Key", "before"}).want(201).saga().ID
		tests := []struct{ line, want string }{
			{echoLine("a", `{"n": 19.10}`), "201"},
			{`{"definition": "echo", "input":`, "400 invalid_json"},
			{`{"idempotency_key": "x", "definition": "echo", "sum": 1}`, "400 invalid_request"},
			{`{"idempotency_key": "x", "definition": "none"}`, "404 definition_not_found"},
			{`{"idempotency_key": "x", "definition": "order", "input": {"amount": "much"}}`, "422 invalid_start"},
			{`{"idempotency_key": "x"}`, "400 invalid_request"},
			{`{"definition": "echo"}`, "400 invalid_request"},
			{`{"idempotency_key": 5, "definition": "echo"}`, "400 invalid_request"},
			{`{"idempotency_key": "two words", "definition": "echo"}`, "400 invalid_request"},
			{echoLine("a", `{"n":19.10}`), "200"},
			{echoLine("a", `{"n": 19.1}`), "422 idempotency_key_reused"},
			{`{"input": {"n": 1.50}, "idempotency_key": "before", "definition": "echo"}`, "200"},
			{`{"idempotency_key": "n1", "definition": "nap", "input": {"who": "ada"}}`, "201"},
			{`{"idempotency_key": "n2", "definition": "nap", "input": {"who": "ada"}}`, "409 unique_taken"},
			{`{"idempotency_key": "v", "definition": "echo", "version": "v1", "labels": {"tier": "gold"}}`, "201"},
			{`{"idempotency_key": "v2", "definition": "echo", "version": 2}`, "404 definition_not_found"},
			{`[]`, "400 invalid_request"},
			{echoLine("last", 1), "201"},
		}
		var lines, want []string
		for _, tt := range tests {
			lines, want = append(lines, tt.line), append(want, tt.want)
		}
		first := x.batch(lines, outside)
		var got []string
		for _, r := range first {
			got = append(got, brief(r))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("results (-want +got): %s", d)
		}
		if first[9].ID != first[0].ID || first[11].ID != before || first[13].Error.Saga != first[12].ID || first[0].Key != "a" || first[8].Key != "" {
			t.Errorf("%+v", first)
		}
		if v := x.do("GET", "/v1/sagas/"+first[14].ID, "").want(200).saga(); v.Labels["tier"] != "gold" || v.Version != "v1" {
			t.Errorf("%+v", v)
		}
		if v := x.until(first[0].ID, is(saga.Succeeded)); string(v.Output) != `{"n":19.10}` {
			t.Errorf("output %s", v.Output)
		}

		// The whole batch again starts nothing.
		count := len(x.dump())
		for i, r := range x.batch(lines, outside) {
			again := first[i]
			if again.Status == 201 {
				again.Status = 200
			}
			if d := cmp.Diff(again, r, cmpopts.IgnoreUnexported(batchResult{}, problem{})); d != "" {
				t.Errorf("line %d, sent again (-first +again): %s", i, d)
			}
		}
		if n := len(x.dump()); n != count {
			t.Errorf("%d sagas and definitions, %d before the batch was sent again", n, count)
		}
		// The key is the header's of a single start.
		if id := x.do("POST", "/v1/sagas", `{"input": 1, "definition": "echo"}`, header{"Idempotency-Key", "last"}).want(200).saga().ID; id != first[17].ID {
			t.Errorf("saga %s, in the batch %s", id, first[17].ID)
		}
		x.do("POST", "/v1/sagas", `{"input": 2, "definition": "echo"}`, header{"Idempotency-Key", "last"}).problem(422, "idempotency_key_reused")
	})
}

// TestBatchErrorsAreThoseOfStarts: a start has the same problem in a batch and by itself.
func TestBatchErrorsAreThoseOfStarts(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.Limits.Body = 400 })
	x.publish(orderDef)
	x.publish(sleepDef)
	x.do("POST", "/v1/sagas", `{"definition": "nap", "input": {"who": "ada"}}`, header{"Idempotency-Key", "used"}).want(201)
	key := header{"Idempotency-Key", "used"}
	for _, body := range []string{
		`{"definition": "order"`, `{"definition": "order", "definition": "order"}`, `[1]`, `{}`, `{"definition": 5}`,
		`{"definition": "nothing"}`, `{"definition": "order", "version": "v7"}`, `{"definition": "order", "version": "last"}`, `{"definition": "order", "input": {}}`,
		`{"definition": "order", "input": {"amount": "a", "more": 1}}`, `{"definition": "order", "budget": "much"}`, `{"definition": "order", "labels": {"A": "b"}}`,
		`{"definition": "nap", "input": {"who": "grace"}}`, `{"definition": "` + strings.Repeat("x", 500) + `"}`,
	} {
		single := x.do("POST", "/v1/sagas", body, key, outside)
		line := body
		if rest, ok := strings.CutPrefix(body, "{"); ok && rest == "}" {
			line = `{"idempotency_key": "used"}`
		} else if ok {
			line = `{"idempotency_key": "used", ` + rest
		}
		r := x.batch([]string{line}, outside)[0]
		var want problem
		single.into(&want)
		if r.Error == nil || r.Status != single.Status {
			t.Errorf("%s: %d by itself, in a batch %+v", body, single.Status, r)
			continue
		}
		want.Detail = strings.Replace(want.Detail, "send at most", "a start has at most", 1)
		for _, p := range []*problem{&want, r.Error} {
			for i := range p.Errors {
				p.Errors[i].Column = 0 // the key moves it
			}
		}
		if d := cmp.Diff(&want, r.Error, cmpopts.IgnoreUnexported(problem{})); d != "" {
			t.Errorf("%s (-single +batch): %s", body, d)
		}
	}
}

func TestBatchLimits(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.Limits.Batch, c.Limits.Body = 100_000, 200 })
	x.publish(echoDef)
	lines := make([]string, maxStarts+1)
	for i := range lines {
		lines[i] = echoLine(fmt.Sprint(i), i)
	}
	if p := x.do("POST", "/v1/sagas:batch", strings.Join(lines, "\n"), batched).problem(413, "body_too_large"); !strings.Contains(p.Detail, "1001") || !strings.Contains(p.Detail, "1000") {
		t.Errorf("detail %q", p.Detail)
	}
	if p := x.do("POST", "/v1/sagas:batch", strings.Repeat(echoLine("a", 1)+"\n", 5000), batched).problem(413, "body_too_large"); !strings.Contains(p.Detail, "100000 bytes") {
		t.Errorf("detail %q", p.Detail)
	}
	x.do("POST", "/v1/sagas:batch", "", outside).problem(400, "invalid_request")
	x.do("POST", "/v1/sagas:batch", "\r\n \n", batched, outside).problem(400, "invalid_request")
	for _, other := range []string{"application/json", "text/plain", typeYAML} {
		x.do("POST", "/v1/sagas:batch", lines[0], header{"Content-Type", other}, outside).problem(415, "unsupported_media_type")
	}
	x.do("POST", "/v1/sagas:batch", lines[0], batched, header{"Content-Encoding", "gzip"}, outside).problem(415, "unsupported_media_type")
	if n := len(x.dump()); n != 1 {
		t.Fatalf("%d sagas and definitions after refused batches", n)
	}

	for i, r := range x.batch(append(lines[:maxStarts-1:maxStarts-1], echoLine("long", `"`+strings.Repeat("x", 200)+`"`))) {
		if want := 201; r.Status != want && i < maxStarts-1 {
			t.Fatalf("%+v", r)
		} else if i == maxStarts-1 && brief(r) != "413 body_too_large" {
			t.Errorf("%+v", r)
		}
	}
	blank := x.do("POST", "/v1/sagas:batch", "\n"+lines[0]+"\r\n\n\t\n"+lines[1], header{"Content-Type", "application/x-ndjson; charset=utf-8"}, outside).want(200)
	if list := batchResults(t, blank.Body); len(list) != 2 || list[0].Status != 200 || list[1].Key != "1" {
		t.Errorf("%s", blank.Body)
	}
	// The default type of curl.
	x.do("POST", "/v1/sagas:batch", lines[2], header{"Content-Type", "application/x-www-form-urlencoded"}, outside).want(200)
}

// A start of a batch counts as one request of its principal. The batch can be repeated: what was
// started is found, and takes a token as a repeated single start does.
func TestBatchRates(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys, c.Rates = true, Rates{Each: Rate{Every: 1000 * time.Second, Burst: 3}} })
	_, admin := addKey(x, "admin", time.Time{})
	_, client := addKey(x, "client", time.Time{})
	x.auth = "Bearer " + admin
	x.publish(echoDef)
	x.auth = "Bearer " + client
	var got []string
	for i, r := range x.batch([]string{echoLine("a", 1), echoLine("b", 1), `{}`, echoLine("c", 1), echoLine("d", 1)}, outside) {
		got = append(got, brief(r))
		if limited := i > 2; (r.RetryAfter > 900) != limited {
			t.Errorf("%+v", r)
		}
	}
	if d := cmp.Diff([]string{"201", "201", "400 invalid_request", "429 rate_limited", "429 rate_limited"}, got); d != "" {
		t.Error(d)
	}
	x.do("POST", "/v1/sagas:batch", echoLine("c", 1), batched).problem(429, "rate_limited")
}

// TestBatchEngineErrors: what the engine refuses, or breaks, concerns one start.
func TestBatchEngineErrors(t *testing.T) {
	for _, tt := range []struct {
		err   error
		want  string
		after int
	}{
		{saga.ErrBusy, "429 busy", 1}, {saga.ErrStopping, "503 unavailable", 1}, {context.DeadlineExceeded, "503 unavailable", 1},
		{errors.New("disk on fire"), "500 internal", 0}, {nil, "500 internal", 0}, // a panic
	} {
		x := newFixture(t)
		x.publish(echoDef)
		cfg := x.cfg
		cfg.Engine = stubFor{x.cfg.Engine, engineStub{x.cfg.Engine, tt.err, true}, "bad"}
		y := *x
		y.url = serve(t, cfg)
		var got []string
		for i, r := range y.batch([]string{echoLine("a", `"good"`), echoLine("b", `"bad"`), echoLine("c", `"good"`)}) {
			got = append(got, brief(r))
			if i == 1 && (r.RetryAfter != tt.after || strings.Contains(r.Error.Detail, "fire")) {
				t.Errorf("%+v", r)
			}
		}
		if d := cmp.Diff([]string{"201", tt.want, "201"}, got); d != "" {
			t.Errorf("%v: %s", tt.err, d)
		}
	}
}

// stubFor is an engine that fails the starts with one input.
type stubFor struct {
	Engine
	stub  engineStub
	input string
}

func (e stubFor) Submit(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData) (func(context.Context) (uuid.UUID, error), error) {
	if strings.Contains(string(data.Input), e.input) {
		_, err := e.stub.Start(ctx, def, start, data, false)
		return nil, err
	}
	return e.Engine.Submit(ctx, def, start, data)
}

// gatedStore is a store whose commits of starts wait for a permit each.
type gatedStore struct {
	journal.Store
	permits chan struct{}
}

func (g gatedStore) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	for _, a := range batch {
		if a.Start != nil {
			select {
			case <-g.permits:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			break
		}
	}
	return g.Store.Append(ctx, node, batch)
}

// TestBatchAnswersAfterCommits: no start is answered before its commit, and each is answered after
// its own. A client that disconnects meanwhile sends the batch again, and gets the same sagas.
func TestBatchAnswersAfterCommits(t *testing.T) {
	permits := make(chan struct{}, 100)
	x := newFixtureOn(t, gatedStore{memory.New(memory.Config{}), permits})
	x.publish(sleepDef)
	lines := make([]string, 50)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"idempotency_key": "%d", "definition": "nap"}`, i)
	}
	ctx, disconnect := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, "POST", x.url+"/v1/sagas:batch", strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", typeNDJSON)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := make(chan string)
	go func() {
		defer close(got)
		for r := bufio.NewReader(resp.Body); ; {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			got <- line
		}
	}()
	select {
	case line := <-got:
		t.Fatalf("answered before the commit: %s", line)
	case <-time.After(50 * time.Millisecond):
	}
	permits <- struct{}{} // one commit: at least the first start, and not all, unless all came before it began
	var first batchResult
	if err := json.Unmarshal([]byte(<-got), &first); err != nil || first.Status != 201 {
		t.Fatalf("%+v, %v", first, err)
	}
	if _, err := x.store.Saga(t.Context(), uuid.FromStringOrNil(first.ID)); err != nil {
		t.Errorf("the answered saga is not in the store: %v", err)
	}
	disconnect()
	for range got { // what was sent before
	}
	for range cap(permits) - 1 {
		permits <- struct{}{}
	}
	results := x.batch(lines)
	if results[0].ID != first.ID || results[0].Status != 200 {
		t.Errorf("%+v, before %+v", results[0], first)
	}
	ids := map[string]bool{}
	for _, r := range results {
		if r.Error != nil {
			t.Errorf("%+v", r)
		}
		ids[r.ID] = true
	}
	list, err := x.store.Sagas(t.Context(), journal.Filter{Limit: 1000})
	if err != nil || len(list.Heads) != len(lines) || len(ids) != len(lines) {
		t.Errorf("%d sagas and %d ids of %d starts, %v", len(list.Heads), len(ids), len(lines), err)
	}
	if st := x.eng.Stats(); st.Starting != 0 {
		t.Errorf("%d starts still count as pending", st.Starting)
	}
}

// TestBatchSharesCommits: two commits are enough for what is one batch, because every start is
// submitted before the first one is waited for.
func TestBatchSharesCommits(t *testing.T) {
	permits := make(chan struct{}, 2)
	x := newFixtureOn(t, gatedStore{memory.New(memory.Config{}), permits})
	x.publish(sleepDef)
	lines := make([]string, 400) // fewer than a commit may have
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"idempotency_key": "%d", "definition": "nap"}`, i)
	}
	go func() {
		for x.eng.Stats().Starting < len(lines) && t.Context().Err() == nil {
			time.Sleep(time.Millisecond)
		}
		permits <- struct{}{}
		permits <- struct{}{}
	}()
	for _, r := range x.batch(lines) {
		if r.Status != 201 {
			t.Fatalf("%+v", r)
		}
	}
}

// TestBatchOfAPublishedVersion: starts without a version get the newest one, even if another node
// has published it since this one read the newest.
func TestBatchOfAPublishedVersion(t *testing.T) {
	x := newFixture(t)
	elsewhere := catalog.New(x.store, catalog.Options{Kinds: kinds.All()})
	for i, input := range []string{"{a: number}", "{a: number, b: number?}", "{c: number}"} {
		if _, _, _, err := elsewhere.Publish(t.Context(), "echo", []byte("saga: echo\ninput: "+input+"\nsteps:\n  - {id: say, set: '${input}'}\n"), ""); err != nil {
			t.Fatal(err)
		}
		good, bad := `{"a": 1}`, `{"c": 1}`
		if i == 2 {
			good, bad = bad, good
		}
		results := x.batch([]string{echoLine(fmt.Sprint("a", i), good), echoLine(fmt.Sprint("b", i), bad), echoLine(fmt.Sprint("c", i), good)})
		if got := brief(results[1]); got != "422 invalid_start" {
			t.Errorf("%s: %s", input, got)
		}
		for _, r := range []batchResult{results[0], results[2]} {
			if v := x.do("GET", "/v1/sagas/"+r.ID, "").want(200).saga(); r.Status != 201 || v.Version != fmt.Sprint("v", i+1) {
				t.Errorf("%+v has version %s, and v%d is the newest", r, v.Version, i+1)
			}
		}
	}
}

// TestBatchContract: the check of lines against the contract can fail.
func TestBatchContract(t *testing.T) {
	c, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	item := map[string]any{"$ref": "#/components/schemas/BatchResult"}
	const good = `{"index":0,"idempotency_key":"a","status":201,"id":"0197f3a0-0000-7000-8000-000000000000"}` + "\n"
	if err := c.schemas.checkItems(item, []byte(good+"\n"+good)); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{`{"index":0,"status":201}`, `{"index":0,"status":201,"id":"x","error":{}}`, `{"index":"0","status":400}`, `{`} {
		if c.schemas.checkItems(item, []byte(good+bad)) == nil {
			t.Errorf("%s passes", bad)
		}
	}
}
