package machine_test

import (
	"strings"
	"testing"

	"recourse/saga"
)

// aSession plays a session with one action, go, and attaches its first process.
func aSession(t *testing.T, d saga.SessionData) *hand {
	t.Helper()
	d.Actions = []string{"go@1"}
	h := sessionOf(t, d, `action: go
agents: auto
http: POST http://w/go
body: {}
compensate: {http: "DELETE http://w/go"}
`, nil)
	h.must("", saga.Attach{Token: "one"})
	return h
}

// An entry of the inbox says what a person has to find out or to fix.
func TestInboxTexts(t *testing.T) {
	const post, call = `http: "POST http://w/pay", body: {}`, `mcp: {server: shop, tool: pay}`
	answered := func(step string, a saga.Answer) *hand {
		h := byHand(t, "saga: x\nsteps:\n  - {id: pay, "+step+", in_doubt: ask, compensate: none}\n", "null")
		h.ends("pay", "", a)
		return h
	}
	own := func(effect saga.OwnEffect) *hand {
		h := aSession(t, saga.SessionData{})
		h.must("", saga.BeginStep{Life: 1, ID: "pay", OwnData: saga.OwnData{Effect: effect}})
		return h
	}
	lost := own(saga.Irreversible)
	lost.must("", saga.Attach{Token: "two", Previous: "one"})
	undone := own(saga.Undoable)
	undone.must("", saga.FinishStep{Life: 1, ID: "pay", Attempt: 1, Status: saga.OwnSucceeded}, saga.Cancel{})
	for _, tt := range []struct {
		name          string
		h             *hand
		title, detail string
	}{
		{"in doubt", answered(post, saga.Answer{Sent: true, Code: "timeout"}), "It is unknown whether step pay has happened", "Look up its key in the remote service"},
		{"credentials", answered(post, saga.Answer{Sent: true, Status: 401}), "The remote service rejects the credentials of step pay", "Fix the credentials"},
		{"no secret", answered(post, saga.Answer{Code: saga.CodeSecretMissing}), "A secret of step pay is missing or cannot be used: nothing was sent", "Provide the secret"},
		{"no server", answered(call, saga.Answer{Code: saga.CodeServerMissing}), "The MCP server of step pay is not configured: nothing was sent", "Put it back under `mcp`"},
		{"an own step", lost, "It is unknown whether step own.pay has happened", "Find out whether the agent has done it"},
		{"the undo of an own step", undone, "Step own.pay has to be undone by hand", "The agent did it itself"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			list := tt.h.m.Inbox()
			if len(list) != 1 || list[0].Title != tt.title || !strings.Contains(list[0].Detail, tt.detail) {
				t.Errorf("%+v, want %q: %q\n%s", list, tt.title, tt.detail, tt.h.out.String())
			}
		})
	}
}
