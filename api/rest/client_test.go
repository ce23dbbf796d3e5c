package rest

import "testing"

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
