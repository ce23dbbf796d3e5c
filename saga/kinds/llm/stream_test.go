package llm

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"recourse/internal/httptext"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     []string
	}{
		{"one", "data: a\n\n", []string{"a"}},
		{"without a space", "data:a\n\n", []string{"a"}},
		{"with two", "data:  a\n\n", []string{" a"}},
		{"CRLF", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"CR", "data: a\r\rdata: b\r\r", []string{"a", "b"}},
		{"several lines", "data: a\ndata: b\n\n", []string{"a\nb"}},
		{"comments and other fields", ": hi\n\nevent: x\nid: 1\nretry: 5\ndata: a\n: more\n\n", []string{"a"}},
		{"no data", "event: x\n\n\n\ndata: a\n\n", []string{"a"}},
		{"a name only", "data\n\ndata: a\n\n", []string{"", "a"}},
		{"a mark", "\xef\xbb\xbfdata: a\n\n", []string{"a"}},
		{"an open end", "data: a\n\ndata: b", []string{"a", "b"}},
		{"an open line", "data: a\n", []string{"a"}},
		{"nothing", "", nil},
		{"no stream", "<html>\n", nil},
		{"another field that begins alike", "database: a\n\n", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for how, in := range map[string]io.Reader{"whole": strings.NewReader(tt.in), "by bytes": iotest.OneByteReader(strings.NewReader(tt.in)), "with its end": iotest.DataErrReader(strings.NewReader(tt.in))} {
				var got []string
				err := events(in, func(int) error { return nil }, func(data []byte) error { got = append(got, string(data)); return nil })
				if diff := cmp.Diff(tt.want, got); diff != "" || !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v, events (-want +got):\n%s", how, err, diff)
				}
			}
		})
	}
}

// FuzzStream: whatever arrives, ReadStream returns a JSON document, the same for all ways in which
// the stream is cut into reads.
func FuzzStream(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n"))
	f.Add([]byte(": x\r\rdata:{\"usage\":{\"prompt_tokens\":1},\"error\":\"\\ud800\"}\r\n\r\n"))
	f.Add([]byte("\xef\xbb\xbfdata: {\ndata: }\n\ndata: 1"))
	free := func(int) error { return nil }
	f.Fuzz(func(t *testing.T, in []byte) {
		whole, err := ReadStream(strings.NewReader(string(in)), free)
		chopped, err2 := ReadStream(iotest.OneByteReader(strings.NewReader(string(in))), free)
		if !errors.Is(err, err2) || string(whole) != string(chopped) {
			t.Errorf("%q: %v %s, but chopped %v %s", in, err, whole, err2, chopped)
		}
		if !json.Valid(whole) {
			t.Errorf("%q gives %s", in, whole)
		}
		if _, code, why := httptext.EncodeBody(httptext.JSON, whole, nil); code != "" {
			t.Errorf("%q gives what no journal takes: %s: %s", in, why, whole)
		}
		usageOf(whole)
		faultOf(whole)
	})
}
