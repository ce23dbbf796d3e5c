package ui

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"recourse/examples/world"
	"recourse/journal"
	"recourse/saga"
)

const odd = `saga: odd
description: <script>alert("canary")</script>
steps:
  - id: write
    http: POST ${vars.things}
    body: {text: "<img src=x onerror=alert(1)>"}
    compensate: {http: "DELETE ${vars.things}/${output.id}"}
  - id: ok
    approval: {title: "<b>sure?</b>"}
triggers:
  - cron: "0 6 * * *"
`

func TestDefinitions(t *testing.T) {
	x := newSite(t)
	x.page("/definitions").want(200).has("No definitions are published")
	x.page("/definitions?tab=actions").want(200).has("No actions are published")
	x.publish(odd)
	x.publish(quick)
	x.publish(strings.Replace(quick, "a: 1", "a: 2", 1))
	if a := x.rest("PUT", "/v1/actions/nod", "saga:"); a.status < 400 {
		t.Fatalf("nonsense was published: %s", a.body)
	}
	id := x.start("odd", `{}`)
	x.until("it waits for a person", func() bool { return len(x.saga(id).Open) > 0 })
	x.page("/definitions").want(200).has(`href="/definitions/odd"`, "1 warning", `href="/?definition=odd">1</a>`, `href="/definitions/quick"`, "v2", "Publish…")
	a := x.page("/definitions/odd").want(200).has("blind-retry", `href="#L5"`, `<li id="L5"`, "0 6 * * *", "1 live saga", "DELETE ${vars.things}", "waits for a person to decide", "Start a saga…", "New version…", "Archive…",
		"4 times, from 1 s up to 1 min apart", "&lt;script&gt;")
	a.lacks("<script>alert", "<b>sure", "<img src=x")
	x.page("/definitions/quick?version=v1").want(200).has("not the newest", "set: {a: 1}", `href="?version=v2"`).lacks("a: 2")
	x.page("/definitions/quick").want(200).has(`/definitions/quick/diff?from=v1&amp;to=v2`)
	x.page("/definitions/quick/diff?from=v1&to=v2").want(200).has(`class="went"`, "set: {a: 1}", `class="come"`, "set: {a: 2}")
	x.page("/definitions/quick/diff?from=v1&to=v1").want(200).has("The versions are equal")
	x.page("/definitions/quick/diff").want(400).has("name two of them")
	x.page("/definitions/quick?version=v9").want(404)
	x.page("/definitions/nothing").want(404)

	x.post("/definitions/odd/archive", "sure", "od").want(422).has("nothing was archived")
	if to := x.post("/definitions/odd/archive", "sure", "odd").want(303).header.Get("Location"); to != "/definitions/odd" {
		t.Errorf("sent to %s", to)
	}
	x.page("/definitions").want(200).has("Archived: it starts no new sagas.", "Archived, with live sagas", `href="/definitions/odd"`)
	x.page("/definitions/odd").want(200).has(`<span class="tag">archived</span>`).lacks("Archive…")
}

// The page offers only what a role may do, and the server refuses everything else.
func TestDefinitionsByRole(t *testing.T) {
	for role, may := range map[string][]string{"viewer": nil, "approver": nil, "client": {"start"}, "operator": {"start"}, "admin": {"start", "publish"}} {
		t.Run(role, func(t *testing.T) {
			x := newSite(t, keysRequired)
			x.key("boss", "admin")
			x.publish(quick)
			x.key("the desk", role)
			can := strings.Join(may, " ")
			a, list := x.page("/definitions/quick").want(200), x.page("/definitions").want(200)
			start := x.post("/definitions/quick/start", "version", "v1", "do", "start", "key", "k1")
			publish := x.post("/publish", "name", "quick", "etag", "*", "source", strings.Replace(quick, "a: 1", "a: 2", 1), "do", "publish")
			archive := x.post("/definitions/quick/archive", "sure", "quick")
			if strings.Contains(can, "start") {
				a.has("Start a saga…")
				start.want(303)
			} else {
				a.lacks("Start a saga…")
				start.want(403)
				x.page("/definitions/quick/start").want(403)
			}
			if strings.Contains(can, "publish") {
				a.has("New version…", "Archive…")
				list.has("Publish…")
				publish.want(303)
				archive.want(303)
			} else {
				a.lacks("New version…", "Archive…")
				list.lacks("Publish…")
				publish.want(403)
				archive.want(403)
				x.page("/publish").want(403)
				x.page("/definitions/quick").want(200).lacks("v2", "archived")
			}
		})
	}
}

