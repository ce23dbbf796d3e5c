package saga

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"recourse/compensation"
	"recourse/journal"
)

func TestDense(t *testing.T) {
	for doc, want := range map[string]bool{``: true, `null`: true, `{"a b":"c \" d","e":[1,"\\"]}`: true, `{"a": 1}`: false, "[1\n]": false, `["\\", 1]`: false, ` 1`: false} {
		if got := dense(json.RawMessage(doc)); got != want {
			t.Errorf("dense(%s) = %v", doc, got)
		}
	}
}

// Types that encode themselves do so byte for byte as journal.Encode would, which the hashes of
// journals rest on.
func TestEncodeLikeTheJournal(t *testing.T) {
	for typ, fields := range map[reflect.Type]int{reflect.TypeFor[IntentData](): 8, reflect.TypeFor[Request](): 10, reflect.TypeFor[OutcomeData](): 19, reflect.TypeFor[FinishedData](): 6} {
		if n := typ.NumField(); n != fields {
			t.Fatalf("%s has %d fields, %d are tested", typ, n, fields)
		}
	}
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "a", `"`, `\`, "~", "\x7f", "POST", "https://pay.example/x?a=1&b=<c>", `"quoted" \ `, "\x00\n\t\x1f\x7f", "é€😀", "\u2028\u2029", "\xff broken \xc3", "\uFFFD", "${secrets.KEY}"}
	docs := []json.RawMessage{nil, {}, json.RawMessage("null"), json.RawMessage(` { "a" : [ 1.00 , 1e400 ], "b":"<&>\u2028 \ufffd` + "\u2028\xff" + `" } `), json.RawMessage(`""`), json.RawMessage("19.10")}
	text := func() string { return texts[r.IntN(len(texts))] }
	doc := func() json.RawMessage { return docs[r.IntN(len(docs))] }
	at := func() *Time {
		return []*Time{nil, {}, {time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.FixedZone("", 3600))}}[r.IntN(3)]
	}
	content := []byte("not recorded")
	for range 5000 {
		var request *Request
		if r.IntN(8) > 0 {
			request = &Request{Method: text(), URL: text(), Body: doc(), Content: &content, Traceparent: "not recorded"}
			for range r.IntN(12) {
				if request.Headers == nil {
					request.Headers = make(map[string]string)
				}
				request.Headers[text()+text()] = text()
			}
			switch r.IntN(5) {
			case 3:
				request.Tool = &ToolRequest{Server: text(), Tool: text(), Arguments: doc(), Meta: map[string]string{text(): text()}, MustRead: r.IntN(2) == 0, Hint: Hint(text())}
			case 2:
				request.Own = &OwnRequest{ID: text(), Input: doc()}
			case 0:
				request.Task = &TaskRequest{Type: text(), Input: doc()}
			case 1:
				request.Child = &ChildRequest{Saga: text(), Parent: text(), Revert: r.IntN(2) == 0, Definition: text(), Input: doc(), Path: text(), Depth: r.IntN(3), Starter: text(), Final: r.IntN(2) == 0, Budget: &BudgetData{Amount: text()}}
			}
		}
		found := r.IntN(2) == 0
		outcome := OutcomeData{StatusCode: r.IntN(3) * 201, Result: doc(), Output: doc(), Cost: text(), RetryAt: at(), Next: Next(text()), RetryState: doc(), Event: doc(), AlreadyGone: r.IntN(2) == 0, NeverStarted: text(), Hint: Hint(text()), Stubbed: r.IntN(2) == 0, Changed: text(), Kept: text(), Latest: at()}
		if r.IntN(2) == 0 {
			outcome.Error, outcome.Found = &Failure{Code: text(), Title: text(), Detail: text()}, &found
			outcome.Tokens = &TokensView{Input: r.Int64N(9), Output: r.Int64N(9)}
			outcome.Compensate = &OwnUndo{Use: text(), With: doc()}
		}
		finished := FinishedData{Status: Status(text()), Output: doc()}
		if r.IntN(2) == 0 {
			finished.Reason, finished.OutputError = &Reason{Code: text(), Title: text()}, &Failure{Code: text()}
			finished.Residual, finished.Doubts = []compensation.Residue{{Path: text()}}[:r.IntN(2)], []compensation.Residue{{Path: text()}}[:r.IntN(2)]
		}
		var awaited *Awaited
		if r.IntN(4) == 0 {
			awaited = &Awaited{Signal: text(), Approval: &ApprovalData{Title: text(), Approvers: []string{text()}, Shown: doc(), ShownHash: text()}}
		}
		for _, v := range []encoder{IntentData{Request: request, RequestHash: text(), Reserve: text(), WakeAt: at(), ReserveTokens: r.Int64N(2) * 900, Awaited: awaited, Input: doc(), Latest: at()}, outcome, finished} {
			want, err := journal.Encode(v)
			if err != nil {
				t.Fatal(err)
			}
			if got := v.encode(); string(got) != string(want) {
				t.Fatalf("%+v is written\n%s\nand should be\n%s", v, got, want)
			}
		}
	}
}

// Data that is said to be the same when it is read again is the same, and most data is.
func TestRoundTrips(t *testing.T) {
	doc, loose := json.RawMessage(`{"a":1}`), json.RawMessage(`{"a": 1}`)
	exact, fine := &Time{time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)}, &Time{time.Date(2026, 1, 2, 3, 4, 5, 6789, time.UTC)}
	local := &Time{exact.In(time.FixedZone("", 3600))}
	none := []compensation.Residue{}
	request := &Request{Method: "POST", URL: "https://pay.example", Body: doc}
	vars := func(list ...json.RawMessage) map[string]json.RawMessage {
		m := make(map[string]json.RawMessage)
		for i, v := range list {
			m[string(rune('a'+i))] = v
		}
		return m
	}
	for _, tt := range []struct {
		name string
		data any
		want bool
	}{
		{"a start", StartedData{Input: doc}, true},
		{"a start with all", StartedData{Input: doc, Labels: map[string]string{"a": "b"}, Vars: vars(doc, doc), Latest: exact}, true},
		{"a start without an input", StartedData{}, false},
		{"a start without an input, with labels", StartedData{Labels: map[string]string{"a": "b"}}, false},
		{"a start with a loose input", StartedData{Input: loose}, false},
		{"a start with an origin", StartedData{Input: doc, Origin: []journal.Record{{}}}, false},
		{"a start with empty labels", StartedData{Input: doc, Labels: map[string]string{}}, false},
		{"a start at a finer time", StartedData{Input: doc, Latest: fine}, false},
		{"a start at a local time", StartedData{Input: doc, Latest: local}, false},
		{"a variable without a value", StartedData{Input: doc, Vars: vars(nil)}, false},
		{"a loose variable", StartedData{Input: doc, Vars: vars(loose)}, false},
		{"a loose variable and another one", StartedData{Input: loose, Vars: vars(doc)}, false},
		{"an intent", IntentData{Request: request, RequestHash: "h", Latest: exact}, true},
		{"an intent without a request", IntentData{}, true},
		{"an intent to wait", IntentData{Request: request, WakeAt: exact}, false},
		{"an intent to ask", IntentData{Request: request, Awaited: &Awaited{}}, false},
		{"an intent of an own step", IntentData{Request: &Request{Own: &OwnRequest{ID: "x", Input: loose}}}, false},
		{"an intent at a finer time", IntentData{Request: request, Latest: fine}, false},
		{"an intent at a local time", IntentData{Latest: local}, false},
		{"an outcome", OutcomeData{Output: doc, Result: doc, RetryState: doc, Event: doc}, true},
		{"an outcome that is retried", OutcomeData{Output: doc, RetryAt: local}, false},
		{"an outcome with a time", OutcomeData{Output: doc, Latest: local}, false},
		{"an outcome with an undo", OutcomeData{Output: doc, Compensate: &OwnUndo{With: loose}}, false},
		{"a loose result", OutcomeData{Result: loose, Output: doc}, false},
		{"a loose output", OutcomeData{Output: loose, RetryState: doc}, false},
		{"a loose state", OutcomeData{RetryState: loose, Event: doc}, false},
		{"a loose event", OutcomeData{Event: loose}, false},
		{"an undo", CompensatingData{Reason: Reason{Code: "c"}, Plan: []string{"a"}}, true},
		{"an undo with nothing residual", CompensatingData{Plan: []string{"a"}, Residual: none}, false},
		{"an end", FinishedData{Status: Succeeded, Output: doc}, true},
		{"an end with nothing residual", FinishedData{Output: doc, Residual: none}, false},
		{"an end without doubts", FinishedData{Output: doc, Doubts: none}, false},
		{"an end with a loose output", FinishedData{Output: loose}, false},
		{"a broken text", FinishedData{Status: "\xff"}, false},
		{"a replaced character", FinishedData{Status: "\uFFFD"}, true},
		{"other data", CommandData{}, false},
	} {
		encoded := Encode(tt.data)
		if got := RoundTrips(tt.data, encoded); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		again := reflect.New(reflect.TypeOf(tt.data))
		if err := json.Unmarshal(encoded, again.Interface()); err != nil {
			t.Fatal(err)
		}
		if same := reflect.DeepEqual(again.Elem().Interface(), tt.data); tt.want && !same {
			t.Errorf("%s is read as %+v, and was %+v", tt.name, again.Elem(), tt.data)
		}
	}
}
