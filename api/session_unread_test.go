package api

import (
	"slices"
	"testing"

	"recourse/saga/machine"
)

// A list says which ends of calls and own steps the life that reads it has not got.
func TestUnread(t *testing.T) {
	x := newFixture(t)
	a := openAgent(t, x, "")
	unread := func(when string, want ...string) {
		t.Helper()
		var calls page[machine.CallView]
		var own page[machine.OwnView]
		a.do("GET", "/calls", "").want(200).into(&calls)
		a.do("GET", "/steps", "").want(200).into(&own)
		var got []string
		for _, v := range calls.Data {
			if v.Unread {
				got = append(got, v.Path)
			}
		}
		for _, v := range own.Data {
			if v.Unread {
				got = append(got, v.Path)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v are unread, want %v", when, got, want)
		}
	}
	a.call(`{"action": "charge", "input": {"order": "A", "amount": 10}}`)
	a.begin(201, `{"id": "letter", "effect": "irreversible"}`)
	unread("a call that has responded, and a step that is open")
	later := `{"action": "big", "input": {"amount": 60}, "wait": "0s"}`
	a.do("POST", "/calls", later).want(202)
	unread("a call that waits for a person")
	x.do("POST", "/v1/sagas/"+a.id+"/steps/big[0]/reject", `{"comment": "no"}`).want(200)
	x.do("GET", "/v1/sessions/"+a.id+"/calls/big[0]?wait=10s", "").want(200) // it is not the agent that waits
	unread("a call that a person has decided", "big[0]")
	a.do("GET", "/calls/big[0]", "").want(200)
	unread("its end was read")

	a.follow()
	unread("a life that has asked for nothing")
	a.do("POST", "/steps", `{"id": "letter", "effect": "irreversible"}`).problem(409, "in_doubt")
	unread("a step that waits for a person")
	x.do("POST", "/v1/sagas/"+a.id+"/steps/own.letter/resolve", `{"outcome": "succeeded", "reason": "it is there"}`, header{"If-Match", "*"}).want(200)
	unread("a step that a person has resolved", "own.letter")
	a.begin(200, `{"id": "letter", "effect": "irreversible"}`)
	a.do("POST", "/calls", later).want(200)
	unread("what this life has asked for")
}
