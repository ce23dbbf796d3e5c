package machine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"pgregory.net/rapid"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

const sessionActions = `action: refund
agents: auto
http: POST https://pay.example/refunds
input: {order: string}
body: {order: "${input.order}"}
retry: {attempts: 3}
compensate: {http: DELETE https://pay.example/refunds/1}
---
action: book
agents: auto
http: POST https://air.example/bookings
input: {order: string}
body: {order: "${input.order}"}
in_doubt: fail
compensate: {http: DELETE https://air.example/bookings/1}
---
action: drop
agents: auto
http: POST https://files.example/drop
input: {id: string}
body: {id: "${input.id}"}
---
action: look
agents: auto
http: GET https://air.example/bookings
input: {order: string}
`

// remote is a service that honors idempotency keys. It knows which effects stand.
type remote struct {
	done   map[string]bool // keys of requests that took effect
	stands map[string]int  // effects that stand, by path
}

// agentRun drives a session at random: an agent whose process dies and comes back, its calls, the
// answers to them, crashes of the server, and a person who cancels.
type agentRun struct {
	t       *rapid.T
	def     *saga.Definition
	m       *machine.Machine
	now     time.Time
	records []journal.Record
	flying  []machine.Send // sent, without an answer yet
	world   remote
	life    int
	process int // of that life
	leases  int
	live    bool
	asked   map[string]int
	own     ownRun
	guard   guardRun
	wake    *machine.WakeAt
}

// TestAnySession checks that a session keeps its promises whatever its agent and the world do:
// at most one effect stands for each identity, no call belongs to a life that has ended, a commit
// leaves nothing open and nothing undone, an abort undoes in the reverse order of the first
// intents, and a replay of any prefix of the journal decides the same.
func TestAnySession(t *testing.T) {
	def, errs := dsl.Session(&saga.SessionData{Name: "s", Actions: []string{"refund@1", "book@1", "look@1", "drop@1"}, MaxParallel: 3, MaxCalls: 12},
		dsl.Options{Kinds: kinds.All(), Actions: actionsOf(sessionActions)})
	if errs != nil {
		t.Fatal(errs)
	}
	rapid.Check(t, func(t *rapid.T) {
		r := &agentRun{t: t, def: def, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), process: -1, asked: map[string]int{},
			world: remote{map[string]bool{}, map[string]int{}}, own: ownRun{open: map[string]*ownWork{}}, guard: guardRun{asked: map[string]bool{}, same: map[string]string{}}}
		r.m = machine.New(def, uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001")))
		r.write(r.m.Start(saga.StartedData{Definition: def.Name, Version: 1, SHA256: def.SHA256, Input: json.RawMessage("null")}))
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			r.step()
			r.check()
		}
		r.end()
	})
}

func (r *agentRun) write(d machine.Draft) {
	r.t.Helper()
	rec, err := r.m.Append(d, r.now, "n")
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r)
	}
	r.records = append(r.records, rec)
}

// String lists the records.
func (r *agentRun) String() string {
	var b strings.Builder
	for _, rec := range r.records {
		fmt.Fprintf(&b, "%d %s %s %s %d %s %s\n", rec.Seq, rec.Kind, rec.Path, rec.Way, rec.Attempt, rec.Class, rec.Data)
	}
	return b.String()
}

