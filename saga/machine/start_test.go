package machine

import (
	"strings"
	"testing"

	"recourse/saga"
)

const incoming = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A start's traceparent is pinned as far as it is one.
func TestTraceparentOfStart(t *testing.T) {
	def := &saga.Definition{Name: "x"}
	for given, want := range map[string]string{incoming: incoming, "": "", "rubbish": "", "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more": incoming} {
		d, _, wrong := Begin(def, StartOptions{Traceparent: given})
		if wrong != nil || d.Traceparent != want {
			t.Errorf("%q: %q, %v", given, d.Traceparent, wrong)
		}
		if written := strings.Contains(string(saga.Encode(d)), "traceparent"); written != (want != "") {
			t.Errorf("%q is written as %s", given, saga.Encode(d))
		}
	}
}
