package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/internal/notify"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

const sessionAction = "action: charge\nagents: auto\nhttp: POST http://pay.example/charges\nin_doubt: retry\ncompensate: none\n"

func newSessionBench(t *testing.T) *bench {
	t.Helper()
	b := newBench(t, "saga: x\nsteps: [{id: a, set: 1}]\n")
	def, errs := dsl.Session(&saga.SessionData{Name: "s", Actions: []string{"charge@1"}}, dsl.Options{Kinds: kinds.All(), Actions: func(_ string, version int) (*saga.Action, error) {
		a, errs := dsl.ParseAction("charge", []byte(sessionAction), dsl.Options{Kinds: kinds.All()})
		if errs != nil {
			return nil, errs
		}
		a.Version = version
		return a, nil
	}})
	if errs != nil {
		t.Fatal(errs)
	}
	b.def = def
	return b
}

// ask asks the lane, and returns whether it has taken the command.
func (b *bench) ask(id uuid.UUID, do saga.Operation) (message uuid.UUID, took bool) {
	b.t.Helper()
	message = uuid.Must(uuid.NewV7())
	b.handle(engine.Asked{ID: id, Message: message, Command: saga.Command{Do: do}, Reply: 1})
	answers := take[engine.Took](b)
	if len(answers) != 1 {
		b.t.Fatalf("%d answers to an Asked", len(answers))
	}
	return message, answers[0].Took
}

// openSession starts a session and brings its first command as a message, because a session without
// a process leaves memory.
func (b *bench) openSession() uuid.UUID {
	b.t.Helper()
	b.lease("n1")
	id := b.start()
	b.handle(b.append())
	if _, took := b.ask(id, saga.Attach{Token: "aa"}); took {
		b.t.Fatal("the lane has taken a command of a session that it has released")
	}
	c, err := json.Marshal(saga.Command{Do: saga.Attach{Token: "aa"}})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.store.Send(context.Background(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: saga.CommandMessage, Data: c}); err != nil {
		b.t.Fatal(err)
	}
	b.handle(b.claim("n1"))
	b.handle(b.append())
	take[engine.Dropped](b)
	return id
}

