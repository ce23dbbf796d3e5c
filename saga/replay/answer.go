package replay

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// unknown is how much later than its record's time an answer without a retry may have come: a node
// takes the latest time at which it can have come, as far as it knows the store's clock, and the
// journal does not have this time.
const unknown = 2 * time.Second

// timing is a time at which an answer may have come, and the random number for the jitter of the
// retry after it. A retry may have been too late for a deadline or the key's window only by them.
type timing struct {
	at     time.Time
	random uint64
}

// answer lets the definition judge the recorded answer to a request, and appends the outcome.
func (r *run) answer(s machine.Send, rec *journal.Record) error {
	d, ok := history.DataOf[saga.OutcomeData](rec)
	if !ok {
		return fmt.Errorf("record %d: %w", rec.Seq, saga.ErrUnreadable)
	}
	r.use(rec)
	class := r.classOf(rec, s, &d)
	a, ok := answerOf(class, s, &d)
	if s.Request.Child != nil {
		if a.Report == nil {
			a.Report = &saga.Report{}
		}
		a.Report.Child = r.m.ChildCost(s.Path, &d)
		// A child reports no failure as transient: it was not started, and may be started later.
		a.Sent, a.Final = a.Sent && class != journal.Transient && a.Code != saga.CodeParentEnded, class == journal.Refused
	}
	if was := r.rec.intents[attempt{s.Path, s.Way, s.Attempt}]; s.Request.Tool != nil && was != nil {
		a = r.toolAnswer(a, was, &d)
	}
	if _, check := saga.SplitQuery(s.Path); check || !ok {
		return r.append(machine.Draft{Kind: journal.Outcome, Path: s.Path, Way: s.Way, Attempt: s.Attempt, Generation: s.Generation, Class: rec.Class, Data: d})
	}
	a.RetryAfter = retry.After(a.Headers["retry-after"], rec.At)
	times := []timing{{r.now.Add(unknown), math.MaxUint64}, {r.now, math.MaxUint64}, {r.now, 0}}
	if d.RetryAt != nil {
		// The delay is then the recorded one, jitter included.
		times, a.RetryAfter = times[1:], max(0, d.RetryAt.Sub(r.now))
	}
	if d.Next == saga.NextRetry {
		times = times[1:]
	}
	// Of the times that are possible, the answer came at one after which the saga did what the
	// journal says.
	var first machine.Draft
	for i, t := range times {
		draft, err := r.m.RecordOutcome(s.Path, s.Way, s.Attempt, a, t.at, t.random)
		if err != nil {
			return err
		}
		if i == 0 {
			first = draft
		}
		if now, ok := draft.Data.(saga.OutcomeData); ok && now.Next == d.Next {
			return r.append(draft)
		}
	}
	return r.append(first)
}

// classOf returns the class of the answer itself. A refusal after an attempt in doubt is recorded
// as in doubt, because the earlier attempt may have taken effect.
func (r *run) classOf(rec *journal.Record, s machine.Send, d *saga.OutcomeData) journal.Class {
	if rec.Class == journal.InDoubt && d.Next != saga.NextRetry && r.m.Doubtful(s.Path, s.Way) && refusal(s, d) {
		return journal.Refused
	}
	return rec.Class
}

// unsent are codes of answers to requests of which no byte left the process.
var unsent = []string{"dns", "tls", "egress_denied", saga.CodeSecretMissing, "url_invalid", "request_invalid", "not_sent", saga.CodeWithdrawn}

// refusedUnsent are those of them with which the request is refused, not retried.
var refusedUnsent = []string{"egress_denied", "url_invalid", "request_invalid", "mcp_tool_missing", "mcp_tool_writes"}

// withoutEffect are codes of answers of MCP servers that have done nothing. They have no status.
var withoutEffect = []string{"mcp_refused", "mcp_session_ended"}

// cut are codes of answers whose head arrived, and whose body did not arrive or could not be read.
var cut = []string{"body_cut", "body_too_large", "body_invalid"}

// unanswered are codes of failures that no worker and no child has reported.
var unanswered = []string{"connection", "timeout", saga.Interrupted, saga.CodeHeartbeatLost}

