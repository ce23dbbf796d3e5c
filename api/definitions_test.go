package api

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/catalog"
	"recourse/saga"
	"recourse/saga/machine"
)

const first, second = "saga: doc\nsteps:\n  - {id: a, set: 1}\n", "saga: doc\nsteps:\n  - {id: a, set: 2}\n"

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestPutDefinition(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		a := x.do("PUT", "/v1/definitions/doc", first).want(201)
		var v documentView
		a.into(&v)
		if v.Name != "doc" || v.Version != "v1" || v.SHA256 != sha(first) || v.CreatedAt.IsZero() || v.Source != "" {
			t.Errorf("%s", a.Body)
		}
		if a.Header.Get("ETag") != strconv.Quote(sha(first)) || a.Header.Get("Location") != "/v1/definitions/doc/versions/v1" {
			t.Errorf("%v", a.Header)
		}
		x.do("PUT", "/v1/definitions/doc", first).want(200)
		x.do("PUT", "/v1/definitions/doc", second, header{"If-None-Match", "*"}).problem(412, "precondition_failed")
		x.do("PUT", "/v1/definitions/doc", second, header{"If-Match", strconv.Quote(sha(second))}).problem(412, "precondition_failed")
		x.do("PUT", "/v1/definitions/doc", second, header{"If-Match", a.Header.Get("ETag")}).want(201).into(&v)
		if v.Version != "v2" {
			t.Errorf("version %s", v.Version)
		}
		x.do("PUT", "/v1/definitions/doc", first, header{"If-Match", "*"}).want(201).into(&v)
		if v.Version != "v3" {
			t.Errorf("an older text again is %s, want v3", v.Version)
		}
		x.do("PUT", "/v1/definitions/other", strings.Replace(first, "doc", "other", 1), header{"If-Match", "*"}).problem(412, "precondition_failed")
		x.do("PUT", "/v1/definitions/other", strings.Replace(first, "doc", "other", 1), header{"If-None-Match", "*"}).want(201)
	})
}

func TestGetDefinition(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(first)
		x.publish(second)
		var v documentView
		a := x.do("GET", "/v1/definitions/doc", "").want(200)
		a.into(&v)
		if v.Version != "v2" || v.Source != second || a.Header.Get("ETag") != strconv.Quote(sha(second)) {
			t.Errorf("%s", a.Body)
		}
		for _, path := range []string{"v1", "1"} {
			x.do("GET", "/v1/definitions/doc/versions/"+path, "").want(200).into(&v)
			if v.Version != "v1" || v.Source != first {
				t.Errorf("%+v", v)
			}
		}
		if got := x.do("GET", "/v1/definitions/doc/versions/v1", "", header{"Accept", typeYAML}).want(200); string(got.Body) != first || got.Header.Get("Content-Type") != typeYAML {
			t.Errorf("%v %s", got.Header, got.Body)
		}
		x.do("GET", "/v1/definitions/doc", "", header{"Accept", "image/png"}).problem(406, "not_acceptable")
		x.do("GET", "/v1/definitions/doc", "", header{"If-None-Match", strconv.Quote(sha(second))}).want(304)
		x.do("GET", "/v1/definitions/doc", "", header{"If-None-Match", strconv.Quote(sha(first))}).want(200)
		for _, path := range []string{"/v1/definitions/none", "/v1/definitions/doc/versions/v3", "/v1/definitions/doc/versions/v0", "/v1/definitions/doc/versions/newest", "/v1/definitions/none/versions",
			"/v1/definitions/a%00b", "/v1/definitions/%ff", "/v1/definitions/a%00b/versions", "/v1/definitions/Doc/versions/v1"} {
			x.do("GET", path, "").problem(404, "definition_not_found")
		}
	})
}

func TestArchiveDefinition(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
		x.do("DELETE", "/v1/definitions/none", "").problem(404, "definition_not_found")
		x.do("DELETE", "/v1/definitions/nap", "").want(204)
		var p page[documentView]
		x.do("GET", "/v1/definitions", "").want(200).into(&p)
		if len(p.Data) != 0 {
			t.Errorf("an archived definition is listed: %+v", p)
		}
		var v documentView
		if x.do("GET", "/v1/definitions/nap", "").want(200).into(&v); !v.Archived {
			t.Error("it does not show as archived")
		}
		var again documentView
		for _, revived := range []bool{true, false} {
			x.do("PUT", "/v1/definitions/nap", sleepDef).want(200).into(&again)
			if again.Revived != revived || again.Archived {
				t.Errorf("published again: %+v, want revived %t", again, revived)
			}
			again = documentView{}
		}
		x.do("GET", "/v1/sagas/"+id, "").want(200)
		x.do("POST", "/v1/sagas/"+id+"/cancel", "").want(202)
		x.until(id, is(saga.Compensated))
	})
}

