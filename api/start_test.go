package api

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/catalog"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

const orderDef = `saga: order
input: {amount: decimal, note: string?}
steps:
  - id: charge
    http: POST ${vars.pay}/charges
    in_doubt: retry
    body: {amount: "${input.amount}"}
    compensate:
      http: POST ${vars.pay}/charges/${output.id}/refund
  - id: ship
    http: POST ${vars.ship}/orders
    in_doubt: retry
    body: {charge: "${steps.charge.output.id}", note: "${input.note ?? ''}"}
    compensate:
      http: POST ${vars.ship}/orders/${output.id}/cancel
output: {charge: "${steps.charge.output.id}"}
`

// sleepDef keeps its unique value until it is cancelled.
const sleepDef = `saga: nap
unique: ${input?.who}
steps:
  - id: rest
    sleep: 2h
`

// echoDef returns its input.
const echoDef = `saga: echo
steps:
  - id: say
    set: ${input}
`

func TestStart(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(orderDef)
		a := x.do("POST", "/v1/sagas", `{"definition": "order", "input": {"amount": 19.10}, "labels": {"tier": "gold"}}`, header{"Prefer", "wait=20"}).want(201)
		v := a.saga()
		if v.Status != saga.Succeeded || v.Version != "v1" || !strings.Contains(string(v.Input), `"amount":19.10`) {
			t.Errorf("saga %s", a.Body)
		}
		if got, want := a.Header.Get("Location"), "/v1/sagas/"+v.ID; got != want {
			t.Errorf("Location %q, want %q", got, want)
		}
		if got := a.Header.Get("Preference-Applied"); got != "wait=20" {
			t.Errorf("Preference-Applied %q", got)
		}
		if got, want := a.Header.Get("ETag"), seqTag(v.Seq); got != want {
			t.Errorf("ETag %q, want %q", got, want)
		}
		if got := x.do("GET", "/v1/sagas/"+v.ID, "").want(200); string(got.Body) != string(a.Body) {
			t.Errorf("read again it is\n%s, not\n%s", got.Body, a.Body)
		}
	})
}

// Numbers and texts are returned unchanged.
func TestStartKeepsLiterals(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(echoDef)
		input := `{"big":9007199254740993,"money":19.10,"huge":1e400,"tiny":-0.0,"exp":1E+2,"nul":"a\u0000b","pair":"\ud83d\ude00","tag":"<&>","line":"\u2028"}`
		a := x.do("POST", "/v1/sagas", `{"definition": "echo", "input": `+input+`}`, header{"Prefer", "wait=20"}, outside).want(201)
		v := a.saga()
		for _, got := range []json.RawMessage{v.Input, v.Output} {
			for _, literal := range []string{"9007199254740993", "19.10", "1e400", "-0.0", "1E+2", "<&>"} {
				if !strings.Contains(string(got), literal) {
					t.Errorf("%s is not in %s", literal, got)
				}
			}
			var m map[string]any
			d := json.NewDecoder(strings.NewReader(string(got)))
			d.UseNumber()
			if err := d.Decode(&m); err != nil {
				t.Fatal(err)
			}
			for name, want := range map[string]string{"nul": "a\x00b", "pair": "😀", "line": "\u2028"} {
				if m[name] != want {
					t.Errorf("%s is %q, want %q", name, m[name], want)
				}
			}
		}
	})
}

func deep(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }

func manyLabels(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`"l%d": "x"`, i))
	}
	return strings.Join(list, ",")
}

