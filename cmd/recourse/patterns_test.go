package main

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"recourse/examples/llmstub"
	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/remote"
	"recourse/internal/test/buffer"
	"recourse/saga"
	"recourse/saga/machine"
)

// plays run the definitions of docs/patterns.md, with success and with failures.
var plays = map[string]func(*play){
	"order":            playOrder,
	"pay-once":         playPayOnce,
	"payout":           nil, // TestPatternsPayout: it needs API keys
	"refund-all":       playRefundAll,
	"agent-loop":       playAgentLoop,
	"checkout":         playCheckout,
	"book-flight":      playTrip,
	"trip":             playTrip,
	"on-paid":          playOnPaid,
	"nightly":          playNightly,
	"report":           playReport,
	"invoice":          playInvoice,
	"charge-and-ship":  playChargeAndShip,
	"charge-then-ship": playChargeThenShip,
	"transfer":         playTransfer,
	"draft-and-send":   playDraftAndSend,
	"brief":            nil, // internal/test/examples plays examples/cooldown.yaml
}

// Every example of the page is tested.
func TestPatternsPage(t *testing.T) {
	t.Parallel()
	defs := patternDefinitions(t)
	for name := range plays {
		if defs[name] == "" {
			t.Errorf("the page no longer has saga %s", name)
		}
	}
	for name := range defs {
		tried, known := plays[name]
		if !known {
			t.Errorf("nothing tries the saga %s of the page", name)
		}
		if tried != nil {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				p := newPlay(t, nil)
				p.apply(p.s.env, defs)
				tried(p)
			})
		}
	}
}

// The loop of the page is the example's, which runs with the stub of a model.
func TestAgentLoopExample(t *testing.T) {
	t.Parallel()
	const path = "../../examples/agent-loop.yaml"
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, def, _ := strings.Cut(string(src), "\nsaga:"); patternDefinitions(t)["agent-loop"] != "saga:"+def {
		t.Error("docs/patterns.md has another loop than examples/agent-loop.yaml")
	}
	w, _ := worldFor(t)
	stub, err := llmstub.New(llmstub.Config{}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer stub.Close()
	out := ok(t, []string{config.VarPrefix + "world=" + w.URL, "OPENAI_BASE_URL=" + stub.URL + "/v1"}, "run", path, "--actions", "../../examples/agent", "-i", `{"goal":"return order 4711","amount":19.10}`)
	if !strings.Contains(out, "work[0].look") || len(stub.Bills()) != 1 {
		t.Errorf("%s\n%+v", out, stub.Bills())
	}
}

// patternDefinitions returns the definitions of the page, by name.
func patternDefinitions(t *testing.T) map[string]string {
	t.Helper()
	defs := make(map[string]string)
	for _, b := range regexp.MustCompile("(?s)```yaml\n(saga: ([a-z0-9-]+)\n.*?)```").FindAllStringSubmatch(docPage(t, "patterns.md"), -1) {
		if defs[b[2]] != "" {
			t.Errorf("the page has two sagas %s", b[2])
		}
		defs[b[2]] = b[1]
	}
	return defs
}

// play is a world, a model and a server.
type play struct {
	*testing.T
	w     *world.Server
	s     *serving
	db    string
	stub  *llmstub.Server
	model atomic.Pointer[func(call int) string] // the model's response; nil: the stub's
}

func newPlay(t *testing.T, before func(db string)) *play {
	p := &play{T: t, db: filepath.Join(t.TempDir(), "a.db")}
	if before != nil {
		before(p.db)
	}
	p.w, _ = worldFor(t)
	stub, err := llmstub.New(llmstub.Config{}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stub.Close() })
	p.stub = stub
	var calls atomic.Int64
	models := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		says := p.model.Load()
		if says == nil {
			stub.ServeHTTP(rw, r)
			return
		}
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(map[string]any{"model": "scripted", "choices": []any{map[string]any{"index": 0, "finish_reason": "stop",
			"message": map[string]any{"role": "assistant", "content": (*says)(int(calls.Add(1)) - 1)}}},
			"usage": map[string]any{"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}})
	}))
	t.Cleanup(models.Close)
	p.s = serve(t, []string{config.VarPrefix + "world=" + p.w.URL, "OPENAI_BASE_URL=" + models.URL + "/v1"}, "--database", p.db)
	return p
}

