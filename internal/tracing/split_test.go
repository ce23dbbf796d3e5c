package tracing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"recourse/engine"
	"recourse/internal/egress"
	"recourse/internal/story/storytest"
	"recourse/internal/tracing"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// sink keeps the exported spans.
type sink struct {
	spans []sdk.ReadOnlySpan
	hang  bool
	fails atomic.Bool
	away  atomic.Int32 // how many more times it cannot be reached; below 0: always
}

func (s *sink) ExportSpans(ctx context.Context, spans []sdk.ReadOnlySpan) error {
	if s.hang {
		<-ctx.Done()
		return ctx.Err()
	}
	if n := s.away.Load(); n != 0 {
		if n > 0 {
			s.away.Add(-1)
		}
		return fmt.Errorf("traces export: %w", &egress.Failure{Code: egress.CodeConnection})
	}
	if s.fails.Load() {
		return errors.New("the collector is full")
	}
	s.spans = append(s.spans, spans...)
	return nil
}

func (s *sink) Shutdown(context.Context) error { return nil }

// exported calls a tracer with a saga's earlier records, and then with the new ones, in one commit
// for each record, and returns the exported spans.
func exported(t *testing.T, p storytest.Played, before, after []journal.Record) []sdk.ReadOnlySpan {
	t.Helper()
	s := &sink{}
	tr := tracing.New(tracing.Config{Export: s})
	if len(before) > 0 {
		tr.Acquired(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: before})
	}
	for i := range after {
		tr.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: after[i : i+1]})
	}
	tr.Released(p.ID)
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := tr.Held(); n != 0 {
		t.Errorf("%d sagas are still held", n)
	}
	return s.spans
}

// feed calls a tracer with a saga that is acquired with so many records.
func feed(tr *tracing.Tracer, p storytest.Played, before int) {
	if before > 0 {
		tr.Acquired(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records[:before]})
	}
	tr.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records[before:]})
	tr.Released(p.ID)
}

// lines prints spans with all their fields, sorted.
func lines(spans []sdk.ReadOnlySpan) []string {
	var list []string
	for _, s := range spans {
		line := fmt.Sprint(s.SpanContext().TraceID(), s.SpanContext().SpanID(), s.Parent().SpanID(), s.Name(), s.StartTime(), s.EndTime(), s.Status(), s.Attributes())
		for _, e := range s.Events() {
			line += fmt.Sprint(e.Name, e.Time, e.Attributes)
		}
		list = append(list, line)
	}
	slices.Sort(list)
	return list
}

const eventful = `
saga: eventful
secrets: []
steps:
  - {id: first, http: "POST http://w/first", body: {}, compensate: {http: "DELETE http://w/first"}}
  - {id: asked, http: "POST http://w/asked", body: {}, in_doubt: ask, compensate: {http: "DELETE http://w/asked"}}
  - id: checked
    http: POST http://w/checked
    body: {}
    in_doubt: {verify: {http: GET http://w/checked, found: "result.status == 200"}, otherwise: ask}
    compensate: {http: DELETE http://w/checked}
  - id: pages
    foreach: [1, 2]
    max_parallel: 2
    steps:
      - {id: page, http: "POST http://w/page/${item}", body: {}, compensate: {http: "DELETE http://w/page/${item}"}}
      - id: which
        switch: [{when: "item == 1", steps: [{id: nap, sleep: 1m}]}]
  - {id: doubt, http: "POST http://w/doubt", body: {}, in_doubt: fail, on_error: continue, compensate: {http: "DELETE http://w/doubt/${key}"}}
  - {id: last, http: "POST http://w/last", body: {}}
finally:
  - {id: bye, http: "POST http://w/bye", body: {}}
`

