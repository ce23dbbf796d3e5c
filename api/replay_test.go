package api

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	sagareplay "recourse/saga/replay"
)

// A changed definition is tried on the sagas that have ended, and nothing is sent or stored.
func TestReplayDefinition(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		def := "saga: twice\ninput: {n: integer}\nsteps:\n  - {id: a, http: POST " + x.world.URL + "/ship/orders, body: {charge: '${input.n}'}}\n  - {id: b, fail: no, when: input.n > 2}\n"
		x.publish(def)
		var ids []string
		for n := range 4 {
			ids = append(ids, x.do("POST", "/v1/sagas", fmt.Sprintf(`{"definition": "twice", "input": {"n": %d}, "labels": {"n": "n%d"}}`, n, n), header{"Prefer", "wait=30"}).want(201).saga().ID)
		}
		effects, before := len(x.world.Ledger()), x.dump()
		ask := func(src, more string) replayPageView {
			t.Helper()
			text, _ := json.Marshal(src)
			var v replayPageView
			x.do("POST", "/v1/definitions/twice/replay", `{"definition": `+string(text)+more+`}`).want(200).into(&v)
			return v
		}
		v := ask(def, "")
		if len(v.Data) != 4 || v.Verdicts[sagareplay.Same] != 4 || v.Next != "" || v.Data[0].Saga != ids[3] {
			t.Errorf("%+v", v)
		}
		v = ask(strings.Replace(def, "charge: '${input.n}'", "charge: '${input.n * 2}'", 1), "")
		got := make(map[string]string)
		for _, r := range v.Data {
			got[r.Saga] = fmt.Sprintf("%s %s %s %s %s", r.Verdict, r.Path, r.Pointer, r.Was, r.Now)
		}
		want := map[string]string{ids[0]: "same    ", ids[1]: "other-request a /body/charge 1 2", ids[2]: "other-request a /body/charge 2 4", ids[3]: "other-request a /body/charge 3 6"}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		v = ask(strings.Replace(def, "n > 2", "n > 3", 1), `, "status": ["failed"], "labels": {"n": "n3"}`)
		if len(v.Data) != 1 || v.Data[0].Verdict != sagareplay.OtherEnd || v.Data[0].Before.Status != "failed" || v.Data[0].After.Status != "succeeded" {
			t.Errorf("%+v", v)
		}
		// Pages continue where the one before has ended.
		var all []string
		for more := `, "limit": 3`; more != ""; {
			v = ask(def, more)
			for _, r := range v.Data {
				all = append(all, r.Saga)
			}
			if more = ""; v.Next != "" {
				more = fmt.Sprintf(`, "limit": 3, "cursor": %q`, v.Next)
			}
		}
		if d := cmp.Diff([]string{ids[3], ids[2], ids[1], ids[0]}, all); d != "" {
			t.Error(d)
		}
		if len(x.world.Ledger()) != effects || cmp.Diff(before, x.dump()) != "" {
			t.Error("a replay has sent or stored something")
		}
		for _, tt := range []struct {
			body   string
			status int
			code   code
		}{
			{`{}`, 400, "invalid_request"},
			{`{"definition": "saga: twice\nstep: []"}`, 422, "invalid_definition"},
			{`{"definition": "saga: other\nsteps: [{id: a, set: 1}]"}`, 422, "invalid_definition"},
			{`{"definition": {"saga": "twice", "steps": [{"id": "a", "set": 1}]}, "status": ["running"]}`, 400, "invalid_request"},
			{`{"definition": {"saga": "twice", "steps": [{"id": "a", "set": 1}]}, "limit": 1001}`, 400, "invalid_request"},
			{`{"definition": {"saga": "twice", "steps": [{"id": "a", "set": 1}]}, "cursor": "x"}`, 400, "invalid_request"},
		} {
			x.do("POST", "/v1/definitions/twice/replay", tt.body, outside).problem(tt.status, tt.code)
		}
		x.do("DELETE", "/v1/definitions/twice", "").want(204)
		// To publish an archived definition revives it.
		x.do("POST", "/v1/definitions/twice/replay", `{"definition": {"saga": "twice", "steps": [{"id": "a", "set": 1}]}}`, outside).want(200)
		x.do("POST", "/v1/definitions/other/replay", `{"definition": "saga: other\nsteps: [{id: a, set: 1}]"}`).problem(404, "definition_not_found")
	})
}
