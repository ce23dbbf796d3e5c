package saga

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"recourse/idempotency"
	"recourse/internal/mutant"
	"recourse/journal"
	"recourse/retry"
)

// Interrupted is the code of the answer that an attempt gets when the process
// that sent it died, or was stopped, before the answer came.
const Interrupted = "interrupted"

// InterruptedAnswer is the answer to an attempt whose process died: nobody knows.
func InterruptedAnswer() Answer {
	if mutant.On("lost-is-not-sent") {
		return Answer{Code: "connection"}
	}
	return Answer{Sent: true, Code: Interrupted, Detail: "the process that sent the request stopped before the answer came"}
}

// RecordOutcome turns the answer to an attempt into its outcome record, which also says
// what follows. at is when the answer came, chance an even draw from all of
// uint64 for the jitter. ErrStale if that attempt is not under way.
func (m *Machine) RecordOutcome(path string, way journal.Way, attempt int, a Answer, at time.Time, chance uint64) (journal.Record, error) {
	base, query := SplitQuery(path)
	n := m.steps[base]
	if n == nil {
		return journal.Record{}, fmt.Errorf("%w: %s", ErrStale, path)
	}
	s, step := &n.forward, n.step
	switch {
	case query:
		s, step = &n.statusCheck, n.step.InDoubt.Verify.Call
	case way == journal.Undo:
		s, step = &n.compensation, &n.step.Compensate.Step
	}
	if s.state != inFlight || s.attempts != attempt {
		return journal.Record{}, fmt.Errorf("%w: %s attempt %d", ErrStale, path, attempt)
	}
	at = at.UTC().Truncate(time.Millisecond)
	if at.Before(m.at) {
		at = m.at
	}
	t := outcomeBuilder{m: m, n: n, s: s, step: step, a: a, at: at, random: chance}
	var class journal.Class
	switch {
	case query:
		class = t.statusCheck()
	case way == journal.Undo:
		class = t.compensation()
	default:
		class = t.forward()
	}
	return journal.Record{Kind: journal.Outcome, Path: path, Way: way, Attempt: attempt, Generation: s.generation, Class: class, Data: m.make(t.d, t.d.exact())}, nil
}

// outcomeBuilder is one answer being judged.
type outcomeBuilder struct {
	m      *Machine
	n      *node
	s      *track
	step   *Step
	a      Answer
	at     time.Time
	random uint64
	d      OutcomeData
	v      Verdict
}

func (t *outcomeBuilder) env() *env {
	e := t.m.env(t.n)
	if t.s == &t.n.compensation {
		e.output, e.hasOutput, e.err = t.n.compensable(), true, t.m.reason
		e.key = t.n.forwardKey(t.m)
	} else {
		e.key = t.n.forward.key
	}
	e.actionInput, _ = t.m.actionInput(t.n, t.s, t.step, e) // which a request was made with, so there is nothing wrong
	if t.a.Status > 0 {
		e.answer = &t.a
	}
	return e
}

// judge classifies the answer and fills in what the record says of it.
func (t *outcomeBuilder) judge() journal.Class {
	call := t.step.Body.(Call)
	t.d.StatusCode = t.a.Status
	v := t.verdict(call)
	t.v = v
	t.d.Error = v.Error
	if v.Class == journal.Succeeded {
		t.d.Output = v.Output
		if reader, ok := call.(Reader); t.step.Output != nil || ok && reader.Records() {
			t.d.Result = t.result()
		}
	} else if t.a.Status > 0 {
		t.d.Result = t.result()
	}
	if v.Class == journal.Refused && len(t.step.Retry.On) > 0 && t.step.Retry.Retries(t.names(), false) {
		v.Class = journal.Transient // the author says that this one is worth another try
	}
	t.v.Class = v.Class
	t.charge()
	return v.Class
}

