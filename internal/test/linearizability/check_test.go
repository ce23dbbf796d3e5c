package linearizability_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"recourse/internal/test/linearizability"
	"recourse/saga"
)

// Histories that cannot have happened are caught, whatever wrote them: a good
// one is spoilt in one place.
func TestBadHistoriesAreCaught(t *testing.T) {
	good, truth := script(t, nil)
	first := truth.Sagas[0]
	early := findOp(t, good, func(o linearizability.Op) bool { return o.Do == linearizability.Get })
	patched := findOp(t, good, func(o linearizability.Op) bool { return o.Verb() == "patch" && o.Answer.Status == 200 })
	resumed := findOp(t, good, func(o linearizability.Op) bool { return o.Verb() == "resume" && o.Answer.Replayed })
	started := findOp(t, good, func(o linearizability.Op) bool { return o.Do == linearizability.Start && o.Answer.Status == 201 })
	last := slices.MaxFunc(good, func(a, b linearizability.Op) int { return int(a.Return - b.Return) }).Return

	// at the end, after all responses
	late := func(o linearizability.Op) linearizability.Op {
		o.Call, o.Return = last+time.Millisecond, last+2*time.Millisecond
		return o
	}
	with := func(o linearizability.Op, change func(*linearizability.Op)) linearizability.Op {
		change(&o)
		return o
	}
	for name, bad := range map[string][]linearizability.Op{
		"a stale read":                 {late(early)},
		"a stale 304":                  {late(with(early, func(o *linearizability.Op) { o.Known, o.Answer.Status, o.Answer.Body = o.Answer.Seq, 304, "" }))},
		"a read of what is not so":     {with(early, func(o *linearizability.Op) { o.Answer.Body = strings.Replace(o.Answer.Body, `"n":1`, `"n":2`, 1) })},
		"a read before the start":      {with(early, func(o *linearizability.Op) { o.Call, o.Return = -2, -1 })},
		"a read past the end":          {late(with(early, func(o *linearizability.Op) { o.Answer.Seq += 1000 }))},
		"a saga that is gone":          {late(with(early, func(o *linearizability.Op) { o.Answer = linearizability.Answer{Status: 404, Code: "saga_not_found"} }))},
		"a second start, another id":   {late(with(started, func(o *linearizability.Op) { o.Answer.Saga = truth.Sagas[1].ID() }))},
		"a second start, no such saga": {late(with(started, func(o *linearizability.Op) { o.Answer.Saga = "01a1fdd0-0000-7000-8000-000000000000" }))},
		"a start acknowledged twice":   {late(with(started, func(o *linearizability.Op) { o.Answer.Seq, o.Answer.Body = whole(first) }))},
		"a start of another body": {late(with(started, func(o *linearizability.Op) {
			o.Body = "trip-9"
			o.Answer.Status = 200
			o.Answer.Seq, o.Answer.Body = whole(first)
		}))},
		"a key refused to its own body": {late(with(started, func(o *linearizability.Op) {
			o.Answer = linearizability.Answer{Status: 422, Code: "idempotency_key_reused"}
		}))},
		"a start that is forgotten": {late(with(started, func(o *linearizability.Op) { o.Key = "never" }))},
		"a cancel that is forgotten": {late(with(patched, func(o *linearizability.Op) {
			o.Command = saga.Command{Do: saga.Cancel{}, Reason: "forgotten"}
			o.Answer.Status = 202
			o.Answer.Seq, o.Answer.Body = whole(first)
		}))},
		"a patch that is forgotten": {late(with(patched, func(o *linearizability.Op) {
			o.Command.Reason = "forgotten"
			o.Answer.Seq, o.Answer.Body = whole(first)
		}))},
		"a patch that was carried out early": {late(with(patched, func(o *linearizability.Op) { o.Answer.Seq, o.Answer.Body = whole(first) }))},
		"a refusal that never was so": {with(patched, func(o *linearizability.Op) {
			o.Command.Reason = "refused"
			o.Answer = linearizability.Answer{Status: 409, Code: "past_pivot"}
		})},
		"a refusal that no longer holds": {late(with(patched, func(o *linearizability.Op) {
			o.Command = saga.Command{Do: saga.Pause{}, Reason: "refused"}
			o.Answer = linearizability.Answer{Status: 409, Code: "paused"}
		}))},
		"a lost command, carried out before it was sent": {late(with(patched, func(o *linearizability.Op) { o.Answer = linearizability.Answer{} }))},
		"a replay of another answer":                     {late(with(resumed, func(o *linearizability.Op) { o.Answer.Body = patched.Answer.Body }))},
		"a refusal under an answered key": {late(with(resumed, func(o *linearizability.Op) {
			o.Answer = linearizability.Answer{Status: 409, Code: "terminal"}
		}))},
		"a journal that is short":       {late(linearizability.Op{Do: linearizability.Journal, Saga: first.ID(), Answer: linearizability.Answer{Status: 200, Records: first.Records[:3]}})},
		"a journal that is empty":       {late(linearizability.Op{Do: linearizability.Journal, Saga: first.ID(), Answer: linearizability.Answer{Status: 200}})},
		"a journal with a gap":          {late(linearizability.Op{Do: linearizability.Journal, Saga: first.ID(), Answer: linearizability.Answer{Status: 200, Records: first.Records[1:]}})},
		"another page, but no more":     {late(linearizability.Op{Do: linearizability.Journal, Saga: first.ID(), Answer: linearizability.Answer{Status: 200, Records: first.Records, More: true}})},
		"another saga's records":        {late(linearizability.Op{Do: linearizability.Journal, Saga: first.ID(), Answer: linearizability.Answer{Status: 200, Records: truth.Sagas[1].Records}})},
		"a journal that cannot be read": {late(linearizability.Op{Do: linearizability.Journal, Saga: first.ID(), Answer: linearizability.Answer{Status: 200, Failed: "cut"}})},
		"a saga retried that has none": {late(with(patched, func(o *linearizability.Op) {
			o.Command = saga.Command{Do: saga.Retry{}, Reason: "x"}
			o.Answer = linearizability.Answer{Status: 201, Saga: first.ID()}
		}))},
	} {
		t.Run(name, func(t *testing.T) {
			// The changed operation replaces the original one, unless it is an additional one.
			ops := slices.Clone(good)
			for _, b := range bad {
				if b.Call <= last {
					ops = slices.DeleteFunc(ops, func(o linearizability.Op) bool { return o.Call == b.Call })
				}
				if b.Do == linearizability.Command && b.Command.Reason == patched.Command.Reason {
					ops = slices.DeleteFunc(ops, func(o linearizability.Op) bool { return o.Command.Reason == patched.Command.Reason })
				}
			}
			if found := linearizability.Check(append(ops, bad...), truth); len(found) == 0 {
				t.Error("not noticed")
			}
		})
	}
	t.Run("a saga that was made twice", func(t *testing.T) {
		twin := *truth
		twin.Sagas = append(slices.Clone(twin.Sagas), twin.Sagas[0])
		if len(linearizability.Check(good, &twin)) == 0 {
			t.Error("not noticed")
		}
	})
	t.Run("a saga that nobody asked for", func(t *testing.T) {
		ops := slices.DeleteFunc(slices.Clone(good), func(o linearizability.Op) bool { return o.Key == started.Key && o.Do == linearizability.Start })
		if len(linearizability.Check(ops, truth)) == 0 {
			t.Error("not noticed")
		}
	})
}

// A request whose response was lost counts as carried out or not, as the journal says.
func TestLostAnswersAreForked(t *testing.T) {
	good, truth := script(t, nil)
	for i, o := range good {
		ops := slices.Clone(good)
		ops[i].Answer = linearizability.Answer{Failed: "gone"}
		report(t, linearizability.Check(ops, truth), 1)
		if t.Failed() {
			t.Fatalf("without the answer to %s", o)
		}
	}
	never := good[0]
	never.Do, never.Saga, never.Key, never.Command, never.Answer = linearizability.Command, truth.Sagas[0].ID(), "", saga.Command{Do: saga.Cancel{}, Reason: "never"}, linearizability.Answer{Status: 503}
	report(t, linearizability.Check(append(slices.Clone(good), never), truth), 1)
}

func findOp(t *testing.T, ops []linearizability.Op, is func(linearizability.Op) bool) linearizability.Op {
	t.Helper()
	i := slices.IndexFunc(ops, is)
	if i < 0 {
		t.Fatal("the script has no such request")
	}
	return ops[i]
}

// whole is the view of a saga at its end.
func whole(s *linearizability.Saga) (seq int64, body string) {
	seq = int64(len(s.Records))
	return seq, s.Shown(seq)
}
