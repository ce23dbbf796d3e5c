package machine_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

// agentActions are the actions of the sessions that are answered by hand.
const agentActions = `action: pay
agents: {approve_when: input.amount > 50 || session.calls > 11}
input: {amount: number}
http: POST https://pay.example/payments
body: {amount: "${input.amount}"}
compensate: {http: "DELETE https://pay.example/payments/${output.id}", in_doubt: ask, on: [succeeded]}
---
action: mail
agents: auto
once: ${input.to}
http: POST https://mail.example/mails
input: {to: string, text: string}
body: {text: "${input.text}"}
in_doubt: ask
compensate: {http: DELETE https://mail.example/mails/1, on: [in_doubt]}
---
action: look
agents: {limits: [{calls: 2}]}
http: GET https://pay.example/payments
`

// sessionOf plays a session, whose requests are answered by hand.
func sessionOf(t *testing.T, d saga.SessionData, actions string, budget *saga.BudgetData) *hand {
	t.Helper()
	d.Name = "clerk"
	def, errs := dsl.Session(&d, dsl.Options{Kinds: kinds.All(), Actions: actionsOf(actions)})
	if errs != nil {
		t.Fatal(errs)
	}
	return started(t, def, parentID, machine.StartOptions{Budget: budget})
}

// agentHand starts a session whose requests are answered by hand, and attaches its first process.
func agentHand(t *testing.T, d saga.SessionData) *hand {
	t.Helper()
	d.Actions = []string{"pay@1", "mail@1", "look@1"}
	h := sessionOf(t, d, agentActions, nil)
	h.must("", saga.Attach{Token: "one"})
	return h
}

// leave ends the lease of the session's process.
func (h *hand) leave() {
	h.t.Helper()
	d, ok := h.m.EndLife(h.m.LeaseTask().Attempt, string(journal.TaskExpired), h.now)
	if !ok {
		h.t.Fatalf("there is no lease\n%s", h.out.String())
	}
	h.write(d)
	h.run()
}

func payment(life int, amount string) saga.CallAction {
	return saga.CallAction{Life: life, Action: "pay", Input: json.RawMessage(`{"amount":` + amount + `}`)}
}

func mailOf(life int, id, to, text string) saga.CallAction {
	return saga.CallAction{Life: life, Action: "mail", ID: id, Input: saga.Encode(map[string]string{"to": to, "text": text})}
}

func askModel(life int, identity string) saga.AskModel {
	return saga.AskModel{Life: life, Identity: identity, Input: json.RawMessage(question)}
}

// A session sends the requests of as many calls at once as it may. What its agent does itself, asks
// a model, or wants a person to approve neither counts nor waits.
func TestSessionParallel(t *testing.T) {
	h := agentHand(t, saga.SessionData{MaxParallel: 2})
	h.must("", askModel(1, "q"), saga.BeginStep{Life: 1, ID: "note", OwnData: ownSteps["note"]}, payment(1, "1"), payment(1, "2"), payment(1, "3"))
	if got, want := h.sent(), "llm[0] pay[0] pay[1]"; got != want {
		t.Fatalf("in flight: %s, want %s\n%s", got, want, h.out.String())
	}
	h.must("", askModel(1, "r"), payment(1, "60"), saga.BeginStep{Life: 1, ID: "mail", OwnData: ownSteps["mail"]})
	if got, want := h.sent(), "llm[0] pay[0] pay[1] llm[1]"; got != want || len(h.m.Inbox()) != 1 || !h.m.OwnBegun("mail") {
		t.Fatalf("in flight: %s, want %s; asked: %d\n%s", got, want, len(h.m.Inbox()), h.out.String())
	}
	h.reply("llm[0]", "500 {}")
	h.reply("pay[1]", `200 {"id":1}`)
	if got, want := h.sent(), "pay[0] llm[1] pay[2]"; got != want {
		t.Errorf("in flight: %s, want %s\n%s", got, want, h.out.String())
	}
}

