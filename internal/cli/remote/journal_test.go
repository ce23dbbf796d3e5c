package remote

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
)

// A connection may break in the middle of a record, and a proxy may end the response as if it were
// whole. A command that follows the journal goes on after the last whole record, and any other one
// says that the response was cut.
func TestStreamIsCutInARecord(t *testing.T) {
	t.Parallel()
	t.Run("by the connection", func(t *testing.T) { streamIsCut(t, func() { panic(http.ErrAbortHandler) }) })
	t.Run("by a proxy", func(t *testing.T) { streamIsCut(t, func() {}) })
}

func streamIsCut(t *testing.T, end func()) {
	t.Helper()
	const first, last = `{"seq":1,"kind":"started"}`, `{"seq":2,"kind":"finished"}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begin := ""
		if r.Header.Get("Accept") == "text/event-stream" {
			begin = "data: "
		}
		if r.Header.Get("Last-Event-ID") == "1" {
			_, _ = io.WriteString(w, begin+last+"\n\n")
			return
		}
		_, _ = io.WriteString(w, begin+first+"\n\n"+begin+last[:10])
		_ = http.NewResponseController(w).Flush()
		end()
	}))
	defer server.Close()
	cl, err := ServerFlags{Server: server.URL}.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for follow, want := range map[bool]struct {
		shown []string
		err   error
	}{true: {[]string{first, last}, nil}, false: {[]string{first}, errCut}} {
		var shown []string
		show := func(raw []byte) error {
			shown = append(shown, string(raw))
			return nil
		}
		if err := cl.stream("0193", follow, show, func(string) {}); !errors.Is(err, want.err) || !slices.Equal(shown, want.shown) {
			t.Errorf("follow %v: %q, %v", follow, shown, err)
		}
	}
}
