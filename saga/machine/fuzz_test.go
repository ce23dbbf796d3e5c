package machine_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
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

var fuzzID = uuid.Must(uuid.FromString("01920000-0000-7000-8000-000000000001"))

func fuzzDefinition(tb testing.TB) *saga.Definition { return parsed(tb, everything) }

func parsed(tb testing.TB, source string) *saga.Definition {
	tb.Helper()
	def, errs := dsl.Parse("fuzzed", []byte(source), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		tb.Fatal(errs)
	}
	return def
}

// lived is the journal of a saga that got these answers, one after another, and then 200s;
// after mailed records it gets the command order.
func lived(tb testing.TB, def *saga.Definition, n int, order saga.Command, mailed int, answers ...string) []byte {
	tb.Helper()
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := machine.New(def, fuzzID)
	var out bytes.Buffer
	write := func(d machine.Draft, err error) {
		if err != nil {
			tb.Fatal(err)
		}
		r, err := m.Append(d, now, "n")
		if err != nil {
			tb.Fatal(err)
		}
		line, err := journal.Encode(r)
		if err != nil {
			tb.Fatal(err)
		}
		out.Write(append(line, '\n'))
	}
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))})
	if wrong != nil {
		tb.Fatal(wrong)
	}
	write(m.Start(data), nil)
	for range 200 {
		if m.Seq() >= int64(mailed) && order.Do != nil {
			if r, err := m.Validate(fuzzID, order); err == nil {
				write(r, nil)
			}
			order.Do = nil
		}
		decisions := m.Decide()
		if len(decisions) == 0 {
			break
		}
		switch d := next(decisions).(type) {
		case machine.Dispatch:
			write(d.Intent, nil)
			a := saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"id":"x","ok":true,"found":true,"cost":0.05}`)}
			if len(answers) > 0 {
				switch answers[0] {
				case "lost":
					a = saga.InterruptedAnswer()
				case "refused":
					a = saga.Answer{Sent: true, Status: 422}
				case "later":
					a = saga.Answer{Sent: true, Status: 503, RetryAfter: 3 * time.Second}
				}
				answers = answers[1:]
			}
			write(m.RecordOutcome(d.Send.Path, d.Send.Way, d.Send.Attempt, a, now, 7))
		case machine.Write:
			write(d.Record, nil)
		case machine.WakeAt:
			now = d.At
			write(d.Woke, nil)
		case machine.Escalate:
			if d.Entry.Kind != saga.InboxApproval {
				return out.Bytes()
			}
			for _, c := range []saga.Command{{Do: saga.Signal{Name: "go"}}, {Do: saga.Approve{Shown: d.Entry.ShownHash}, Path: d.Entry.Path, Actor: "ann", Role: "ops"}} {
				write(m.Validate(uuid.NewV5(fuzzID, fmt.Sprint(m.Seq())), c))
			}
		}
	}
	return out.Bytes()
}

// next is what to do of what can be done: what goes on at once comes before what waits, and people
// before timers.
func next(decisions []machine.Decision) machine.Decision {
	rank := func(d machine.Decision) int {
		switch d.(type) {
		case machine.Dispatch, machine.Write:
			return 0
		case machine.Escalate:
			return 1
		}
		return 2
	}
	return slices.MinFunc(decisions, func(a, b machine.Decision) int { return rank(a) - rank(b) })
}

// badMachine says how a machine breaks its word on a journal that someone may
// have changed: it is refused, or it can be shown, decided on and kept.
func badMachine(def *saga.Definition, text []byte, replay func(*saga.Definition, uuid.UUID, []journal.Record) (*machine.Machine, error)) error {
	var records []journal.Record
	for line := range bytes.Lines(text) {
		var r journal.Record
		if json.Unmarshal(line, &r) != nil {
			return nil
		}
		if records = append(records, r); len(records) > 200 {
			return nil
		}
	}
	m, err := replay(def, fuzzID, records)
	if err != nil || m.Seq() == 0 {
		return nil
	}
	if m.Seq() != int64(len(records)) {
		return fmt.Errorf("after %d records it is at %d", len(records), m.Seq())
	}
	view, err := journal.Encode(m.View())
	if err != nil || !json.Valid(view) {
		return fmt.Errorf("the view is %q, %w", view, err)
	}
	if row := m.Row(); row.Seq != m.Seq() || row.Status != string(m.Status()) || row.Status == "" || !json.Valid(row.Summary) {
		return fmt.Errorf("the row is %+v", row)
	}
	one, two := m.Decide(), m.Decide()
	if !reflect.DeepEqual(one, two) {
		return fmt.Errorf("decided twice:\n%+v\n%+v", one, two)
	}
	if m.Status().Terminal() && len(one) > 0 {
		return fmt.Errorf("it has ended, and goes on: %+v", one)
	}
	if _, err := machine.Steps(m, records); err != nil {
		return fmt.Errorf("the steps cannot be shown: %w", err)
	}
	return nil
}

// FuzzReplay spoils journals of sagas that lived: which, at which record, and how.
func FuzzReplay(f *testing.F) {
	def := fuzzDefinition(f)
	journals := [][]byte{
		lived(f, def, 3, saga.Command{}, 0),
		lived(f, def, 2, saga.Command{}, 0),
		lived(f, def, 3, saga.Command{Do: saga.Cancel{}, Reason: "x"}, 5, "later", "lost"),
		lived(f, def, 3, saga.Command{Do: saga.Pause{}}, 4),
		lived(f, def, 3, saga.Command{Do: saga.Compensate{}, Reason: "x"}, 8, "later", "", "lost"),
		lived(f, def, 1, saga.Command{}, 0, "", "lost", "lost", "lost", "lost"),
		lived(f, def, 3, saga.Command{}, 0, "", "", "lost", "refused"),
		lived(f, def, 3, saga.Command{}, 0, "", "", "", "", "", "lost", "refused"),
	}
	for which, text := range journals {
		for at, line := range bytes.Split(text, []byte("\n")) {
			if (at+which)%4 == 0 {
				f.Add(uint8(which), uint8(at), uint8(at+which), line)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which, at, how uint8, put []byte) {
		text := spoilt(journals[int(which)%len(journals)], int(at), int(how), put)
		if err := badMachine(def, text, machine.Replay); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	})
}

// FuzzReplayNested does the same to journals with branches, loops, approvals, signals, tasks,
// children and events.
func FuzzReplayNested(f *testing.F) {
	def := parsed(f, nested)
	journals := [][]byte{
		lived(f, def, 3, saga.Command{}, 0),
		lived(f, def, 2, saga.Command{Do: saga.Cancel{}, Reason: "x"}, 12, "later", "lost"),
		lived(f, def, 1, saga.Command{Do: saga.Compensate{}, Reason: "x"}, 60, "", "", "lost"),
		lived(f, def, 4, saga.Command{}, 0, "", "", "lost", "refused", "", "refused"),
		lived(f, def, 3, saga.Command{Do: saga.Signal{Name: "go"}}, 3, "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "", "lost", "refused", "lost"),
	}
	for which, text := range journals {
		for at, line := range bytes.Split(text, []byte("\n")) {
			if (at+which)%5 == 0 {
				f.Add(uint8(which), uint8(at), uint8(at+which), line)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which, at, how uint8, put []byte) {
		text := spoilt(journals[int(which)%len(journals)], int(at), int(how), put)
		if err := badMachine(def, text, machine.Replay); err != nil {
			t.Errorf("%v\n%s", err, text)
		}
	})
}

// The journals that are spoilt reach what they are about.
func TestFuzzReaches(t *testing.T) {
	text := string(lived(t, parsed(t, nested), 3, saga.Command{}, 0))
	for _, part := range []string{`"path":"many[3].inner"`, `"command":"approve"`, `"kind":"signalled"`, `"task":{`, `"child":{`, `"event":`, `"kind":"finished"`} {
		if !strings.Contains(text, part) {
			t.Errorf("no %s in it", part)
		}
	}
}

// spoilt is a journal with a line replaced, put in, taken away, doubled, swapped with the next,
// or with other data; or cut off.
func spoilt(text []byte, at, how int, put []byte) []byte {
	lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	at %= len(lines)
	switch how % 7 {
	case 0:
		lines[at] = put
	case 1:
		lines = slices.Insert(lines, at, put)
	case 2:
		lines = slices.Delete(lines, at, at+1)
	case 3:
		lines = slices.Insert(lines, at, lines[at])
	case 4:
		next := (at + 1) % len(lines)
		lines[at], lines[next] = lines[next], lines[at]
	case 5:
		var r journal.Record
		if json.Unmarshal(lines[at], &r) != nil || !json.Valid(put) {
			return text
		}
		r.Data = put
		lines[at], _ = journal.Encode(r)
	case 6:
		lines = lines[:at+1]
	}
	for i, line := range lines { // with seqs that fit, so that more of it is looked at
		var r journal.Record
		if json.Unmarshal(line, &r) == nil && how < 128 {
			r.Seq = int64(i + 1)
			lines[i], _ = journal.Encode(r)
		}
	}
	return bytes.Join(lines, []byte("\n"))
}

// A machine that passes over what it cannot apply is caught.
func TestFuzzReplayCanFail(t *testing.T) {
	def := fuzzDefinition(t)
	text := string(lived(t, def, 3, saga.Command{}, 0))
	text = strings.Replace(text, `"kind":"outcome"`, `"kind":"signalled"`, 1)
	lenient := func(def *saga.Definition, id uuid.UUID, records []journal.Record) (*machine.Machine, error) {
		m := machine.New(def, id)
		for _, r := range records {
			_ = m.Apply(r)
		}
		return m, nil
	}
	if err := badMachine(def, []byte(text), machine.Replay); err != nil {
		t.Error(err)
	}
	if badMachine(def, []byte(text), lenient) == nil {
		t.Error("not noticed")
	}
}