const payout = `saga: payout
input_schema:
  type: object
  additionalProperties: false
  required: [order, amount, "a/b"]
  properties:
    order: {type: string, pattern: "^o-[0-9]+$", description: The order's number}
    amount: {type: number, minimum: 0.01}
    count: {type: integer, default: 3}
    way: {enum: [card, 7, null]}
    fast: {type: boolean}
    day: {type: string, format: date}
    a/b: {type: string}
    who: {type: object, required: [name], properties: {name: {type: string}, age: {type: integer}, deep: {type: object, properties: {x: {type: string}}}}}
    tags: {type: array, items: {type: string}}
steps:
  - id: write
    http: POST ${vars.things}
    body: {amount: "${input.amount}"}
    cost: 0.25 EUR
    in_doubt: ask
    compensate: {http: "DELETE ${vars.things}/${output.id}"}
  - id: ok
    approval: {title: "Pay ${input.amount}?"}
output: ${input}
`

// The saga gets the values as typed, and one form starts one saga.
func TestStartForm(t *testing.T) {
	x := newSite(t)
	x.publish(payout)
	a := x.page("/definitions/payout/start").want(200).has("The order&#39;s number", "like ^o-[0-9]&#43;$", "at least 0.01", "default 3", `<option value="7">7</option>`, `type="date"`, "<legend>who", "required with the others")
	if order, amount := strings.Index(a.body, `name="/input/order"`), strings.Index(a.body, `name="/input/amount"`); order < 0 || order > amount {
		t.Error("the fields are not in the order of the text")
	}
	form := append(a.hidden("/definitions/payout/start"), "/input/order", "o-7", "/input/amount", " 12345678901234567890.10 ", "/input/way", "7", "/input/fast", "true", "/input/day", "2026-02-01", "/input/a~1b", `say "<b>"`,
		"/input/who/name", "Ada", "/input/who/age", "36", "/input/who/deep", `{"x": "y"}`, "/input/tags", `["a", 1e400]`, "labels", "order=7\n\nteam = desk\n", "budget", "2.00 EUR", "do", "start")
	// An array of texts that holds a number is refused, with the message at its field.
	x.post("/definitions/payout/start", form...).want(422).has(`id="wrong-/input/tags"`, "/1: got number, want string", "12345678901234567890.10", `say &#34;&lt;b&gt;&#34;`, "team = desk")
	for i := range form {
		if form[i] == `["a", 1e400]` {
			form[i] = `["a", "b"]`
		}
	}
	first := x.post("/definitions/payout/start", form...).want(303).header.Get("Location")
	x.page(first).want(200).has(`role="status">Started.`)
	again := x.post("/definitions/payout/start", form...).want(303).header.Get("Location")
	if first != again || !strings.HasPrefix(first, "/sagas/") {
		t.Errorf("sent to %s, then to %s", first, again)
	}
	x.page(again).want(200).has("was started before")
	v := x.saga(strings.TrimPrefix(first, "/sagas/"))
	const want = `{"order":"o-7","amount":12345678901234567890.10,"way":7,"fast":true,"day":"2026-02-01","a/b":"say \"<b>\"","who":{"name":"Ada","age":36,"deep":{"x":"y"}},"tags":["a","b"],"count":3}`
	if !sameJSON(t, want, string(v.Input)) || !strings.Contains(string(v.Input), `:12345678901234567890.10`) {
		t.Errorf("input %s, want %s", v.Input, want)
	}
	if v.Labels["order"] != "7" || v.Labels["team"] != "desk" || v.Cost.Budget != "2.00" {
		t.Errorf("labels %v, budget %s", v.Labels, v.Cost.Budget)
	}
	// Another input with the form's key starts nothing until it is sent again.
	for i := range form {
		if form[i] == "o-7" {
			form[i] = "o-8"
		}
	}
	a = x.post("/definitions/payout/start", form...).want(422).has("has already started a saga")
	if a.hidden("/definitions/payout/start")[3] == form[3] {
		t.Error("the form keeps a key that is used up")
	}
}