func TestListDefinitions(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		var names, versions []string
		for i := range 5 {
			x.publish(strings.Replace(first, "doc", fmt.Sprintf("d%d", i), 1))
			names = append(names, fmt.Sprintf("d%d", i))
			x.publish(strings.Replace(first, "set: 1", fmt.Sprintf("set: %d", i), 1))
			versions = append([]string{fmt.Sprintf("v%d", i+1)}, versions...)
		}
		names = append(names, "doc")
		var gotNames, gotVersions []string
		for _, d := range walk[documentView](x, "/v1/definitions", 2) {
			gotNames = append(gotNames, d.Name)
		}
		for _, d := range walk[documentView](x, "/v1/definitions/doc/versions", 2) {
			gotVersions = append(gotVersions, d.Version)
		}
		if d := cmp.Diff(names, gotNames); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff(versions, gotVersions); d != "" {
			t.Error(d)
		}
	})
}

// The API reports errors of the DSL with their places, and stores nothing.
func TestPutRefused(t *testing.T) {
	tests := []struct {
		name, body  string
		contentType string
		status      int
		code        code
		finding     string
	}{
		{"empty", "", typeYAML, 422, "invalid_definition", "empty"},
		{"other name", "saga: other\nsteps:\n  - {id: a, set: 1}\n", typeYAML, 422, "invalid_definition", "name_mismatch"},
		{"unknown key", first + "stpes: []\n", typeYAML, 422, "invalid_definition", "unknown_key"},
		{"duplicate key", first + "steps: []\n", typeYAML, 422, "invalid_definition", "duplicate"},
		{"alias", "saga: &a doc\ndescription: *a\nsteps:\n  - {id: a, set: 1}\n", typeYAML, 422, "invalid_definition", ""},
		{"tag", "saga: !!binary doc\nsteps:\n  - {id: a, set: 1}\n", typeYAML, 422, "invalid_definition", ""},
		{"octal", "saga: doc\nsteps:\n  - {id: a, set: 0777}\n", typeYAML, 422, "invalid_definition", "number_form"},
		{"nested", strings.Repeat("[", 100_000), typeYAML, 422, "invalid_definition", ""},
		{"too large", "saga: doc\n#" + strings.Repeat("x", 2<<20), typeYAML, 422, "invalid_definition", "too_large"},
		{"far too large", "saga: doc\n#" + strings.Repeat("x", 4<<20), typeYAML, 413, "body_too_large", ""},
		{"not utf-8", "saga: doc\n# \xff\n", typeYAML, 422, "invalid_definition", "not_utf8"},
		{"nul", "saga: doc\n# \x00\n", typeYAML, 422, "invalid_definition", ""},
		{"ref to a file", "saga: doc\ninput_schema: {$ref: 'file:///etc/passwd'}\nsteps:\n  - {id: a, set: 1}\n", typeYAML, 422, "invalid_definition", ""},
		{"unknown var", "saga: doc\nsteps:\n  - {id: a, set: '${vars.nope}'}\n", typeYAML, 422, "invalid_definition", "unknown"},
		{"JSON twice", `{"saga": "doc", "saga": "doc", "steps": [{"id": "a", "set": 1}]}`, "application/json", 400, "invalid_json", "duplicate_field"},
		{"form", "saga=doc", "application/x-www-form-urlencoded", 422, "invalid_definition", ""},
		{"multipart", "saga: doc", "multipart/form-data; boundary=x", 415, "unsupported_media_type", ""},
	}
	x := newFixture(t)
	before := x.dump()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := x.send(t, "PUT", "/v1/definitions/doc", tt.body, header{"Content-Type", tt.contentType}, outside).problem(tt.status, tt.code)
			found := tt.finding == ""
			for _, f := range p.Errors {
				found = found || strings.Contains(f.Code, tt.finding)
				if f.Line == 0 || f.Column == 0 || f.Detail == "" {
					t.Errorf("finding without its place: %+v", f)
				}
				if strings.Contains(f.Detail, "root:") {
					t.Errorf("a file was read: %+v", f)
				}
			}
			if !found {
				t.Errorf("no finding %s in %+v", tt.finding, p.Errors)
			}
		})
	}
	if d := cmp.Diff(before, x.dump()); d != "" {
		t.Error(d)
	}
	x.do("PUT", "/v1/definitions/doc", first, header{"If-None-Match", `"x"`}).problem(400, "invalid_request")
	x.do("PUT", "/v1/definitions/doc", first, header{"If-None-Match", `*`}, header{"If-Match", "*"}).problem(400, "invalid_request")
	x.do("PUT", "/v1/definitions/doc", first, header{"If-Match", `"a", "b"`}).problem(400, "invalid_request")
	x.do("PUT", "/v1/definitions/doc", `{"saga": "doc", "steps": [{"id": "a", "set": 1}]}`).want(201)
}

