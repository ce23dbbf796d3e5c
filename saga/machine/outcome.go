package machine

import (
	"encoding/json"
	"fmt"
	"time"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// RecordOutcome turns the answer to an attempt into its outcome record, which also says what
// follows. at is the time of the answer. random is uniformly distributed over all of uint64 and
// determines the jitter. The error is ErrStale if that attempt is not in flight.
func (m *Machine) RecordOutcome(path string, way journal.Way, attempt int, a saga.Answer, at time.Time, random uint64) (Draft, error) {
	base, query := saga.SplitQuery(path)
	n := m.steps[base]
	if n == nil {
		return Draft{}, fmt.Errorf("%w: %s", ErrStale, path)
	}
	s, step := &n.forward, n.step
	switch {
	case query:
		s, step = &n.statusCheck, n.step.InDoubt.Verify.Call
	case way == journal.Undo:
		s, step = &n.compensation, &n.step.Compensate.Step
	}
	if s.state != inFlight || s.attempts != attempt {
		return Draft{}, fmt.Errorf("%w: %s attempt %d", ErrStale, path, attempt)
	}
	at = at.UTC().Truncate(time.Millisecond)
	if at.Before(m.at) {
		at = m.at
	}
	t := outcomeBuilder{m: m, n: n, s: s, step: step, a: a, at: at, random: random}
	var class journal.Class
	switch {
	case query:
		class = t.statusCheck()
	case way == journal.Undo:
		class = t.compensation()
	default:
		class = t.forward()
		t.hold()
		if class == journal.Succeeded {
			t.d.Changed = m.changed(n, t.d.Output)
		}
	}
	d := Draft{Kind: journal.Outcome, Path: path, Way: way, Attempt: attempt, Generation: s.generation, Class: class, Data: t.d}
	if k, ok := step.Body.(saga.Keeper); ok && class == journal.Succeeded {
		d.Blobs = k.Keep(a)
	}
	return d, nil
}

// outcomeBuilder builds the outcome of one answer.
type outcomeBuilder struct {
	m      *Machine
	n      *node
	s      *track
	step   *saga.Step
	a      saga.Answer
	at     time.Time
	random uint64
	d      saga.OutcomeData
	v      saga.Verdict
}

// env returns the values that the step's expressions read once there is an answer with a status.
func (t *outcomeBuilder) env() *env {
	e := t.m.env(t.n)
	if t.s == &t.n.compensation {
		e.output, e.hasOutput, e.err = t.n.compensable(), true, t.m.reason
		e.key = t.n.forwardKey(t.m)
	} else {
		e.key = t.n.forward.key
	}
	e.actionInput, _ = t.m.actionInput(t.n, t.s, t.step, e) // the request was rendered with it, so it cannot fail
	e.answer, e.call = &t.a, t.step.Body
	return e
}

// judge classifies the answer and fills in its part of the record.
func (t *outcomeBuilder) judge() journal.Class {
	call := t.step.Body.(saga.Call)
	t.d.StatusCode = t.a.Status
	v := t.verdict(call)
	t.v = v
	t.d.Error = v.Error
	if v.Class == journal.Succeeded {
		t.d.Output = v.Output
		if reader, ok := call.(saga.Reader); t.step.Output != nil || ok && reader.Records() {
			t.d.Result = t.result()
		}
	} else if t.a.Status > 0 {
		t.d.Result = t.result()
	}
	if v.Class == journal.Refused && t.step.Retry.Retries(t.names(), false) {
		v.Class = journal.Transient // the author's `on` declares this failure retryable
	}
	t.v.Class = v.Class
	if r := t.s.request; r.Hinted(t.a.Hint) != r {
		t.d.Hint = t.a.Hint
	}
	t.charge()
	return v.Class
}

func (t *outcomeBuilder) verdict(call saga.Call) saga.Verdict {
	if v, refused := t.refused(); refused {
		return v
	}
	if t.alreadyGone(call) {
		t.d.AlreadyGone = true
		return saga.Verdict{Class: journal.Succeeded, Output: json.RawMessage("null")}
	}
	if t.neverStarted() {
		t.d.NeverStarted = t.n.child.String()
		return saga.Verdict{Class: journal.Succeeded, Output: json.RawMessage("null")}
	}
	if !expected(t.step, t.a) {
		if t.a.Code == "" && t.a.Status >= 200 && t.a.Status <= 299 {
			return broken(call, codeStatus, fmt.Sprintf("HTTP %d is not a status that `expect.status` names", t.a.Status), "", false)
		}
		return call.Judge(*t.s.request, t.a)
	}
	reading := t.a.Reading
	if reading == nil {
		reading = readingOf(t.step, *t.s.request, t.a)
	}
	switch {
	case reading.Verdict.Class != journal.Succeeded:
		return reading.Verdict
	case reading.TooCostly: // validating the same answer again would be as costly
		return broken(call, saga.CodeTooCostly, "the response's body could not be checked by `expect.schema`", reading.Mismatch, false)
	case reading.Mismatch != "":
		return broken(call, codeSchema, "the response's body breaks `expect.schema`", reading.Mismatch, true)
	}
	out := reading.Verdict.Output
	if that := t.step.Expect.That; that != nil {
		yes, err := that.Bool(t.env())
		if err != nil {
			return broken(call, codeExpression, "`expect.that` could not be evaluated", err.Error(), false)
		}
		if !yes {
			code := t.step.Expect.Error
			if code == "" {
				code = codeExpect
			}
			title := "`expect.that` does not hold: " + that.Source()
			if t.step.Expect.Error != "" {
				title = code + ": " + title
			}
			return broken(call, code, title, "", false)
		}
	}
	if out == nil {
		out = json.RawMessage("null")
	}
	if t.step.Output != nil {
		var err error
		if out, err = t.step.Output.JSON(t.env()); err != nil {
			return broken(call, codeExpression, "`output` could not be evaluated", err.Error(), false)
		}
	}
	return saga.Verdict{Class: journal.Succeeded, Output: out}
}

// refused reports whether the answer is a refusal by the author's `expect.refused`: the remote
// service says that it has done nothing. A condition that cannot be evaluated does not hold.
func (t *outcomeBuilder) refused() (saga.Verdict, bool) {
	that := t.step.Expect.Refused
	if that == nil || t.a.Code != "" || t.a.Status == 0 {
		return saga.Verdict{}, false
	}
	if yes, err := that.Bool(t.env()); err != nil || !yes {
		return saga.Verdict{}, false
	}
	f := &saga.Failure{Code: codeRefused, Title: "`expect.refused` holds: " + that.Source()}
	if t.step.Expect.Error != "" {
		f.Code, f.Title = t.step.Expect.Error, t.step.Expect.Error+": "+f.Title
	}
	return saga.Verdict{Class: journal.Refused, Error: f}, true
}

// alreadyGone reports whether there was nothing left to undo, for example because an earlier
// attempt whose answer was lost has removed it. It does not apply if the author's `expect` says
// what counts as success.
func (t *outcomeBuilder) alreadyGone(call saga.Call) bool {
	r, ok := call.(saga.Remover)
	return ok && t.s == &t.n.compensation && len(t.step.Expect.Status) == 0 && t.step.Expect.That == nil && r.Gone(t.a)
}

// neverStarted reports whether the child saga to undo was never started: it does not exist, and the
// step that was to start it has not succeeded.
func (t *outcomeBuilder) neverStarted() bool {
	return t.s == &t.n.compensation && t.a.Code == saga.NoSaga && t.n.forward.state != done
}

// broken returns the verdict on an answer that does not meet the expectations. A read is refused,
// or retried if its body may have been damaged in transit. A write may have taken effect.
func broken(call saga.Call, code, title, detail string, damaged bool) saga.Verdict {
	v := saga.Verdict{Class: journal.InDoubt, Error: &saga.Failure{Code: code, Title: title, Detail: detail}}
	switch {
	case call.ReadOnly() && damaged:
		v.Class = journal.Transient
	case call.ReadOnly():
		v.Class = journal.Refused
	}
	return v
}

// maxResult limits the bytes of an answer's body that a record keeps in addition to the step's
// output. maxRecorded is the limit for kinds whose answers are kept whole.
const (
	maxResult   = 16 << 10
	maxRecorded = 4 << 20
)

func (t *outcomeBuilder) result() json.RawMessage {
	body, most := t.a.Body, maxResult
	if reader, ok := t.step.Body.(saga.Reader); ok && reader.Records() {
		most = maxRecorded
	}
	if len(body) > most {
		body = saga.Encode(map[string]int{"left_out_bytes": len(body)})
	}
	return saga.Encode(struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers,omitempty"`
		Body    json.RawMessage   `json:"body,omitempty"`
	}{t.a.Status, t.a.Headers, body})
}

