package ui

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/api"
	"recourse/examples/world"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

const flow = `saga: flow
input: {items: [integer], title: string?}
budget: 2.00 EUR
defaults: {retry: {attempts: 3, initial: 1ms, jitter: 0}}
steps:
  - id: first
    http: POST ${vars.things}
    body: {t: "${input.title}"}
    cost: 0.10 EUR
    in_doubt: retry
    compensate: {http: "DELETE ${vars.things}/${output.id}"}
  - id: both
    parallel:
      - {id: left, http: "POST ${vars.things}", in_doubt: retry, compensate: none}
      - {id: right, set: 2}
  - id: each
    foreach: ${input.items}
    steps:
      - {id: make, set: "${item}"}
  - id: last
    http: PUT ${vars.things}/x
    in_doubt: retry
    body: {t: "${input.title}"}
    compensate: none
output: {title: "${input.title}"}
`

// fault adds a fault to the world.
func (x *site) fault(r world.Rule) {
	x.t.Helper()
	if err := x.world.AddFault(r); err != nil {
		x.t.Fatal(err)
	}
}

func TestSagaSucceeded(t *testing.T) {
	x := newSite(t, func(_ *api.Config, c *Config) { c.TraceURL = "https://traces.example/{trace_id}" })
	x.publish(flow)
	x.fault(world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/things"}, Times: 1, Do: world.Do{After: world.FaultDrop}})
	id := x.start("flow", `{"items": [1, 2], "title": "t"}`)
	x.becomes(id, saga.Succeeded)
	a := x.page("/sagas/"+id).want(200).has("succeeded", "flow", `<svg class="timeline"`, "p-in_doubt", "[1] make", "first, attempt 2: succeeded", "0.10 EUR",
		`id="step-each[1].make"`, "in doubt: the connection failed", "flow v1 starts", "- id: both", "Delete…",
		`href="https://traces.example/`+strings.ReplaceAll(id, "-", "")+`"`).
		lacks("Run it again…", "Cancel…", "Being undone")
	if strings.Contains(a.body, "data-live") {
		t.Error("the page of a saga that has ended is live")
	}
	x.page("/sagas/" + id + "?step=make").want(200).has(`id="step-each[0].make"`).lacks(`id="step-first"`)
	x.page("/sagas/" + id + "?step=zzz").want(200).has("contains this text")
	x.page("/sagas/"+id+"/steps/each%5B1%5D.make").want(200).has("each[1].make", "succeeded")
	x.page("/sagas/" + id + "/steps/none").want(404)
	x.page("/sagas/" + id + "/steps/first/step.json").want(200).has(`"path":"first"`)
	x.page("/sagas/" + id + "/saga.json").want(200).has(`"id":"` + id + `"`)
	x.page("/sagas/" + uuid.Must(uuid.NewV7()).String()).want(404)
	x.page("/sagas/nonsense").want(404)
}

func TestSagaUndone(t *testing.T) {
	x := newSite(t)
	x.publish(flow)
	x.fault(world.Rule{Match: world.Match{Method: "PUT", PathPrefix: "/things"}, Do: world.Do{Before: world.FaultStatus, Status: 402, Body: `{"title":"no funds"}`}})
	id := x.start("flow", `{"items": [1], "title": "t"}`)
	x.becomes(id, saga.Failed) // left has no compensation
	x.page("/sagas/"+id).want(200).has(`<b>Failed</b> because <a href="#step-last"><code>last</code></a> failed:`, "Remaining effects", "is declared to need no compensation",
		"undone, the latest first", "↺ first", ">undo</text>", "Run it again…")

	to := "/sagas/" + id + "/command/retry"
	fields := x.page("/sagas/" + id).hidden(to)
	x.post(to, fields...).want(422).has("say why")
	x.world.ClearFaults()
	first := x.post(to, append(fields, "reason", "funds are there")...).want(303).header.Get("Location")
	x.page(first).want(200).has("This is the new saga").lacks("same reason")
	again := x.post(to, append(fields, "reason", "funds are there")...).want(303).header.Get("Location")
	if first != again {
		t.Errorf("pressed twice: %s, then %s", first, again)
	}
	x.page(again).want(200).has("same reason")
	next := strings.TrimPrefix(first, "/sagas/")
	x.becomes(next, saga.Succeeded)
	x.page("/sagas/"+next).has("Runs saga", id)

	to = "/sagas/" + id + "/command/delete"
	x.post(to, x.page("/sagas/"+id).hidden(to)...).want(303)
	x.page("/sagas/" + id).want(404)
}

const slow = `saga: slow
budget: 2.00 EUR
steps:
  - id: made
    http: POST ${vars.things}
    in_doubt: retry
    compensate: {http: "DELETE ${vars.things}/${output.id}"}
  - id: nap
    sleep: 1h
  - id: paid
    signal: com.shop.paid
`

// The page of a saga that succeeded with a step in doubt names the step and links to it; other
// pages have no such card.
func TestSagaNamesDoubts(t *testing.T) {
	x := newSite(t)
	x.publish("saga: remind\nsteps:\n  - {id: sms, http: \"POST ${vars.things}\", in_doubt: fail, compensate: none, on_error: continue, retry: none}\n  - {id: done, set: 1}\n")
	x.fault(world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/things"}, Times: 1, Do: world.Do{After: world.FaultStatus, Status: 502}})
	doubtful, sure := x.start("remind", `null`), ""
	x.becomes(doubtful, saga.Succeeded)
	sure = x.start("remind", `null`)
	x.becomes(sure, saga.Succeeded)
	x.page("/sagas/"+doubtful).want(200).has(`id="doubts"`, "Steps in doubt", `<code>sms</code></a> it may have happened, and the saga went on without it`)
	x.page("/sagas/"+sure).want(200).lacks(`id="doubts"`, "stays in doubt")
}

// The page offers a signal and a cancel to users from whom the API accepts them: the saga's
// starter, and roles that command every saga.
func TestCommandsAreOffered(t *testing.T) {
	x := newSite(t, keysRequired)
	x.key("boss", "admin")
	x.publish(slow)
	x.key("shop", "client")
	id := x.start("slow", `null`)
	x.becomes(id, saga.Waiting)
	send := func() *answer { return x.rest("POST", "/v1/sagas/"+id+"/signals/com.shop.paid", "1") }
	x.page("/sagas/"+id).has("Send a signal…", "Cancel…")
	send().want(202)
	for role, may := range map[string]bool{"viewer": false, "approver": false, "client": false, "operator": true, "admin": true} {
		x.key("another "+role, role)
		if may {
			x.page("/sagas/"+id).has("Send a signal…", "Cancel…")
			send().want(202)
		} else {
			x.page("/sagas/"+id).lacks("Send a signal…", "Cancel…")
			send().want(403)
			x.rest("POST", "/v1/sagas/"+id+"/cancel", "{}").want(403)
		}
	}
}

func TestSagaCommands(t *testing.T) {
	x := newSite(t)
	x.publish(slow)
	id := x.start("slow", `null`)
	x.becomes(id, saga.Waiting)
	at := "/sagas/" + id
	command := func(do string, pairs ...string) *answer {
		t.Helper()
		return x.post(at+"/command/"+do, append(x.page(at).hidden(at+"/command/"+do), pairs...)...)
	}
	x.page(at).has("Waits for the timer of", "1 step is undone, in this order", "<code>made</code>", "Raise the budget…", "Send a signal…").lacks("Resume…", "Delete…", "Undo it…")

	command("pause", "reason", "lunch").want(303)
	x.becomes(id, saga.PausedStatus)
	x.page(at).has("somebody to resume it", "Resume…", "lunch").lacks("Pause…")
	x.post(at+"/command/pause", "seen", "x").want(409).has("already paused")
	command("resume").want(303)
	x.becomes(id, saga.Waiting)

	command("budget", "amount", "much").want(422).has(`value="much"`, `id="do-budget" open`)
	command("budget", "amount", "0.00").want(303)
	old := x.page(at).hidden(at + "/command/budget")
	command("budget", "amount", "3.50").want(303)
	x.page(at).has("3.50 EUR")
	x.post(at+"/command/budget", append(old, "amount", "4.00")...).want(412).has("The saga has changed since you opened the page", "4.00", "3.50 EUR")

	command("signal", "name", "com.shop.paid", "payload", `{"a":`).want(422).has("This is not JSON")
	command("signal", "name", "com.shop.nothing").want(422).has("no step of slow waits for a signal")
	command("signal", "name", "com.shop.paid", "payload", `{"a": 1}`).want(303)
	x.page(at).has("signal com.shop.paid")

	x.post(at + "/command/levitate").want(404)
	// The page does not offer it in addition to cancel, but the route exists.
	x.post(at+"/command/compensate", "seen", "of another page", "reason", "r").want(412).has("The saga has changed since you opened the page")
	command("cancel", "mode", "odd").want(422)
	command("cancel", "mode", "compensate", "reason", "changed my mind").want(303)
	x.becomes(id, saga.Compensated)
	x.page(at).has("<b>Undone</b> because the saga was cancelled", "changed my mind")
	x.post(at+"/command/cancel", "seen", "").want(409).has("has ended as compensated")
}

// A cancel from a page with an outdated compensation plan does nothing: the user has to see the new
// plan first.
func TestCancelOfAnOldPage(t *testing.T) {
	x := newSite(t)
	x.publish("saga: two\nsteps:\n  - {id: ok, signal: com.shop.go}\n  - id: made\n    http: POST ${vars.things}\n    in_doubt: retry\n    compensate: {http: \"DELETE ${vars.things}/${output.id}\"}\n  - {id: nap, sleep: 1h}\n")
	id := x.start("two", `null`)
	x.becomes(id, saga.Waiting)
	at := "/sagas/" + id
	old := x.page(at).has("There is nothing to undo").hidden(at + "/command/cancel")
	x.rest("POST", "/v1/sagas/"+id+"/signals/com.shop.go", `{}`).want(202)
	x.until("made is done", func() bool {
		return strings.Contains(x.rest("GET", "/v1/sagas/"+id+"/steps/nap", "").body, `"waiting"`)
	})
	x.post(at+"/command/cancel", append(old, "mode", "compensate", "reason", "typed")...).want(412).has("The saga has changed since you opened the page", "typed", "1 step is undone")
	x.becomes(id, saga.Waiting)
	x.post(at+"/command/cancel", append(x.page(at).hidden(at+"/command/cancel"), "mode", "stop")...).want(303)
	x.becomes(id, saga.Failed)
}

// meddler is an engine that calls a function before it accepts a message.
type meddler struct {
	api.Engine
	before func(command string)
}

func (m *meddler) Send(ctx context.Context, message journal.Message) error {
	var c saga.Command
	if json.Unmarshal(message.Data, &c) == nil && c.Do.Verb() != "signal" {
		m.before(c.Do.Verb())
	}
	return m.Engine.Send(ctx, message)
}

// If the saga changes between the page and the command, the command applies only to the
// consequences that the user saw.
func TestCommandsApplyToTheStateShown(t *testing.T) {
	m := &meddler{}
	x := newSite(t, func(a *api.Config, _ *Config) { m.Engine, a.Engine = a.Engine, m })
	x.publish("saga: two\nbudget: 1.00 EUR\nsteps:\n  - {id: ok, signal: com.shop.go}\n  - id: made\n    http: POST ${vars.things}\n    in_doubt: retry\n    compensate: {http: \"DELETE ${vars.things}/${output.id}\"}\n" +
		"  - {id: nap, signal: com.shop.wake}\n")
	var id, at string
	begin := func() {
		id = x.start("two", `null`)
		at = "/sagas/" + id
		x.becomes(id, saga.Waiting)
	}
	form := func(do string) []string { return x.page(at).hidden(at + "/command/" + do) }
	tries := 0
	grow := func(signal string) { // adds a record that is irrelevant to the command, or relevant
		seq := x.saga(id).Seq
		x.rest("POST", "/v1/sagas/"+id+"/signals/"+signal, "1").want(202)
		x.until("it has grown", func() bool { return x.saga(id).Seq > seq })
	}
	meddle := func(times int, do func()) {
		tries = 0
		m.before = func(string) {
			if tries++; tries <= times {
				do()
			}
		}
	}

	begin()
	seen := form("cancel")
	meddle(2, func() { grow("com.shop.wake") })
	x.post(at+"/command/cancel", append(seen, "mode", "compensate")...).want(303)
	if tries != 3 {
		t.Errorf("it was ordered %d times", tries)
	}
	x.becomes(id, saga.Compensated)

	begin()
	seen = form("cancel")
	meddle(1, func() {
		grow("com.shop.go")
		x.until("made is done", func() bool {
			return strings.Contains(x.rest("GET", "/v1/sagas/"+id+"/steps/nap", "").body, `"waiting"`)
		})
	})
	x.post(at+"/command/cancel", append(seen, "mode", "compensate", "reason", "typed")...).want(412).has("The saga has changed since you opened the page", "typed", "1 step is undone")
	if v := x.saga(id); v.Status != saga.Waiting || tries != 1 {
		t.Errorf("it is %s after %d commands", v.Status, tries)
	}

	seen = form("budget")
	meddle(1, func() { x.rest("POST", "/v1/sagas/"+id+"/signals/com.shop.go", "1").want(202); grow("com.shop.go") })
	x.post(at+"/command/budget", append(seen, "amount", "2.00")...).want(303)
	if v := x.saga(id); v.Cost.Budget != "2.00" || tries != 2 {
		t.Errorf("the budget is %s after %d commands", v.Cost.Budget, tries)
	}

	seen = form("cancel")
	meddle(1000, func() { grow("com.shop.go") })
	x.post(at+"/command/cancel", append(seen, "mode", "compensate", "reason", "typed")...).want(409).has("The saga changes too fast for this command", "Pause it, then repeat", "typed")
	if v := x.saga(id); v.Status != saga.Waiting || tries != commandTries {
		t.Errorf("it is %s after %d commands", v.Status, tries)
	}
}

// A saga that has ended goes on from a step whose earlier results are there.
func TestSagaGoesOn(t *testing.T) {
	x := newSite(t)
	x.publish("saga: stops\non_failure: stop\nsteps:\n  - {id: made, http: \"POST ${vars.things}\", in_doubt: retry, compensate: none}\n  - {id: put, http: \"PUT ${vars.things}/a\", compensate: none}\n")
	x.fault(world.Rule{Match: world.Match{Method: "PUT"}, Times: 1, Do: world.Do{Before: world.FaultStatus, Status: 422}})
	id := x.start("stops", `null`)
	x.becomes(id, saga.Failed)
	to := "/sagas/" + id + "/command/retry"
	a := x.page("/sagas/"+id).has("Run it again…", `<select name="from">`, "<option>put</option>", "does not repeat them").lacks("<option>made</option>")
	next := strings.TrimPrefix(x.post(to, append(a.hidden(to), "from", "put", "reason", "fixed")...).want(303).header.Get("Location"), "/sagas/")
	next, _, _ = strings.Cut(next, "?")
	x.becomes(next, saga.Succeeded)
	x.page("/sagas/"+next).has("Runs saga "+id[:8], "again from step put", `href="/sagas/`+id+`/compare/`+next+`"`)
	x.page("/sagas/"+id+"/compare/"+next).want(200).has("1 same.", "1 other-outcome.", "<code>/error</code>", "<rect").lacks("<code>made</code>")
	x.page("/sagas/" + id + "/compare/" + next + "?all").want(200).has("<code>made</code>")
	x.post(to, append(a.hidden(to), "from", "put", "reason", "again")...).want(303)
}

// A saga that has succeeded is undone by another one, as long as its window lasts.
func TestSagaUndoneLater(t *testing.T) {
	x := newSite(t)
	x.publish("saga: kept\nsteps:\n  - {id: made, http: \"POST ${vars.things}\", in_doubt: retry, compensate: {http: \"DELETE ${vars.things}/${output.id}\", undo_within: 1h}}\n  - {id: told, http: \"POST ${vars.things}\", compensate: none}\n")
	id := x.start("kept", `null`)
	x.becomes(id, saga.Succeeded)
	at := "/sagas/" + id
	to := at + "/command/compensate"
	a := x.page(at).has("Undo…", "1 step is undone", "made: DELETE ", "told: it happened", "does not change")
	x.post(to, a.hidden(to)...).want(422)
	next := strings.TrimPrefix(x.post(to, append(a.hidden(to), "reason", "wrong person")...).want(303).header.Get("Location"), "/sagas/")
	next, _, _ = strings.Cut(next, "?")
	x.becomes(next, saga.Succeeded)
	x.page("/sagas/"+next).has("Undoes saga "+id[:8], `href="`+at+`"`).lacks("Undo…")
	if again := x.post(to, append(a.hidden(to), "reason", "once more")...).want(303).header.Get("Location"); !strings.Contains(again, next) {
		t.Errorf("the second undo is %s, not %s", again, next)
	}
}

// After the pivot the page offers undoing, but not cancelling.
func TestSagaPastPivot(t *testing.T) {
	x := newSite(t)
	x.publish("saga: pivoted\nsteps:\n  - id: made\n    http: POST ${vars.things}\n    in_doubt: retry\n    pivot: true\n    compensate: {http: \"DELETE ${vars.things}/${output.id}\"}\n  - {id: nap, sleep: 1h}\n")
	id := x.start("pivoted", `null`)
	x.becomes(id, saga.Waiting)
	at := "/sagas/" + id
	a := x.page(at).has("Undo it…", "passed its pivot").lacks("Cancel…")
	x.post(at+"/command/cancel", "mode", "compensate").want(409).has("point of no return")
	x.post(at+"/command/compensate", a.hidden(at+"/command/compensate")...).want(422)
	x.post(at+"/command/compensate", append(a.hidden(at+"/command/compensate"), "reason", "wrong person")...).want(303)
	x.becomes(id, saga.Compensated)
}

func TestSagaOfRoles(t *testing.T) {
	x := newSite(t, keysRequired)
	x.key("root", "admin")
	x.publish(slow)
	id := x.start("slow", `null`)
	x.becomes(id, saga.Waiting)
	for role, want := range map[string]string{"viewer": "", "client": "", "approver": "", "operator": "pause budget signal cancel"} {
		x.key("a "+role, role)
		a := x.page("/sagas/" + id).want(200)
		var got []string
		for _, do := range []string{"pause", "resume", "budget", "signal", "cancel", "compensate", "retry", "delete"} {
			if strings.Contains(a.body, `id="do-`+do+`"`) {
				got = append(got, do)
			} else if role != "operator" || do != "compensate" { // a cancel has the same effect here
				x.post("/sagas/"+id+"/command/"+do, "reason", "r", "amount", "3").refused()
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s is offered %v, want %s", role, got, want)
		}
	}
	x.becomes(id, saga.Waiting)
}

// refused fails unless the request was refused.
func (a *answer) refused() {
	a.t.Helper()
	if a.status < 400 || a.status >= 500 {
		a.t.Errorf("status %d: %s", a.status, a.body)
	}
}

// Texts of definitions, labels, inputs, errors and responses never become markup.
func TestSagaEscapes(t *testing.T) {
	const canary = `<script>alert(1)</script>`
	x := newSite(t)
	x.publish(strings.Replace(flow, "input:", "description: \""+canary+"\"\ninput:", 1))
	x.fault(world.Rule{Match: world.Match{Method: "PUT"}, Do: world.Do{Before: world.FaultStatus, Status: 402, Body: `{"title":"` + canary + `"}`}})
	body := fmt.Sprintf(`{"definition": "flow", "input": {"items": [1], "title": %q}, "labels": {"who": %q}}`, canary+`"'`, canary)
	var v machine.View
	if err := json.Unmarshal([]byte(x.rest("POST", "/v1/sagas", body).want(201).body), &v); err != nil {
		t.Fatal(err)
	}
	x.becomes(v.ID, saga.Failed)
	const safe = "&lt;script&gt;alert(1)&lt;/script&gt;"
	for _, page := range []string{"", "/journal", "/journal?q=" + url.QueryEscape(canary), "/steps/last", "/steps/first", "?step=" + url.QueryEscape(canary)} {
		x.page("/sagas/" + v.ID + page).want(200).has(safe).lacks(canary)
	}
}

// A running saga's page updates live.
func TestSagaLive(t *testing.T) {
	x := newSite(t)
	x.publish(slow)
	id := x.start("slow", `null`)
	x.becomes(id, saga.Waiting)
	resp, err := x.http.Do(x.request("GET", "/live?page=/sagas/"+id, nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Fatalf("status %d", resp.StatusCode)
	}
	lines := make(chan string, 10_000)
	go func() {
		defer close(lines)
		s := bufio.NewScanner(resp.Body)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			lines <- s.Text()
		}
	}()
	await := func(text string) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case l, ok := <-lines:
				if !ok && text != "" {
					t.Fatalf("the stream ended before %q", text)
				}
				if !ok || text != "" && strings.Contains(l, text) {
					return
				}
			case <-deadline:
				t.Fatalf("no %q on the stream", text)
			}
		}
	}
	await("s-waiting")
	began := time.Now()
	x.rest("POST", "/v1/sagas/"+id+"/pause", `{"reason": "for a look"}`).want(202)
	await("for a look")
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("it took %v to show", d)
	}
	x.rest("POST", "/v1/sagas/"+id+"/resume", `{}`).want(202)
	x.rest("POST", "/v1/sagas/"+id+"/cancel", `{}`).want(202)
	await("s-compensated")
	await("") // the saga has ended, so the stream ends
}

