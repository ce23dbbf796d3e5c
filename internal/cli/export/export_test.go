package export

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/story"
	"recourse/journal"
)

// A file may have several arrays, as files that were put together have. None is left out.
func TestSeveralArrays(t *testing.T) {
	for text, want := range map[string]string{
		"[1, 2]\n[3]\n": "1 2 3", " [[1], 2] {\"data\": [3]} 4": "[1] 2 3 4", "[]": "", "": "", "[1] [2": "1 and an error", "[1, {]": " and an error",
	} {
		list, err := Values(strings.NewReader(text))
		var texts []string
		for _, raw := range list {
			texts = append(texts, string(raw))
		}
		got := strings.Join(texts, " ")
		if err != nil {
			got += " and an error"
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Any file is refused, or it is read and written again unchanged, and its story can be rendered.
func FuzzReadExport(f *testing.F) {
	f.Add(`{"saga":"019aa5d0-0000-7000-8000-000000000001","seq":1,"at":"2026-11-21T10:00:00.000Z","kind":"started","node":"n","data":{"input":1e400},"hash":"00"}`)
	f.Add(`[{"seq":1,"at":"2026-11-21T10:00:00.000Z","kind":"intent","path":"a","way":"do","attempt":1,"generation":0,"node":"n","data":{"request":{"method":"POST","url":"http://x"}},"hash":"00"}]`)
	f.Add(`{"data":[{"seq":2,"at":"2026-11-21T10:00:00.000Z","kind":"outcome","path":"a","class":"in_doubt","node":"n","data":{"next":"await_resolution","error":{"code":"x","title":"y"}},"hash":""}]}`)
	f.Add("{}\n[]")
	f.Fuzz(func(t *testing.T, text string) {
		ex, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		var again bytes.Buffer
		for _, r := range ex.Records {
			b, err := journal.Encode(r)
			if err != nil {
				t.Fatalf("record %d: %v", r.Seq, err)
			}
			again.Write(append(b, '\n'))
		}
		second, err := Read(&again)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(len(ex.Records), len(second.Records)); d != "" {
			t.Error(d)
		}
		if err := story.Write(&bytes.Buffer{}, nil, ex.Records, true); err != nil {
			t.Error(err)
		}
	})
}