// refusal reports whether the failure of an attempt, which came after one in doubt, says that this
// attempt had no effect. Of a report, the journal does not say it: if what follows is not another
// attempt, refusals and doubts are treated alike.
func refusal(s machine.Send, d *saga.OutcomeData) bool {
	if d.Error == nil {
		return false
	}
	if s.Request.Task != nil || s.Request.Child != nil {
		// A child may report the same codes, such as that of its own timeout, and with them its
		// cost.
		return d.Cost != "" || !slices.Contains(unanswered, d.Error.Code)
	}
	return d.StatusCode == 0 && slices.Contains(refusedUnsent, d.Error.Code)
}

// answerOf returns the answer that an outcome was made from. The class is that of the answer. ok is
// false if the journal does not have enough of it.
func answerOf(class journal.Class, s machine.Send, d *saga.OutcomeData) (a saga.Answer, ok bool) {
	a = saga.Answer{Sent: true, Status: d.StatusCode}
	if d.Error != nil {
		a.Detail = d.Error.Detail
	}
	if d.NeverStarted != "" {
		a.Code = saga.NoSaga
		return a, true
	}
	if (s.Request.Task != nil || s.Request.Child != nil) && d.Result == nil {
		return reported(class, a, d), true
	}
	if a.Status == 0 {
		if d.Error != nil {
			a.Code = d.Error.Code
		}
		// A write without an answer is either in doubt or was not sent. A read is never in doubt;
		// if its cost is unknown, it was sent.
		read := s.Request.Method == "GET" || s.Request.Method == "HEAD"
		a.Sent = class == journal.InDoubt || slices.Contains(withoutEffect, a.Code) || read && d.Cost != "0" && !slices.Contains(unsent, a.Code)
		return a, true
	}
	if d.Error != nil && slices.Contains(cut, d.Error.Code) {
		a.Code = d.Error.Code
	}
	if d.Result == nil {
		a.Body = bodyOf(d.Output)
		return a, true
	}
	var result struct {
		Headers map[string]string `json:"headers"`
		Body    json.RawMessage   `json:"body"`
	}
	if json.Unmarshal(d.Result, &result) != nil || bytes.HasPrefix(result.Body, []byte(`{"left_out_bytes":`)) {
		return a, false
	}
	a.Headers, a.Body = result.Headers, result.Body
	if s.Request.Task != nil || s.Request.Child != nil {
		a.Report = &saga.Report{Cost: d.Cost, InDoubt: class == journal.InDoubt}
	}
	return a, true
}

// toolAnswer completes the recorded answer of a tool: with what its server said about it, and, for
// an output that is the default one, with the form of such an answer.
func (r *run) toolAnswer(a saga.Answer, intent *journal.Record, d *saga.OutcomeData) saga.Answer {
	if q, err := requestOf(intent); err == nil && q.Tool != nil {
		a.Hint = cmp.Or(d.Hint, q.Tool.Hint)
	}
	switch {
	case d.Error != nil && strings.HasPrefix(d.Error.Code, "mcp_"):
		a.Code = d.Error.Code
	case d.Result == nil && d.Error == nil:
		a.Body = saga.Encode(map[string]any{"content": text(d.Output), "structured": d.Output, "is_error": false})
	}
	return a
}

// text returns an output that is a text as the content of a tool's answer.
func text(output json.RawMessage) []any {
	var words string
	if json.Unmarshal(output, &words) != nil {
		return []any{}
	}
	return []any{map[string]any{"type": "text", "text": words}}
}

// reported returns the answer that a worker or a child saga has given.
func reported(class journal.Class, a saga.Answer, d *saga.OutcomeData) saga.Answer {
	a.Report = &saga.Report{Cost: d.Cost, Retryable: class == journal.Transient, InDoubt: class == journal.InDoubt}
	if class == journal.Succeeded {
		a.Body = bodyOf(d.Output)
		return a
	}
	if d.Error != nil {
		a.Code = d.Error.Code
		a.Sent = !slices.Contains(unsent, a.Code)
	}
	return a
}

// bodyOf returns the body whose default output this is.
func bodyOf(output json.RawMessage) json.RawMessage {
	if string(output) == "null" {
		return nil
	}
	return output
}

// requestOf returns the request of an intent.
func requestOf(intent *journal.Record) (saga.Request, error) {
	d, ok := history.DataOf[saga.IntentData](intent)
	if !ok || d.Request == nil {
		return saga.Request{}, fmt.Errorf("record %d: %w: an intent without a request", intent.Seq, saga.ErrUnreadable)
	}
	return *d.Request, nil
}