func TestJournal(t *testing.T) {
	x := newSite(t)
	x.publish(flow)
	items, err := json.Marshal(make([]int, 150))
	if err != nil {
		t.Fatal(err)
	}
	id := x.start("flow", `{"items": `+string(items)+`, "title": "needle"}`)
	x.becomes(id, saga.Succeeded)
	at := "/sagas/" + id + "/journal"
	last := x.saga(id).Seq
	x.page(at).want(200).has(`id="record-1"`, `id="record-200"`, "Next", at+".ndjson").lacks(`id="record-201"`, "First")
	x.page(at+"?after=200").want(200).has(`id="record-201"`, "First").lacks(`id="record-200"`)
	x.page(at + fmt.Sprintf("?after=%d", last)).want(200).has("There are no records here")
	x.page(at + "?after=x").want(400)
	x.page(at+"?q=NEEDLE").want(200).has(`id="record-1"`).lacks(`id="record-50"`, `rel="next"`)
	x.page(at + "?q=finished").want(200).has(fmt.Sprintf(`id="record-%d"`, last)).lacks(`id="record-1"`)
	x.page(at + "?q=each%5B7%5D.make").want(200).has("each[7].make").lacks("each[8].make")
	x.page(at + "?q=nosuchthing").want(200).has("No record has that in it")

	a := x.page(at + ".ndjson").want(200)
	if n := strings.Count(a.body, "\n"); int64(n) != last || a.header.Get("Content-Type") != "application/x-ndjson" ||
		a.header.Get("Content-Disposition") != `attachment; filename="`+id+`.ndjson"` {
		t.Errorf("%d lines of %d, %v", n, last, a.header)
	}
	var head []byte
	for line := range strings.Lines(a.body) {
		var r journal.Record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		sealed := r
		if journal.Seal(uuid.Must(uuid.FromString(id)), head, &sealed); string(sealed.Hash) != string(r.Hash) {
			t.Fatalf("record %d does not match its hash", r.Seq)
		}
		head = r.Hash
	}
	x.page("/live?page=" + at + ".ndjson").want(404)
	x.page("/sagas/" + uuid.Must(uuid.NewV7()).String() + "/journal.ndjson").want(404)
}