func TestStartFormRefuses(t *testing.T) {
	x := newSite(t)
	x.publish(payout)
	form := x.page("/definitions/payout/start").want(200).hidden("/definitions/payout/start")
	for _, tt := range []struct {
		name  string
		typed []string
		want  []string
	}{
		{"a number that is none", []string{"/input/order", "o-1", "/input/a~1b", "x", "/input/amount", "1,5"}, []string{`id="wrong-/input/amount"`, `value="1,5"`, "want number"}},
		{"a pattern", []string{"/input/order", "<i>", "/input/a~1b", "x", "/input/amount", "1"}, []string{`id="wrong-/input/order"`, "&lt;i&gt;"}},
		{"no JSON", []string{"/input/order", "o-1", "/input/a~1b", "x", "/input/amount", "1", "/input/tags", "a, b"}, []string{`id="wrong-/input/tags"`, "this is not JSON"}},
		{"in a group", []string{"/input/order", "o-1", "/input/a~1b", "x", "/input/amount", "1", "/input/who/age", "x"}, []string{`id="wrong-/input/who/age"`}},
		{"a budget", []string{"/input/order", "o-1", "/input/a~1b", "x", "/input/amount", "1", "budget", "much"}, []string{`role="alert"`, `value="much"`}},
		{"a label", []string{"/input/order", "o-1", "/input/a~1b", "x", "/input/amount", "1", "labels", "Nope"}, []string{"/labels/Nope"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, do := range []string{"plan", "start"} {
				a := x.post("/definitions/payout/start", slices.Concat(tt.typed, form, []string{"do", do})...)
				if a.status != 422 && a.status != 400 {
					t.Errorf("%s: status %d", do, a.status)
				}
				a.has(tt.want...).lacks("<i>")
			}
		})
	}
	// A missing value refuses a start; a plan has a placeholder for it.
	typed := append(slices.Clip(form), "/input/amount", "5", "/input/who/age", "7")
	x.post("/definitions/payout/start", append(typed, "do", "start")...).want(422).has(`id="wrong-/input/order"`, `id="wrong-/input/a~1b"`, `id="wrong-/input/who/name"`, "is missing")
	x.post("/definitions/payout/start", append(typed, "do", "plan")...).want(200).has("Nothing was sent")
	x.page("/").want(200).has("There are no sagas yet")
}