// A refused start says where and why, and stores nothing.
func TestStartRefused(t *testing.T) {
	const start = `{"definition": "order", "input": {"amount": 1}`
	tests := []struct {
		name, body string
		status     int
		code       code
		finding    string // pointer and code of the first finding
		detail     string
	}{
		{"empty", "", 400, "invalid_request", "/definition missing_field", "name the definition"},
		{"blank", "  ", 400, "invalid_json", " empty_body", "empty"},
		{"no json", "{", 400, "invalid_json", " syntax", "too early"},
		{"list", "[]", 400, "invalid_request", " wrong_type", "object"},
		{"null", "null", 400, "invalid_request", " wrong_type", "object"},
		{"trailing", start + `} {}`, 400, "invalid_json", " trailing_text", "more text"},
		{"duplicate", start + `, "input": {}}`, 400, "invalid_json", "/input duplicate_field", "twice"},
		{"duplicate inside", `{"definition": "order", "input": {"a": [{"b": 1, "\u0062": 2}]}}`, 400, "invalid_json", "/input/a/0/b duplicate_field", "twice"},
		{"deep", `{"definition": "order", "input": ` + deep(64) + `}`, 400, "invalid_json", "", "nested"},
		{"very deep", strings.Repeat("[", 500_000), 400, "invalid_json", "", "nested"},
		{"lone surrogate", `{"definition": "order", "input": "\ud800"}`, 400, "invalid_json", "/input lone_surrogate", "surrogate"},
		{"lone low surrogate", `{"definition": "order", "input": "\udc00 "}`, 400, "invalid_json", "/input lone_surrogate", "surrogate"},
		{"bad utf-8", "{\"definition\": \"order\", \"input\": \"\xff\"}", 400, "invalid_json", "/input not_utf8", "UTF-8"},
		{"bare nul", "{\"definition\": \"order\", \"input\": \"\x00\"}", 400, "invalid_json", "/input syntax", `\u0000`},
		{"octal", `{"definition": "order", "input": {"amount": 0777}}`, 400, "invalid_json", "/input/amount syntax", "octal"},
		{"NaN", `{"definition": "order", "input": NaN}`, 400, "invalid_json", "/input syntax", ""},
		{"big exponent", `{"definition": "order", "input": 1e10001}`, 400, "invalid_json", "/input number_too_large", "exponent"},
		{"long number", `{"definition": "order", "input": ` + strings.Repeat("9", 4097) + `}`, 400, "invalid_json", "/input number_too_long", "digits"},
		{"too large", `{"definition": "order", "input": "` + strings.Repeat("x", 1<<20) + `"}`, 413, "body_too_large", "", "1048576"},
		{"unknown field", `{"defintion": "order"}`, 400, "invalid_request", "/defintion unknown_field", `did you mean "definition"?`},
		{"field in capitals", `{"Definition": "order"}`, 400, "invalid_request", "/Definition unknown_field", `did you mean "definition"?`},
		{"no such definition", `{"definition": "oder"}`, 404, "definition_not_found", "", "publish"},
		{"no such version", `{"definition": "order", "version": "v9", "input": {"amount": 1}}`, 404, "definition_not_found", "", "v9"},
		{"bad version", start + `, "version": "latest"}`, 400, "invalid_request", "/version bad_version", "v3"},
		{"huge version", start + `, "version": 99999999999999999999}`, 400, "invalid_request", "/version bad_version", "v3"},
		{"wrong type", `{"definition": 7}`, 400, "invalid_request", "/definition wrong_type", "text"},
		{"missing input", `{"definition": "order"}`, 422, "invalid_start", "/input", ""},
		{"wrong input", `{"definition": "order", "input": {"amount": "x"}}`, 422, "invalid_start", "/input/amount", ""},
		{"input too costly to check", `{"definition": "tree", "input": ` + strings.Repeat(`{"c":`, 40) + "1" + strings.Repeat("}", 40) + `}`, 422, "invalid_start", "/input schema_too_costly", "too many steps"},
		{"unknown input", `{"definition": "order", "input": {"amount": 1, "amuont": 1}}`, 422, "invalid_start", "/input", ""},
		{"label name", start + `, "labels": {"Tier": "gold"}}`, 400, "invalid_request", "/labels/Tier bad_label", "small letter"},
		{"label type", start + `, "labels": {"tier": 1}}`, 400, "invalid_request", "/labels wrong_type", "values are text"},
		{"label length", start + `, "labels": {"tier": "` + strings.Repeat("x", 257) + `"}}`, 400, "invalid_request", "/labels/tier bad_label", "256"},
		{"label with NUL", start + `, "labels": {"tier": "a\u0000b"}}`, 400, "invalid_request", "/labels/tier bad_label", "control"},
		{"label empty", start + `, "labels": {"tier": ""}}`, 400, "invalid_request", "/labels/tier bad_label", "1 to 256"},
		{"labels", start + `, "labels": {` + manyLabels(65) + `}}`, 400, "invalid_request", "/labels too_many", "64"},
		{"definition with NUL", `{"definition": "a\u0000b"}`, 404, "definition_not_found", "", "GET /v1/definitions"},
		{"budget", start + `, "budget": "2 dollars"}`, 400, "invalid_request", "/budget bad_budget", "2.00 USD"},
		{"budget number", start + `, "budget": 2}`, 400, "invalid_request", "/budget bad_budget", "2.00 USD"},
		{"budget below nothing", start + `, "budget": "-2.00 USD"}`, 400, "invalid_request", "/budget bad_budget", "2.00 USD"},
		{"budget in no currency", start + `, "budget": {"amount": "2.00", "currency": "eur\n"}}`, 422, "invalid_start", "/budget/currency bad_budget", "three capitals"},
		{"budget field", start + `, "budget": {"amont": "2.00 USD"}}`, 400, "invalid_request", "/budget bad_budget", "budget"},
	}
	x := newFixture(t)
	x.publish(orderDef)
	x.publish("saga: tree\ninput_schema: {$ref: '#/$defs/n', $defs: {n: {anyOf: [{properties: {c: {$ref: '#/$defs/n'}}, required: [x]}, {properties: {c: {$ref: '#/$defs/n'}}}]}}}\nsteps: [{id: a, set: 1}]\n")
	before := x.dump()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := x.send(t, "POST", "/v1/sagas", tt.body, outside, header{"Idempotency-Key", "refused-" + strings.ReplaceAll(tt.name, " ", "-")}).problem(tt.status, tt.code)
			text := p.Detail
			if len(p.Errors) > 0 {
				got := p.Errors[0].Pointer + " " + p.Errors[0].Code
				if !strings.HasPrefix(got, tt.finding) && len(p.Errors) == 1 {
					t.Errorf("finding %q, want %q", got, tt.finding)
				}
				for _, f := range p.Errors {
					text += " " + f.Detail
				}
			} else if tt.finding != "" {
				t.Errorf("no findings: %+v", p)
			}
			if !strings.Contains(text, tt.detail) {
				t.Errorf("detail %q does not say %q", text, tt.detail)
			}
		})
	}
	if d := cmp.Diff(before, x.dump()); d != "" {
		t.Errorf("refused starts changed something: %s", d)
	}
	// A refused start does not use its key.
	x.do("POST", "/v1/sagas", start+"}", header{"Idempotency-Key", "refused-empty"}).want(201)
}

