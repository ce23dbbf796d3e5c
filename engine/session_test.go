package engine_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
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
		n, err := b.store.ReapTasks(context.Background(), 10, engine.Reaped)
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
