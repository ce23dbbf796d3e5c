package saga

import (
	"strings"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
)

const incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// The cases are those of https://www.w3.org/TR/trace-context/.
func TestParseTraceparent(t *testing.T) {
	for text, want := range map[string]string{
		incoming: incoming,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00":        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff":        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-03",
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-what-x": incoming,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":        incoming,
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01.x":      "",
		"ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":        "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-x":      "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01":        "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01":        "",
		"00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01":        "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333-01":         "",
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b716920333g-01":        "",
		"00_0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":        "",
		"0x-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":        "",
		"":                      "",
		" " + incoming:          "",
		strings.Repeat("é", 40): "",
	} {
		p, ok := ParseTraceparent(text)
		if ok != (want != "") || ok && p.String() != want {
			t.Errorf("%q: %s, %v; want %q", text, p, ok, want)
		}
	}
}

// Every reader of a journal derives the same ids, so they must never change.
func TestSpanIDs(t *testing.T) {
	id := uuid.Must(uuid.FromString("0192f0c1-2b3a-7c4d-8e5f-60718293a4b5"))
	own := NewTrace(id, StartedData{Traceparent: "not one"})
	if own.ID.String() != strings.ReplaceAll(id.String(), "-", "") || own.Parent != (SpanID{}) || own.Flags != FlagSampled {
		t.Errorf("a trace of its own: %+v", own)
	}
	given := NewTrace(id, StartedData{Traceparent: incoming})
	if given.At(given.Parent) != incoming {
		t.Errorf("a given trace: %+v", given)
	}
	got := []string{own.Root().String(), own.Step("charge", journal.Do).String(), own.Step("charge", journal.Undo).String(),
		own.Attempt("charge", journal.Do, 0, 1).String(), own.Attempt("charge", journal.Do, 0, 2).String(), own.Attempt("charge", journal.Do, 1, 2).String(), own.Attempt("charge.verify", journal.Do, 0, 1).String()}
	want := []string{"1eac68093be7b684", "2fcb196ae61ec383", "4bc4ed9127e16ea9", "487837830b28571b", "339f3628d935cd8e", "4ebedccec123f081", "6222e0e9c76270fd"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if given.Root() != own.Root() {
		t.Error("a span's id depends on whose trace it is in")
	}
}

// A request's traceparent is not recorded, and not part of its hash.
func TestTraceparentIsNotRecorded(t *testing.T) {
	with, without := Request{Method: "POST", URL: "https://a.example", Traceparent: incoming}, Request{Method: "POST", URL: "https://a.example"}
	if with.Hash() != without.Hash() || string(Encode(&with)) != string(Encode(&without)) {
		t.Error("a request's traceparent is recorded")
	}
}
