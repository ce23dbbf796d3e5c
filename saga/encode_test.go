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
	texts := []string{"", "a", "POST", "https://pay.example/x?a=1&b=<c>", `"quoted" \ `, "\x00\n\t\x1f\x7f", "é€😀", "\u2028\u2029", "\xff broken \xc3", "\uFFFD", "${secrets.KEY}"}
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