// charge records the attempt's known use. Unknown use stays reserved. A request that was rejected
// has used nothing, unless the answer says otherwise.
func (t *outcomeBuilder) charge() {
	if _, ok := t.step.Body.(saga.Spawner); ok {
		t.chargeChild()
		return
	}
	priced, ok := t.step.Body.(saga.Priced)
	author := t.step.Cost.Fixed != nil || t.step.Cost.From != nil
	if !t.a.Sent {
		if author || ok {
			t.d.Cost = "0"
		}
		if t.s.reservedTokens > 0 {
			t.d.Tokens = &saga.TokensView{}
		}
		return
	}
	if author {
		t.d.Cost = t.cost()
	}
	if !ok {
		return
	}
	used, known := priced.Used(*t.s.request, t.a)
	if !known && t.turnedAway() {
		used, known = saga.Usage{}, true
	}
	if !known {
		return
	}
	if used.Input != 0 || used.Output != 0 || t.s.reservedTokens > 0 {
		t.d.Tokens = &saga.TokensView{Input: used.Input, Output: used.Output}
	}
	if !author {
		t.d.Cost = used.Cost.Decimal()
	}
}

// turnedAway reports whether the remote service rejected the request with a 4xx status, including
// 429.
func (t *outcomeBuilder) turnedAway() bool { return t.a.Status >= 400 && t.a.Status <= 499 }