// A plan shows the requests, and sends nothing.
func TestPlan(t *testing.T) {
	x := newSite(t)
	x.publish(payout)
	form := x.page("/definitions/payout/start").want(200).hidden("/definitions/payout/start")
	a := x.post("/definitions/payout/start", append(form, "/input/order", "o-1", "/input/amount", "19.10", "/input/a~1b", "x", "do", "plan")...).want(200)
	a.has("Nothing was sent", "POST "+x.world.URL+"/things", "19.10", "1.00 EUR", "0.25 × 4", "wait for a person: ok", "If it fails, these steps are undone", "/things/‹write.id›", `value="19.10"`)
	x.post("/definitions/payout/start", append(form, "/input/order", "o-1", "/input/amount", "19.10", "/input/a~1b", "x", "stubs", `{"write": {"id": "th_7"}}`, "do", "plan")...).want(200).
		has("DELETE " + x.world.URL + "/things/th_7").lacks("‹write.id›")
	x.post("/definitions/payout/start", append(form, "stubs", `{"write"`, "do", "plan")...).want(422).has(`id="wrong-stubs"`)
	x.post("/definitions/payout/start", append(form, "/input/order", "o-1", "/input/amount", "1", "/input/a~1b", "x", "stubs", `{"nothing": 1}`, "do", "plan")...).want(422).has("no step &#34;nothing&#34;")
	if key := a.hidden("/definitions/payout/start")[3]; key != form[3] {
		t.Error("the plan uses up the form's key")
	}
	x.page("/").want(200).has("There are no sagas yet")
	if n := len(x.world.Ledger()); n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

// A definition without a schema accepts any JSON.
func TestStartAny(t *testing.T) {
	x := newSite(t)
	x.publish("saga: any\nsteps:\n  - id: note\n    set: ${input}\n")
	form := x.page("/definitions/any/start").want(200).has(`<textarea name="/input"`).hidden("/definitions/any/start")
	x.post("/definitions/any/start", append(form, "/input", "{", "do", "start")...).want(422).has("this is not JSON")
	to := x.post("/definitions/any/start", append(form, "/input", `[1.50, "<x>"]`, "do", "start")...).want(303).header.Get("Location")
	id := strings.TrimPrefix(strings.SplitN(to, "?", 2)[0], "/sagas/")
	x.becomes(id, saga.Succeeded)
	if got := string(x.saga(id).Output); got != `[1.50,"<x>"]` {
		t.Errorf("output %s", got)
	}
}

func TestPublish(t *testing.T) {
	x := newSite(t)
	x.page("/publish").want(200).has("saga: my-saga")
	const wrong = "saga: fresh\nsteps:\n  - id: note\n    sett: {a: 1}\n"
	for _, do := range []string{"check", "publish"} {
		x.post("/publish", "source", wrong, "do", do).want(422).has("error", `href="#L4"`, `<li id="L4" class="wrong">`, "sett: {a: 1}")
	}
	x.page("/definitions/fresh").want(404)
	x.post("/publish", "source", "steps: []\n", "do", "publish").want(422)
	x.post("/publish", "source", odd, "do", "check").want(200).has("No errors", "1 warning", `class="odd"`).lacks("<script>alert")
	x.page("/definitions/odd").want(404)

	corrected := strings.Replace(wrong, "sett", "set", 1)
	if to := x.post("/publish", "source", strings.ReplaceAll(corrected, "\n", "\r\n"), "do", "publish").want(303).header.Get("Location"); to != "/definitions/fresh" {
		t.Errorf("sent to %s", to)
	}
	x.page("/definitions/fresh").want(200).has(`role="status">Published as v1`)
	if got := x.rest("GET", "/v1/definitions/fresh", "").want(200).body; !strings.Contains(got, `set: {a: 1}\n"`) || strings.Contains(got, `\r`) {
		t.Errorf("published %s", got)
	}
	// Publishing does not overwrite an existing name, or a version that someone else has published
	// in the meantime.
	x.post("/publish", "source", strings.Replace(corrected, "a: 1", "a: 2", 1), "do", "publish").want(412).has("There is a fresh already", `class="come"`)
	form := x.page("/publish?definition=fresh").want(200).hidden("/publish")
	x.publish(strings.Replace(corrected, "a: 1", "a: 9", 1))
	next := strings.Replace(corrected, "a: 1", "a: 3", 1)
	form = x.post("/publish", append(form, "source", next, "do", "publish")...).want(412).has("v2 was published in the meantime", "a: 9", "a: 3").hidden("/publish")
	x.post("/publish", append(form, "source", next, "do", "check")...).want(200).has("Changes since v2")
	x.post("/publish", append(form, "source", next, "do", "publish")...).want(303)
	x.page("/definitions/fresh").want(200).has("a: 3", "v3")
	x.post("/publish", append(form[:1:1], "fresh", "etag", "*", "source", next, "do", "publish")...).want(303)

	const action = "action: nod\nhttp: GET ${vars.things}\n"
	if to := x.post("/publish", "source", action, "do", "publish").want(303).header.Get("Location"); to != "/actions/nod" {
		t.Errorf("sent to %s", to)
	}
	x.page("/definitions?tab=actions").want(200).has(`href="/actions/nod"`)
	x.page("/actions/nod").want(200).has("action: nod", "Archive…")
	x.post("/actions/nod/archive", "sure", "nod").want(303)
	x.page("/definitions?tab=actions").want(200).lacks(`href="/actions/nod"`)
	archived := x.page("/publish?action=nod").want(200).hidden("/publish")
	x.post("/publish", append(archived, "source", action, "do", "publish")...).want(303)
	x.page("/actions/nod").want(200).has("v1 is the same. The action is no longer archived")
	x.rest("DELETE", "/v1/definitions/fresh", "").want(204)
	form = x.page("/publish?definition=fresh").want(200).hidden("/publish")
	x.post("/publish", append(form, "source", next, "do", "publish")...).want(303)
	x.page("/definitions/fresh").want(200).has("v3 is the same. The definition is no longer archived: it takes new sagas again")
}

// No typed or published text becomes markup on any page.
func TestDefinitionsEscape(t *testing.T) {
	x := newSite(t)
	const canary = `"><script>alert(1)</script><img src=x onerror=alert(1)>`
	x.publish("saga: canary\ndescription: '" + canary + "'\ninput_schema: {type: object, properties: {n: {type: string, title: '" + canary + "', description: '" + canary + "', default: '" + canary + "', enum: ['" + canary + "']}}}\n" +
		"steps:\n  - id: a\n    when: '\"\\\"><script>alert(1)</script>\" != \"\"'\n    approval: {title: '" + canary + "'}\n")
	id := x.start("canary", `{}`)
	x.until("it waits", func() bool { return len(x.saga(id).Open) > 0 })
	raw := regexp.MustCompile(`<script>alert|<img src=x`)
	for _, at := range []string{"/definitions", "/definitions/canary", "/definitions/canary/start", "/publish?definition=canary", "/inbox", "/inbox?definition=" + url.QueryEscape(canary), "/definitions/canary/diff?from=v1&to=v1"} {
		if m := raw.FindString(x.page(at).want(200).body); m != "" {
			t.Errorf("%s has %s", at, m)
		}
	}
	for _, a := range []*answer{
		x.post("/publish", "source", "saga: x\n"+canary, "do", "check"),
		x.post("/definitions/canary/start", "version", "v1", "/input/n", canary, "labels", canary, "budget", canary, "key", canary, "do", "plan"),
	} {
		if m := raw.FindString(a.body); m != "" {
			t.Errorf("a form has %s", m)
		}
	}
}

// A definition that only another release can compile can be read, but not started.
func TestUnusableDefinition(t *testing.T) {
	x := newSite(t)
	source := []byte("saga: later\nsteps:\n  - id: a\n    beam: up\n")
	sum := sha256.Sum256(source)
	if _, _, err := x.store.Publish(t.Context(), journal.Document{Kind: journal.Definition, Name: "later", SHA256: hex.EncodeToString(sum[:]), Source: source}, ""); err != nil {
		t.Fatal(err)
	}
	x.page("/definitions").want(200).has("this server cannot run it")
	x.page("/definitions/later").want(200).has("This server cannot run it", "beam: up").lacks("Start a saga…")
	x.page("/definitions/later/start").want(503).has("start the saga on a server")
}

// TestDiffShowsItsGaps: a row that stands for unchanged lines is visible. Its class was once that
// of the skip link, which is off the screen until it has the focus.
func TestDiffShowsItsGaps(t *testing.T) {
	x := newSite(t)
	long := "saga: long\nsteps:\n"
	for i := range 20 {
		long += fmt.Sprintf("  - {id: s%d, set: %d}\n", i, i)
	}
	x.publish(long)
	x.publish(long + "  - {id: last, set: 1}\n")
	a := x.page("/definitions/long/diff?from=v1&to=v2").want(200).has("lines are the same")
	css := x.page("/static/page.css").want(200).body
	rows := regexp.MustCompile(`<tr class="([a-z]+)">`).FindAllStringSubmatch(a.body, -1)
	if len(rows) == 0 {
		t.Fatal("the diff has no rows")
	}
	for _, row := range rows {
		if off := regexp.MustCompile(`(?m)^(tr)?\.` + row[1] + ` *\{[^}]*(-999px|display: none)`).FindString(css); off != "" {
			t.Errorf("rows of the class %s are off the screen: %s", row[1], off)
		}
	}
}

// A changed text is tried on the sagas that have ended before it is published.
func TestPublishReplays(t *testing.T) {
	x := newSite(t)
	x.publish(quick)
	replay := func(source string) *answer {
		return x.post("/publish", "name", "quick", "etag", "*", "newest", "v1", "source", source, "do", "replay").want(200)
	}
	replay(quick).has("No saga of this definition has ended.")
	for range 2 {
		x.becomes(x.start("quick", `{}`), saga.Succeeded)
	}
	replay(quick).has("Replay of 2 sagas", "2 same.").lacks("Sagas that differ")
	replay(strings.Replace(quick, "a: 1", "a: 2", 1)).has("2 other-end.", "Sagas that differ", "the saga ends otherwise: /output", `href="/sagas/`)
	x.page("/definitions/quick").want(200).lacks("v2")
	x.page("/publish").want(200).lacks(`value="replay"`)
}

// Live sessions and runs of an action are no definitions that were archived: no page of them
// exists.
func TestGoneDefinitions(t *testing.T) {
	x := newSite(t)
	x.session("")
	x.publish("saga: waits\nsteps: [{id: word, signal: word}]\n")
	x.rest("PUT", "/v1/actions/never", "action: never\nhttp: GET ${vars.things}\nretry: {initial: 1h}\n").want(201)
	x.fault(world.Rule{Match: world.Match{Method: "GET"}, Do: world.Do{Before: world.FaultStatus, Status: 503}})
	x.rest("POST", "/v1/actions/never/run", `{}`).want(201)
	x.page("/definitions").want(200).lacks("Archived, with live sagas", saga.SessionPrefix)
	x.start("waits", `{}`)
	x.post("/definitions/waits/archive", "sure", "waits").want(303)
	x.page("/definitions").want(200).has("Archived, with live sagas", `href="/definitions/waits"`).lacks(saga.SessionPrefix)
}

// The last page of the definitions lists the archived ones with live sagas, and none that another
// page has.
func TestGoneDefinitionsOfALongList(t *testing.T) {
	x := newSite(t)
	for i := range 52 {
		name := fmt.Sprintf("d%02d", i)
		x.publish("saga: " + name + "\nsteps: [{id: word, signal: word}]\n")
		if i == 0 || i == 1 || i == 51 {
			x.start(name, `{}`)
		}
	}
	next := regexp.MustCompile(`<a href="([^"]+)" rel="next">`)
	last := func() *answer {
		t.Helper()
		x.page("/definitions").want(200).lacks("Archived, with live sagas")
		m := next.FindStringSubmatch(x.page("/definitions").body)
		if m == nil {
			t.Fatal("there is one page")
		}
		return x.page(strings.ReplaceAll(m[1], "&amp;", "&")).want(200).has(`id="document-d51"`)
	}
	last().lacks("Archived, with live sagas")
	x.post("/definitions/d01/archive", "sure", "d01").want(303)
	last().has("Archived, with live sagas", `href="/definitions/d01"`).lacks(`href="/definitions/d00"`)
}

// A new document is published under its own name, not under what a key within it says.
func TestPublishNames(t *testing.T) {
	x := newSite(t)
	for source, to := range map[string]string{
		"steps:\n  - id: note\n    set:\n      action: greet\n      saga: other\nsaga: nested\n":         "/definitions/nested",
		"{\n  \"steps\": [{\"id\": \"a\", \"set\": 1}],\n  \"saga\": \"json\"\n}":                        "/definitions/json",
		"input:\n  saga: string\nhttp: GET ${vars.things}\n# what it is called\n'action': \"read-it\"\n": "/actions/read-it",
	} {
		if got := x.post("/publish", "source", source, "do", "publish").want(303).header.Get("Location"); got != to {
			t.Errorf("sent to %s, want %s", got, to)
		}
	}
	x.post("/publish", "source", "steps: [{id: a, set: {saga: x}}]\n", "do", "publish").want(422)
}