// The lease of a session's last life is a task. Once another life has begun, or the session needs
// no process, it is withdrawn.
func TestSessionLeases(t *testing.T) {
	h := agentHand(t, saga.SessionData{})
	leases := func(last int) (list []string) {
		for n := range last {
			list = append(list, machine.TaskID(h.m.ID(), "", journal.Do, n+1).String())
		}
		return list
	}
	check := func(when string, live bool, last, unwanted int) {
		t.Helper()
		var got []string
		for _, id := range h.m.Unwanted() {
			got = append(got, id.String())
		}
		// Those before the last two were withdrawn when the life after them began.
		if want := leases(unwanted)[max(unwanted-2, 0):]; h.m.Live() != live || !slices.Equal(got, want) {
			t.Errorf("%s: it goes on: %v; withdrawn: %v, want %v", when, h.m.Live(), got, want)
		}
		if id := h.m.LeaseID(); id != h.m.LeaseTask().ID || id.String() != leases(last)[last-1] {
			t.Errorf("%s: the lease is %s, want that of life %d", when, id, last)
		}
	}
	check("the first life", true, 1, 0)
	h.leave()
	check("its lease has ended", false, 1, 1)
	h.must("", saga.Attach{Token: "one"})
	check("the same process again", true, 2, 1)
	h.leave()
	h.must("", saga.Attach{Token: "one"})
	check("the same process once more", true, 3, 2)
	h.must("", saga.Attach{Token: "two", Previous: "one"}, saga.Attach{Token: "three", Previous: "two"})
	check("two processes later", true, 5, 4)
	if _, ok := h.m.EndLife(3, string(journal.TaskExpired), h.now); ok {
		t.Error("the end of an earlier lease ends the last life")
	}
	h.must("", saga.Cancel{})
	check("aborted", false, 5, 5)

	plain := byHand(t, "saga: x\nsteps: [{id: go, signal: go}]\n", "null").m
	waiting := machine.New(h.def, h.m.ID())
	if err := waiting.Apply(h.records[0]); err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*machine.Machine{"no session": plain, "no process has attached": waiting} {
		life, token, live := m.Life()
		lease, _, gone := m.Gone()
		if m.Live() || live || life != 0 || token != "" || m.LeaseID() != uuid.Nil || len(m.Unwanted()) > 0 || lease != 0 || gone || m.Committed() || m.Superseded("one") {
			t.Errorf("%s: life %d %q goes on: %v %v; lease %s is withdrawn: %v, lost: %v", name, life, token, m.Live(), live, m.LeaseID(), m.Unwanted(), gone)
		}
	}
}

// A session whose process is lost needs a person, until another process attaches or a person
// resumes it. Each of these changes the inbox.
func TestSessionLostAndFound(t *testing.T) {
	for name, back := range map[string]saga.Operation{"attach": saga.Attach{Token: "two", Previous: "one"}, "resume": saga.Resume{}} {
		t.Run(name, func(t *testing.T) {
			h := agentHand(t, saga.SessionData{OnLost: &saga.OnLost{Wait: "1m"}})
			revisions := map[machine.Revision]bool{h.m.InboxRevision(): true}
			check := func(when string, status saga.Status, entries int, changed bool) {
				t.Helper()
				isNew := !revisions[h.m.InboxRevision()]
				if got := h.m.Status(); got != status || len(h.m.Inbox()) != entries || isNew != changed {
					t.Errorf("%s: %s, want %s; %d entries, want %d; the inbox has changed: %v", when, got, status, len(h.m.Inbox()), entries, isNew)
				}
				revisions[h.m.InboxRevision()] = true
			}
			check("attached", saga.Running, 0, false)
			h.leave()
			left := h.now
			check("left", saga.Waiting, 0, false)
			if lease, since, gone := h.m.Gone(); !gone || lease != 1 || !since.Equal(left) {
				t.Errorf("the process is gone: %v, lease %d since %s, want %s", gone, lease, since, left)
			}
			h.wait()
			check("lost", saga.Stuck, 1, true)
			if !h.now.Equal(left.Add(time.Minute)) {
				t.Errorf("lost at %s, want %s", h.now, left.Add(time.Minute))
			}
			h.must("", back)
			_, _, gone := h.m.Gone()
			if _, attached := back.(saga.Attach); gone == attached {
				t.Errorf("the process is gone: %v", gone)
			}
			check("found", map[string]saga.Status{"attach": saga.Running, "resume": saga.Waiting}[name], 0, true)
		})
	}
}

// A session may be aborted if no process comes back in time, and for no other reason that has to do
// with time.
func TestSessionLostAborts(t *testing.T) {
	h := agentHand(t, saga.SessionData{OnLost: &saga.OnLost{Wait: "1m", Then: saga.AbortSession}})
	h.must("", payment(1, "1"), payment(1, "2"))
	h.reply("pay[0]", `200 {"id":1}`)
	h.reply("pay[1]", "503 {}")
	h.wait()
	if h.sent() != "pay[1]" || h.m.Closed() {
		t.Fatalf("in flight: %s, %s\n%s", h.sent(), h.m.Status(), h.out.String())
	}
	h.reply("pay[1]", "400 {}")
	h.leave()
	h.wait()
	h.reply("pay[0]", "200 {}")
	if v := h.m.View(); v.Status != saga.Failed || v.Reason.Code != "lost" || len(v.Residual) != 1 {
		t.Errorf("%s, %+v\n%s", v.Status, v.Reason, h.out.String())
	}
}