// A type error has the shape of any other error: place, code and suggestion, when publishing and
// when validating.
func TestTypeErrors(t *testing.T) {
	x := newFixture(t)
	x.do("PUT", "/v1/actions/refund", "action: refund\ninput: {amount: decimal}\nhttp: POST http://air.example/refunds\nbody: ${input}\ncompensate: none\n").want(201)
	x.do("PUT", "/v1/definitions/kid", "saga: kid\ninput: {n: integer}\nsteps:\n  - {id: a, set: 1}\n").want(201)
	src := `saga: doc
input: {n: integer, s: string?}
steps:
  - {id: a, set: "${input.n + input.s}"}
  - {id: b, use: refund, with: {amount: "${input.s ?? ''}"}}
  - {id: c, run: kid, input: {n: "${input.s}"}}
triggers:
  - {event: com.shop.paid, input: {n: "${event.id}"}}
`
	want := []saga.Finding{
		{Pointer: "/steps/0/set", Line: 4, Column: 31, Code: "wrong_type", Detail: "+ takes two numbers or two strings, and input.s may be null: write (input.s ?? ''), or compare it with null before"},
		{Pointer: "/steps/1/with/amount", Line: 5, Column: 44, Code: "bad_input", Detail: "the input of action refund, /amount: a number is needed, not string: write number(x)"},
		{Pointer: "/steps/2/input/n", Line: 6, Column: 37, Code: "bad_input", Detail: "the input of definition kid, /n: an integer is needed, not string or null: write number(input.s)"},
		{Pointer: "/triggers/0/input/n", Line: 8, Column: 42, Code: "bad_input", Detail: "the saga's input, /n: an integer is needed, not string: write number(event.id)"},
	}
	p := x.do("PUT", "/v1/definitions/doc", src).problem(422, "invalid_definition")
	if d := cmp.Diff(want, p.Errors); d != "" {
		t.Errorf("PUT (-want +got):\n%s", d)
	}
	var v validation
	x.do("POST", "/v1/validate", src).want(200).into(&v)
	if d := cmp.Diff(validation{Errors: want, Warnings: []saga.Finding{}}, v); d != "" {
		t.Errorf("validate (-want +got):\n%s", d)
	}
	x.do("GET", "/v1/definitions/doc", "").problem(404, "definition_not_found")
}

func TestStrict(t *testing.T) {
	warned := "saga: loose\nsteps:\n  - {id: a, http: POST https://pay.example/charges}\n"
	x := newFixture(t)
	var v documentView
	if x.do("PUT", "/v1/definitions/loose", warned).want(201).into(&v); len(v.Warnings) == 0 {
		t.Error("no warnings")
	}
	strict := catalog.New(x.store, catalog.Options{Kinds: x.cfg.Catalog.Kinds(), Strict: true})
	y := newFixture(t, func(c *Config) { c.Catalog = strict })
	y.do("PUT", "/v1/definitions/loose", warned).problem(422, "invalid_definition")
}

func TestValidate(t *testing.T) {
	x := newFixture(t)
	quoted := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	for _, tt := range []struct {
		name, contentType, body string
		ok                      bool
		warnings                int
		code                    string
	}{
		{"yaml", typeYAML, first, true, 0, ""},
		{"text", "text/plain", first, true, 0, ""},
		{"text in json", "application/json", `{"definition": ` + quoted(first) + `}`, true, 0, ""},
		{"object in json", "application/json", `{"definition": {"saga": "doc", "steps": [{"id": "a", "set": 1}]}}`, true, 0, ""},
		{"json", "application/json", `{"saga": "doc", "steps": [{"id": "a", "set": 1}]}`, true, 0, ""},
		{"warned", typeYAML, "saga: doc\nsteps:\n  - {id: a, http: POST https://pay.example/charges}\n", true, 1, ""},
		{"wrong", typeYAML, "saga: doc\nsteps:\n  - {id: a, sett: 1}\n", false, 0, "kind"},
		{"empty", typeYAML, "", false, 0, "empty"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var v validation
			x.send(t, "POST", "/v1/validate", tt.body, header{"Content-Type", tt.contentType}, outside).want(200).into(&v)
			if v.OK != tt.ok || len(v.Warnings) != tt.warnings || (len(v.Errors) == 0) != tt.ok {
				t.Errorf("%+v", v)
			}
			if !tt.ok && !strings.Contains(v.Errors[0].Code, tt.code) {
				t.Errorf("errors %+v, want %s", v.Errors, tt.code)
			}
		})
	}
	x.do("POST", "/v1/validate", `{`, outside).problem(400, "invalid_json")
	if len(x.dump()) != 0 {
		t.Error("validating changed something")
	}
}

