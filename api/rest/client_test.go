package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A response that the API cuts off is an error of this request. As a panic it would end the user's
// request, and with it the live stream of a page.
func TestCutOff(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte("{}"))
		panic(http.ErrAbortHandler)
	})
	c := New(api, httptest.NewRequest("GET", "/", nil), "")
	if _, err := c.Get("/v1/whoami", nil); err == nil {
		t.Error("half a response counts as one")
	}
	if _, err := c.Records(t.Context(), "1", 0); err == nil {
		t.Error("a part of a journal counts as the whole")
	}
	c.Grown(t.Context(), "1", 0, time.Minute)
	defer func() {
		if recover() == nil {
			t.Error("another panic is lost")
		}
	}()
	New(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("a defect") }), httptest.NewRequest("GET", "/", nil), "").Grown(context.Background(), "1", 0, time.Minute)
}

// A journal is decoded from pieces of any size, and a line that is not a record is an error.
func TestLines(t *testing.T) {
	line := `{"seq":1,"at":"2026-01-02T03:04:05.000Z","kind":"started","node":"n","data":{"a":1},"hash":"ab"}` + "\n"
	w := &lines{Recorder: NewRecorder()}
	for _, part := range []string{line[:10], line[10:] + line, line} {
		if _, err := w.Write([]byte(part)); err != nil {
			t.Fatal(err)
		}
	}
	if len(w.records) != 3 || string(w.records[1].Data) != `{"a":1}` || w.err != nil {
		t.Errorf("it reads %+v, %v", w.records, w.err)
	}
	if _, err := w.Write([]byte(`{"type":"urn:recourse:problem:internal","status":500}` + "\n")); err == nil || w.err == nil {
		t.Error("it takes a problem for a record")
	}
	w = &lines{Recorder: Recorder{Status: 404}}
	if _, err := w.Write([]byte(`{"title":"gone"}` + "\n")); err != nil || len(w.records) > 0 || problemOf(&w.Recorder).Title != "gone" {
		t.Errorf("a problem: %+v, %v", w, err)
	}
}
