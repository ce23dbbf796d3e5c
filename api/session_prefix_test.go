package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// watchedStore reports how many records the journal of a session has, once they are committed.
type watchedStore struct {
	journal.Store
	seen atomic.Pointer[func(session uuid.UUID, seq int64)]
}

func (s *watchedStore) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	results, err := s.Store.Append(ctx, node, batch)
	if seen := s.seen.Load(); seen != nil && err == nil {
		for i, a := range batch {
			if len(a.Records) > 0 && results[i].Err == nil {
				(*seen)(a.Saga, a.Records[len(a.Records)-1].Seq)
			}
		}
	}
	return results, err
}

// TestAbortAtEveryPrefix lets an agent act until the journal of its session has 1 record, 2, 3 and
// so on, and aborts the session there. Whatever the agent was doing, no effect remains that
// `residual` does not name, and residual names no other.
func TestAbortAtEveryPrefix(t *testing.T) {
	for _, dies := range []bool{false, true} {
		t.Run(fmt.Sprintf("the process dies=%t", dies), func(t *testing.T) {
			store := &watchedStore{Store: stores["sqlite"](t)}
			x := newFixtureOn(t, store)
			for _, name := range []string{"charge", "mail"} {
				x.do("PUT", "/v1/actions/"+name, agentActions[name]).want(201)
			}
			x.do("PUT", "/v1/actions/drop", "action: drop\nagents: auto\ninput: {thing: string}\nhttp: DELETE ${vars.things}/${input.thing}\n").want(201)
			remained, undone, length := 0, 0, int64(0)
			for prefix := int64(2); ; prefix++ { // the process attaches with record 2
				at := len(x.world.Ledger())
				v := abortedAt(t, x, store, prefix, dies)
				made := x.world.Ledger()[at:]
				if v.Status == "succeeded" { // the session had ended before
					length = prefix
					break
				}
				if v.Status != "compensated" && v.Status != "failed" && v.Status != "cancelled" {
					t.Errorf("aborted at record %d: the session is %s", prefix, v.Status)
				}
				hold(t, prefix, v, made)
				remained, undone = remained+len(v.Residual), undone+len(made.Undos())
			}
			t.Logf("%d prefixes: %d effects were undone, and residual named %d", length-2, undone, remained)
			if length < 30 || remained < 10 || undone < 50 {
				t.Error("the agent does not do enough for this test")
			}
		})
	}
}

// hold checks that the effects which remain are those that residual names.
func hold(t *testing.T, prefix int64, v machine.View, made world.Ledger) {
	t.Helper()
	named := make(map[string]string) // paths by key
	for _, r := range v.Residual {
		for generation := range 3 {
			named[idempotency.Key(uuid.FromStringOrNil(v.ID), r.Path, journal.Do, generation)] = r.Path
		}
	}
	found := make(map[string]bool)
	for _, e := range made.Live().Effects() {
		if named[e.Key] == "" {
			t.Errorf("aborted at record %d: %s %s remains, and residual is %v", prefix, e.Method, e.Path, v.Residual)
		}
		found[named[e.Key]] = true
	}
	for _, r := range v.Residual {
		// If an abort comes between the record of a begin and its response, the agent is refused,
		// and does nothing. The journal cannot tell this from an agent that has died at work.
		refused := strings.HasPrefix(r.Path, saga.OwnPrefix) && strings.HasPrefix(r.Why, "it may have happened")
		if !found[r.Path] && !refused {
			t.Errorf("aborted at record %d: residual names %s, which has no effect: %s", prefix, r.Path, r.Why)
		}
	}
}

// abortedAt runs the agent of this test in a new session, aborts the session once its journal has
// so many records, and returns how the session ended. If the agent commits before, it is not
// aborted. With dies, the process ends at that moment, and leaves its own step open.
func abortedAt(t *testing.T, x *fixture, store *watchedStore, prefix int64, dies bool) machine.View {
	t.Helper()
	var id atomic.Value
	id.Store("")
	struck, aborted := make(chan struct{}), make(chan struct{})
	var once sync.Once
	abort := func(session uuid.UUID, seq int64) {
		if session.String() != id.Load() || seq < prefix {
			return
		}
		once.Do(func() {
			close(struck)
			go func() {
				defer close(aborted)
				if status := sendQuietly(x, "/v1/sessions/"+session.String()+"/abort", `{"reason": "enough"}`, ""); status != http.StatusAccepted && status != http.StatusConflict {
					t.Errorf("the abort is answered with %d", status)
				}
			}()
			time.Sleep(3 * time.Millisecond) // so that the abort is the next that the session hears of
		})
	}
	store.seen.Store(&abort)
	defer func() { // an abort that came after the commit must not outlive the test
		store.seen.Store(nil)
		once.Do(func() { close(aborted) })
		<-aborted
	}()
	var opened sessionView
	x.do("POST", "/v1/sessions", `{"name": "support", "actions": ["charge", "mail", "drop"]}`).want(201).into(&opened)
	id.Store(opened.ID)
	a := &agent{x: x, id: opened.ID, secret: NewSecret()}
	a.attach("").want(200)
	p := &prefixAgent{agent: a, stopped: struck, dies: dies}
	if p.run() {
		return x.do("GET", "/v1/sagas/"+a.id, "").want(200).saga()
	}
	<-aborted
	a.do("POST", "/detach", "", outside)
	return x.until(a.id, func(v machine.View) bool { return v.Status.Terminal() })
}