// cost returns the cost by the author's `cost`, "" if it is unknown.
func (t *outcomeBuilder) cost() string {
	c := &t.step.Cost
	switch {
	case t.a.Status == 0:
		return ""
	case c.Fixed != nil:
		return c.Fixed.Decimal()
	}
	if m, ok := t.costFrom(); ok {
		return m.Decimal()
	}
	if t.turnedAway() {
		return "0"
	}
	return ""
}

// costFrom reads the cost from the answer, if it has one.
func (t *outcomeBuilder) costFrom() (retry.Money, bool) {
	v, err := t.step.Cost.From.Eval(t.env())
	if err != nil {
		return retry.Money{}, false
	}
	number, ok := v.(json.Number)
	if !ok {
		return retry.Money{}, false
	}
	m, err := retry.Amount(number.String(), t.m.currency())
	return m, err == nil
}

// sequel makes the next attempt a different request, if the kind knows a better one.
func (t *outcomeBuilder) sequel(class journal.Class) bool {
	q, ok := t.step.Body.(saga.Sequel)
	if !ok || class == journal.Held || t.m.ending(t.n) || !t.step.Retry.Left(t.s.round()) {
		return false
	}
	hint, now := q.Next(*t.s.request, t.a, t.v, t.s.attempts)
	switch {
	case hint == nil:
		return false
	case now:
		if t.step.Deadline > 0 && t.at.Sub(t.s.roundSent) >= t.step.Deadline {
			return false
		}
		t.d.RetryAt, t.d.Next = &saga.Time{Time: t.at}, saga.NextRetry
	case class != journal.Transient || !t.again():
		return false
	}
	t.d.RetryState = hint
	return true
}