func TestStartMediaTypes(t *testing.T) {
	x := newFixture(t)
	x.publish(echoDef)
	const body = `{"definition": "echo", "input": 1}`
	for _, ct := range []string{"application/json", "application/json; charset=utf-8", "application/merge-patch+json"} {
		x.do("POST", "/v1/sagas", body, header{"Content-Type", ct}, outside).want(201)
	}
	// curl's default Content-Type.
	x.do("POST", "/v1/sagas", body, header{"Content-Type", "application/x-www-form-urlencoded"}, outside).want(201)
	x.do("POST", "/v1/sagas", "definition=echo", header{"Content-Type", "application/x-www-form-urlencoded"}, outside).problem(400, "invalid_json")
	for _, ct := range []string{"text/plain", "multipart/form-data; boundary=x", "no type"} {
		x.do("POST", "/v1/sagas", body, header{"Content-Type", ct}, outside).problem(415, "unsupported_media_type")
	}
	x.do("POST", "/v1/sagas", body, header{"Content-Encoding", "gzip"}).problem(415, "unsupported_media_type")
}

func TestStartReplay(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(orderDef)
		key := header{"Idempotency-Key", "k-1"}
		first := x.do("POST", "/v1/sagas", `{"definition": "order", "input": {"amount": 5}}`, key, header{"Prefer", "wait=20"}).want(201)
		id := first.saga().ID
		// The same start after a new version of the definition.
		x.publish(strings.Replace(orderDef, "amount: decimal", "amount: decimal, extra: string", 1))
		again := x.do("POST", "/v1/sagas", "{\"input\":{\"amount\":5},\n\"definition\":\"order\"}", key).want(200)
		if again.saga().ID != id || again.Header.Get(replayHeader) != "true" || again.Header.Get("Location") != "/v1/sagas/"+id {
			t.Errorf("replay: %v %s", again.Header, again.Body)
		}
		x.do("DELETE", "/v1/definitions/order", "").want(204)
		x.do("POST", "/v1/sagas", `{"definition": "order", "input": {"amount": 5}}`, key).want(200)
		p := x.do("POST", "/v1/sagas", `{"definition": "order", "input": {"amount": 5.0}}`, key).problem(422, "idempotency_key_reused")
		if p.Saga != id {
			t.Errorf("problem names %q, not the saga that has the key", p.Saga)
		}
		if n := len(x.world.Ledger().Op("pay", "charge").Effects()); n != 1 {
			t.Errorf("%d charges, want 1", n)
		}
	})
}