// sendQuietly sends a request from outside of the test's goroutine, and returns the status.
func sendQuietly(x *fixture, path, body, token string) int {
	req, err := http.NewRequestWithContext(x.t.Context(), http.MethodPost, x.url+path, strings.NewReader(body))
	if err != nil {
		x.t.Error(err)
		return 0
	}
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		x.t.Error(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// prefixAgent is an agent that stops once its session refuses a request.
type prefixAgent struct {
	*agent
	stopped <-chan struct{} // closed when the session is told to abort
	dies    bool            // the process does nothing from then on
	over    bool
}

// run does everything that a session can, and reports whether it has committed.
func (p *prefixAgent) run() (committed bool) {
	p.model("first")
	p.call(`{"action": "charge", "input": {"order": "A", "amount": 10}}`)
	p.own("page", "undoable", func(key string) { p.effect("PUT", "/things/"+p.id, key) })
	p.call(`{"action": "charge", "input": {"order": "B", "amount": 10}}`)
	p.own("letter", "irreversible", func(key string) { p.effect("POST", "/mail/send", key) })
	p.call(`{"action": "mail", "input": {"order": "A", "text": "hello"}}`)
	p.try("/calls/charge%5B0%5D/undo", `{"reason": "wrong order"}`)
	var both sync.WaitGroup
	for _, order := range []string{"C", "D"} {
		if p.gone() {
			break
		}
		both.Go(func() {
			sendQuietly(p.x, "/v1/sessions/"+p.id+"/calls", `{"action": "charge", "input": {"order": "`+order+`", "amount": 10}}`, p.token())
		})
	}
	both.Wait()
	if !p.gone() {
		former := p.secret
		p.secret = NewSecret()
		if p.attach(former).Status != http.StatusOK {
			p.over, p.secret = true, former
		}
	}
	p.call(`{"action": "charge", "input": {"order": "B", "amount": 10}}`)
	p.model("first")
	p.model("second")
	p.call(`{"action": "charge", "input": {"order": "E", "amount": 10}}`)
	return p.try("/commit", "")
}

// gone reports whether the process has ended.
func (p *prefixAgent) gone() bool {
	if p.dies {
		select {
		case <-p.stopped:
			p.over = true
		default:
		}
	}
	return p.over
}

// try sends a request, and reports whether the session has accepted it.
func (p *prefixAgent) try(path, body string) bool {
	return !p.gone() && p.accepts(p.do("POST", path, body).Status)
}

func (p *prefixAgent) accepts(status int) bool {
	p.over = status >= 300
	return !p.over
}

func (p *prefixAgent) call(body string) { p.try("/calls", body) }

func (p *prefixAgent) model(text string) {
	if !p.gone() {
		p.accepts(p.ask("/llm/openai/v1/chat/completions", `{"model": "priced", "max_tokens": 20, "messages": [{"role": "user", "content": "`+text+`"}]}`).Status)
	}
}

// own does an own step. A living process finishes what it has begun, also when the session is
// aborted.
func (p *prefixAgent) own(id, effect string, do func(key string)) {
	if p.gone() {
		return
	}
	body := map[string]any{"id": id, "effect": effect}
	if effect == "undoable" {
		body["compensate"] = map[string]any{"use": "drop", "with": map[string]any{"thing": p.id}}
	}
	doc, _ := json.Marshal(body)
	begun := p.do("POST", "/steps", string(doc))
	if !p.accepts(begun.Status) {
		return
	}
	var v begunView
	begun.into(&v)
	do(v.Key)
	if !p.gone() {
		p.finish(id, `{"attempt": 1, "status": "succeeded"}`)
	}
}

// effect has an effect outside.
func (p *prefixAgent) effect(method, path, key string) {
	req, err := http.NewRequestWithContext(p.x.t.Context(), method, p.x.world.URL+path, strings.NewReader(`{"to": "a@example.com", "text": "letter"}`))
	if err != nil {
		p.x.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		p.x.t.Fatal(err)
	}
	resp.Body.Close()
}