func (p *play) apply(env []string, defs map[string]string) {
	p.Helper()
	dir := p.TempDir()
	for name, src := range defs {
		if err := os.WriteFile(filepath.Join(dir, name+".yaml"), []byte(src), 0o600); err != nil {
			p.Fatal(err)
		}
	}
	for name, src := range patternActions(p.T) {
		if err := os.WriteFile(filepath.Join(dir, "action-"+name+".yaml"), []byte(src), 0o600); err != nil {
			p.Fatal(err)
		}
	}
	ok(p.T, env, "definitions", "apply", dir)
}

// patternActions returns the actions of the page, by name: those of the example of its loop.
func patternActions(t *testing.T) map[string]string {
	t.Helper()
	actions := make(map[string]string)
	for _, b := range regexp.MustCompile("(?s)```yaml\n(action: ([a-z0-9-]+)\n.*?)```").FindAllStringSubmatch(docPage(t, "patterns.md"), -1) {
		actions[b[2]] = b[1]
		if src, err := os.ReadFile("../../examples/agent/" + b[2] + ".yaml"); err != nil || string(src) != b[1] {
			t.Errorf("docs/patterns.md has another action %s than examples/agent, %v", b[2], err)
		}
	}
	return actions
}

func (p *play) start(name, input string) string {
	p.Helper()
	return strings.Fields(ok(p.T, p.s.env, "start", name, "-i", input))[0]
}

// to starts a saga and waits until it has a status.
func (p *play) to(name, input string, want saga.Status) machine.View {
	p.Helper()
	return waitFor(p.T, p.s, p.start(name, input), want)
}

// newest returns the newest saga of a definition.
func (p *play) newest(definition string) (v machine.View) {
	p.Helper()
	var list []machine.View
	if err := json.Unmarshal([]byte(ok(p.T, p.s.env, "list", "--definition", definition, "--limit", "1", "-o", "json")), &list); err != nil || len(list) != 1 {
		p.Fatalf("%v, %d sagas", err, len(list))
	}
	if err := json.Unmarshal([]byte(ok(p.T, p.s.env, "show", list[0].ID, "-o", "json")), &v); err != nil {
		p.Fatal(err)
	}
	return v
}

// fault injects a fault into requests to paths with a prefix.
func (p *play) fault(method, path string, times int, do world.Do) {
	p.Helper()
	p.w.ClearFaults()
	if err := p.w.AddFault(world.Rule{Match: world.Match{Method: method, PathPrefix: path}, Times: times, Do: do}); err != nil {
		p.Fatal(err)
	}
}

var (
	refused = world.Do{Before: world.FaultStatus, Status: 422}
	lost    = world.Do{After: world.FaultDrop}
	never   = world.Do{Before: world.FaultDrop}
)

// stands fails the test unless this many effects remain.
func (p *play) stands(want int) {
	p.Helper()
	if live := p.w.Ledger().Live(); len(live) != want {
		p.Errorf("%d effects stand, not %d: %+v", len(live), want, live)
	}
}

// field returns a field of a saga's output.
func (p *play) field(v machine.View, name string) string {
	p.Helper()
	var out map[string]json.RawMessage
	if err := json.Unmarshal(v.Output, &out); err != nil {
		p.Fatalf("%v: %s", err, v.Output)
	}
	return string(out[name])
}

// python runs a program of the page: the block that contains this text.
func (p *play) python(text string, env ...string) (firstLine func() string) {
	p.Helper()
	for _, b := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllStringSubmatch(docPage(p.T, "patterns.md"), -1) {
		if !strings.Contains(b[1], text) {
			continue
		}
		c := exec.Command("python3", file(p.T, "example.py", b[1]))
		c.Env = append(append(os.Environ(), p.s.env...), env...)
		var log buffer.Buffer
		c.Stderr = &log
		out, err := c.StdoutPipe()
		if err != nil {
			p.Fatal(err)
		}
		if err := c.Start(); err != nil {
			p.Fatalf("the page's programs need python3: %v", err)
		}
		p.Cleanup(func() {
			_ = c.Process.Kill()
			_ = c.Wait()
			p.Logf("%s", &log)
		})
		return func() string {
			line, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				p.Fatalf("%v: %s", err, &log)
			}
			return strings.TrimSpace(line)
		}
	}
	p.Fatalf("no python with %q", text)
	return nil
}

