package api

import (
	"strings"
	"testing"

	"recourse/saga/machine"
)

const incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A start's traceparent selects the saga's trace. An invalid one is ignored, and it does not affect
// the idempotency key.
func TestTraceparentOfStart(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(sleepDef)
		start := func(headers ...header) machine.View {
			t.Helper()
			a := x.do("POST", "/v1/sagas", `{"definition": "nap"}`, headers...)
			if a.Status != 201 && a.Status != 200 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			return a.saga()
		}
		key := header{"Idempotency-Key", "k"}
		first := start(key, header{"traceparent", incoming})
		if first.TraceID != incoming[3:35] {
			t.Errorf("trace_id %q", first.TraceID)
		}
		for _, other := range [][]header{{key}, {key, {"traceparent", strings.Replace(incoming, "0af7", "1111", 1)}}} {
			if again := start(other...); again.ID != first.ID || again.TraceID != first.TraceID {
				t.Errorf("under the same key: saga %s in trace %s, want %s in %s", again.ID, again.TraceID, first.ID, first.TraceID)
			}
		}
		if got := x.do("GET", "/v1/sagas/"+first.ID, "").want(200).saga(); got.TraceID != first.TraceID {
			t.Errorf("read again: trace_id %q", got.TraceID)
		}
		for _, text := range []string{"", "rubbish", strings.ToUpper(incoming), "ff" + incoming[2:]} {
			if got := start(header{"traceparent", text}); got.TraceID != strings.ReplaceAll(got.ID, "-", "") {
				t.Errorf("with %q: trace_id %q of saga %s", text, got.TraceID, got.ID)
			}
		}
		if got := x.do("POST", "/v1/sagas/"+first.ID+"/cancel", `{"reason": "r"}`).want(202).saga(); got.TraceID != first.TraceID {
			t.Errorf("a command's response: trace_id %q", got.TraceID)
		}
		x.until(first.ID, func(v machine.View) bool { return v.Status.Terminal() })
		again := x.do("POST", "/v1/sagas/"+first.ID+"/retry", `{"reason": "r"}`, header{"traceparent", strings.Replace(incoming, "0af7", "2222", 1)}).want(201).saga()
		if !strings.HasPrefix(again.TraceID, "2222") {
			t.Errorf("a retry: trace_id %q", again.TraceID)
		}
	})
}

// The event that starts a saga selects its trace: by its extension, else by the request's header.
func TestTraceparentOfEvent(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish("saga: nap\ntriggers: [{event: com.shop.paid}]\nsteps: [{id: s, sleep: 1h}]\n")
		send := func(id, extension string) string {
			t.Helper()
			var out struct{ Accepted []acceptedEvent }
			x.do("POST", "/v1/events", `{"specversion": "1.0", "id": "`+id+`", "source": "/shop", "type": "com.shop.paid"`+extension+`}`,
				header{"Content-Type", typeEvent}, header{"traceparent", incoming}).want(202).into(&out)
			return x.do("GET", "/v1/sagas/"+out.Accepted[0].Started[0].Saga, "").want(200).saga().TraceID
		}
		if got := send("1", ""); got != incoming[3:35] {
			t.Errorf("by the header: %s", got)
		}
		own := strings.Replace(incoming, "0af7", "3333", 1)
		if got := send("2", `, "traceparent": "`+own+`"`); got != own[3:35] {
			t.Errorf("by the extension: %s", got)
		}
	})
}
