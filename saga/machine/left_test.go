package machine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// hand drives a machine step by step.
type hand struct {
	*player
	open []machine.Send
}

func byHand(t *testing.T, src, input string) *hand {
	t.Helper()
	return started(t, parsed(t, src), parentID, machine.StartOptions{Input: json.RawMessage(input)})
}

// parentID is the id of sagas that may have children.
const parentID = "01920000-0000-7000-8000-000000000001"

// started plays the saga of a definition.
func started(t *testing.T, def *saga.Definition, id string, o machine.StartOptions) *hand {
	t.Helper()
	o.Version = 1
	data, _, wrong := machine.Begin(def, o)
	if wrong != nil {
		t.Fatal(wrong)
	}
	h := &hand{player: &player{t: t, def: def, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}}
	h.m = machine.New(def, uuid.Must(uuid.FromString(id)))
	h.write(h.m.Start(data))
	h.run()
	return h
}

// run writes and sends what can be; it does not wait.
func (h *hand) run() {
	h.t.Helper()
	for range 100000 {
		wrote := false
		for _, d := range h.m.Decide() {
			switch d := d.(type) {
			case machine.Write:
				h.write(d.Record)
				wrote = true
			case machine.Dispatch:
				h.write(d.Intent)
				h.open = append(h.open, d.Send)
				wrote = true
			}
			if wrote {
				break
			}
		}
		if !wrote {
			return
		}
	}
	h.t.Fatal("goes on without end")
}

func (h *hand) reply(path, text string) {
	h.t.Helper()
	h.ends(path, "", parseAnswer(h.t, text))
}

// ends finishes the attempt in flight of a step; way "": in either way.
func (h *hand) ends(path string, way journal.Way, a saga.Answer) {
	h.t.Helper()
	for i, s := range h.open {
		if s.Path != path || way != "" && s.Way != way {
			continue
		}
		h.open = append(h.open[:i:i], h.open[i+1:]...)
		h.now = h.now.Add(10 * time.Millisecond)
		r, err := h.m.RecordOutcome(s.Path, s.Way, s.Attempt, a, h.now, 1<<63)
		if err != nil {
			h.t.Fatal(err)
		}
		h.write(r)
		h.run()
		return
	}
	h.t.Fatalf("%s is not in flight: %v\n%s", path, h.open, h.out.String())
}

// A compensation, or a query, inside a repeat may read history after the loop has ended.
func TestHistoryAfterTheLoop(t *testing.T) {
	h := byHand(t, `
saga: x
steps:
  - id: loop
    repeat: {until: "index == 1", max: 3}
    steps:
      - {id: g, http: "POST http://w/g", body: {}, compensate: {http: "DELETE http://w/g?n=${len(history)}"}}
  - {id: last, http: "POST http://w/last", body: {}, compensate: none}
`, "null")
	h.reply("loop[0].g", "200 {}")
	h.reply("loop[1].g", "200 {}")
	h.reply("last", "422 {}")
	if len(h.open) != 1 || !strings.HasSuffix(h.open[0].Request.URL, "n=1") {
		t.Fatalf("%+v", h.open)
	}
}

// A compensation in an inner loop may read a step of the outer iteration, after that has ended.
func TestReleaseOuter(t *testing.T) {
	h := byHand(t, `
saga: x
steps:
  - id: outer
    foreach: [1]
    steps:
      - {id: look, http: "GET http://w/look"}
      - id: inner
        foreach: [1]
        steps:
          - {id: g, http: "POST http://w/g", body: {}, compensate: {http: "DELETE http://w/g/${steps.look.output.id}"}}
  - {id: last, http: "POST http://w/last", body: {}, compensate: none}
`, "null")
	h.reply("outer[0].look", `200 {"id":"abc"}`)
	h.reply("outer[0].inner[0].g", "200 {}")
	h.reply("last", "422 {}")
	if len(h.open) != 1 || !strings.HasSuffix(h.open[0].Request.URL, "/abc") {
		t.Fatalf("%+v %s\n%s", h.open, h.m.Status(), h.out.String())
	}
}

// A search finds a saga by the step that it has continued without: by its last failure, once, and
// not by those of attempts before, nor by what other steps have failed with and then done.
func TestSearchTextOfFailures(t *testing.T) {
	h := byHand(t, `
saga: x
steps:
  - {id: a, http: "POST http://w/a", body: {}, retry: 2, on_error: continue, compensate: none}
  - {id: b, http: "POST http://w/b", body: {}, retry: 2, compensate: none}
  - {id: c, http: "POST http://w/c", body: {}, on_error: continue, compensate: none}
  - {id: go, signal: go}
`, "null")
	h.reply("a", "429 {}")
	h.wait()
	h.reply("a", "418 {}")
	h.reply("b", "429 {}")
	h.wait()
	h.reply("b", "200 {}")
	h.reply("c", "422 {}")
	text := h.m.Row().Text
	for code, want := range map[string]int{"http_418": 1, "http_422": 1, "http_429": 0} {
		if n := strings.Count(text, code); n != want {
			t.Errorf("%s is %d times in %q, want %d", code, n, text, want)
		}
	}
}
