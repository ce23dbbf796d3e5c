package engine

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
)

// parked makes a saga with tasks on a node of its own.
func parked(t *testing.T, s journal.Store, tasks ...journal.Task) uuid.UUID {
	t.Helper()
	if _, err := s.Register(t.Context(), "n", time.Hour); err != nil {
		t.Fatal(err)
	}
	id := uuid.Must(uuid.NewV7())
	r := journal.Record{Seq: 1, At: time.UnixMilli(1).UTC(), Kind: journal.Started, Node: "n"}
	journal.Seal(id, nil, &r)
	got, err := s.Append(t.Context(), "n", []journal.Append{{Saga: id, Start: &journal.Start{Definition: "d", Version: 1, CreatedAt: r.At}, Records: []journal.Record{r},
		Row: &journal.Row{Status: "waiting", Seq: 1, UpdatedAt: r.At}, Tasks: tasks}})
	if err != nil || got[0].Err != nil {
		t.Fatal(err, got)
	}
	return id
}

func TestReapOnce(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000).UTC()
	s := memory.New(memory.Config{Now: func() time.Time { return now }})
	work := func(path string, way journal.Way, attempt int) journal.Task {
		return journal.Task{ID: uuid.Must(uuid.NewV4()), Path: path, Way: way, Attempt: attempt, Type: path, Lease: time.Second, Timeout: time.Minute}
	}
	silent, unwanted, patient := work("pages[3].fetch", journal.Undo, 2), work("b", journal.Do, 1), work("c", journal.Do, 1)
	id := parked(t, s, silent, unwanted, patient)
	if _, err := s.ClaimTasks(t.Context(), journal.TaskClaim{Worker: "w", Types: []string{silent.Type}, Max: 1, Token: uuid.Must(uuid.NewV4())}); err != nil {
		t.Fatal(err)
	}
	reap := func(want int) {
		t.Helper()
		if n, _, err := reapOnce(t.Context(), s); n != want || err != nil {
			t.Fatalf("reapOnce = %d, %v, want %d", n, err, want)
		}
	}
	reap(0)
	if _, err := s.Append(t.Context(), "n", []journal.Append{{Saga: id, Row: &journal.Row{Status: "waiting", Seq: 1}, Withdraw: []uuid.UUID{unwanted.ID}}}); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Second)
	reap(2)
	reap(0)

	messages, err := s.Messages(t.Context(), []uuid.UUID{id}, 10, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]saga.Command{}
	for _, m := range messages {
		var c saga.Command
		if err := json.Unmarshal(m.Data, &c); err != nil {
			t.Fatal(err)
		}
		if m.ID.Version() != 7 || m.Saga != id || m.Kind != "command" {
			t.Errorf("message %+v", m)
		}
		got[c.Path] = c
	}
	want := map[string]saga.Command{
		"pages[3].fetch": {Do: saga.EndTask{Way: journal.Undo, Attempt: 2, Result: saga.TaskResult{Outcome: "expired"}}, Path: "pages[3].fetch"},
		"b":              {Do: saga.EndTask{Way: journal.Do, Attempt: 1, Result: saga.TaskResult{Outcome: "withdrawn"}}, Path: "b"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for outcome, a := range map[string]saga.Answer{"expired": {Sent: true, Code: "heartbeat_lost"}, "withdrawn": {Code: "withdrawn"}} {
		if got := (&saga.TaskResult{Outcome: outcome}).Answer(); got.Sent != a.Sent || got.Code != a.Code {
			t.Errorf("%s: %+v", outcome, got)
		}
	}
}

// Tasks that ended long ago are all deleted in one pass, however many there are.
func TestReapDeletesAllOldTasks(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000).UTC()
	s := memory.New(memory.Config{Now: func() time.Time { return now }})
	list := make([]journal.Task, 10*reapLimit)
	for i := range list {
		list[i] = journal.Task{ID: uuid.Must(uuid.NewV4()), Path: "a", Way: journal.Do, Attempt: 1, Type: "t", Lease: time.Second, Timeout: time.Minute}
	}
	id, token := parked(t, s, list...), uuid.Must(uuid.NewV4())
	if got, err := s.ClaimTasks(t.Context(), journal.TaskClaim{Worker: "w", Types: []string{"t"}, Max: len(list), Token: token}); len(got) != len(list) || err != nil {
		t.Fatal(len(got), err)
	}
	// The end of a task that has ended succeeds while the store knows the task.
	known := func() (n int) {
		for _, w := range list {
			m := journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: "result"}
			if s.EndTask(t.Context(), w.ID, token, "done", m) == nil {
				n++
			}
		}
		return n
	}
	if n := known(); n != len(list) {
		t.Fatalf("%d of %d tasks ended", n, len(list))
	}
	now = now.Add(journal.TaskKept + time.Hour)
	New(Config{Store: s}).reapAll()
	if n := known(); n != 0 {
		t.Errorf("%d tasks are left", n)
	}
}

// away is a store that does not respond.
type away struct{ journal.Tasks }

func (away) ReapTasks(context.Context, int, func(journal.Task, journal.TaskEnd) journal.Message) (int, bool, error) {
	return 0, false, errors.New("away")
}

func TestReapAway(t *testing.T) {
	if _, _, err := reapOnce(t.Context(), away{}); err == nil {
		t.Error("no error")
	}
}