func TestStartReplayConcurrent(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(orderDef)
		const n = 16
		answers := make([]*answer, n)
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				answers[i] = x.do("POST", "/v1/sagas", `{"definition": "order", "input": {"amount": 5}}`, header{"Idempotency-Key", "same"}, header{"Prefer", "wait=20"})
			})
		}
		wg.Wait()
		ids, created := map[string]bool{}, 0
		for _, a := range answers {
			if a.Status == 201 {
				created++
			} else if a.Status != 200 || a.Header.Get(replayHeader) != "true" {
				t.Errorf("status %d: %s", a.Status, a.Body)
			}
			ids[a.saga().ID] = true
		}
		if created != 1 || len(ids) != 1 {
			t.Errorf("%d starts made %d sagas; want one of each", created, len(ids))
		}
		if n := len(x.world.Ledger().Op("pay", "charge").Effects()); n != 1 {
			t.Errorf("%d charges, want 1", n)
		}
	})
}

func TestStartBadKeys(t *testing.T) {
	x := newFixture(t)
	x.publish(echoDef)
	for _, key := range []string{" ", "two words", strings.Repeat("x", 256), "schlüssel"} {
		x.do("POST", "/v1/sagas", `{"definition": "echo"}`, header{"Idempotency-Key", key}, outside).problem(400, "invalid_request")
		x.do("POST", "/v1/validate", `{"definition": "saga: x"}`, header{"Idempotency-Key", key}, outside).problem(400, "invalid_request")
	}
	x.do("POST", "/v1/sagas", `{"definition": "echo"}`, header{"Idempotency-Key", strings.Repeat("x", 255)}).want(201)
}

func TestStartUnique(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		const body = `{"definition": "nap", "input": {"who": "ada"}}`
		id := x.do("POST", "/v1/sagas", body).want(201).saga().ID
		if p := x.do("POST", "/v1/sagas", body).problem(409, "unique_taken"); p.Saga != id {
			t.Errorf("problem names saga %q, want %q", p.Saga, id)
		}
		x.do("POST", "/v1/sagas", `{"definition": "nap", "input": {"who": "p-1"}}`).want(201)
		x.do("POST", "/v1/sagas/"+id+"/cancel", "").want(202)
		x.until(id, is(saga.Compensated))
		x.do("POST", "/v1/sagas", body).want(201)
		long := `{"definition": "nap", "input": {"who": "` + strings.Repeat("x", 2000) + `"}}`
		if p := x.do("POST", "/v1/sagas", long).problem(422, "invalid_start"); p.Errors[0].Code != "unique_too_long" {
			t.Errorf("%+v", p)
		}
		x.do("POST", "/v1/sagas", `{"definition": "nap", "input": {"who": "a\u0000b"}}`).want(201)
	})
}

func TestStartVersions(t *testing.T) {
	x := newFixture(t)
	x.publish("saga: v\nsteps:\n  - {id: a, set: one}\n")
	x.publish("saga: v\nsteps:\n  - {id: a, set: two}\n")
	for body, want := range map[string]string{
		`{"definition": "v"}`:                  `"two"`,
		`{"definition": "v", "version": null}`: `"two"`,
		`{"definition": "v", "version": "v1"}`: `"one"`,
		`{"definition": "v", "version": 1}`:    `"one"`,
		`{"definition": "v", "version": "2"}`:  `"two"`,
	} {
		if v := x.do("POST", "/v1/sagas", body, header{"Prefer", "respond-async, wait=20"}, outside).want(201).saga(); string(v.Output) != want {
			t.Errorf("%s gives %s, want %s", body, v.Output, want)
		}
	}
	x.do("DELETE", "/v1/definitions/v", "").want(204)
	x.do("POST", "/v1/sagas", `{"definition": "v"}`).problem(409, "archived")
	x.do("POST", "/v1/sagas", `{"definition": "v", "version": 1}`).problem(409, "archived")
	x.publish("saga: v\nsteps:\n  - {id: a, set: two}\n")
	x.do("POST", "/v1/sagas", `{"definition": "v"}`).want(201)
}