// A fork begins after a record, and waits for a person before it sends.
func TestSagaForks(t *testing.T) {
	x := newSite(t)
	x.publish("saga: pair\nsteps:\n  - {id: made, http: \"POST ${vars.things}\", in_doubt: retry, compensate: none}\n  - {id: put, http: \"PUT ${vars.things}/a\", compensate: none}\n")
	id := x.start("pair", `null`)
	x.becomes(id, saga.Succeeded)
	to := "/sagas/" + id + "/command/fork"
	a := x.page("/sagas/"+id).has("Fork it…", `<select name="effects">`, "neither repeats nor undoes them")
	x.post(to, append(a.hidden(to), "at", "x")...).has("The record is a number")
	next := strings.TrimPrefix(x.post(to, append(a.hidden(to), "at", "3", "effects", "hold", "reason", "what if")...).want(303).header.Get("Location"), "/sagas/")
	next, _, _ = strings.Cut(next, "?")
	x.becomes(next, saga.Waiting)
	x.page("/sagas/"+next).has("Fork of saga "+id[:8], ", after its record 3", "Step put: may its request be sent?")
}

// Forks, and sagas that undo others, cannot be run again, so the page does not offer it.
func TestNotRunAgain(t *testing.T) {
	x := newSite(t)
	x.publish("saga: made\nsteps:\n  - {id: make, http: \"POST ${vars.things}\", in_doubt: retry, retry: none, compensate: {http: \"DELETE ${vars.things}/${output.id}\", retry: none, undo_within: 1h}}\n")
	id := x.start("made", `null`)
	x.becomes(id, saga.Succeeded)
	next := func(do string, pairs ...string) string {
		t.Helper()
		to := "/sagas/" + id + "/command/" + do
		at := x.post(to, append(x.page("/sagas/"+id).hidden(to), pairs...)...).want(303).header.Get("Location")
		return strings.TrimPrefix(at, "/sagas/")
	}
	fork := next("fork", "at", "1", "effects", "hold")
	x.becomes(fork, saga.Waiting)
	x.rest("POST", "/v1/sagas/"+fork+"/cancel", `{}`).want(202)
	x.becomes(fork, saga.Compensated)
	x.fault(world.Rule{Match: world.Match{Method: "DELETE"}, Do: world.Do{Before: world.FaultStatus, Status: 402}})
	undo := next("compensate", "reason", "not wanted")
	x.becomes(undo, saga.Stuck)
	to := "/sagas/" + undo + "/steps/make/resolve"
	x.post(to, append(x.page("/sagas/"+undo).hidden(to), "outcome", "skip", "reason", "it may stay")...).want(303)
	x.becomes(undo, saga.Failed)
	for id, status := range map[string]int{fork: 409, undo: 422} {
		x.rest("POST", "/v1/sagas/"+id+"/retry", `{"reason": "again"}`).want(status)
		x.page("/sagas/" + id).want(200).has("Delete…").lacks("Run it again…")
	}
}

