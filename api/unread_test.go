package api

import (
	"context"
	"testing"
	"time"

	"recourse/journal"
)

// unreadEngine is an engine whose nodes read no messages.
type unreadEngine struct{ Engine }

func (unreadEngine) Send(context.Context, journal.Message) error { return nil }

// The response to a command says whether a node has read it. After a cancel or an undo it is not a
// 202 then, which would promise that the saga does not succeed.
func TestUnreadCommands(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.Engine, c.Limits.Command = unreadEngine{c.Engine}, 20*time.Millisecond })
	x.publish("saga: asks\nsteps:\n  - {id: ask, approval: {title: T}}\n")
	at := "/v1/sagas/" + x.do("POST", "/v1/sagas?wait=1s", `{"definition": "asks"}`).want(201).saga().ID
	key := header{"Idempotency-Key", "k"}
	for _, tt := range []struct {
		method, path, body string
		headers            []header
	}{
		{"POST", "/pause", `{"reason": "r"}`, []header{key}},
		{"POST", "/pause", `{"reason": "r"}`, []header{key}}, // replayed
		{"PATCH", "", `{"labels": {"a": "b"}}`, []header{{"If-Match", "*"}}},
		{"POST", "/steps/ask/reject", `{"comment": "no"}`, nil},
	} {
		if a := x.do(tt.method, at+tt.path, tt.body, tt.headers...).want(202); a.Header.Get(unreadHeader) != "true" {
			t.Errorf("%s %s: headers %v", tt.method, tt.path, a.Header)
		}
	}
	x.do("POST", at+"/compensate", `{"reason": "r"}`).problem(503, "unavailable")
	x.do("POST", at+"/cancel", `{}`).problem(503, "unavailable")
}