func TestStartBudget(t *testing.T) {
	x := newFixture(t)
	x.publish("saga: dear\nbudget: 9.00 USD\nsteps:\n  - id: rest\n    sleep: 2h\n")
	for body, want := range map[string]string{
		`"2.50 USD"`:                            "2.50",
		`{"amount": "2.50 USD"}`:                "2.50",
		`{"amount": "2.50"}`:                    "2.50",
		`{"amount": "3", "currency": "USD"}`:    "3",
		`{"amount": "3.00 USD", "tokens": 100}`: "3.00",
		`null`:                                  "9.00",
	} {
		v := x.do("POST", "/v1/sagas", `{"definition": "dear", "budget": `+body+`}`, outside).want(201).saga()
		if v.Cost.Budget != want || v.Cost.Currency != "USD" {
			t.Errorf("budget %s: %+v, want %s USD", body, v.Cost, want)
		}
	}
	x.do("POST", "/v1/sagas", `{"definition": "dear", "budget": "2.00 EUR"}`).problem(422, "invalid_start")
	x.do("POST", "/v1/sagas", `{"definition": "dear", "budget": {"amount": "2.00 USD", "currency": "EUR"}}`).problem(400, "invalid_request")
}

// engineStub fails starts with an error.
type engineStub struct {
	Engine
	err   error
	ready bool
}

func (e engineStub) Start(ctx context.Context, _ *saga.Definition, _ journal.Start, _ saga.StartedData, _ bool) (machine.Begun, error) {
	if e.err == nil {
		panic("the stub has no error")
	}
	return machine.Begun{}, e.err
}

func (e engineStub) Ready() bool { return e.ready }

func TestStartEngineErrors(t *testing.T) {
	tests := []struct {
		err    error
		status int
		code   code
		after  string
	}{
		{saga.ErrBusy, 429, "busy", "1"},
		{fmt.Errorf("wrapped: %w", saga.ErrUnavailable), 503, "unavailable", "1"},
		{context.DeadlineExceeded, 503, "unavailable", "1"},
		{journal.ErrStartKey, 503, "unavailable", "1"}, // the saga with the key was deleted
		{fmt.Errorf("disk on fire"), 500, "internal", ""},
		{nil, 500, "internal", ""}, // a panic
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.err), func(t *testing.T) {
			x := newFixture(t, func(c *Config) { c.Engine = engineStub{c.Engine, tt.err, true} })
			x.publish(echoDef)
			a := x.do("POST", "/v1/sagas", `{"definition": "echo"}`, header{"Idempotency-Key", "k"})
			a.problem(tt.status, tt.code)
			if got := a.Header.Get("Retry-After"); got != tt.after {
				t.Errorf("Retry-After %q, want %q", got, tt.after)
			}
			if strings.Contains(string(a.Body), "fire") || strings.Contains(string(a.Body), "stub") {
				t.Errorf("the server's own error is shown: %s", a.Body)
			}
		})
	}
}

// mute is a store whose journals become unreadable on demand, as in an overload.
type mute struct {
	journal.Store
	is *atomic.Bool
}

func (m mute) Records(ctx context.Context, id uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	if m.is.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return m.Store.Records(ctx, id, after, limit)
}

// hurried is an engine that starts sagas only for clients that wait at least a minimum time.
type hurried struct {
	Engine
	patience time.Duration
}

func (h hurried) Start(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData, follow bool) (machine.Begun, error) {
	if until, ok := ctx.Deadline(); ok && time.Until(until) < h.patience {
		return machine.Begun{}, context.DeadlineExceeded
	}
	return h.Engine.Start(ctx, def, start, data, follow)
}

// fenced is an engine whose node loses its lease while a start is being committed.
type fenced struct{ Engine }

func (f fenced) Start(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData, follow bool) (machine.Begun, error) {
	begun, err := f.Engine.Start(ctx, def, start, data, follow)
	if err != nil {
		return begun, err
	}
	begun.Stop()
	return begun, saga.ErrUnavailable
}

// A start that is durable although its node did not learn so is answered as a start: a client that
// sees only replays would look for the saga's creator in vain.
func TestStartWhoseResultIsLost(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.Engine = fenced{c.Engine} })
	x.publish(echoDef)
	for _, wait := range []string{"wait=0", "wait=1"} {
		start := func() *answer {
			return x.do("POST", "/v1/sagas", `{"definition": "echo"}`, header{"Idempotency-Key", wait}, header{"Prefer", wait})
		}
		first := start()
		id := first.want(201).saga().ID
		if got := first.Header.Get(replayHeader); got != "" {
			t.Errorf("%s: the start has %s: %s", wait, replayHeader, got)
		}
		if again := start(); again.want(200).saga().ID != id || again.Header.Get(replayHeader) != "true" {
			t.Errorf("%s: repeated, it was answered with another saga, or not as a replay: %s", wait, again.Body)
		}
	}
	x.do("POST", "/v1/sagas", `{"definition": "echo"}`).problem(503, "unavailable")
}