// Pressing the button of a signal twice sends one signal; the form of a page that was loaded again
// sends another one.
func TestSignalTwice(t *testing.T) {
	x := newSite(t)
	x.publish("saga: two\nsteps:\n  - {id: first, signal: word}\n  - {id: second, signal: word}\n  - {id: third, signal: word}\n")
	id := x.start("two", `{}`)
	x.becomes(id, saga.Waiting)
	at := "/sagas/" + id
	to := at + "/command/signal"
	form := append(x.page(at).hidden(to), "name", "word", "payload", "{}")
	for range 2 {
		x.post(to, form...).want(303)
	}
	sent := func() int {
		return strings.Count(x.rest("GET", "/v1/sagas/"+id+"/journal", "").want(200).body, `"kind":"signalled"`)
	}
	first := sent()
	x.page(at).want(200).has("was sent before, by the same form")
	x.post(to, append(x.page(at).hidden(to), "name", "word", "payload", "{}")...).want(303)
	if n := sent(); first != 1 || n != 2 {
		t.Errorf("%d signals, then %d", first, n)
	}
	x.post(to, append(form[:len(form)-1:len(form)-1], "[]")...).want(422).has("This form has already sent a signal", "[]")
}

// The page of a saga says that it has more inbox entries than it lists.
func TestSagaWithManyEntries(t *testing.T) {
	x := newSite(t)
	const many = 102
	x.publish(fmt.Sprintf("saga: pages\nsteps:\n  - id: each\n    foreach: [%s0]\n    as: n\n    max_parallel: %d\n    steps:\n      - {id: ok, approval: {title: \"Page ${n}?\"}}\n", strings.Repeat("1, ", many-1), many))
	id := x.start("pages", `{}`)
	x.until("all wait", func() bool { return len(x.saga(id).Open) == many })
	x.page("/sagas/"+id).want(200).has("2 more inbox entries", "/inbox?saga="+id)
}
