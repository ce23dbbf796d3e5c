package engine

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/journal/memory"
)

// Nothing waits for a lane that has ended with a full queue: otherwise a stop would never end.
func TestEndedLaneBlocksNothing(t *testing.T) {
	s := memory.New(memory.Config{})
	id := parked(t, s)
	m := journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: "command", Data: json.RawMessage(`{}`)}
	if err := s.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	e := New(Config{Store: s})
	e.identity.Store("n")
	lane := e.lanes[0]
	for range cap(lane.events) {
		lane.events <- Tick{}
	}
	close(lane.quit)
	quit := make(chan struct{})
	close(quit)
	for _, tt := range []struct {
		name string
		send func()
	}{
		{"deliver", e.deliver},
		{"announce", e.announce},
		{"reregister", func() { e.reregister(quit) }},
	} {
		sent := make(chan struct{})
		go func() {
			tt.send()
			close(sent)
		}()
		select {
		case <-sent:
		case <-time.After(10 * time.Second):
			t.Errorf("%s waits for the lane", tt.name)
		}
	}
	if e.window.Used() == 0 {
		t.Error("there was no message to deliver")
	}
}
