package api

import (
	"strings"
	"testing"
)

// If-Match and If-None-Match are lists (RFC 9110, 13.1): every member counts.
func TestMatches(t *testing.T) {
	for _, tt := range []struct {
		header string
		want   bool
	}{
		{`"7"`, true}, {`7`, true}, {`W/"7"`, true}, {`*`, true}, {`"6", "7"`, true}, {`"7","6"`, true}, {`"6" , W/"7"`, true}, {`,"7",`, true},
		{`"6", *`, true}, {``, false}, {`""`, false}, {`"6"`, false}, {`"6", "8"`, false}, {`"77"`, false}, {`"6 7"`, false}, {`"67", "76"`, false},
	} {
		if got := matches(tt.header, "7"); got != tt.want {
			t.Errorf("%s: %v", tt.header, got)
		}
	}
}

// A command applies to one state of the saga: an If-Match with several tags is refused, and nothing
// is done.
func TestCommandsMatchOneState(t *testing.T) {
	x := newFixture(t)
	x.publish(sleepDef)
	id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
	x.do("POST", "/v1/sagas/"+id+"/pause", `{}`).want(202)
	tag := x.do("GET", "/v1/sagas/"+id, "").want(200).Header.Get("ETag")
	for _, list := range []string{`"1", ` + tag, tag + `, "1"`, `*, ` + tag, tag + ", *", `"1"`, `"0"`, `"-1"`, `"x"`, `,`, `"` + strings.Repeat("9", 30) + `"`} {
		if a := x.do("POST", "/v1/sagas/"+id+"/resume", `{}`, header{"If-Match", list}); a.Status != 412 {
			t.Errorf("If-Match %s: %d", list, a.Status)
		}
	}
	if now := x.do("GET", "/v1/sagas/"+id, "").want(200).Header.Get("ETag"); now != tag {
		t.Errorf("the saga has gone from %s to %s", tag, now)
	}
	if a := x.do("GET", "/v1/sagas/"+id, "", header{"If-None-Match", `"1", ` + tag}); a.Status != 304 {
		t.Errorf("If-None-Match of a list that has it: %d", a.Status)
	}
	x.do("POST", "/v1/sagas/"+id+"/resume", `{}`, header{"If-Match", "W/" + tag}).want(202)
}

// A publication has a condition on one version: an If-Match with several tags is refused, and
// nothing is published.
func TestPublicationsMatchOneVersion(t *testing.T) {
	x := newFixture(t)
	for path, src := range map[string]string{"/v1/definitions/nap": sleepDef, "/v1/actions/charge": chargeAction} {
		tag := x.do("PUT", path, src).want(201).Header.Get("ETag")
		for _, list := range []string{`"1", ` + tag, tag + `, "1"`, `*, ` + tag, tag + ", *", ","} {
			x.do("PUT", path, src+"# 2\n", header{"If-Match", list}).problem(400, "invalid_request")
		}
		if now := x.do("GET", path, "").want(200).Header.Get("ETag"); now != tag {
			t.Errorf("%s has gone from %s to %s", path, tag, now)
		}
		x.do("PUT", path, src+"# 2\n", header{"If-Match", "W/" + tag}).want(201)
	}
}