// A person who approves a call sees the last request to a model that was answered.
func TestSessionApprovalShowsRequest(t *testing.T) {
	h := agentHand(t, saga.SessionData{})
	h.must("", askModel(1, "q"), askModel(1, "r"), askModel(1, "s"))
	for _, path := range []string{"llm[0]", "llm[1]"} {
		h.ends(path, "", saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"whole":true}`), Content: []byte("yes")})
	}
	h.must("", payment(1, "60"))
	if shown := string(h.m.Inbox()[0].Shown); !strings.Contains(shown, `"last_ask":{"step":"llm[1]"`) {
		t.Error(shown)
	}
}

// A session whose budget a person may raise lets a request to a model wait for that only if it
// stores what is sent. It is sent later without its client then.
func TestRequestsOverTheBudget(t *testing.T) {
	for _, c := range []struct {
		exceed saga.OnExceed
		keep   saga.KeepContents
		want   string
	}{{saga.ExceedAsk, saga.KeepFull, ""}, {saga.ExceedAsk, saga.KeepAnswers, "budget_exhausted"}, {saga.ExceedFail, saga.KeepFull, "budget_exhausted"}} {
		d := &saga.SessionData{Name: "clerk", OnExceed: c.exceed, Keep: c.keep, Actions: []string{"pay@1"}}
		def, errs := dsl.Session(d, dsl.Options{Kinds: kinds.With(kinds.Options{LLM: models}), Actions: actionsOf(agentActions)})
		if errs != nil {
			t.Fatal(errs)
		}
		h := started(t, def, parentID, machine.StartOptions{Budget: &saga.BudgetData{Amount: "0.01", Currency: "USD"}})
		h.must("", saga.Attach{Token: "one"})
		ask := askModel(1, "q")
		ask.Input = json.RawMessage(`{"route":"openai/chat/completions","model":"large","max_output":100000}`)
		_, _, no := h.m.AskModel(uuid.Nil, ask)
		if got := no; (got == nil) != (c.want == "") || got != nil && got.Code != c.want {
			t.Errorf("on_exceed %s, keep %s: %v, want %q", c.exceed, c.keep, no, c.want)
		}
	}
}

// A session makes as many calls and requests to models as it may, and the next one is refused.
func TestSessionCounts(t *testing.T) {
	h := agentHand(t, saga.SessionData{MaxCalls: 2, MaxAsks: 2})
	h.must("", payment(1, "1"), payment(1, "2"), askModel(1, "q"), askModel(1, "r"))
	for _, o := range []saga.Operation{payment(1, "3"), askModel(1, "s")} {
		if err := h.do(saga.Command{Do: o}); codeOf(err) != "limit" {
			t.Errorf("%T: %v", o, err)
		}
	}
	// The policies of actions read how many there are.
	h = agentHand(t, saga.SessionData{})
	for n := range 12 {
		h.must("", payment(1, strconv.Itoa(n)))
	}
	if len(h.m.Inbox()) > 0 {
		t.Error("a person is asked too early")
	}
	h.must("", payment(1, "12"))
	if list := h.m.Inbox(); len(list) != 1 || list[0].Path != "pay[12]" {
		t.Errorf("a person is asked for %+v\n%s", list, h.out.String())
	}
}

// codeOf returns the code of a refusal; "" for no error.
func codeOf(err error) string {
	switch no, ok := errors.AsType[*machine.Refusal](err); {
	case ok:
		return no.Code
	case err != nil:
		return err.Error()
	}
	return ""
}

// Only a call that has succeeded, and that its action can undo then, is undone while the session
// goes on, and only once. The session is not committed before the undo has ended.
func TestSessionUndo(t *testing.T) {
	h := agentHand(t, saga.SessionData{})
	h.must("", payment(1, "1"), payment(1, "2"), mailOf(1, "", "A", "x"), saga.CallAction{Life: 1, Action: "look"})
	h.reply("pay[0]", `200 {"id":1}`)
	h.reply("mail[0]", "200 {}")
	h.reply("look[0]", "200 {}")
	undo := func(path, want string) {
		t.Helper()
		if err := h.do(saga.Command{Path: path, Do: saga.UndoCall{Life: 1}}); codeOf(err) != want {
			t.Errorf("undo %s: %v, want %q", path, err, want)
		}
	}
	for path, want := range map[string]string{"pay[9]": "nothing_to_undo", "pay[1]": "nothing_to_undo", "mail[0]": "nothing_to_undo", "look[0]": "nothing_to_undo"} {
		undo(path, want)
	}
	undo("pay[0]", "")
	undo("pay[0]", "nothing_to_undo") // while it is undone
	_, err := h.m.Validate(uuid.Nil, saga.Command{Do: saga.CommitSession{Life: 1}})
	if codeOf(err) != "calls_open" || !strings.Contains(err.Error(), `"pay[1]", "pay[0]"`) {
		t.Errorf("commit: %v", err) // one call has not ended, and another is being undone
	}
	h.reply("pay[1]", "400 {}")
	if _, err := h.m.Validate(uuid.Nil, saga.Command{Do: saga.CommitSession{Life: 1}}); codeOf(err) != "calls_open" {
		t.Errorf("commit: %v", err)
	}
	h.reply("pay[0]", "200 {}")
	undo("pay[0]", "nothing_to_undo") // after that
	h.must("", saga.CommitSession{Life: 1})
	if h.m.Status() != saga.Succeeded {
		t.Errorf("%s\n%s", h.m.Status(), h.out.String())
	}
}

// A session that is aborted while a call is being undone waits for the answer, and undoes nothing
// twice.
func TestAbortDuringAnUndo(t *testing.T) {
	for answer, want := range map[string]saga.Status{"200 {}": saga.Compensated, "timeout": saga.Stuck} {
		h := agentHand(t, saga.SessionData{})
		h.must("", payment(1, "1"))
		h.reply("pay[0]", `200 {"id":1}`)
		h.must("pay[0]", saga.UndoCall{Life: 1})
		h.must("", saga.Cancel{})
		if h.sent() != "pay[0]" || strings.Contains(h.out.String(), "compensating") {
			t.Errorf("it does not wait for the answer\n%s", h.out.String())
		}
		h.reply("pay[0]", answer)
		if s := h.m.Status(); s != want || h.sent() != "" {
			t.Errorf("after %s: %s, %q is sent\n%s", answer, s, h.sent(), h.out.String())
		}
	}
}

// An id that an agent has chosen for a call is for that input only, also if the action allows one
// call for each order.
func TestIDsOfCalls(t *testing.T) {
	h := agentHand(t, saga.SessionData{})
	h.must("", mailOf(1, "m", "A", "x"), mailOf(1, "", "B", "x"))
	for _, c := range []struct {
		call saga.CallAction
		want string
	}{
		{mailOf(1, "m", "A", "y"), "id_reused"},
		{mailOf(1, "", "B", "y"), "already_done"},
		{mailOf(1, "m", "A", "x"), ""},
		{mailOf(1, "", "B", "x"), ""},
	} {
		if _, err := h.m.Validate(uuid.Nil, saga.Command{Do: c.call}); codeOf(err) != c.want {
			t.Errorf("%s of %q: %v, want %q", c.call.Input, c.call.ID, err, c.want)
		}
	}
}

// A record of a session that no machine would have written there is refused.
func TestImpossibleSessionRecords(t *testing.T) {
	h := agentHand(t, saga.SessionData{})
	h.must("", payment(1, "1"), askModel(1, "q"), saga.Attach{Token: "two", Previous: "one"}, payment(2, "2"), payment(2, "3"))
	h.reply("pay[0]", `200 {"id":1}`)
	h.reply("pay[1]", "400 {}")
	h.reply("pay[2]", "200 {}")
	identity := func(path string) string {
		for _, r := range h.records {
			if d := (saga.CalledData{}); r.Kind == journal.Called && r.Path == path && json.Unmarshal(r.Data, &d) == nil {
				return d.Identity
			}
		}
		t.Fatal(path)
		return ""
	}
	call := func(d saga.CalledData) saga.CalledData {
		d.Action, d.Input, d.What = "pay", json.RawMessage(`{"amount":4}`), saga.ActionCall
		return d
	}
	ask := func(d saga.CalledData) saga.CalledData {
		d.Input, d.What = json.RawMessage(question), saga.ModelAsk
		return d
	}
	elsewhere := call(saga.CalledData{Life: 2, Identity: "x"})
	elsewhere.Action = "none"
	diverged := ask(saga.CalledData{Life: 2, Identity: "r"})
	diverged.Diverged = &saga.Divergence{From: "llm[0]", Pointer: "/messages"}
	type record struct {
		kind journal.Kind
		path string
		data any
	}
	aborted := record{journal.Cancelled, "", saga.CommandData{Kind: "cancel"}}
	asked := record{journal.Called, "llm[1]", diverged}
	for name, c := range map[string]struct {
		before []record
		r      record
		want   string // in the error; "": it is applied
	}{
		"a life that is over":                   {nil, record{journal.Attached, "", saga.AttachedData{Life: 3, Token: "one"}}, "life 3"},
		"the life after the next":               {nil, record{journal.Attached, "", saga.AttachedData{Life: 4, Token: "three"}}, "life 4"},
		"the same life":                         {nil, record{journal.Attached, "", saga.AttachedData{Life: 2, Token: "three"}}, "life 2"},
		"the next life":                         {nil, record{journal.Attached, "", saga.AttachedData{Life: 3, Token: "three"}}, ""},
		"a life after the abort":                {[]record{aborted}, record{journal.Attached, "", saga.AttachedData{Life: 3, Token: "three"}}, "being undone"},
		"a call of an earlier life":             {nil, record{journal.Called, "pay[3]", call(saga.CalledData{Life: 1, Identity: "x"})}, "life 1 of the session has ended"},
		"no such action":                        {nil, record{journal.Called, "none[0]", elsewhere}, "call 0 of none"},
		"another path":                          {nil, record{journal.Called, "pay[4]", call(saga.CalledData{Life: 2, Identity: "x"})}, "call 0 of pay"},
		"another number":                        {nil, record{journal.Called, "pay[3]", call(saga.CalledData{Life: 2, Identity: "x", N: 1})}, "call 1 of pay"},
		"after a success":                       {nil, record{journal.Called, "pay[3]", call(saga.CalledData{Life: 2, Identity: identity("pay[0]"), N: 1})}, "call pay[0] may have had the effect"},
		"after a refusal":                       {nil, record{journal.Called, "pay[3]", call(saga.CalledData{Life: 2, Identity: identity("pay[1]"), N: 1})}, ""},
		"repeats a call, and none is off":       {nil, record{journal.Called, "pay[3]", call(saga.CalledData{Life: 2, Identity: "x", Resembles: "pay[0]"})}, "cannot repeat"},
		"repeats a call":                        {[]record{asked}, record{journal.Called, "pay[3]", call(saga.CalledData{Life: 2, Identity: "x", Resembles: "pay[0]"})}, ""},
		"repeats a call of its own life":        {[]record{asked}, record{journal.Called, "pay[3]", call(saga.CalledData{Life: 2, Identity: "x", Resembles: "pay[2]"})}, "cannot repeat"},
		"repeats no call":                       {[]record{asked}, record{journal.Called, "pay[3]", call(saga.CalledData{Life: 2, Identity: "x", Resembles: "pay[9]"})}, "cannot repeat"},
		"repeats what is no call":               {[]record{asked}, record{journal.Called, "pay[3]", call(saga.CalledData{Life: 2, Identity: "x", Resembles: "llm[0]"})}, "cannot repeat"},
		"another path of a request":             {nil, record{journal.Called, "llm[2]", ask(saga.CalledData{Life: 2, Identity: "r"})}, "request 0 to a model"},
		"another number of a request":           {nil, record{journal.Called, "llm[1]", ask(saga.CalledData{Life: 2, Identity: "q"})}, "request 0 to a model"},
		"the next request":                      {nil, record{journal.Called, "llm[1]", ask(saga.CalledData{Life: 2, Identity: "q", N: 1})}, ""},
		"the undo of nothing":                   {nil, record{journal.Operator, "pay[1]", saga.CommandData{Kind: "undo"}}, "has not succeeded"},
		"a commit during a call":                {nil, record{journal.Committed, "", saga.CommittedData{}}, "committed while calls are in progress"},
		"a commit during a request and an undo": {[]record{{journal.Operator, "pay[0]", saga.CommandData{Kind: "undo"}}}, record{journal.Committed, "", saga.CommittedData{}}, "committed while calls are in progress"},
		"a commit after an abort":               {[]record{aborted}, record{journal.Committed, "", saga.CommittedData{}}, "committed while calls are in progress"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := machine.Replay(h.def, h.m.ID(), h.records)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range append(c.before, c.r) {
				if err != nil {
					t.Fatal(err)
				}
				err = m.Apply(journal.Record{Seq: m.Seq() + 1, Kind: r.kind, Path: r.path, Way: journal.Do, Data: saga.Encode(r.data)})
			}
			if (err == nil) != (c.want == "") || err != nil && (!errors.Is(err, machine.ErrImpossible) || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
