// Package cloudevent encodes the events that sagas emit, and those by which recourse reports on
// sagas, as CloudEvents 1.0 (https://cloudevents.io) in JSON.
package cloudevent

import (
	"encoding/json"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/saga"
)

// Event is an event about a saga, or about the server.
type Event struct {
	ID          uuid.UUID
	Type        string
	Definition  string // the name of the saga's definition, for the source
	Saga        uuid.UUID
	Subject     string // what an event that is not about a saga is about
	At          time.Time
	Traceparent string // "" for none
	Data        json.RawMessage
}

// Encode returns the event as structured JSON.
func (e *Event) Encode() json.RawMessage {
	subject := e.Subject
	if subject == "" {
		subject = e.Saga.String()
	}
	return saga.Encode(struct {
		SpecVersion string          `json:"specversion"`
		ID          string          `json:"id"`
		Source      string          `json:"source"`
		Type        string          `json:"type"`
		Subject     string          `json:"subject"`
		Time        saga.Time       `json:"time"`
		ContentType string          `json:"datacontenttype"`
		Traceparent string          `json:"traceparent,omitempty"`
		Data        json.RawMessage `json:"data,omitempty"`
	}{"1.0", e.ID.String(), "/recourse/" + e.Definition, e.Type, subject, saga.Time{Time: e.At}, "application/json", e.Traceparent, e.Data})
}
