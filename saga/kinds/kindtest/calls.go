package kindtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/expr"
)

const (
	maxHint = 64 << 10 // the journal stores a hint with each attempt
	maxRush = 64       // attempts in a row that do not wait
)

// calls checks the contracts of a call that reads its answers, knows its price or has sequels, with
// answers that are complete, broken or missing.
func (s Suite) calls(t *testing.T, call saga.Call, env expr.MapEnv) {
	t.Helper()
	r, err := call.Request(env)
	if err != nil {
		t.Fatalf("Request: %v", err)
	}
	own(t, call, env, r)
	reader, reads := call.(saga.Reader)
	if reads && len(s.Answers) == 0 {
		t.Error("a kind that reads its answers needs bodies that it takes for success")
	}
	for _, a := range s.answers() {
		v := call.Judge(r, a)
		if reads && a.Code == "" && a.Status == 200 {
			v = reader.Read(r, a)
		}
		at := fmt.Sprintf("%d %q sent %v, %.200s", a.Status, a.Code, a.Sent, a.Body)
		if v.Class == journal.Succeeded && !json.Valid(v.Output) && reads {
			t.Errorf("%s: the output %.100s is not JSON", at, v.Output)
		}
		if (v.Class == journal.Succeeded) != (v.Error == nil) || v.Class == journal.InDoubt && call.ReadOnly() {
			t.Errorf("%s: %+v", at, v)
		}
		if p, ok := call.(saga.Priced); ok {
			priced(t, p, r, a, at)
		}
		if q, ok := call.(saga.Sequel); ok && v.Error != nil {
			sequel(t, call, q, r, a, at)
		}
	}
	if !reads {
		return
	}
	for _, body := range s.Answers {
		a := saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(body)}
		v := reader.Read(r, a)
		if v.Class != journal.Succeeded {
			t.Errorf("Read takes %s for %+v", body, v)
		}
		if diff := cmp.Diff(v, reader.Read(r, a)); diff != "" {
			t.Errorf("Read says something else the second time:\n%s", diff)
		}
	}
}

// answers returns answers that every call must handle, and the suite's own, complete and broken in
// several ways.
func (s Suite) answers() []saga.Answer {
	bodies := []json.RawMessage{nil, json.RawMessage(`null`), json.RawMessage(`"text"`), json.RawMessage(`[]`), json.RawMessage(`{}`), json.RawMessage(`{"error":"no"}`),
		json.RawMessage(`{"error":{"code":429,"message":"later"}}`), json.RawMessage(`{"usage":{"prompt_tokens":-1,"completion_tokens":1}}`)}
	for _, b := range slices.Concat(s.Answers, s.Odd) {
		bodies = append(bodies, json.RawMessage(b))
	}
	var list []saga.Answer
	for _, body := range bodies {
		for _, status := range []int{200, 204, 301, 400, 401, 403, 404, 409, 413, 429, 500, 503} {
			list = append(list, saga.Answer{Sent: true, Status: status, Body: body})
		}
		for _, code := range []string{"timeout", "body_cut", "body_too_large", "body_invalid"} {
			list = append(list, saga.Answer{Sent: true, Status: 200, Code: code, Body: body})
		}
	}
	for _, code := range []string{"timeout", "connection", "dns", "egress_denied", "secret_missing", "not_sent"} {
		list = append(list, saga.Answer{Code: code})
	}
	return append(list, saga.InterruptedAnswer())
}

// own checks that a request belongs to its caller, because the machine puts a key into it.
func own(t *testing.T, call saga.Call, env expr.MapEnv, r saga.Request) {
	t.Helper()
	if r.Headers == nil {
		return
	}
	before := copied(r)
	r.Headers["X-Key"] = "k"
	if again, err := call.Request(env); err != nil || !reflect.DeepEqual(before, again) {
		t.Errorf("what a caller does to a request shows in the next: %v, %v", again, err)
	}
	delete(r.Headers, "X-Key")
}

func copied(r saga.Request) saga.Request {
	r.Headers, r.Body = maps.Clone(r.Headers), append(json.RawMessage(nil), r.Body...)
	return r
}

func priced(t *testing.T, p saga.Priced, r saga.Request, a saga.Answer, at string) {
	t.Helper()
	most := p.Reserve(r)
	if again := p.Reserve(r); most.Cost.Cmp(again.Cost) != 0 || most.Input != again.Input || most.Output != again.Output {
		t.Errorf("Reserve says %v, then %v", most, again)
	}
	used, ok := p.Used(r, a)
	switch {
	case most.Input < 0 || most.Output < 0 || used.Input < 0 || used.Output < 0:
		t.Errorf("%s: less than nothing is used: %v, %v", at, most, used)
	case !ok && (used.Input != 0 || used.Output != 0 || !used.Cost.IsZero()):
		t.Errorf("%s: Used does not know, and says %v", at, used)
	case !a.Sent && (!ok || used.Input != 0 || used.Output != 0 || !used.Cost.IsZero()):
		t.Errorf("%s: what was not sent has used nothing, not %v (%v)", at, used, ok)
	case used.Cost.Currency != "" && used.Cost.Currency != most.Cost.Currency:
		t.Errorf("%s: reserved in %s, used in %s", at, most.Cost.Currency, used.Cost.Currency)
	}
}

// sequel follows a failure as long as the kind continues at once, with the same answer each time.
// That must end.
func sequel(t *testing.T, call saga.Call, q saga.Sequel, r saga.Request, a saga.Answer, at string) {
	t.Helper()
	for attempt := 1; ; attempt++ {
		before, v := copied(r), call.Judge(r, a)
		hint, now := q.Next(r, a, v, attempt)
		if again, _ := q.Next(r, a, v, attempt); string(again) != string(hint) {
			t.Fatalf("%s: Next says %s, then %s", at, hint, again)
		}
		if hint == nil {
			if now {
				t.Fatalf("%s: the same request again, at once", at)
			}
			return
		}
		if !json.Valid(hint) || len(hint) > maxHint {
			t.Fatalf("%s: the hint is not small JSON: %.200s", at, hint)
		}
		next, err := q.Follow(r, hint)
		if err != nil {
			t.Fatalf("%s: Follow %s: %v", at, hint, err)
		}
		if again, err := q.Follow(r, hint); err != nil || !reflect.DeepEqual(next, again) {
			t.Fatalf("%s: Follow %s gives something else the second time", at, hint)
		}
		if next.Headers != nil {
			next.Headers["X-Key"] = "k"
		}
		if !reflect.DeepEqual(before, r) {
			t.Fatalf("%s: Follow shares what the request is made of", at)
		}
		delete(next.Headers, "X-Key")
		if reflect.DeepEqual(next, r) || next.Method == "" || next.URL == "" {
			t.Fatalf("%s: the hint %s makes no other request of it: %v", at, hint, next)
		}
		if !now {
			return
		}
		if attempt == maxRush {
			t.Fatalf("%s: %d attempts without a wait", at, attempt)
		}
		r = next
	}
}