func TestPlan(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(askDef)
		before := x.dump()
		var p machine.Plan
		x.do("POST", "/v1/plan", `{"definition": "careful", "input": {"amount": 19.10}, "stubs": {"label": {"id": "lb_1"}, "charge": {"id": "ch_7"}}}`).want(200).into(&p)
		var got []string
		for _, s := range p.Steps {
			line := s.Path
			if s.Request != nil {
				line += " " + s.Request.Method + " " + strings.TrimPrefix(s.Request.URL, x.world.URL) + " " + string(s.Request.Body)
			}
			if s.Undo != nil && s.Undo.Request != nil {
				line += " ← " + strings.TrimPrefix(s.Undo.Request.URL, x.world.URL)
			}
			got = append(got, line+s.Note)
		}
		want := []string{
			"label POST /shipping/labels  ← /shipping/labels/lb_1/void",
			`charge POST /pay/charges {"amount":19.10} ← /pay/charges/ch_7/refund`,
			`ship POST /ship/orders {"charge":"ch_7"}`,
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		if d := cmp.Diff([]string{"charge", "label"}, p.Undo); d != "" || p.WorstCase != "0.08" || p.Currency != "USD" || p.Budget != "5.00" {
			t.Errorf("%s %+v", d, p)
		}
		// Without stubs the plan has placeholders; inline text needs no published definition.
		inline, _ := json.Marshal(strings.Replace(askDef, "careful", "inline", 1))
		x.do("POST", "/v1/plan", `{"definition": `+string(inline)+`, "input": {"amount": 1}}`).want(200).into(&p)
		if r := p.Steps[2].Request; r == nil || string(r.Body) != `{"charge":"‹charge.id›"}` {
			t.Errorf("%+v", p.Steps[2])
		}
		x.do("POST", "/v1/plan", `{"definition": "careful"}`).want(200).into(&p)
		if r := p.Steps[1].Request; r == nil || string(r.Body) != `{"amount":"‹input.amount›"}` {
			t.Errorf("%+v", p.Steps[1])
		}
		x.do("POST", "/v1/plan", `{"definition": {"saga": "obj", "steps": [{"id": "a", "set": "${input}"}]}, "input": 19.10}`).want(200).into(&p)
		if len(p.Steps) != 1 || string(p.Steps[0].Output) != "19.10" {
			t.Errorf("%+v", p)
		}
		x.do("POST", "/v1/plan", `{"definition": {"saga": "tool", "steps": [{"id": "a", "mcp": {"server": "shop", "tool": "book", "arguments": {"n": 1}}, "compensate": "none"}]}}`).want(200).into(&p)
		if r := p.Steps[0].Request; r == nil || r.Tool == nil || r.Tool.Tool != "book" || r.Tool.Meta[saga.KeyMeta] == "" {
			t.Errorf("%+v", p.Steps[0])
		}
		x.do("POST", "/v1/plan", `{"definition": "careful", "input": {"amount": "much"}}`).problem(422, "invalid_plan")
		x.do("POST", "/v1/plan", `{"definition": "careful", "input": {"amount": 1}, "stubs": {"chrage": 1}}`).problem(422, "invalid_plan")
		x.do("POST", "/v1/plan", `{"definition": "saga: x\nstep: []", "input": {}}`).problem(422, "invalid_definition")
		x.do("POST", "/v1/plan", `{"definition": "unknown"}`).problem(404, "definition_not_found")
		x.do("POST", "/v1/plan", `{}`, outside).problem(400, "invalid_request")
		if d := cmp.Diff(before, x.dump()); d != "" || len(x.world.Ledger()) != 0 {
			t.Errorf("planning did something: %s", d)
		}
	})
}

// The request of a `run` step says which part of the budget its child gets.
func TestChildBudgetIsInTheContract(t *testing.T) {
	x := newFixture(t)
	x.publish("saga: small\nsteps: [{id: a, set: 1}]\n")
	x.publish("saga: large\nbudget: 2 USD\nsteps: [{id: a, run: small}]\n")
	v := x.do("POST", "/v1/sagas", `{"definition": "large"}`, header{"Prefer", "wait=20"}).want(201).saga()
	got := x.do("GET", "/v1/sagas/"+v.ID+"/steps/a", "").want(200)
	if want := `"budget":{"amount":"2","currency":"USD"}`; !strings.Contains(string(got.Body), want) {
		t.Errorf("no %s in %s", want, got.Body)
	}
}