// A session with a process stays in memory for a while, and a call takes two commits: the call with
// the intent of its request, and the outcome.
func TestSessionStays(t *testing.T) {
	b := newSessionBench(t)
	id := b.openSession()
	if b.lane.Len() != 1 {
		t.Fatal("a session whose process has just attached left memory")
	}
	message, took := b.ask(id, saga.CallAction{Life: 1, Action: "charge"})
	if !took {
		t.Fatal("the lane has not taken a call")
	}
	if again := func() bool { // the same command comes again as a message
		b.handle(engine.Received{ID: id, Messages: []journal.Message{{ID: message, Saga: id, Kind: saga.CommandMessage, Data: json.RawMessage(`{"command":"call","life":1,"action":"charge"}`)}}})
		return len(take[engine.Perform](b)) > 0
	}(); again {
		t.Error("sent before its intent was durable")
	}
	if row := pendingCommits(b)[0].Batch[0].Row; row != nil {
		t.Errorf("a call wrote the session's row: %+v", row)
	}
	b.handle(b.append())
	sent := take[engine.Perform](b)
	if len(sent) != 1 || sent[0].Send.Path != "charge[0]" {
		t.Fatalf("sent %+v", sent)
	}
	b.handle(engine.Answered{ID: id, Path: "charge[0]", Way: journal.Do, Attempt: 1, Answer: saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{}`)}, At: b.now})
	for len(b.out) > 0 && len(pendingCommits(b)) > 0 {
		b.handle(b.append())
	}
	records, err := b.store.Records(context.Background(), id, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	var kinds []journal.Kind
	for _, r := range records {
		kinds = append(kinds, r.Kind)
	}
	if len(kinds) != 5 || kinds[2] != journal.Called || kinds[3] != journal.Intent || kinds[4] != journal.Outcome {
		t.Errorf("records %v", kinds)
	}
	b.now = b.now.Add(2 * time.Minute)
	b.handle(engine.Tick{})
	b.handle(b.append())
	if b.lane.Len() != 0 {
		t.Error("an idle session is still in memory after two minutes")
	}
}

// What a session does not store reaches its node with the command, also as a message. The request
// has it, and no record and no content.
func TestAskSendsWhatIsNotStored(t *testing.T) {
	for name, bring := range map[string]func(b *bench, id uuid.UUID, do saga.Operation){
		"asked": func(b *bench, id uuid.UUID, do saga.Operation) { b.ask(id, do) },
		"message": func(b *bench, id uuid.UUID, do saga.Operation) {
			m, err := saga.Command{Do: do}.Message(uuid.Must(uuid.NewV7()), id)
			if err != nil {
				b.t.Fatal(err)
			}
			b.handle(engine.Received{ID: id, Messages: []journal.Message{m}})
		},
	} {
		b := newSessionBench(t)
		id := b.openSession()
		const prompt = `{"model": "m", "messages": ["a secret"]}`
		bring(b, id, saga.AskModel{Life: 1, Identity: "i", Input: json.RawMessage(`{"route":"openai/chat/completions","model":"m"}`), Body: []byte(prompt)})
		for _, c := range pendingCommits(b) {
			doc, err := json.Marshal(c.Batch)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(doc), "secret") || len(c.Batch[0].Blobs) > 0 {
				t.Errorf("%s: committed %s", name, doc)
			}
		}
		b.handle(b.append())
		sent := take[engine.Perform](b)
		if len(sent) != 1 || sent[0].Send.Request.Content == nil || string(*sent[0].Send.Request.Content) != prompt {
			t.Errorf("%s: sent %+v", name, sent)
		}
	}
}

// pendingCommits returns the commits that the test has not carried out.
func pendingCommits(b *bench) (list []engine.Commit) {
	for _, eff := range b.out {
		if c, ok := eff.(engine.Commit); ok {
			list = append(list, c)
		}
	}
	return list
}

// A life has a claimed task whose lease ends the life, and only the last life's.
func TestSessionLease(t *testing.T) {
	b := newSessionBench(t)
	id := b.openSession()
	reap := func() (n int) {
		n, _, err := b.store.ReapTasks(context.Background(), 10, engine.Reaped)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := reap(); n != 0 {
		t.Fatalf("%d leases have ended at once", n)
	}
	if _, took := b.ask(id, saga.Attach{Token: "bb", Previous: "aa"}); !took {
		t.Fatal("not taken")
	}
	b.handle(b.append())
	b.now = b.now.Add(saga.DefaultLease + time.Second)
	if n := reap(); n != 2 {
		t.Fatalf("%d leases have ended, want both", n)
	}
	messages, err := b.store.Messages(context.Background(), []uuid.UUID{id}, 10, 1<<20)
	if err != nil || len(messages) != 2 {
		t.Fatalf("%d messages, %v", len(messages), err)
	}
	b.handle(engine.Received{ID: id, Messages: messages})
	for len(pendingCommits(b)) > 0 {
		b.handle(b.append())
	}
	records, err := b.store.Records(context.Background(), id, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	ends := 0
	for _, r := range records {
		if r.Kind == journal.Woke {
			ends++
		}
	}
	if ends != 1 {
		t.Errorf("%d ends of leases are in the journal, want that of the last life", ends)
	}
	if b.lane.Len() != 0 {
		t.Error("a session without a process is still in memory")
	}
}

// A node that loads a session does not end the attempt of an own step, which the agent makes.
func TestOwnStepOutlivesTheNode(t *testing.T) {
	b := newSessionBench(t)
	id := b.openSession()
	if _, took := b.ask(id, saga.BeginStep{Life: 1, ID: "file", OwnData: saga.OwnData{Effect: saga.Undoable}}); !took {
		t.Fatal("the lane has not taken the begin")
	}
	b.handle(b.append())
	b.now = b.now.Add(2 * time.Minute)
	b.handle(engine.Tick{})
	b.handle(b.append())
	if b.lane.Len() != 0 {
		t.Fatal("an idle session is still in memory")
	}
	finish, err := saga.Command{Do: saga.FinishStep{Life: 1, ID: "file", Attempt: 1, Status: saga.OwnSucceeded}}.Message(uuid.Must(uuid.NewV7()), id)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.store.Send(context.Background(), finish); err != nil {
		t.Fatal(err)
	}
	b.handle(b.claim("n1"))
	b.handle(b.append())
	records := b.records(id)
	if last := records[len(records)-1]; last.Kind != journal.Outcome || last.Class != journal.Succeeded || len(records) != 5 {
		t.Errorf("%d records, the last one is %s %s", len(records), last.Kind, last.Class)
	}
}

// The loss of a session's process is announced once for each lease, and not at the end of the
// session.
func TestSessionLost(t *testing.T) {
	b := newSessionBench(t)
	b.lane = b.newLane(everyone())
	id := b.openSession()
	if events, err := b.store.ClaimEvents(t.Context(), []string{"ops"}, 100, time.Hour); err != nil || len(events) > 0 {
		t.Fatalf("events of a session with a process: %v %v", events, err)
	}
	node := "n1"
	receive := func(do saga.Operation) []notification {
		c, err := json.Marshal(saga.Command{Do: do})
		if err != nil {
			t.Fatal(err)
		}
		m := journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: saga.CommandMessage, Data: c}
		if err := b.store.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		if b.lane.Len() > 0 {
			b.handle(engine.Received{ID: id, Messages: []journal.Message{m}})
		} else {
			b.handle(b.claim(node))
		}
		defer take[engine.Dropped](b)
		return b.commit()
	}
	leaseEnds := func(lease int, how journal.TaskEnd) []notification {
		return receive(saga.EndTask{Way: journal.Do, Attempt: lease, Result: saga.TaskResult{Outcome: string(how)}})
	}
	list := leaseEnds(1, journal.TaskExpired)
	if len(list) != 1 || list[0].Type != "recourse.session.lost" || list[0].Data.Kind != notify.Lost || !strings.Contains(list[0].Data.Detail, "then a person has to decide") || list[0].Data.URL != "https://page/sagas/"+id.String() {
		t.Fatalf("at the end of the first lease: %+v", list)
	}
	b.lane, node = b.newLane(everyone()), "n2"
	b.lease(node)
	if list := receive(saga.Attach{Token: "bb"}); len(list) > 0 {
		t.Errorf("a new process, on another node: %v", types(list))
	}
	if again := leaseEnds(2, saga.TaskCompleted); len(again) != 1 || again[0].id == list[0].id {
		t.Errorf("at the end of the second lease: %v", types(again))
	}
	if list := receive(saga.Attach{Token: "cc"}); len(list) > 0 {
		t.Errorf("a third process: %v", types(list))
	}
	if list := receive(saga.CommitSession{Life: 3}); len(list) > 0 {
		t.Errorf("at the end: %v", types(list))
	}
}