func (r *agentRun) step() {
	ops := []string{"attach", "lease", "call", "call", "call", "answer", "answer", "answer", "wait", "crash", "late", "undo", "undo", "person", "commit", "cancel",
		"begin", "begin", "do", "finish", "finish", "stale", "ask", "ask"}
	switch rapid.SampledFrom(ops).Draw(r.t, "op") {
	case "attach":
		r.attach()
	case "lease": // of this life, or of one before
		lease := rapid.IntRange(1, r.leases+1).Draw(r.t, "lease")
		if d, ok := r.m.EndLife(lease, string(journal.TaskExpired), r.now); ok {
			if lease != r.leases {
				r.t.Fatalf("the end of lease %d ended lease %d\n%s", lease, r.leases, r)
			}
			r.write(d)
			r.live = false
		}
	case "call":
		r.call(r.life)
	case "late":
		if r.life > 0 { // by a life that has ended
			life := rapid.IntRange(0, r.life-1).Draw(r.t, "life")
			r.call(life)
			r.begin(life, "file")
		}
	case "begin":
		r.begin(r.life, rapid.SampledFrom(ownIDs).Draw(r.t, "id"))
	case "do":
		r.do(rapid.SampledFrom(ownIDs).Draw(r.t, "id"))
	case "finish":
		r.finishStep(rapid.SampledFrom(ownIDs).Draw(r.t, "id"))
	case "ask":
		r.ask()
	case "stale":
		r.stale(rapid.SampledFrom(ownIDs).Draw(r.t, "id"))
	case "answer":
		r.answer()
	case "wait":
		if r.wake != nil {
			r.now = r.wake.At
			r.write(r.wake.Woke)
		}
	case "crash":
		r.crash()
	case "person":
		if list := r.m.Inbox(); len(list) > 0 {
			e := list[rapid.IntRange(0, len(list)-1).Draw(r.t, "entry")]
			c := saga.Command{Do: saga.Resume{}}
			if e.Kind != saga.InboxSession {
				c = saga.Command{Path: e.Path, Do: saga.Resolve{Outcome: rapid.SampledFrom(e.Actions).Draw(r.t, "outcome")}}
			}
			d, err := r.m.Validate(r.message(), c)
			if err != nil {
				r.t.Fatalf("%v\n%s", err, r)
			}
			r.write(d)
			r.resolved(c)
		}
	case "undo":
		path := rapid.SampledFrom([]string{"refund[0]", "refund[1]", "book[0]", "own.file"}).Draw(r.t, "path")
		if d, err := r.m.Validate(r.message(), saga.Command{Path: path, Do: saga.UndoCall{}}); r.may(err) {
			r.write(d)
		}
	case "commit":
		if d, err := r.m.Validate(r.message(), saga.Command{Do: saga.CommitSession{Life: r.life}}); r.may(err) {
			if len(r.flying) > 0 {
				r.t.Fatalf("committed with %d requests in flight\n%s", len(r.flying), r)
			}
			r.write(d)
		}
	case "cancel":
		if d, err := r.m.Validate(r.message(), saga.Command{Do: saga.Cancel{}}); r.may(err) {
			r.write(d)
		}
	}
	r.decide()
}

// may reports whether there was no error. All errors must be refusals.
func (r *agentRun) may(err error) bool {
	if no := (*machine.Refusal)(nil); err != nil && !errors.As(err, &no) {
		r.t.Fatalf("%v\n%s", err, r)
	}
	return err == nil
}

// attach lets a process attach: that of the last life again, a new one, or one that was followed.
func (r *agentRun) attach() {
	process := rapid.IntRange(0, r.process+1).Draw(r.t, "process")
	c := saga.Attach{Token: "p" + strconv.Itoa(process)}
	if rapid.Bool().Draw(r.t, "knows the one before") {
		c.Previous = "p" + strconv.Itoa(r.process)
	}
	again := process == r.process && r.leases > 0
	d, err := r.m.Validate(r.message(), saga.Command{Do: c})
	switch {
	case !r.may(err):
		if process > r.process && (!r.live || c.Previous != "") && r.m.Status() != saga.Undoing && !r.ending() {
			r.t.Fatalf("a new process may not attach: %v\n%s", err, r)
		}
	case d.Kind == "":
		if !again || !r.live {
			r.t.Fatalf("process %d has a life already\n%s", process, r)
		}
	case process < r.process || again && r.live || r.live && c.Previous == "":
		r.t.Fatalf("process %d attached, and the last one was %d\n%s", process, r.process, r)
	default:
		r.write(d)
		r.leases++
		r.live = true
		if !again {
			r.process, r.life, r.asked, r.guard.asked = process, r.life+1, map[string]int{}, map[string]bool{}
		}
	}
}

// ending reports whether the session is committed or being undone.
func (r *agentRun) ending() bool {
	return slices.ContainsFunc(r.records, func(rec journal.Record) bool {
		return rec.Kind == journal.Committed || rec.Kind == journal.Cancelled || rec.Kind == journal.Compensating || rec.Kind == journal.Finished
	})
}

func (r *agentRun) message() uuid.UUID { return uuid.NewV5(r.m.ID(), strconv.Itoa(len(r.records))) }

func (r *agentRun) call(life int) {
	action := rapid.SampledFrom([]string{"refund", "book", "look", "mail"}).Draw(r.t, "action")
	input := rapid.SampledFrom([]string{`{"order":"A"}`, `{ "order": "A" }`, `{"order":"B"}`}).Draw(r.t, "input")
	c := saga.CallAction{Life: life, Action: action, Input: json.RawMessage(input)}
	identity, no := r.m.Identity(&c)
	if (no != nil) != (action == "mail") {
		r.t.Fatalf("the identity of a call of %s: %v", action, no)
	}
	c.Before = r.asked[identity]
	c.Resembles = r.m.Resembles(action, life, func(path string) bool { return r.guard.asked[path] })
	path, d, no := r.m.Call(r.message(), c)
	if no != nil {
		return
	}
	if life != r.life || life == 0 || action == "mail" || !r.live {
		r.t.Fatalf("life %d of %d called %s\n%s", life, r.life, path, r)
	}
	same, k := r.effects(action, input), r.asked[identity]
	if k < len(same) && (path != same[k] || d != nil) {
		r.t.Fatalf("call %d of %s %s in this life is answered by %s, and was by %s\n%s", k, action, input, path, same[k], r)
	}
	if action == "look" && k >= len(same) && d == nil {
		r.t.Fatalf("a read is answered by an earlier one: %s\n%s", path, r)
	}
	r.asked[identity]++
	r.guard.asked[path] = true
	if d != nil {
		r.guarded(action, d)
		r.write(*d)
	}
}