// If a saga moves from one node to another at any record, both together export the same spans as
// one node would, each once. In each trace, all spans but the first have their parent.
func TestSplit(t *testing.T) {
	names := map[string]int{}
	for seed := range uint64(25) {
		r := rand.New(rand.NewPCG(seed, 1))
		commands := map[int64]saga.Command{}
		p := storytest.Play(t, eventful, storytest.Script{Commands: commands,
			Answer: func(machine.Send, time.Time) saga.Answer {
				ok := saga.Answer{Sent: true, Status: 201, Body: json.RawMessage(`{}`)}
				return []saga.Answer{ok, ok, ok, ok, ok, ok, {Sent: true, Status: 422}, {Sent: true, Status: 500}, {Sent: true, Status: 429}, {Sent: true, Status: 401}, {Code: "connection"}, saga.InterruptedAnswer()}[r.IntN(12)]
			},
			Person: func(e saga.Entry) saga.Command {
				return saga.Command{Do: saga.Resolve{Outcome: []string{"skip", "retry", "retry", "skip"}[r.IntN(4)]}, Path: e.Path, Actor: "ann", Reason: "so"}
			}})
		whole := exported(t, p, nil, p.Records)
		want := lines(whole)
		known := map[trace.SpanID]bool{}
		for _, s := range whole {
			if known[s.SpanContext().SpanID()] {
				t.Fatalf("seed %d: span %s is there twice", seed, s.Name())
			}
			known[s.SpanContext().SpanID()] = true
			if s.EndTime().Before(s.StartTime()) {
				t.Errorf("seed %d: span %s ends before it begins", seed, s.Name())
			}
			names[s.Name()]++
		}
		for _, s := range whole {
			if s.Parent().IsValid() && !known[s.Parent().SpanID()] {
				t.Errorf("seed %d: span %s has no parent", seed, s.Name())
			}
		}
		for k := range p.Records {
			got := lines(slices.Concat(exported(t, p, nil, p.Records[:k]), exported(t, p, p.Records[:k], p.Records[k:])))
			if d := cmp.Diff(want, got); d != "" {
				t.Fatalf("seed %d: taken on at %d: %s", seed, k, d)
			}
		}
	}
	for _, name := range []string{"eventful", "undo first", "undo page", "which", "nap", "doubt", "bye", "GET"} {
		if names[name] < 3 {
			t.Errorf("only %d spans of %s", names[name], name)
		}
	}
}

// played returns a saga with nine spans.
func played(t *testing.T) storytest.Played {
	return storytest.Play(t, eventful, storytest.Script{Answer: func(machine.Send, time.Time) saga.Answer {
		return saga.Answer{Sent: true, Status: 201, Body: json.RawMessage(`{}`)}
	}})
}

// A collector that hangs blocks no lane: spans without room are dropped and counted, and the
// shutdown ends in time.
func TestHangs(t *testing.T) {
	p := played(t)
	total := int64(len(exported(t, p, nil, p.Records)))
	tr := tracing.New(tracing.Config{Export: &sink{hang: true}, Queue: 4, Batch: 1})
	for range 10 {
		tr.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records})
	}
	if tr.Dropped() == 0 {
		t.Error("nothing is dropped")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := tr.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if got := tr.Dropped(); got != 10*total || tr.Exported() != 0 {
		t.Errorf("%d spans are dropped and %d exported, of %d", got, tr.Exported(), 10*total)
	}
}

// Spans that the collector refuses are counted. Later spans that it accepts are exported.
func TestRefused(t *testing.T) {
	p := played(t)
	s := &sink{}
	s.fails.Store(true)
	tr := tracing.New(tracing.Config{Export: s, Every: time.Millisecond})
	tr.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records})
	for tr.Dropped() == 0 {
		<-time.After(time.Millisecond)
	}
	s.fails.Store(false)
	tr.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records})
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tr.Exported() == 0 || tr.Exported() != int64(len(s.spans)) {
		t.Errorf("%d spans are exported, %d came", tr.Exported(), len(s.spans))
	}
}

// A collector that cannot be reached for a short time gets the spans later. A shutdown does not
// wait for one that cannot be reached.
func TestAway(t *testing.T) {
	p := played(t)
	s := &sink{}
	s.away.Store(2)
	tr := tracing.New(tracing.Config{Export: s, Every: time.Millisecond, Patience: time.Hour})
	tr.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records})
	for tr.Exported()+tr.Dropped() == 0 {
		<-time.After(time.Millisecond)
	}
	if tr.Dropped() != 0 {
		t.Errorf("%d spans are dropped", tr.Dropped())
	}
	s.away.Store(-1)
	tr.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records})
	if err := tr.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if tr.Dropped() == 0 {
		t.Error("what nobody took is not counted")
	}
}

// An emitted event contains its trace, with the step that emitted it as the parent.
func TestEmitted(t *testing.T) {
	p := storytest.Play(t, "saga: tells\nsteps: [{id: tell, emit: com.shop.done, to: [sink]}]\n", storytest.Script{})
	var d saga.OutcomeData
	var event struct{ Traceparent string }
	if err := errors.Join(json.Unmarshal(p.Records[1].Data, &d), json.Unmarshal(d.Event, &event)); err != nil {
		t.Fatal(err)
	}
	if own := p.Machine.Trace(); event.Traceparent != own.At(own.Step("tell", journal.Do)) {
		t.Errorf("the event's traceparent is %q", event.Traceparent)
	}
	if got := exported(t, p, nil, p.Records); len(got) != 2 || got[0].Name() != "tell" || got[0].SpanContext().SpanID() != trace.SpanID(p.Machine.Trace().Step("tell", journal.Do)) {
		t.Errorf("spans %v", lines(got))
	}
}
