package engine_test

import (
	"errors"
	"testing"
	"time"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// A request to undo a saga may be checked in time, and its saga begin only after the window, such
// as on a node that was frozen meanwhile. It is refused then: a saga that has undone it in time
// may have been deleted since. Until a minute after the window, neither of them is deleted.
func TestUndoBegunTooLate(t *testing.T) {
	b := newBench(t, `
saga: x
retention: 1m
steps: [{id: a, http: "POST http://w/a", compensate: {http: "DELETE http://w/a", undo_within: 1h}}]
`)
	b.lease("n1")
	id := b.start()
	b.handle(b.append())
	b.handle(engine.Answered{ID: id, Path: "a", Way: journal.Do, Attempt: 1, Answer: saga.Answer{Sent: true, Status: 200}})
	b.handle(b.append())
	head, err := b.store.Saga(t.Context(), id)
	if err != nil || head.Status != string(saga.Succeeded) || !head.DeleteAt.Equal(b.now.Add(time.Hour+time.Minute)) {
		t.Fatalf("%s, to be deleted at %v, %v", head.Status, head.DeleteAt, err)
	}
	records, err := b.store.Records(t.Context(), id, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	m, err := machine.Replay(b.def, id, records)
	if err != nil {
		t.Fatal(err)
	}
	begin := engine.StartSaga{Def: b.def, Start: journal.Start{Definition: "x", Version: 1, Key: journal.UndoKey(id)}, Data: machine.BeginUndo(m, records, machine.StartOptions{}), Reply: 1}
	b.now = b.now.Add(time.Hour)
	take[engine.Replied](b)
	begin.ID[15] = 1
	b.handle(begin)
	if got := take[engine.Replied](b); len(got) != 1 || !errors.Is(got[0].Err, machine.ErrTooLate) {
		t.Errorf("one that begins at the window's end: %+v", got)
	}
	if cs := take[engine.Commit](b); len(cs) != 0 {
		t.Errorf("it is committed: %+v", cs)
	}
	b.now = b.now.Add(-time.Millisecond)
	begin.ID[15] = 2
	b.handle(begin)
	if c := b.append(); c.Err != nil || c.Results[0].Err != nil {
		t.Errorf("one that begins in time: %+v", c)
	}
}