// names returns the names by which `on` and `not_on` match the answer.
func (t *outcomeBuilder) names() []string {
	code := t.a.Code
	if code == "" && t.d.Error != nil {
		code = t.d.Error.Code
	}
	return retry.Names(t.a.Status, code)
}

// forward decides what follows a forward attempt.
func (t *outcomeBuilder) forward() journal.Class {
	class := t.judge()
	doubt := t.s.doubt || class == journal.InDoubt
	if class == journal.Refused && t.s.doubt && !t.v.SettlesDoubt {
		// Doubt is sticky: an earlier attempt may have taken effect, and most answers do not say
		// whether it did. 409 says that an earlier request is still being processed.
		class = journal.InDoubt
		if t.a.Status != 409 {
			t.d.Next = t.whenUnresolved()
			return class
		}
	}
	switch {
	case class == journal.Succeeded:
	case !doubt && t.sequel(class):
	case class == journal.Held:
		t.d.Next = saga.NextAwaitCredentials
	case class == journal.Refused:
		t.d.Next = t.m.endFailed(t.n)
	case !doubt: // transient
		if t.m.ending(t.n) || !t.again() {
			t.d.Next = t.m.endFailed(t.n)
		}
	default:
		t.doubtful()
	}
	return class
}

// hold notes when a step that is held tries again: after hold_for, and not before the remote
// service allows it.
func (t *outcomeBuilder) hold() {
	if t.d.Next == saga.NextHold && t.step.HoldFor > 0 {
		t.d.RetryAt = &saga.Time{Time: t.at.Add(max(t.step.HoldFor, t.a.RetryAfter))}
	}
}

// doubtful follows the step's policy for doubt.
func (t *outcomeBuilder) doubtful() {
	settling := t.m.reason != nil && t.n.needsSettling() && t.n.settlesBySending()
	if t.step.InDoubt.Policy == saga.RetrySame && !t.mayResend() {
		t.d.Next = saga.NextAwaitResolution
		return
	}
	if t.step.InDoubt.Policy == saga.RetrySame || t.step.InDoubt.Policy == "" || settling {
		if t.again() {
			if idempotency.Expired(t.s.firstSent, t.d.RetryAt.Time, t.step.KeyWindow) {
				t.d.RetryAt, t.d.Next = nil, saga.NextAwaitResolution
			}
			return
		}
	}
	t.d.Next = t.whenUnresolved()
}

// mayResend reports whether a request in doubt may be sent again without a person.
func (t *outcomeBuilder) mayResend() bool {
	return t.step.InDoubt.Resends(t.s.request.Hinted(t.a.Hint))
}

// whenUnresolved returns what follows when a resend does not settle a doubt.
func (t *outcomeBuilder) whenUnresolved() saga.Next {
	switch t.step.InDoubt.Policy {
	case saga.VerifyIt:
		// The request may still arrive until its timeout, plus `after`, has passed. The timeout
		// began when the request was sent, some time after its intent. So it has passed if the
		// attempt ended by it; otherwise it passes at most one whole timeout from now.
		wait := t.step.Timeout
		if t.a.Code == "timeout" {
			wait = 0
		}
		t.d.RetryAt = &saga.Time{Time: t.at.Add(max(wait+t.step.InDoubt.Verify.After, t.a.RetryAfter))}
		return saga.NextVerify
	case saga.Ask:
		return saga.NextAwaitResolution
	}
	return t.m.endInDoubt(t.n)
}

// again schedules the next attempt, if the retry policy allows one.
func (t *outcomeBuilder) again() bool {
	p := t.step.Retry
	if !p.Left(t.s.round()) || !t.retries() {
		return false
	}
	delay := p.Delay(t.s.round(), t.random)
	if t.a.Code == saga.Interrupted {
		delay = 0 // recovery has taken long enough
	}
	due := t.at.Add(max(delay, t.a.RetryAfter))
	if t.step.Deadline > 0 && due.Sub(t.s.roundSent) >= t.step.Deadline {
		return false
	}
	t.d.RetryAt, t.d.Next = &saga.Time{Time: due}, saga.NextRetry
	return true
}

