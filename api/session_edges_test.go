package api

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/journal"
	"recourse/saga/machine"
)

// TestSessionRepeatedRequest: a request whose response the agent did not get is the same call when
// it is repeated, also if the call has failed meanwhile.
func TestSessionRepeatedRequest(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	fails := `{"action": "mail", "input": {"order": "A", "text": "x"}, "wait": "0ms"}`
	if err := x.world.AddFault(world.Rule{Match: world.Match{PathPrefix: "/mail/send"}, Do: world.Do{DelayMS: 100, Before: world.FaultStatus, Status: 422}}); err != nil {
		t.Fatal(err)
	}
	a.do("POST", "/calls", fails).want(202)
	var v machine.CallView
	a.do("GET", "/calls/mail%5B0%5D?wait=10s", "").want(200).into(&v)
	if v.Status != machine.CallFailed {
		t.Fatalf("the call: %+v", v)
	}
	// The 202 above did not say how the call ended, so this is not another call.
	a.do("POST", "/calls", fails).want(200).into(&v)
	if v.Path != "mail[0]" || !v.Replayed {
		t.Errorf("the repeated request: %+v", v)
	}
	// Now the agent knows that the call has failed, and makes it again.
	a.do("POST", "/calls", strings.Replace(fails, "0ms", "10s", 1)).want(200).into(&v)
	if v.Path != "mail[1]" || v.Replayed {
		t.Errorf("the call after the failure: %+v", v)
	}
}

// TestSessionLeaseIsNoTask: nobody can end a lease with what the journal shows.
func TestSessionLeaseIsNoTask(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	id := uuid.FromStringOrNil(a.id)
	secret := sha256.Sum256([]byte(a.secret))
	token := sha256.Sum256([]byte(hex.EncodeToString(secret[:]))) // of the hash in the journal
	l := lease{token: uuid.UUID(token[:uuid.Size]), saga: id, way: journal.Do, attempt: 1}
	task := machine.TaskID(id, "", journal.Do, 1)
	for _, what := range []string{"heartbeat", "complete", "fail"} {
		body := fmt.Sprintf(`{"lease": %q}`, l.String())
		if what == "fail" {
			body = fmt.Sprintf(`{"lease": %q, "error": "gone"}`, l.String())
		}
		x.do("POST", "/v1/tasks/"+task.String()+"/"+what, body).problem(409, "lease_lost")
	}
	if _, err := x.store.Heartbeat(context.Background(), task, l.token); err != nil {
		t.Errorf("the test does not know the lease: %v", err)
	}
	a.do("POST", "/heartbeat", "").want(200)
}

// TestSessionNames: an action's name may have dashes, in a session and in a run.
func TestSessionNames(t *testing.T) {
	x := newFixture(t)
	x.do("PUT", "/v1/actions/send-charge", strings.Replace(agentActions["charge"], "action: charge", "action: send-charge", 1)).want(201)
	var v sessionView
	x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["send-charge"]}`).want(201).into(&v)
	a := &agent{x: x, id: v.ID, secret: NewSecret()}
	a.attach("").want(200)
	if c := a.call(`{"action": "send-charge", "input": {"order": "A", "amount": 1}}`); c.Path != "send-charge[0]" {
		t.Errorf("path %s", c.Path)
	}
	run := x.do("POST", "/v1/actions/send-charge/run", `{"input": {"order": "B", "amount": 1}}`, header{"Prefer", "wait=10"}).want(201).saga()
	if run.Status != "succeeded" {
		t.Errorf("the run: %+v", run)
	}
	priced := func(name, currency string) {
		x.do("PUT", "/v1/actions/"+name, "action: "+name+"\nagents: auto\nhttp: POST ${vars.pay}/charges\nin_doubt: retry\ncompensate: none\ncost: 1 "+currency+"\n").want(201)
	}
	priced("euro", "EUR")
	priced("dollar", "USD")
	x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["euro", "dollar"]}`).problem(422, "invalid_session")
}