func (t *outcomeBuilder) verdict(call Call) Verdict {
	if t.alreadyGone(call) {
		t.d.AlreadyGone = true
		return Verdict{Class: journal.Succeeded, Output: json.RawMessage("null")}
	}
	if t.neverStarted() {
		t.d.NeverStarted = t.n.child.String()
		return Verdict{Class: journal.Succeeded, Output: json.RawMessage("null")}
	}
	expected := t.a.Code == "" && t.a.Status > 0 && t.step.Expect.Holds(t.a.Status)
	if !expected {
		if t.a.Code == "" && t.a.Status >= 200 && t.a.Status <= 299 {
			return broken(call, codeStatus, fmt.Sprintf("HTTP %d is not a status that `expect.status` names", t.a.Status), "", false)
		}
		return call.Judge(*t.s.request, t.a)
	}
	out := t.a.Body
	if reader, ok := call.(Reader); ok {
		v := reader.Read(*t.s.request, t.a)
		if v.Class != journal.Succeeded {
			return v
		}
		out = v.Output
	}
	if sch := t.step.Expect.Schema; sch != nil {
		switch detail, tooCostly := mismatch(sch, t.a.Body); {
		case tooCostly: // the same answer would cost as much again
			return broken(call, CodeTooCostly, "the answer's body could not be checked by `expect.schema`", detail, false)
		case detail != "":
			return broken(call, codeSchema, "the answer's body breaks `expect.schema`", detail, true)
		}
	}
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
	return Verdict{Class: journal.Succeeded, Output: out}
}

// alreadyGone reports whether there was nothing left to undo, whoever has removed it: an earlier
// attempt whose answer was lost, or somebody else. An author who says in `expect` what counts as
// success is taken at that word.
func (t *outcomeBuilder) alreadyGone(call Call) bool {
	r, ok := call.(Remover)
	return ok && t.s == &t.n.compensation && len(t.step.Expect.Status) == 0 && t.step.Expect.That == nil && r.Gone(t.a)
}

// neverStarted reports whether the saga that is to be undone was never started: it is not there,
// and the step that was to start it has not succeeded.
func (t *outcomeBuilder) neverStarted() bool {
	return t.s == &t.n.compensation && t.a.Code == NoSaga && t.n.forward.state != done
}

// broken is the verdict on an answer that came, but is not what was expected: a
// read is refused (or, where the body may have been damaged on its way, worth
// another try); after a write an effect may exist.
func broken(call Call, code, title, detail string, damaged bool) Verdict {
	v := Verdict{Class: journal.InDoubt, Error: &Failure{Code: code, Title: title, Detail: detail}}
	switch {
	case call.ReadOnly() && damaged:
		v.Class = journal.Transient
	case call.ReadOnly():
		v.Class = journal.Refused
	}
	return v
}

// mismatch says what is wrong with a body, "" for nothing, and whether it is that it could not be
// checked.
func mismatch(sch Schema, body json.RawMessage) (detail string, tooCostly bool) {
	value, err := decodeBody(body)
	if err != nil {
		return err.Error(), false
	}
	_, findings := sch.Apply(value)
	return Details(findings), TooCostly(findings)
}

// TooCostly reports whether findings say that a value could not be checked by its schema.
func TooCostly(findings []Finding) bool {
	return len(findings) > 0 && findings[0].Code == CodeTooCostly
}

// Details says in one line what a schema has found, the first five of it; "" for nothing.
func Details(findings []Finding) string {
	var details []string
	for _, f := range findings {
		if len(details) == 5 {
			details = append(details, "…")
			break
		}
		details = append(details, strings.TrimPrefix(f.Pointer+": ", ": ")+f.Detail)
	}
	return strings.Join(details, "; ")
}

// maxResult bounds the body that a record keeps of an answer beside the step's
// output, and maxRecorded that of a kind whose answers are kept whole.
const (
	maxResult   = 16 << 10
	maxRecorded = 4 << 20
)

func (t *outcomeBuilder) result() json.RawMessage {
	body, most := t.a.Body, maxResult
	if reader, ok := t.step.Body.(Reader); ok && reader.Records() {
		most = maxRecorded
	}
	if len(body) > most {
		body = encode(map[string]int{"left_out_bytes": len(body)})
	}
	return encode(struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers,omitempty"`
		Body    json.RawMessage   `json:"body,omitempty"`
	}{t.a.Status, t.a.Headers, body})
}