// The client of a durable start gets a 201, even if the store cannot be read after the wait or the
// server stops.
func TestDurableStartIsAnswered(t *testing.T) {
	for _, stops := range []bool{false, true} {
		var is atomic.Bool
		done := make(chan struct{})
		x := newFixture(t, func(c *Config) {
			c.Store, c.Done = mute{c.Store, &is}, done
			c.Limits.Started, c.Limits.Request = 10*time.Millisecond, time.Second
			c.Engine = hurried{c.Engine, 1500 * time.Millisecond}
		})
		x.publish(sleepDef)
		is.Store(true)
		if stops {
			close(done)
		}
		a := x.do("POST", "/v1/sagas", `{"definition": "nap", "labels": {"a": "b"}}`, header{"Prefer", "wait=1"}, header{"Idempotency-Key", "1"}).want(201)
		began := a.saga()
		if a.Header.Get("Location") != "/v1/sagas/"+began.ID || a.Header.Get("ETag") != `"1"` || began.Definition != "nap" || began.Labels["a"] != "b" || began.Status != saga.Running {
			t.Errorf("%v %s", a.Header, a.Body)
		}
		is.Store(false)
		if v := x.do("POST", "/v1/sagas", `{"definition": "nap", "labels": {"a": "b"}}`, header{"Prefer", "wait=1"}, header{"Idempotency-Key", "1"}).want(200).saga(); v.ID != began.ID {
			t.Errorf("the start was %s, its repetition %s", began.ID, v.ID)
		}
	}
}

func TestPreferWaitEndsInTime(t *testing.T) {
	x := newFixture(t)
	x.publish(sleepDef)
	began := time.Now()
	v := x.do("POST", "/v1/sagas", `{"definition": "nap"}`, header{"Prefer", "wait=1"}).want(201).saga()
	if v.Status != saga.Waiting || v.WakeAt == nil {
		t.Errorf("saga %+v", v)
	}
	if took := time.Since(began); took < time.Second || took > 20*time.Second {
		t.Errorf("answered after %v, asked for 1s", took)
	}
	a := x.do("GET", "/v1/sagas/"+v.ID, "", header{"Prefer", "wait=0"}).want(200)
	if got := a.Header.Get("Preference-Applied"); got != "wait=0" {
		t.Errorf("Preference-Applied %q", got)
	}
	if got := x.do("GET", "/v1/sagas/"+v.ID, "", header{"Prefer", "wait=soon"}).want(200).Header.Get("Preference-Applied"); got != "" {
		t.Errorf("a preference that cannot be read was applied: %q", got)
	}
}

// A start uses a definition that another node has just published, although this node has cached the
// version before.
func TestStartOfTheNewest(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		elsewhere := catalog.New(x.store, catalog.Options{Kinds: kinds.All()})
		publish := func(input string) {
			t.Helper()
			if _, _, _, err := elsewhere.Publish(t.Context(), "echo", []byte("saga: echo\ninput: "+input+"\nsteps:\n  - {id: say, set: '${input}'}\n"), ""); err != nil {
				t.Fatal(err)
			}
		}
		start := func(input string) *answer {
			return x.do("POST", "/v1/sagas", `{"definition": "echo", "input": `+input+`}`)
		}
		publish("{a: number}")
		for range 2 { // the second one uses the cache
			if v := start(`{"a": 1}`).want(201).saga(); v.Version != "v1" {
				t.Errorf("version %s", v.Version)
			}
		}
		publish("{a: number, b: number?}")
		if v := start(`{"a": 1}`).want(201).saga(); v.Version != "v2" {
			t.Errorf("version %s, and v2 is the newest", v.Version)
		}
		publish("{c: number}")
		if v := start(`{"c": 1}`).want(201).saga(); v.Version != "v3" { // wrong for v2
			t.Errorf("version %s, and v3 is the newest", v.Version)
		}
		publish("{d: number}")
		start(`{"c": 1}`).problem(422, "invalid_start") // right for v3
		if err := x.store.Archive(t.Context(), catalog.Kind, "echo"); err != nil {
			t.Fatal(err)
		}
		start(`{"d": 1}`).problem(409, "archived")
	})
}
