package history_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

var begin = time.Date(2026, 11, 23, 8, 0, 0, 0, time.UTC)

// records numbers records and gives them times, one second apart.
func records(list ...journal.Record) []journal.Record {
	for i := range list {
		r := &list[i]
		r.Seq, r.At = int64(i)+1, begin.Add(time.Duration(i)*time.Second)
		if r.Node == "" {
			r.Node = "n1"
		}
	}
	return list
}

func intent(path string, attempt int, data string) journal.Record {
	return journal.Record{Kind: journal.Intent, Path: path, Way: journal.Do, Attempt: attempt, Key: "k1", Data: json.RawMessage(data)}
}

func outcome(path string, attempt int, class journal.Class, data string) journal.Record {
	return journal.Record{Kind: journal.Outcome, Path: path, Way: journal.Do, Attempt: attempt, Class: class, Data: json.RawMessage(data)}
}

// read returns the events of records.
func read(r *history.Reader, list []journal.Record) []history.Event {
	var all []history.Event
	for i := range list {
		all = append(all, r.Read(&list[i]))
	}
	return all
}

// An outcome is matched with the intent of the same attempt of the same track.
func TestOutcomesHaveTheirIntents(t *testing.T) {
	list := records(
		journal.Record{Kind: journal.Started},
		intent("pay", 1, `{"request":{"method":"POST","url":"http://x/"}}`),
		intent("pay.verify", 1, `{"request":{"method":"GET","url":"http://x/"}}`),
		outcome("pay.verify", 1, journal.Succeeded, `{}`),
		outcome("pay", 1, journal.Succeeded, `{"output":1}`),
		intent("wait", 0, `{}`),
		outcome("wait", 0, journal.Succeeded, `{}`),
		outcome("pay", 2, journal.Succeeded, `{}`),
	)
	var r history.Reader
	all := read(&r, list)
	for i, want := range map[int]*journal.Record{3: &list[2], 4: &list[1], 6: nil, 7: nil} {
		if got := all[i].Begun; got.Record != want || got.Known() != (want != nil) {
			t.Errorf("record %d: begun by %v, want %v", i+1, got, want)
		}
	}
	if got, want := all[4].Since-all[1].Since, 3*time.Second; got != want {
		t.Errorf("the attempt took %s, want %s", got, want)
	}
	if got, want := all[3].Track, (history.Track{Step: "pay", Way: journal.Do, Check: true}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if !r.Began().Equal(begin) {
		t.Errorf("began at %s", r.Began())
	}
}

// A takeover is reported once, at the first record of the other process.
func TestTakeover(t *testing.T) {
	list := records(journal.Record{Kind: journal.Started}, intent("a", 1, `{}`), journal.Record{Kind: journal.Paused, Node: "n2"}, journal.Record{Kind: journal.Resumed, Node: "n2"})
	var r history.Reader
	for i, e := range read(&r, list) {
		if e.TakeOver != (i == 2) {
			t.Errorf("record %d: takeover %t", i+1, e.TakeOver)
		}
	}
}

// Data has the type of its kind.
func TestData(t *testing.T) {
	for kind, want := range map[journal.Kind]string{
		journal.Started: "*saga.StartedData", journal.Intent: "*saga.IntentData", journal.Outcome: "*saga.OutcomeData", journal.Decided: "*saga.DecidedData",
		journal.Woke: "*saga.WokeData", journal.Signalled: "*saga.SignalData", journal.Compensating: "*saga.CompensatingData",
		journal.Operator: "*saga.CommandData", journal.Paused: "*saga.CommandData", journal.Resumed: "*saga.CommandData", journal.Cancelled: "*saga.CommandData",
		journal.Finished: "*saga.FinishedData", journal.Skipped: "<nil>", "later": "<nil>",
	} {
		for _, doc := range []json.RawMessage{nil, json.RawMessage(`{}`)} {
			e := new(history.Reader).Read(&journal.Record{Seq: 1, Kind: kind, Data: doc})
			d, err := e.Data()
			if got := fmt.Sprintf("%T", d); err != nil || got != want {
				t.Errorf("%s: got %s, %v, want %s", kind, got, err, want)
			}
			if again, _ := e.Data(); again != d {
				t.Errorf("%s: decoded twice", kind)
			}
		}
	}
}

// Data that cannot be read is an error.
func TestUnreadable(t *testing.T) {
	list := records(outcome("a", 1, journal.Succeeded, `{"status_code":200,"cost":7}`))
	all := read(new(history.Reader), list)
	if d, err := all[0].Data(); d != nil || err == nil {
		t.Errorf("got %v, %v", d, err)
	}
	if err := new(history.Steps).Add(&list[0]); !errors.Is(err, saga.ErrUnreadable) {
		t.Errorf("got %v", err)
	}
	for _, list := range [][]journal.Record{nil, list, records(journal.Record{Kind: journal.Started}), records(journal.Record{Kind: journal.Started, Data: json.RawMessage(`[]`)})} {
		if _, err := history.Started(list); err == nil {
			t.Errorf("%v has a start", list)
		}
	}
	for doc, want := range map[string]bool{`{"message":"m"}`: true, `{"message":7}`: false} {
		if d, ok := history.DataOf[saga.CommandData](&journal.Record{Kind: journal.Operator, Data: json.RawMessage(doc)}); ok != want || ok && d.Message != "m" {
			t.Errorf("%s: %+v, %t", doc, d, ok)
		}
	}
	if _, ok := history.DataOf[saga.CommandData](&list[0]); ok {
		t.Error("an outcome has the data of a command")
	}
}

// DataOf does not decode the data of a record of another kind.
func TestDataOfOtherKindsIsNotDecoded(t *testing.T) {
	r := outcome("a", 1, journal.Succeeded, `{"output":{"a":1,"b":[2,3]},"error":{"code":"http_503"},"cost":"0.10"}`)
	ok := false
	other := testing.AllocsPerRun(10, func() { _, ok = history.DataOf[saga.CommandData](&r) })
	if ok || other > 1 { // the empty data of the record's own kind
		t.Errorf("%t after %v allocations", ok, other)
	}
	if own := testing.AllocsPerRun(10, func() { _, ok = history.DataOf[saga.OutcomeData](&r) }); !ok || own <= other {
		t.Errorf("%t after %v allocations: the data is not decoded", ok, own)
	}
}

// A step has its attempts on all tracks, its last request, its first output and its cost.
func TestSteps(t *testing.T) {
	undo := intent("pay", 1, `{"request":{"method":"DELETE","url":"http://x/1"}}`)
	undo.Way = journal.Undo
	var s history.Steps
	for _, r := range records(
		intent("pay", 1, `{"request":{"method":"POST","url":"http://x/"}}`),
		outcome("pay", 1, journal.InDoubt, `{"cost":"0.10"}`),
		intent("pay.verify", 1, `{"request":{"method":"GET","url":"http://x/"}}`),
		outcome("pay.verify", 1, journal.Succeeded, `{"output":"checked"}`),
		intent("pay", 2, `{"request":{"method":"PUT","url":"http://x/"}}`),
		outcome("pay", 2, journal.Succeeded, `{"status_code":201,"output":"first","cost":"0.25"}`),
		undo,
	) {
		if err := s.Add(&r); err != nil {
			t.Fatal(err)
		}
	}
	got := s.Step("pay")
	if got == nil || len(got.Attempts) != 4 || got.Cost() != "0.35" || string(got.Output) != `"first"` || string(got.Input) != `{"method":"PUT","url":"http://x/"}` {
		t.Fatalf("got %+v", got)
	}
	if a := got.Attempts[2]; a.Query || a.StatusCode != 201 || a.EndedAt == nil || !a.EndedAt.Equal(begin.Add(5*time.Second)) {
		t.Errorf("got %+v", a)
	}
	if a := got.Attempts[3]; a.Way != journal.Undo || a.EndedAt != nil || a.Class != "" {
		t.Errorf("got %+v", a)
	}
	if s.Step("other") != nil {
		t.Error("a step without records has some")
	}
}

// The record of an intent can be dropped; the attempt stays in flight until its outcome.
func TestDrop(t *testing.T) {
	list := records(
		intent("pay", 1, `{}`),
		intent("tell", 1, `{}`),
		outcome("pay", 1, journal.Succeeded, `{}`),
	)
	var r history.Reader
	first := r.Read(&list[0])
	r.Drop(first.Track)
	r.Drop(history.Track{Step: "other"})
	r.Read(&list[1])
	if e := r.Read(&list[2]); !e.Begun.Known() || !e.Begun.At.Equal(begin) || e.Begun.Record != nil {
		t.Errorf("got %+v", e.Begun)
	}
	n := 0
	for track, b := range r.InFlight() {
		n++
		if track.Step != "tell" || b.Record != &list[1] {
			t.Errorf("%v is in flight", track)
		}
	}
	if n != 1 {
		t.Errorf("%d attempts are in flight, want 1", n)
	}
}

// An outcome is read without its documents, as far as it can be read.
func TestOutcomeOf(t *testing.T) {
	good := outcome("a", 1, journal.Transient, `{"status_code":503,"result":[1],"error":{"code":"http_503"},"next":"retry"}`)
	d, err := history.OutcomeOf(&good)
	if err != nil || d.StatusCode != 503 || d.Error == nil || d.Error.Code != "http_503" || d.Next != saga.NextRetry {
		t.Errorf("got %+v, %v", d, err)
	}
	bad := outcome("a", 1, journal.Succeeded, `{"status_code":200,"cost":7}`)
	if d, err := history.OutcomeOf(&bad); err == nil || d.StatusCode != 200 {
		t.Errorf("got %+v, %v", d, err)
	}
}

func TestModelUse(t *testing.T) {
	for _, tt := range []struct {
		intent, outcome, model string
		input                  int64
	}{
		{`{"request":{"body":{"model":"small"}}}`, `{"tokens":{"input":10,"output":2}}`, "small", 10},
		{`{"request":{"body":[]}}`, `{"tokens":{"input":10,"output":2}}`, "", 10},
		{`{"request":{"body":{"model":"small"}}}`, `{}`, "", 0},
		{`{"request":{"body":{"model":"small"}}}`, `{"tokens":7}`, "", 0},
		{``, `{"tokens":{"input":10,"output":2}}`, "", 10},
	} {
		list := records(intent("a", 1, tt.intent), outcome("a", 1, journal.Succeeded, tt.outcome))
		var r history.Reader
		if tt.intent != "" {
			r.Read(&list[0])
		}
		e := r.Read(&list[1])
		if model, used := e.ModelUse(); model != tt.model || used.Input != tt.input {
			t.Errorf("%s, %s: got %q, %+v", tt.intent, tt.outcome, model, used)
		}
	}
}