// charge books what the attempt is known to have used; what is unknown stays reserved. A request
// that was turned away has used nothing, unless the answer says what.
func (t *outcomeBuilder) charge() {
	priced, ok := t.step.Body.(Priced)
	author := t.step.Cost.Fixed != nil || t.step.Cost.From != nil
	if !t.a.Sent {
		if author || ok {
			t.d.Cost = "0"
		}
		if t.s.reservedTokens > 0 {
			t.d.Tokens = &TokensView{}
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
		used, known = Usage{}, true
	}
	if !known {
		return
	}
	if used.Input != 0 || used.Output != 0 || t.s.reservedTokens > 0 {
		t.d.Tokens = &TokensView{Input: used.Input, Output: used.Output}
	}
	if !author {
		t.d.Cost = used.Cost.Decimal()
	}
}

// turnedAway reports whether the other side has answered that it does not do what was asked for: a
// 4xx, 429 among them.
func (t *outcomeBuilder) turnedAway() bool { return t.a.Status >= 400 && t.a.Status <= 499 }

// cost is what the author's `cost` says, "" when that is unknown.
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

// costFrom reads the cost from the answer, where that has it.
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

// sequel has the next attempt be another request, if the kind knows a better one.
func (t *outcomeBuilder) sequel(class journal.Class) bool {
	q, ok := t.step.Body.(Sequel)
	if !ok || class == journal.Held || t.m.ending(t.n) || !t.step.Retry.Left(t.s.round()) {
		return false
	}
	hint, now := q.Next(*t.s.request, t.a, t.v, t.s.attempts)
	switch {
	case hint == nil:
		return false
	case now:
		if t.step.Deadline > 0 && t.at.Sub(t.s.firstSent) >= t.step.Deadline {
			return false
		}
		t.d.RetryAt, t.d.Next = &Time{t.at}, NextRetry
	case class != journal.Transient || !t.again():
		return false
	}
	t.d.RetryState = hint
	return true
}

// names is what the answer goes by in `on` and `not_on`.
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
	if class == journal.Refused && t.s.doubt && !t.v.SettlesDoubt && !mutant.On("doubt-is-not-sticky") {
		// Doubt is sticky: an earlier attempt may have had its effect, and most
		// answers do not tell. 409 says that it is being worked on.
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
		t.d.Next = NextAwaitCredentials
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

// doubtful follows the step's policy.
func (t *outcomeBuilder) doubtful() {
	settling := t.m.reason != nil && t.n.needsSettling() && t.n.settlesBySending()
	if t.step.InDoubt.Policy == RetrySame || t.step.InDoubt.Policy == "" || settling {
		if t.again() {
			if idempotency.Expired(t.s.firstSent, t.d.RetryAt.Time, t.step.KeyWindow) {
				t.d.RetryAt, t.d.Next = nil, NextAwaitResolution
			}
			return
		}
	}
	t.d.Next = t.whenUnresolved()
}

// whenUnresolved is what follows when sending again is not the way out of a doubt.
func (t *outcomeBuilder) whenUnresolved() Next {
	switch t.step.InDoubt.Policy {
	case VerifyIt:
		// The request may still arrive until its time-out has passed, and `after`. The
		// time-out began when it left, which was some time after its intent; so it is over
		// when the attempt ended by it, and at most a whole one from now otherwise.
		wait := t.step.Timeout
		if t.a.Code == "timeout" {
			wait = 0
		}
		t.d.RetryAt = &Time{t.at.Add(max(wait+t.step.InDoubt.Verify.After, t.a.RetryAfter))}
		if mutant.On("verify-without-margin") {
			t.d.RetryAt = &Time{t.at}
		}
		return NextVerify
	case Ask:
		if mutant.On("ask-sends-again") && t.again() {
			return NextRetry
		}
		return NextAwaitResolution
	}
	return t.m.endInDoubt(t.n)
}

// again schedules the next attempt, if the policy leaves one.
func (t *outcomeBuilder) again() bool {
	p := t.step.Retry
	if (!p.Left(t.s.round()) && !mutant.On("attempts-without-end")) || !t.retries() {
		return false
	}
	delay := p.Delay(t.s.round(), t.random)
	if t.a.Code == Interrupted {
		delay = 0 // the time it took to come back was wait enough
	}
	due := t.at.Add(max(delay, t.a.RetryAfter))
	if mutant.On("retry-after-ignored") {
		due = t.at.Add(delay)
	}
	if t.step.Deadline > 0 && due.Sub(t.s.firstSent) >= t.step.Deadline {
		return false
	}
	t.d.RetryAt, t.d.Next = &Time{due}, NextRetry
	return true
}

// retries reports whether the policy retries what the answer goes by. `on` says which failures of
// the other side are worth another try. Our own end is none of them, so that only `not_on` keeps
// what it interrupted from being sent again.
func (t *outcomeBuilder) retries() bool {
	p := t.step.Retry
	if t.a.Code == Interrupted {
		p.On = nil
	}
	return p.Retries(t.names(), true)
}

// compensation decides what follows an attempt of a compensation: it is retried until it
// is acknowledged, or waits for a person.
func (t *outcomeBuilder) compensation() journal.Class {
	class := t.judge()
	doubt := t.s.doubt || class == journal.InDoubt
	if class == journal.Refused && t.s.doubt {
		class = journal.InDoubt
		if t.a.Status != 409 {
			t.d.Next = NextBlock
			return class
		}
	}
	switch {
	case class == journal.Succeeded:
	case class == journal.Held:
		t.d.Next = NextAwaitCredentials
	case class == journal.Refused && mutant.On("give-up-undoing"):
	case class == journal.Refused, !t.again():
		t.d.Next = NextBlock
	case doubt && idempotency.Expired(t.s.firstSent, t.d.RetryAt.Time, t.step.KeyWindow):
		t.d.RetryAt, t.d.Next = nil, NextBlock
	}
	return class
}

// statusCheck decides what a status query has told.
func (t *outcomeBuilder) statusCheck() journal.Class {
	class := t.judge()
	switch class {
	case journal.Succeeded:
		t.d.Next = t.answered()
	case journal.Held:
		t.d.Next = NextAwaitCredentials
	case journal.Transient:
		if !t.again() {
			t.d.Next = NextInconclusive
		}
	default:
		t.d.Next = NextInconclusive
	}
	return class
}

// answered reads a status query's answer.
func (t *outcomeBuilder) answered() Next {
	v, env := t.n.step.InDoubt.Verify, t.env()
	found, err := v.Found.Bool(env)
	if err != nil {
		t.d.Output, t.d.Error = nil, expressionFailure("verify.found", err)
		return NextInconclusive
	}
	if mutant.On("absent-is-found") {
		found = true
	}
	out := t.d.Output
	if found && v.Output != nil {
		if out, err = v.Output.JSON(env); err != nil {
			t.d.Output, t.d.Error = nil, expressionFailure("verify.output", err)
			return NextInconclusive
		}
	}
	t.d.Found, t.d.Output = &found, nil
	if found {
		t.d.Output = out
	}
	return NextConclusive
}

// InFlight lists the attempts that are under way, as the journal has it, but for those that workers
// and other sagas have: for a process that has just read the journal, those whose answer is lost.
func (m *Machine) InFlight() []Attempt {
	var list []Attempt
	add := func(path string, way journal.Way, s *track, outside bool) {
		if s.state == inFlight && !outside {
			list = append(list, Attempt{Path: path, Way: way, Number: s.attempts})
		}
	}
	for _, n := range m.touched {
		add(n.path, journal.Do, &n.forward, outside(n.step))
		add(n.path+verifySuffix, journal.Do, &n.statusCheck, false)
		if n.step.Compensate != nil {
			add(n.path, journal.Undo, &n.compensation, outside(&n.step.Compensate.Step))
		}
	}
	return list
}

// Attempt names an attempt.
type Attempt struct {
	Path   string
	Way    journal.Way
	Number int
}