func (p *play) post(url string, header map[string]string, body string) (int, string) {
	p.Helper()
	req, err := http.NewRequestWithContext(p.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		p.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.Fatal(err)
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, string(answer)
}

func playOrder(p *play) {
	const input = `{"order":"4711","amount":19.10,"email":"ada@shop.example"}`
	p.fault("POST", "/pay/refunds", 1, refused)
	p.to("order", input, saga.Compensated)
	p.stands(0)
	p.fault("POST", "/pay/refunds", 1, lost)
	p.to("order", input, saga.Succeeded)
	p.stands(5)
	p.fault("PUT", "/things", 1, refused)
	v := p.to("order", `{"order":"4712","amount":19.10,"email":"ada@shop.example"}`, saga.Stuck)
	if r := run(p.T, p.s.env, "cancel", v.ID); r.code != cli.Conflict {
		p.Errorf("cancelled past the pivot: exit %d: %s", r.code, r.errOut)
	}
	ok(p.T, p.s.env, "retry", v.ID, "--reason", "fixed")
	waitFor(p.T, p.s, v.ID, saga.Succeeded)
	p.stands(10)
}

func playPayOnce(p *play) {
	const input = `{"order":"4711","amount":19.10}`
	p.fault("POST", "/pay/charges", 1, lost)
	p.to("pay-once", input, saga.Succeeded)
	p.stands(2)
	p.fault("POST", "/pay/charges", 1, never)
	p.to("pay-once", input, saga.Succeeded)
	p.stands(4)
	p.fault("POST", "/ship", 1, refused)
	p.to("pay-once", input, saga.Compensated)
	p.stands(4)
}

func TestPatternsPayout(t *testing.T) {
	t.Parallel()
	keys := make(map[string]string)
	p := newPlay(t, func(db string) {
		for name, role := range map[string]string{"ops": "admin", "shop": "operator", "finance": "approver", "ada": "approver"} {
			keys[name] = "RECOURSE_API_KEY=" + strings.TrimSpace(ok(t, nil, "keys", "create", "--database", db, "--role", role, "--name", name))
		}
	})
	as := func(name string) []string { return append([]string{keys[name]}, p.s.env...) }
	p.apply(as("ops"), map[string]string{"payout": patternDefinitions(t)["payout"]})
	begin := func() string {
		t.Helper()
		id := strings.Fields(ok(t, as("shop"), "start", "payout", "-i", `{"account":"acc 1","amount":19.10}`))[0]
		cl, err := remote.ServerFlags{Server: p.s.url, APIKey: strings.TrimPrefix(keys["ops"], "RECOURSE_API_KEY=")}.Client(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		waitWith(t, cl, id, saga.Waiting)
		return id
	}
	id := begin()
	for _, name := range []string{"shop", "ada"} {
		if r := run(t, as(name), "approve", id, "ok", "--data", `{"reference":"r"}`, "--yes"); r.code != cli.Forbidden {
			t.Errorf("%s approves: exit %d: %s", name, r.code, r.errOut)
		}
	}
	ok(t, as("finance"), "reject", id, "ok")
	if out := ok(t, as("ops"), "journal", id, "--follow"); !strings.Contains(out, "■ compensated") {
		t.Errorf("rejected: %s", out)
	}
	p.stands(0)
	id = begin()
	ok(t, as("finance"), "approve", id, "ok", "--data", `{"reference":"r"}`, "--yes")
	if out := ok(t, as("ops"), "journal", id, "--follow"); !strings.Contains(out, "■ succeeded") || !strings.Contains(out, `"by":"finance"`) {
		t.Errorf("approved: %s", out)
	}
	p.stands(2)
}

func playRefundAll(p *play) {
	p.fault("POST", "/pay/refunds", 1, lost)
	v := p.to("refund-all", `{"refunds":[{"order":"a","amount":1},{"order":"b","amount":-1},{"order":"c","amount":2.50}]}`, saga.Succeeded)
	if paid := p.field(v, "paid"); strings.Count(paid, "order") != 2 || strings.Contains(paid, `"b"`) {
		p.Errorf("paid %s", paid)
	}
	if tickets := p.field(v, "tickets"); strings.Count(tickets, "th_") != 1 || !strings.Contains(tickets, `"order":"b"`) {
		p.Errorf("tickets %s", tickets)
	}
	p.stands(3)
	p.to("refund-all", `{"refunds":[{"order":"a","amount":1},{"order":"b","amount":-1},{"order":"c","amount":-1}]}`, saga.Compensated)
	p.stands(3)
	if v := p.to("refund-all", `{"refunds":[]}`, saga.Succeeded); p.field(v, "tickets") != "[]" {
		p.Errorf("output %s", v.Output)
	}
}

func playAgentLoop(p *play) {
	const input = `{"goal":"return order 4711","amount":19.10}`
	says := func(f func(call int) string) { p.model.Store(&f) }
	script := []string{
		`{"action":"look","order":"4711","text":"","last":false}`,
		`{"action":"note","order":"4711","text":"may be returned","last":false}`,
		`{"action":"refund","order":"4711","text":"it may be returned","last":true}`,
	}
	says(func(call int) string { return script[call] })
	id := p.start("agent-loop", input)
	waitFor(p.T, p.s, id, saga.Waiting)
	ok(p.T, p.s.env, "approve", id, "work[2].ok", "--yes")
	v := waitFor(p.T, p.s, id, saga.Succeeded)
	if p.field(v, "rounds") != "3" || p.field(v, "done") != "true" || !strings.Contains(p.field(v, "last"), `"amount":19.10`) {
		p.Errorf("output %s", v.Output)
	}
	p.stands(2)

	says(func(int) string { return `{"action":"refund","order":"4711","text":"","last":true}` })
	id = p.start("agent-loop", input)
	waitFor(p.T, p.s, id, saga.Waiting)
	ok(p.T, p.s.env, "reject", id, "work[0].ok")
	if v := waitFor(p.T, p.s, id, saga.Succeeded); !strings.Contains(p.field(v, "last"), `"decision":"rejected"`) {
		p.Errorf("rejected: %s", v.Output)
	}
	p.stands(2)

	says(func(int) string { return `{"action":"note","order":"","text":"on and on","last":false}` })
	if v := p.to("agent-loop", input, saga.Succeeded); p.field(v, "rounds") != "8" || p.field(v, "done") != "false" {
		p.Errorf("a model without an end: %s", v.Output)
	}
	p.stands(10)

	var n atomic.Int64
	says(func(int) string {
		if n.Add(1) == 1 {
			return `{"action":"note","order":"","text":"once","last":false}`
		}
		return `{"action":"format_disk"}`
	})
	if v := p.to("agent-loop", input, saga.Compensated); v.Reason == nil || v.Reason.Error != "schema_mismatch" {
		p.Errorf("an action that there is not: %+v", v.Reason)
	}
	p.stands(10)
}

func playCheckout(p *play) {
	port := strings.Fields(p.python("X-Signature", "PORT=0", "WEBHOOK_SECRET=s3cret")())
	url := "http://127.0.0.1:" + port[len(port)-1]
	id := p.start("checkout", `{"amount":19.10}`)
	body := `{"id":"evt_1","reference":"` + id + `","payment":"pay_7"}`
	mac := hmac.New(sha256.New, []byte("s3cret"))
	mac.Write([]byte(body))
	if status, _ := p.post(url, map[string]string{"X-Signature": "forged"}, body); status != http.StatusUnauthorized {
		p.Errorf("a forged webhook: %d", status)
	}
	for range 2 {
		if status, answer := p.post(url, map[string]string{"X-Signature": hex.EncodeToString(mac.Sum(nil))}, body); status != http.StatusNoContent {
			p.Errorf("a webhook: %d %s", status, answer)
		}
	}
	if v := waitFor(p.T, p.s, id, saga.Succeeded); p.field(v, "payment") != `"pay_7"` {
		p.Errorf("output %s", v.Output)
	}
	if out := ok(p.T, p.s.env, "journal", id); strings.Count(out, "signal payment.settled →") != 1 {
		p.Errorf("one webhook, sent twice:\n%s", out)
	}
	p.stands(2)
}

func playTrip(p *play) {
	v := p.to("trip", `{"to":"LIS","nights":2}`, saga.Succeeded)
	if !strings.Contains(string(v.Output), "bk_") || !strings.Contains(string(v.Output), "rs_") {
		p.Errorf("output %s", v.Output)
	}
	p.stands(2)
	p.fault("POST", "/hotels", 1, refused)
	p.to("trip", `{"to":"LIS","nights":2}`, saga.Compensated)
	p.stands(2)
	if child := p.newest("book-flight"); child.Parent != p.newest("trip").ID {
		p.Errorf("the flight's parent is %q", child.Parent)
	}
	p.fault("POST", "/air", 1, refused)
	p.to("trip", `{"to":"LIS","nights":2}`, saga.Compensated)
	p.stands(2)
}

func playOnPaid(p *play) {
	event := func(id, data string) string {
		p.Helper()
		status, answer := p.post(p.s.url+"/v1/events", map[string]string{"Content-Type": "application/cloudevents+json"},
			`{"specversion":"1.0","id":"`+id+`","source":"/shop","type":"com.shop.order.paid","data":`+data+`}`)
		if status != http.StatusAccepted {
			p.Fatalf("%d %s", status, answer)
		}
		return answer
	}
	first := event("1", `{"order":"4711","total":19.10}`)
	saw := regexp.MustCompile(`"saga":"([^"]+)"`).FindStringSubmatch(first)
	if saw == nil || event("1", `{"order":"4711","total":19.10}`) != first {
		p.Fatalf("the event, twice: %s", first)
	}
	waitFor(p.T, p.s, saw[1], saga.Succeeded)
	if answer := event("2", `{"order":"4712","total":0}`); strings.Contains(answer, "saga") {
		p.Errorf("an event that is not meant: %s", answer)
	}
	if answer := event("3", `{"order":4713,"total":1}`); !strings.Contains(answer, "refused") {
		p.Errorf("an order that is no text: %s", answer)
	}
	p.stands(1)
}

// Package trigger tests that triggers fire; this tests the sagas that they start.
func playNightly(p *play) {
	p.to("nightly", `{"until":"2026-11-22T03:30:00.000Z"}`, saga.Succeeded)
	if made := p.w.Ledger().Requests(); len(made) != 1 || made[0].Path != "/things/report-2026-11-22" {
		p.Errorf("%+v", made)
	}
}

func playReport(p *play) {
	p.python("report.render")
	v := p.to("report", `{"customer":"ada"}`, saga.Succeeded)
	if !strings.HasSuffix(p.field(v, "file"), `.pdf"`) {
		p.Errorf("output %s", v.Output)
	}
	p.stands(1)
	p.fault("POST", "/things", 1, refused)
	v = p.to("report", `{"customer":"ada"}`, saga.Compensated)
	if out := ok(p.T, p.s.env, "journal", v.ID); !strings.Contains(out, "report.delete") {
		p.Errorf("nothing deleted the report:\n%s", out)
	}
	p.stands(1)
}

func playInvoice(p *play) {
	p.fault("POST", "/pay/charges", 1, lost)
	v := p.to("invoice", `{"amount":19.10}`, saga.Succeeded)
	if n := p.field(v, "number"); !regexp.MustCompile(`^"INV-20\d\d-[0-9a-f-]{36}"$`).MatchString(n) {
		p.Errorf("number %s", n)
	}
	bodies := make(map[string]bool)
	for _, r := range p.w.Ledger().Requests() {
		bodies[r.BodySHA256] = true
	}
	if len(bodies) != 1 {
		p.Errorf("%d bodies for one invoice", len(bodies))
	}
	p.stands(1)
}

func playChargeAndShip(p *play) {
	p.to("charge-and-ship", `{"amount":19.10}`, saga.Succeeded)
	p.stands(2)
	p.fault("POST", "/ship", 1, refused)
	p.to("charge-and-ship", `{"amount":19.10}`, saga.Compensated)
	p.stands(2)
}

func playChargeThenShip(p *play) {
	p.to("charge-then-ship", `{"amount":19.10,"address":"Harbour Road"}`, saga.Succeeded)
	p.stands(2)
	p.fault("POST", "/pay/charges", 1, lost)
	p.to("charge-then-ship", `{"amount":19.10,"address":""}`, saga.Compensated)
	p.stands(2)
}

func playTransfer(p *play) {
	p.to("transfer", `{"amount":30}`, saga.Succeeded)
	p.stands(2)
	p.fault("POST", "/pay/refunds", 1, refused)
	p.to("transfer", `{"amount":30}`, saga.Compensated)
	p.stands(2)
}

func playDraftAndSend(p *play) {
	id := p.start("draft-and-send", `{"question":"How are you?"}`)
	waitFor(p.T, p.s, id, saga.Waiting)
	ok(p.T, p.s.env, "approve", id, "review", "--yes")
	waitFor(p.T, p.s, id, saga.Succeeded)
	p.stands(1)
	id = p.start("draft-and-send", `{"question":"And now?"}`)
	waitFor(p.T, p.s, id, saga.Waiting)
	ok(p.T, p.s.env, "reject", id, "review")
	waitFor(p.T, p.s, id, saga.Compensated)
	p.stands(1)
}