// retries reports whether the policy retries this failure. `on` lists failures of the remote
// service that are worth a retry. The end of this process is not one of them, so only `not_on`
// prevents a resend of an interrupted attempt.
func (t *outcomeBuilder) retries() bool {
	p := t.step.Retry
	if t.a.Code == saga.Interrupted {
		p.On = nil
	}
	return p.Retries(t.names(), true)
}

// compensation decides what follows an attempt of a compensation: it is retried until it is
// acknowledged, or it needs a person.
func (t *outcomeBuilder) compensation() journal.Class {
	class := t.judge()
	doubt := t.s.doubt || class == journal.InDoubt
	if class == journal.Refused && t.s.doubt {
		class = journal.InDoubt
		if t.a.Status != 409 {
			t.d.Next = saga.NextBlock
			return class
		}
	}
	switch {
	case class == journal.Succeeded:
	case class == journal.Held:
		t.d.Next = saga.NextAwaitCredentials
	case class == journal.Refused, doubt && (t.step.InDoubt.Policy == saga.Ask || !t.mayResend()), !t.again():
		t.d.Next = saga.NextBlock
	case doubt && idempotency.Expired(t.s.firstSent, t.d.RetryAt.Time, t.step.KeyWindow):
		t.d.RetryAt, t.d.Next = nil, saga.NextBlock
	}
	return class
}

// statusCheck decides what follows an attempt of a status check.
func (t *outcomeBuilder) statusCheck() journal.Class {
	class := t.judge()
	switch class {
	case journal.Succeeded:
		t.d.Next = t.answered()
	case journal.Held:
		t.d.Next = saga.NextAwaitCredentials
	case journal.Transient:
		if !t.again() {
			t.d.Next = saga.NextInconclusive
		}
	default:
		t.d.Next = saga.NextInconclusive
	}
	return class
}

// answered reads the answer to a status check.
func (t *outcomeBuilder) answered() saga.Next {
	v, env := t.n.step.InDoubt.Verify, t.env()
	found, err := v.Found.Bool(env)
	if err != nil {
		t.d.Output, t.d.Error = nil, expressionFailure("verify.found", err)
		return saga.NextInconclusive
	}
	out := t.d.Output
	if found && v.Output != nil {
		if out, err = v.Output.JSON(env); err != nil {
			t.d.Output, t.d.Error = nil, expressionFailure("verify.output", err)
			return saga.NextInconclusive
		}
	}
	t.d.Found, t.d.Output = &found, nil
	if found {
		t.d.Output = out
	}
	return saga.NextConclusive
}

// InFlight lists the attempts that are in flight according to the journal, except tasks of workers
// and child sagas. For a process that has just read the journal, these are the attempts whose
// answers are lost.
func (m *Machine) InFlight() []Attempt {
	var list []Attempt
	add := func(path string, way journal.Way, s *track, outside bool) {
		if s.state == inFlight && !outside {
			list = append(list, Attempt{Path: path, Way: way, Number: s.attempts})
		}
	}
	for _, n := range m.touched {
		add(n.path, journal.Do, &n.forward, outside(n.step))
		add(saga.QueryPath(n.path), journal.Do, &n.statusCheck, false)
		if n.step.Compensate != nil {
			add(n.path, journal.Undo, &n.compensation, outside(&n.step.Compensate.Step))
		}
	}
	return list
}

// Doubtful reports whether an earlier attempt of a step, or of its compensation, is in doubt, so
// that the outcome of a later one that is refused says in doubt.
func (m *Machine) Doubtful(path string, way journal.Way) bool {
	n := m.steps[path]
	if n == nil {
		return false
	}
	if way == journal.Undo {
		return n.compensation.doubt
	}
	return n.forward.doubt
}

// Attempt identifies an attempt.
type Attempt struct {
	Path   string
	Way    journal.Way
	Number int
}
