package machine

import (
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/saga"
)

func TestSearchTextOfDocuments(t *testing.T) {
	long := strings.Repeat("x", 600)
	for _, tt := range []struct {
		raw  string
		want []string
	}{
		{`null`, nil},
		{``, nil},
		{`"alone"`, []string{"alone"}},
		{`-1.50e3`, []string{"-1.50e3"}},
		{` [0.5, 90, 9]`, []string{"0.5", "90", "9"}},
		{` 7`, []string{"7"}},
		{`{"order": "A-17", "amount": 12.50, "paid": true, "to": {"city" : "Oslo"}, "none": null}`, []string{"A-17", "12.50", "Oslo"}},
		{`["a\"b", "c\\", "d\u00e9\n", "", {"k:":"v:"}]`, []string{`a"b`, `c\`, "dé\n", "v:"}},
		{`{"key\":": "\ud83d\ude00"}`, []string{"😀"}},
		{`{"big":"` + long + `","next":1}`, []string{long[:512], "1"}},
		{`"` + strings.Repeat("é", 400) + `"`, []string{strings.Repeat("é", 256)}},
		// The text reaches as far as 512 bytes of its quoted form.
		{`"` + strings.Repeat(`\u00e9`, 400) + `"`, []string{strings.Repeat("é", 86)}},
		{`"` + strings.Repeat(`\t`, 400) + `"`, []string{strings.Repeat("\t", 256)}},
		{`{"cut":"a\`, []string{"a"}},
		{`"a\u00`, []string{}},
	} {
		l := textLines{room: maxSearchedDocument}
		l.document([]byte(tt.raw))
		want := ""
		for _, line := range tt.want {
			want += "\n" + line
		}
		if d := cmp.Diff(want, string(l.b)); d != "" {
			t.Errorf("%.60s: %s", tt.raw, d)
		}
	}
}

// However large a document, or many of its values, its text is bounded, and begins with what stands
// first.
func TestSearchTextIsBounded(t *testing.T) {
	many := `["first"` + strings.Repeat(`,"some value"`, 10_000) + `]`
	m := New(&saga.Definition{}, uuid.Nil)
	m.started.Definition, m.started.Input = "book", []byte(many)
	m.finished = &saga.FinishedData{Output: []byte(many)}
	m.reason = &saga.Reason{Code: "step_failed", Error: "http_402", Title: "Step charge failed", Detail: strings.Repeat("Declined. ", 10_000)}
	text := m.searchText([]saga.Entry{{Title: strings.Repeat("t", 10_000), Detail: "d"}})
	for _, part := range []string{"book\n", "\nstep_failed\n", "\nhttp_402\n", "\nstep charge failed\n", "\ndeclined. declined.", "\nttt", "\nd\n", "\nfirst\nsome value\n"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in it", part)
		}
	}
	if most := len("book") + 3*maxSearchedDocument; len(text) > most {
		t.Errorf("%d bytes, want at most %d", len(text), most)
	}
	if strings.Count(text, "\nfirst\n") != 2 {
		t.Error("the output is not in it")
	}
}

// A step that failed under `on_error: continue` is found by its code and its title, until a person
// settles it otherwise.
func TestSearchTextOfLostSteps(t *testing.T) {
	m := New(&saga.Definition{}, uuid.Nil)
	m.started.Definition = "book"
	lost := &node{path: "mail", forward: track{state: failed, failure: &saga.Failure{Code: "http_402", Title: "402 Payment Required", Detail: "Card declined"}}}
	m.failedSteps = []*node{lost}
	if text := m.searchText(nil); text != "book\nhttp_402\n402 payment required\ncard declined" {
		t.Errorf("%q", text)
	}
	lost.forward.state = done
	if text := m.searchText(nil); text != "book" {
		t.Errorf("settled: %q", text)
	}
}
