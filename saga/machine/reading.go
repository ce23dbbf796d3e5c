package machine

import (
	"encoding/json"

	"recourse/journal"
	"recourse/saga"
)

// Read returns the answer to this request with its [saga.Reading], if the step has an
// `expect.schema` or its kind is a [saga.Reader], and the answer has an expected status. The schema
// can take seconds over a body of megabytes, so callers that run many machines in one goroutine do
// this in another one; for an answer without a reading, [Machine.RecordOutcome] does it. It is safe
// for concurrent use.
func (s Send) Read(a saga.Answer) saga.Answer {
	if s.step == nil || !expected(s.step, a) {
		return a
	}
	if _, reads := s.step.Body.(saga.Reader); reads || s.step.Expect.Schema != nil {
		a.Reading = readingOf(s.step, s.Request, a)
	}
	return a
}

// expected reports whether the answer is complete and has a status that the step expects.
func expected(step *saga.Step, a saga.Answer) bool {
	return a.Code == "" && step.Expect.Holds(a.Status)
}

// readingOf returns what an answer with an expected status means by the step's kind and its schema.
func readingOf(step *saga.Step, request saga.Request, a saga.Answer) *saga.Reading {
	r := &saga.Reading{Verdict: saga.Verdict{Class: journal.Succeeded, Output: a.Body}}
	if reader, ok := step.Body.(saga.Reader); ok {
		if r.Verdict = reader.Read(request, a); r.Verdict.Class != journal.Succeeded {
			return r
		}
	}
	if sch := step.Expect.Schema; sch != nil {
		body := a.Body
		if _, own := step.Body.(saga.Resulting); own {
			body = r.Verdict.Output
		}
		r.Mismatch, r.TooCostly = mismatch(sch, body)
	}
	return r
}

// mismatch returns how a body breaks the schema, "" if it does not. tooCostly says that it could
// not be validated.
func mismatch(sch saga.Schema, body json.RawMessage) (detail string, tooCostly bool) {
	value, err := decodeBody(body)
	if err != nil {
		return err.Error(), false
	}
	_, findings := sch.Apply(value)
	return saga.Details(findings), saga.TooCostly(findings)
}