// TestSessionIsNotRetried: an operator does not start a copy of an aborted session, which no agent
// would know.
func TestSessionIsNotRetried(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	a.do("POST", "/abort", "").want(202)
	x.until(a.id, func(v machine.View) bool { return v.Status.Terminal() })
	x.do("POST", "/v1/sagas/"+a.id+"/retry", `{"reason": "again"}`).problem(http.StatusUnprocessableEntity, "not_available")
}

// TestSessionGrantBudget: a budget without a currency is in the grant's, and a grant without one is
// in that of the actions.
func TestSessionGrantBudget(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, admin := addKey(x, "admin", time.Time{})
	x.do("PUT", "/v1/actions/dinar", "action: dinar\nagents: auto\nhttp: POST ${vars.pay}/charges\nin_doubt: retry\ncompensate: none\ncost: 1 KWD\n", header{"Authorization", "Bearer " + admin}).want(201)
	open := func(secret, more string) *answer {
		return x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["dinar"]`+more+`}`, header{"Authorization", "Bearer " + secret})
	}
	dollars := addAgentKey(x, "dollars", journal.AgentGrant{Budget: "5.00 USD"})
	open(dollars, `, "budget": {"amount": "5.00"}`).problem(422, "invalid_start")
	open(dollars, "").problem(422, "invalid_start")
	bare := addAgentKey(x, "bare", journal.AgentGrant{Budget: "5.00/session"})
	var v sessionView
	open(bare, "").want(201).into(&v)
	if v.Cost.Budget != "5.00" || v.Cost.Currency != "KWD" {
		t.Errorf("budget %s %s", v.Cost.Budget, v.Cost.Currency)
	}
	open(bare, `, "budget": "6 KWD"`).problem(403, "forbidden")
}

// TestSessionCallPages: calls are listed in pages, and a session that has not changed is not sent
// again.
func TestSessionCallPages(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	for i := range 5 {
		a.call(fmt.Sprintf(`{"action": "charge", "input": {"order": "%d", "amount": 1}}`, i))
	}
	var paths []string
	cursor := ""
	for n := range 3 {
		var p page[machine.CallView]
		a.do("GET", "/calls?limit=2"+cursor, "").want(200).into(&p)
		for _, v := range p.Data {
			paths = append(paths, v.Path)
		}
		if cursor = "&cursor=" + p.Next; (p.Next == "") != (n == 2) {
			t.Errorf("page %d: %+v", n, p)
		}
	}
	if got := strings.Join(paths, " "); got != "charge[0] charge[1] charge[2] charge[3] charge[4]" {
		t.Errorf("the pages have %s", got)
	}
	for _, q := range []string{"limit=0", "limit=201", "cursor=x", "after=1", "cursor=" + pack("calls", "-1")} {
		a.do("GET", "/calls?"+q, "", outside).problem(400, "invalid_request")
	}
	tag := a.do("GET", "", "").want(200).Header.Get("ETag")
	x.do("GET", "/v1/sessions/"+a.id, "", header{"If-None-Match", tag}).want(304)
	a.call(`{"action": "charge", "input": {"order": "new", "amount": 1}}`)
	x.do("GET", "/v1/sessions/"+a.id, "", header{"If-None-Match", tag}).want(200)
}

// TestUnattachedSessions: the list has the sessions that wait for a process and to which the caller
// may attach.
func TestUnattachedSessions(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, admin := addKey(x, "admin", time.Time{})
	asAdmin := header{"Authorization", "Bearer " + admin}
	x.do("PUT", "/v1/actions/charge", agentActions["charge"], asAdmin).want(201)
	bot := header{"Authorization", "Bearer " + addAgentKey(x, "bot", journal.AgentGrant{})}
	other := header{"Authorization", "Bearer " + addAgentKey(x, "other", journal.AgentGrant{})}
	narrow := header{"Authorization", "Bearer " + addAgentKey(x, "bot", journal.AgentGrant{Sessions: []string{"sales"}})}
	open := func(name string, as header) string {
		var v sessionView
		x.do("POST", "/v1/sessions", `{"name": "`+name+`", "actions": ["charge"], "input": {"n": 1}}`, as).want(201).into(&v)
		return v.ID
	}
	list := func(as header) string {
		var ids []string
		for q := "/v1/sessions?name=support&attached=false&limit=2"; q != ""; {
			var p page[sessionView]
			x.do("GET", q, "", as).want(200).into(&p)
			for _, v := range p.Data {
				if string(v.Input) != `{"n":1}` || v.Session.Name != "support" {
					t.Errorf("listed: %+v", v)
				}
				ids = append(ids, v.ID)
			}
			if q = ""; p.Next != "" {
				q = "/v1/sessions?name=support&attached=false&limit=2&cursor=" + p.Next
			}
		}
		return strings.Join(ids, " ")
	}
	first, second, third, gone := open("support", bot), open("support", bot), open("support", other), open("support", bot)
	open("sales", bot)
	a := &agent{x: x, id: second, secret: NewSecret()}
	x.do("POST", "/v1/sessions/"+second+"/attach", `{"secret": "`+a.secret+`"}`, bot).want(200)
	x.do("POST", "/v1/sessions/"+gone+"/abort", "", asAdmin).want(202)
	for _, tt := range []struct {
		as   header
		want string
	}{{bot, first}, {other, third}, {narrow, ""}, {asAdmin, third + " " + first}} {
		if got := list(tt.as); got != tt.want {
			t.Errorf("listed %q, want %q", got, tt.want)
		}
	}
	a.do("POST", "/detach", "").want(200)
	if got := list(bot); got != second+" "+first {
		t.Errorf("after the detach: %q", got)
	}
	for _, q := range []string{"", "?name=support", "?name=Support!&attached=false", "?name=support&attached=true", "?name=support&attached=false&limit=21", "?name=support&attached=false&cursor=x"} {
		x.do("GET", "/v1/sessions"+q, "", bot, outside).problem(400, "invalid_request")
	}
}

// TestSessionCrowd: so many requests of a session wait, and a further one is refused; what a
// process needs to keep its session is served.
func TestSessionCrowd(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	const waits = "/calls/big%5B0%5D?wait=60s"
	a.do("POST", "/calls", `{"action": "big", "input": {"amount": 51}, "wait": "0s"}`).want(202)
	ended := make(chan int, mostWaiting)
	for range mostWaiting {
		go func() {
			r := a.do("GET", waits, "")
			for r.Status == http.StatusTooManyRequests { // a call below waits, too, for its commit
				r = a.do("GET", waits, "")
			}
			ended <- r.Status
		}()
	}
	notify := func(order string) *answer {
		return a.do("POST", "/calls", `{"action": "mail", "input": {"order": "`+order+`", "text": "x"}, "wait": "0s"}`)
	}
	r := notify("A")
	for deadline := time.Now().Add(30 * time.Second); r.Status != http.StatusTooManyRequests && time.Now().Before(deadline); {
		r = notify("A")
	}
	r.problem(429, "rate_limited")
	a.do("GET", strings.Replace(waits, "60s", "1s", 1), "").problem(429, "rate_limited")
	a.do("GET", "/calls/big%5B0%5D", "").want(200)
	a.do("POST", "/heartbeat", "").want(200)
	notify("B").problem(429, "rate_limited")
	if len(ended) > 0 {
		t.Errorf("%d requests have ended too early", len(ended))
	}
	a.do("POST", "/abort", "").want(202)
	for range mostWaiting {
		if status := <-ended; status != 200 {
			t.Errorf("a request that waited: %d", status)
		}
	}
	var calls page[machine.CallView]
	a.do("GET", "/calls", "").want(200).into(&calls)
	for _, v := range calls.Data {
		if strings.Contains(string(v.Input), "B") {
			t.Errorf("a refused call was made: %+v", v)
		}
	}
}