// effects lists the calls that mean the same effect: an action for an order.
func (r *agentRun) effects(action, input string) (paths []string) {
	order := func(text []byte) (d struct{ Order string }) {
		if err := json.Unmarshal(text, &d); err != nil {
			r.t.Fatal(err)
		}
		return d
	}
	for _, rec := range r.records {
		if rec.Kind != journal.Called {
			continue
		}
		var d saga.CalledData
		if err := json.Unmarshal(rec.Data, &d); err != nil {
			r.t.Fatal(err)
		}
		if d.What == saga.ActionCall && d.Action == action && order(d.Input) == order([]byte(input)) {
			paths = append(paths, rec.Path)
		}
	}
	return paths
}

// answer answers a request: it took effect or did not, and the answer says so or is lost.
func (r *agentRun) answer() {
	if len(r.flying) == 0 {
		return
	}
	i := rapid.IntRange(0, len(r.flying)-1).Draw(r.t, "which")
	s := r.flying[i]
	r.flying = slices.Delete(r.flying, i, i+1)
	a := saga.Answer{Sent: true}
	switch how := rapid.SampledFrom([]string{"200", "200", "200", "400", "503", "lost", "lost after"}).Draw(r.t, "answer"); how {
	case "200", "lost after":
		r.world.take(s)
		if how == "200" {
			a.Status, a.Body = 200, json.RawMessage(`{"id":1}`)
			break
		}
		fallthrough
	case "lost":
		a.Code = "timeout"
	case "400":
		a.Status, a.Body = 400, json.RawMessage(`{}`)
		if r.world.done[s.Key] { // a repetition gets its first answer
			r.world.take(s)
			a.Status, a.Body = 200, json.RawMessage(`{"id":1}`)
		}
	case "503":
		a.Status = 503
	}
	r.now = r.now.Add(time.Second)
	d, err := r.m.RecordOutcome(s.Path, s.Way, s.Attempt, a, r.now, 1<<63)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r)
	}
	r.write(d)
}

// take makes a request take effect, once for each key.
func (w *remote) take(s machine.Send) {
	if w.done[s.Key] || s.Request.Method == "GET" || strings.HasPrefix(s.Path, "llm[") {
		return
	}
	w.done[s.Key] = true
	if s.Way == journal.Undo {
		w.stands[s.Path] = 0
	} else {
		w.stands[s.Path]++
	}
}

// crash loses the process: another one replays the journal. A request in flight took effect, or
// not.
func (r *agentRun) crash() {
	m, err := machine.Replay(r.def, r.m.ID(), r.records)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r)
	}
	r.m, r.asked, r.guard.asked = m, map[string]int{}, map[string]bool{}
	for _, s := range r.flying {
		if rapid.Bool().Draw(r.t, "took effect") {
			r.world.take(s)
		}
		d, err := r.m.RecordOutcome(s.Path, s.Way, s.Attempt, saga.InterruptedAnswer(), r.now, 1<<63)
		if err != nil {
			r.t.Fatalf("%v\n%s", err, r)
		}
		r.write(d)
	}
	r.flying = nil
}

// decide carries out all that can be done at once.
func (r *agentRun) decide() {
	for more := true; more; {
		more, r.wake = false, nil
		for _, d := range r.m.Decide() {
			switch d := d.(type) {
			case machine.Write:
				r.write(d.Record)
				more = true
			case machine.Dispatch:
				r.write(d.Intent)
				r.flying = append(r.flying, d.Send)
				more = true
			case machine.WakeAt:
				if r.wake == nil || d.At.Before(r.wake.At) {
					r.wake = &d
				}
			}
		}
	}
}

