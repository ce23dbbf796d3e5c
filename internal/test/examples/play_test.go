package examples

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"recourse/api/client"
	"recourse/examples/llmstub"
	"recourse/examples/world"
)

// play is one saga of an example and its expected end.
type play struct {
	name    string
	example string
	edit    []string // old text, new text: where a test cannot wait for as long as the example does
	input   map[string]any
	guarded bool // the payment service requires an API key

	faults []world.Rule                               // faults of the mock services
	model  func() func(llmstub.Call) llmstub.Fault    // nil: no faults
	fetch  func() func(url string, times int) error   // nil: no faults
	people func(s *scene, id string)                  // the actions of people while the saga runs
	check  func(s *scene, v *client.Saga, f *fetcher) // further checks

	status string
	reason string // "code step error"
	output string // "" for any
	effect map[string]int
	events []string
}

func (p play) run(t *testing.T, database string) {
	var fault func(llmstub.Call) llmstub.Fault
	if p.model != nil {
		fault = p.model()
	}
	s := stage(t, database, fault)
	if p.guarded {
		s.world.SetToken("pay", payKey)
	}
	for _, r := range p.faults {
		if err := s.world.AddFault(r); err != nil {
			t.Fatal(err)
		}
	}
	var fail func(string, int) error
	if p.fetch != nil {
		fail = p.fetch()
	}
	f := s.fetch(fail)
	s.publish(p.example, p.edit...)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	v, err := s.client.Start(ctx, client.Start{Definition: names[p.example], Input: p.input})
	if err != nil {
		t.Fatal(err)
	}
	if p.people != nil {
		p.people(s, v.ID)
	}
	id := v.ID
	if v, err = s.client.Wait(ctx, id); err != nil {
		t.Fatalf("the saga has not ended: %v\n%s", err, s.transcript(id))
	}
	p.ended(t, s, v)
	if p.check != nil {
		p.check(s, v, f)
	}
	if t.Failed() {
		t.Logf("the journal:\n%s", s.transcript(v.ID))
	}
}

// ended compares the end of the saga with the expected one.
func (p play) ended(t *testing.T, s *scene, v *client.Saga) {
	t.Helper()
	if v.Status != p.status {
		t.Errorf("the saga ended as %s (%+v), want %s", v.Status, v.Reason, p.status)
	}
	reason := ""
	if v.Reason != nil {
		reason = strings.TrimSpace(strings.Join([]string{v.Reason.Code, v.Reason.Step, v.Reason.Error}, " "))
	}
	if reason != p.reason {
		t.Errorf("the reason is %q, want %q", reason, p.reason)
	}
	if p.output != "" && string(v.Output) != p.output {
		t.Errorf("the output is %s, want %s", v.Output, p.output)
	}
	if len(v.Open) > 0 {
		t.Errorf("the saga has ended, but waits for %v", v.Open)
	}
	left := make(map[string]int)
	for _, e := range s.world.Ledger().Live() {
		left[e.Service+" "+e.Op]++
	}
	for what, n := range p.effect {
		if left[what] != n {
			t.Errorf("effect %s remains %d times, want %d", what, left[what], n)
		}
		delete(left, what)
	}
	if len(left) > 0 {
		t.Errorf("unexpected effects remain: %v", left)
	}
	for _, f := range s.world.Faults() {
		if f.Fired == 0 {
			t.Errorf("this fault never happened: %+v", f.Rule)
		}
	}
	s.events.types(t, p.events...)
	if out, ok := s.verify(s.world.Ledger()); !ok {
		t.Errorf("verify: %s", out)
	}
}

// names are the names of the examples' definitions.
var names = map[string]string{"minimal": "two-steps", "travel": "travel-booking", "return": "order-return", "research": "research-report", "cooldown": "cooldown"}

// TestPlays runs all plays on each database.
func TestPlays(t *testing.T) {
	t.Parallel()
	for name, database := range databases {
		for _, p := range slices.Concat(minimal, travel, returns, research, cooldown) {
			t.Run(name+"/"+p.example+"/"+p.name, func(t *testing.T) {
				t.Parallel()
				p.run(t, database(t))
			})
		}
	}
}

// TestVerifyNotices corrupts a correct ledger, to show that the check can fail.
func TestVerifyNotices(t *testing.T) {
	t.Parallel()
	s := stage(t, databases["sqlite"](t), nil)
	s.publish("minimal")
	v, err := s.client.Start(t.Context(), client.Start{Definition: "two-steps"})
	if err != nil {
		t.Fatal(err)
	}
	if v, err = s.client.Wait(t.Context(), v.ID); err != nil || v.Status != "succeeded" {
		t.Fatalf("%+v, %v", v, err)
	}
	l := s.world.Ledger()
	if out, ok := s.verify(l); !ok {
		t.Fatalf("verify: %s", out)
	}
	charge := l.Op("pay", "charge").Effects()[0]
	again := charge
	again.N, again.EffectID = 99, "ch_99"
	for name, spoilt := range map[string]world.Ledger{
		"an effect is missing":     l.Where(func(e world.Entry) bool { return e.N != charge.N }),
		"an effect came twice":     append(slices.Clone(l), again),
		"a request is nobody's":    append(slices.Clone(l), world.Entry{N: 99, At: charge.At, Kind: world.Request, Method: "POST", Path: "/charges", Key: "nobody's"}),
		"another body had arrived": otherBody(l),
	} {
		if out, ok := s.verify(spoilt); ok {
			t.Errorf("%s, and verify says %s", name, out)
		}
	}
}

func otherBody(l world.Ledger) world.Ledger {
	l = slices.Clone(l)
	l[0].BodySHA256 = strings.Repeat("0", 64)
	return l
}

// onPath returns the fault of writes whose path has a prefix.
func onPath(path string, times int, do world.Do) world.Rule {
	return world.Rule{Match: world.Match{Method: "POST", PathPrefix: path}, Times: times, Do: do}
}

func status(code int) world.Do { return world.Do{Before: world.FaultStatus, Status: code} }

// field returns a field of an object as it is written, without the quotes of a string.
func field(t *testing.T, doc json.RawMessage, name string) string {
	t.Helper()
	var f map[string]json.RawMessage
	if err := json.Unmarshal(doc, &f); err != nil {
		t.Fatal(err)
	}
	return strings.Trim(string(f[name]), `"`)
}
