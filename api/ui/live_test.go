package ui

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// A text cannot end a live event, or a line of one: what follows it on the page would be lost.
func TestEventsWithCarriageReturns(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	event(w, []byte("<p>a\r\rb\rid: 1</p>\r\n\n<p>c</p>"))
	if got, want := w.Body.String(), "data: <p>a\ndata: \ndata: b\ndata: id: 1</p>\ndata: \ndata: <p>c</p>\n\n"; got != want || strings.Contains(got, "\r") {
		t.Errorf("%q, want %q", got, want)
	}
}