// check checks what must hold after every step.
func (r *agentRun) check() {
	life, forward, calls := 0, 0, 0
	for _, rec := range r.records {
		switch rec.Kind {
		case journal.Attached:
			var d saga.AttachedData
			if err := json.Unmarshal(rec.Data, &d); err != nil {
				r.t.Fatal(err)
			}
			life = d.Life
		case journal.Called:
			var d saga.CalledData
			if err := json.Unmarshal(rec.Data, &d); err != nil {
				r.t.Fatal(err)
			}
			if d.Life != life {
				r.t.Fatalf("record %d: called in life %d of %d\n%s", rec.Seq, d.Life, life, r)
			}
			if d.What == saga.ActionCall {
				calls++
			}
		}
	}
	r.checkOwn()
	r.checkGuard()
	for _, action := range []string{"refund", "book"} {
		for _, input := range []string{`{"order":"A"}`, `{"order":"B"}`} {
			stands := 0
			for _, path := range r.effects(action, input) {
				stands += r.world.stands[path]
			}
			if stands > 1 {
				r.t.Fatalf("%d effects stand for %s %s\n%s", stands, action, input, r)
			}
		}
	}
	for _, s := range r.flying {
		if s.Way == journal.Do && !strings.HasPrefix(s.Path, "llm[") {
			forward++
		}
	}
	if forward > r.def.Session.MaxParallel || calls > r.def.Session.MaxCalls {
		r.t.Fatalf("%d requests in flight, %d calls\n%s", forward, calls, r)
	}
	again, err := machine.Replay(r.def, r.m.ID(), r.records)
	if err != nil {
		r.t.Fatalf("%v\n%s", err, r)
	}
	if got, want := fmt.Sprint(again.Decide()), fmt.Sprint(r.m.Decide()); got != want {
		r.t.Fatalf("a replay decides %s, not %s\n%s", got, want, r)
	}
}

// end lets the world answer everything, and the agent commit or a person cancel.
func (r *agentRun) end() {
	if rapid.Bool().Draw(r.t, "abort") {
		if d, err := r.m.Validate(r.message(), saga.Command{Do: saga.Cancel{}}); r.may(err) {
			r.write(d)
		}
	}
	for range 500 {
		r.decide()
		switch {
		case r.m.Ended():
			r.ended()
			return
		case len(r.flying) > 0:
			s := r.flying[0]
			r.flying = r.flying[1:]
			r.world.take(s)
			d, err := r.m.RecordOutcome(s.Path, s.Way, s.Attempt, saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"id":1}`)}, r.now, 1<<63)
			if err != nil {
				r.t.Fatalf("%v\n%s", err, r)
			}
			r.write(d)
		case r.wake != nil:
			r.now = r.wake.At
			r.write(r.wake.Woke)
		default:
			r.finish()
		}
	}
	r.t.Fatalf("the session does not end\n%s", r)
}

// finish attaches a process if there is none, empties the inbox, and commits.
func (r *agentRun) finish() {
	c := saga.Command{Do: saga.CommitSession{Life: r.life}}
	if entries := r.m.Inbox(); len(entries) > 0 && entries[len(entries)-1].Kind != saga.InboxSession {
		e := entries[len(entries)-1]
		c = saga.Command{Path: e.Path, Do: saga.Resolve{Outcome: e.Actions[0]}}
		r.resolved(c)
	} else if !r.live {
		c = saga.Command{Do: saga.Attach{Token: "p" + strconv.Itoa(r.process+1)}}
		r.process, r.life, r.leases, r.live = r.process+1, r.life+1, r.leases+1, true
	} else if r.finishSteps() {
		return
	}
	d, err := r.m.Validate(r.message(), c)
	if err != nil {
		r.t.Fatalf("the session is open, waits for nothing, and cannot be ended: %v\n%s", err, r)
	}
	r.write(d)
}

// ended checks an ended session.
func (r *agentRun) ended() {
	var first, undone []string // undone: by an abort, or after a commit
	over := false
	for _, rec := range r.records {
		switch {
		case rec.Kind == journal.Compensating || rec.Kind == journal.Committed:
			over = true
		case rec.Kind == journal.Intent && rec.Way == journal.Do && !slices.Contains(first, rec.Path):
			first = append(first, rec.Path)
		case over && rec.Kind == journal.Intent && rec.Way == journal.Undo && !slices.Contains(undone, rec.Path):
			undone = append(undone, rec.Path)
		}
	}
	stands := 0
	for _, n := range r.world.stands {
		stands += n
	}
	v := r.m.View()
	switch v.Status {
	case saga.Succeeded:
		if len(undone) > 0 {
			r.t.Fatalf("committed, and %v undone\n%s", undone, r)
		}
	case saga.Compensated:
		if stands > 0 {
			r.t.Fatalf("compensated, and %v stand\n%s", r.world.stands, r)
		}
	}
	slices.Reverse(first)
	first = slices.DeleteFunc(first, func(p string) bool { return !slices.Contains(undone, p) })
	if !slices.Equal(first, undone) {
		r.t.Fatalf("undone in the order %v, want %v\n%s", undone, first, r)
	}
}
