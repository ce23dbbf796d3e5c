package activity

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"recourse/journal"
	"recourse/saga"
)

// logOf reads records, which are given as their kinds, paths and data, one per second.
func logOf(t *testing.T, records ...journal.Record) *Log {
	t.Helper()
	l := new(Log)
	for i := range records {
		records[i].Seq, records[i].At = int64(i+1), time.Unix(int64(i), 0)
		l.Add(&records[i])
	}
	return l
}

func record(kind journal.Kind, path string, data any) journal.Record {
	return journal.Record{Kind: kind, Path: path, Data: saga.Encode(data)}
}

func called(path string, d saga.CalledData) journal.Record {
	if d.What == "" {
		d.What = saga.ActionCall
	}
	return record(journal.Called, path, d)
}

func asked(path, from string) journal.Record {
	d := saga.CalledData{What: saga.ModelAsk, Life: 1, Input: json.RawMessage(`{"route": "openai/chat/completions", "model": "m"}`)}
	if from != "" {
		d.Diverged = &saga.Divergence{From: from}
	}
	return called(path, d)
}

func outcome(path string, class journal.Class, d saga.OutcomeData) journal.Record {
	r := record(journal.Outcome, path, d)
	r.Class, r.Attempt = class, 1
	return r
}

// list writes the items, one on each line.
func (l *Log) list() string {
	var b strings.Builder
	for _, i := range l.Items {
		switch {
		case i.Life != nil:
			fmt.Fprintf(&b, "life %d again=%v %s\n", i.Life.Number, i.Life.Again, i.Life.How)
		case i.Step != nil:
			fmt.Fprintf(&b, "%s own=%v %s\n", i.Step.Path, i.Step.Own, i.Step.Identity)
		case i.Moment != nil:
			fmt.Fprintf(&b, "%s %s by %s: %s\n", i.Moment.Path, i.Moment.Text, i.Moment.By, i.Moment.Reason)
		default:
			fmt.Fprintf(&b, "%d asks from %s\n", len(i.Asks), i.Asks[0].Path)
		}
	}
	return b.String()
}

// The list is in the order of the journal; neighbouring requests to models are one item, and their
// outcomes belong to them wherever they stand.
func TestLog(t *testing.T) {
	attached := func(life int) journal.Record {
		return record(journal.Attached, "", saga.AttachedData{Life: life, Holder: "w"})
	}
	woke := func(timer string) journal.Record { return record(journal.Woke, "", saga.WokeData{Timer: timer}) }
	l := logOf(t, record(journal.Started, "", saga.StartedData{}),
		attached(1), asked("llm[0]", ""), asked("llm[1]", ""),
		outcome("llm[1]", journal.Refused, saga.OutcomeData{Error: &saga.Failure{Code: "c", Title: "too busy"}}),
		called("pay[0]", saga.CalledData{Identity: "input:pay:77", Life: 1}),
		outcome("llm[0]", journal.Succeeded, saga.OutcomeData{Cost: "0.5", Tokens: &saga.TokensView{Input: 7, Output: 3}}),
		asked("llm[2]", ""), woke(saga.TimerLease), attached(1), woke(saga.TimerDetach), woke(saga.TimerLost),
		record(journal.Resumed, "", saga.CommandData{Kind: "resume", Actor: "ann", Reason: "wait"}), attached(2),
		asked("llm[3]", "llm[0]"),
		called("own.file", saga.CalledData{What: saga.OwnStep, Identity: "own:file", Life: 2, Own: &saga.OwnData{Effect: saga.Undoable}}),
		called("own.file", saga.CalledData{What: saga.OwnStep, Identity: "own:file", N: 1, Life: 2}),
		called("pay[1]", saga.CalledData{Identity: "id:my own", Life: 2, Resembles: "pay[0]"}),
		record(journal.Operator, "pay[1]", saga.CommandData{Kind: "resolve", Outcome: "same", Actor: "bob"}),
		record(journal.Operator, "pay[1]", saga.CommandData{Kind: "resolve", Rejected: &saga.Failure{}}),
		record(journal.Cancelled, "", saga.CommandData{Kind: "cancel", Actor: "ann", Reason: "wrong"}),
		record(journal.Finished, "", saga.FinishedData{Status: saga.Compensated}))
	want := `life 1 again=false its process sent no heartbeat, and its lease has ended
2 asks from llm[0]
pay[0] own=false action and input
1 asks from llm[2]
life 1 again=true its process has detached
 No process of the agent has come back in time by : 
 The session was resumed by ann: wait
life 2 again=false the session has ended
1 asks from llm[3]
own.file own=true 
own.file The agent begins it again by : 
pay[1] own=false the id my own, which the agent has given
pay[1] Command of a person: resolve as same by bob: 
 The session was aborted by ann: wrong
 The session has ended as compensated by : 
`
	if got := l.list(); got != want {
		t.Errorf("the list is\n%s\nnot\n%s", got, want)
	}
	first, second := l.Ask("llm[0]"), l.Ask("llm[1]")
	if first.Cost != "0.5" || first.Tokens.Output != 3 || first.Model != "m" || first.Failed != "" || !first.Ended.Equal(time.Unix(6, 0)) {
		t.Errorf("the first request is %+v", first)
	}
	if !strings.Contains(second.Failed, "too busy") || !l.Ask("llm[2]").Ended.IsZero() {
		t.Errorf("the others are %+v and %+v", second, l.Ask("llm[2]"))
	}
	if len(l.Diverged) != 1 || l.Diverged[0].Path != "llm[3]" || l.Calls() != 2 || l.OwnSteps() != 1 || l.Asks() != 4 || l.Last().Number != 2 {
		t.Errorf("%d diverged, %d calls, %d own steps, %d requests, life %d", len(l.Diverged), l.Calls(), l.OwnSteps(), l.Asks(), l.Last().Number)
	}
}

// Many requests in a row are several items, so that the list can be cut into pages.
func TestManyAsks(t *testing.T) {
	var records []journal.Record
	for i := range 2*mostFolded + 1 {
		records = append(records, asked(fmt.Sprintf("llm[%d]", i), ""))
	}
	if got, want := logOf(t, records...).list(), fmt.Sprintf("%d asks from llm[0]\n%d asks from llm[%d]\n1 asks from llm[%d]\n", mostFolded, mostFolded, mostFolded, 2*mostFolded); got != want {
		t.Errorf("the list is\n%s", got)
	}
}

// A journal that another program has damaged still has a list.
func TestUnreadable(t *testing.T) {
	bad := func(kind journal.Kind) journal.Record {
		return journal.Record{Kind: kind, Path: "llm[0]", Data: json.RawMessage(`{"what": 1, "life": "x"}`)}
	}
	l := logOf(t, asked("llm[0]", ""), bad(journal.Attached), bad(journal.Called), bad(journal.Outcome), bad(journal.Woke), bad(journal.Cancelled), bad(journal.Finished))
	if len(l.Items) == 0 {
		t.Error("nothing is listed")
	}
}
