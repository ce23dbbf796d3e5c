package replay

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/compare"
	"recourse/saga/expr"
	"recourse/saga/machine"
)

// run is one replay.
type run struct {
	def  *saga.Definition
	id   uuid.UUID
	rec  *recording
	vars map[string]json.RawMessage

	m        *machine.Machine
	now      time.Time
	latest   time.Time // the time from which the last wait counts, by its record; zero: by none
	inFlight []machine.Send
	made     map[attempt]bool // the attempts that were made again
	emitted  map[string]bool
	asked    map[string]int // by path: how many waits of a step have begun
	waits    []string       // the paths of waits that the journal does not have
	costs    []string
	place    int64 // the highest seq of the journal that was replayed
	bytes    int   // of the data of the records that the replay has written
}

// Limits of what a replay writes in addition to what was recorded. A changed definition may have a
// loop that sends nothing and has very many iterations, or very large outputs.
const (
	moreRecords = 200_000
	moreBytes   = 64 << 20
)

// differs is a difference that ends a replay.
type differs struct{ Result }

// Error implements error.
func (d *differs) Error() string { return string(d.Verdict) + ": " + d.Detail }

// result runs the definition to its end, or to the first difference.
func (r *run) result() (Result, error) {
	r.made, r.emitted, r.asked = make(map[attempt]bool), make(map[string]bool), make(map[string]int)
	err := r.start()
	for steps := 0; err == nil && !r.m.Ended(); steps++ {
		if steps > r.rec.records+moreRecords || r.bytes > r.rec.bytes+moreBytes {
			return Result{}, fmt.Errorf("the replay has become too long: %d records, and %d in the journal", r.m.Seq(), r.rec.records)
		}
		err = r.step()
	}
	if d, ok := errors.AsType[*differs](err); ok {
		return d.Result, nil
	}
	if err != nil {
		return Result{}, err
	}
	return r.compare()
}

// start starts the saga as the journal says.
func (r *run) start() error {
	d := r.rec.started
	vars := make(map[string]json.RawMessage, len(r.vars)+len(d.Vars))
	maps.Copy(vars, r.vars)
	maps.Copy(vars, d.Vars)
	begun, _, wrong := machine.Begin(r.def, machine.StartOptions{Version: int(d.Version), Input: d.Input, Vars: vars, Budget: d.Budget, Labels: d.Labels, Actor: d.Actor, RetryOf: uuid.FromStringOrNil(d.RetryOf), Reason: d.Reason, Parent: d.Parent, Traceparent: d.Traceparent})
	if len(wrong) > 0 {
		return &differs{Result{Verdict: OtherEnd, Pointer: wrong[0].Pointer, Detail: "the definition refuses the start: " + wrong[0].Detail}}
	}
	r.m, r.now = machine.New(r.def, r.id), r.rec.first.At
	if d.Latest != nil {
		r.m.Clock(d.Latest.Time)
	}
	return r.append(r.m.Start(begun))
}

// recorded returns the record of the journal that says what a draft says, nil if there is none or
// it is used up.
func (r *run) recorded(d machine.Draft) *journal.Record {
	if list := r.rec.times[moment{d.Kind, attempt{d.Path, d.Way, d.Attempt}}]; len(list) > 0 {
		return list[0]
	}
	return nil
}

// append appends a record, at the time of the same record in the journal if there is one.
func (r *run) append(d machine.Draft) error {
	if rec := r.recorded(d); rec != nil {
		r.use(rec)
		when := moment{d.Kind, attempt{d.Path, d.Way, d.Attempt}}
		r.rec.times[when] = r.rec.times[when][1:]
	}
	if o, ok := d.Data.(saga.OutcomeData); ok {
		r.costs = append(r.costs, o.Cost)
	}
	rec, err := r.m.Append(d, r.now, "replay")
	r.bytes += len(rec.Data)
	return err
}

// use moves the replay's time and place to a record of the journal.
func (r *run) use(rec *journal.Record) {
	if rec.At.After(r.now) {
		r.now = rec.At
	}
	r.place = max(r.place, rec.Seq)
}

// step appends the next record. The order is that of the journal, as far as it has the records.
func (r *run) step() error {
	var wakes []machine.WakeAt
	var decided *machine.Draft
	var act func() error
	for _, d := range r.m.Decide() {
		switch d := d.(type) {
		case machine.Write:
			decided, act = &d.Record, func() error { return r.write(d.Record) }
		case machine.Dispatch:
			decided, act = &d.Intent, func() error { return r.dispatch(d) }
			if woke := r.resend(d.Send); woke != nil {
				decided, act = woke, func() error { return r.write(*woke) }
			}
		case machine.WakeAt:
			wakes = append(wakes, d)
		}
	}
	if decided != nil {
		if rec := r.recorded(*decided); rec != nil {
			if latest := r.rec.latest[rec.Seq]; latest != nil && !latest.Equal(r.latest) {
				r.latest = latest.Time
				r.m.Clock(r.latest)
				return r.step() // what begins now ends at another time
			}
		}
	}
	e := r.next(wakes)
	switch {
	case decided == nil:
	case e.record == nil:
		return act()
	default:
		rec := r.recorded(*decided)
		if rec != nil && rec.Seq < e.record.Seq || rec == nil && e.record.Seq != r.place+1 {
			return act()
		}
		return e.happen()
	}
	switch {
	case e.timer != nil && e.record != nil && !e.timer.At.After(e.record.At):
		return r.wake(e.timer)
	case e.record != nil:
		return e.happen()
	case len(r.waits) > 0 || e.timer == nil && e.unfired == nil:
		return r.stuck()
	case e.timer == nil || e.unfired != nil && e.unfired.At.Before(e.timer.At):
		return r.wake(e.unfired)
	}
	return r.wake(e.timer)
}

// resend returns the record that an engine writes before it sends a request again some time after
// the saga's last record, nil if there is none. By its time the machine decides whether a deadline
// or the key's window has passed.
func (r *run) resend(s machine.Send) *machine.Draft {
	at := timer{s.Path, s.Way, "resend"}
	list := r.rec.timers[at]
	if intent := r.rec.intents[attempt{s.Path, s.Way, s.Attempt}]; len(list) == 0 || intent != nil && intent.Seq < list[0].Seq {
		return nil
	}
	return &machine.Draft{Kind: journal.Woke, Path: s.Path, Way: s.Way, Data: saga.WokeData{Timer: at.name, Due: saga.Time{Time: list[0].At}}}
}

// write appends a record that the machine has decided, after it was compared with the journal.
func (r *run) write(d machine.Draft) error {
	switch data := d.Data.(type) {
	case saga.IntentData:
		if data.Awaited != nil {
			if err := r.compareWait(d.Path, data.Awaited); err != nil {
				return err
			}
		}
	case saga.WokeData: // the time had come before the saga was at this point
		r.fired(timer{d.Path, d.Way, data.Timer})
	case saga.OutcomeData:
		if data.Event != nil {
			r.emitted[d.Path] = true
			if err := r.compareEvent(d.Path, data.Event); err != nil {
				return err
			}
		}
	}
	return r.append(d)
}

// dispatch compares a request with the recorded one, and appends its intent.
func (r *run) dispatch(d machine.Dispatch) error {
	s := d.Send
	at := attempt{s.Path, s.Way, s.Attempt}
	intent := r.rec.intents[at]
	if intent == nil || r.rec.outcomes[at] == nil {
		return &differs{Result{Verdict: NeverAnswered, Path: s.Path, Way: s.Way, Now: saga.Encode(s.Request), Detail: fmt.Sprintf("attempt %d of %s sends %s, and the journal has no answer to it", s.Attempt, s.Path, &s.Request)}}
	}
	if err := r.compareRequest(intent, s); err != nil {
		return err
	}
	r.made[at] = true
	r.inFlight = append(r.inFlight, s)
	return r.append(d.Intent)
}

// event is the next thing that happens outside of the saga.
type event struct {
	record *journal.Record // the record of an answer, a command, a signal or a timer; nil: none is left
	happen func() error
	timer  *machine.WakeAt // the earliest timer that the journal does not have; nil: none
	// unfired is the earliest timer that the saga has set, and that the journal does not let fire;
	// nil: none.
	unfired *machine.WakeAt
}

// next returns the event that comes next in the journal and that can happen now.
func (r *run) next(wakes []machine.WakeAt) event {
	var e event
	consider := func(rec *journal.Record, f func() error) {
		if e.record == nil || rec.Seq < e.record.Seq {
			e.record, e.happen = rec, f
		}
	}
	for i, s := range r.inFlight {
		rec := r.rec.outcomes[attempt{s.Path, s.Way, s.Attempt}]
		consider(rec, func() error {
			r.inFlight = slices.Delete(r.inFlight, i, i+1)
			return r.answer(s, rec)
		})
	}
	for i := range wakes {
		w := &wakes[i]
		if list := r.rec.timers[timerOf(w)]; len(list) > 0 {
			consider(list[0], func() error { return r.wake(w) })
			continue
		}
		// A timer that the saga had set did not fire before what came next, although it may have
		// been due, because no node was running then.
		step, _ := saga.SplitQuery(w.Woke.Path)
		into := &e.timer
		held := timerOf(w).name == saga.TimerHold && r.rec.heldUntil[step]
		if held || r.rec.planned[plannedTimer{step, w.At.UnixMilli()}] {
			into = &e.unfired
		}
		if *into == nil || w.At.Before((*into).At) {
			*into = w
		}
	}
	for _, in := range r.rec.inputs {
		if in.done || e.record != nil && in.Seq > e.record.Seq {
			continue
		}
		if draft, ok := r.applies(in); ok {
			consider(in.Record, func() error {
				in.done = true
				r.use(in.Record)
				return r.append(draft)
			})
		}
	}
	return e
}

func timerOf(w *machine.WakeAt) timer {
	t := timer{path: w.Woke.Path, way: w.Woke.Way}
	if d, ok := w.Woke.Data.(saga.WokeData); ok {
		t.name = d.Timer
	}
	return t
}

// fired uses up the journal's record of a timer, if there is one.
func (r *run) fired(key timer) {
	if len(r.rec.timers[key]) > 0 {
		r.rec.timers[key] = r.rec.timers[key][1:]
	}
}

func (r *run) wake(w *machine.WakeAt) error {
	r.fired(timerOf(w))
	if w.At.After(r.now) {
		r.now = w.At
	}
	return r.append(w.Woke)
}

// applies returns the record of a command or signal, if the saga can carry it out now, or if it was
// refused. Others may still apply later: an approval, for example, once the saga asks for it.
func (r *run) applies(in *input) (machine.Draft, bool) {
	c := in.command
	if in.refused != nil {
		return *in.refused, true
	}
	if c.Do == nil {
		return machine.Draft{}, false
	}
	if approve, ok := c.Do.(saga.Approve); ok {
		for _, e := range r.m.Inbox() {
			if e.Path == c.Path {
				approve.Shown = e.ShownHash
				c.Do = approve
			}
		}
	}
	draft, err := r.m.Validate(in.message, c)
	return draft, err == nil && draft.Kind != ""
}

// stuck returns the difference of a saga that waits for something that was not recorded.
func (r *run) stuck() error {
	path := ""
	switch inbox := r.m.Inbox(); {
	case len(r.waits) > 0:
		path = r.waits[0]
	case len(inbox) > 0:
		path = inbox[0].Path
	}
	detail := "the saga waits for something that did not happen"
	if path != "" {
		detail = "step " + path + " waits for something that did not happen"
	}
	return &differs{Result{Verdict: NeverAnswered, Path: path, Detail: detail}}
}

// compareRequest compares a request with the recorded one.
func (r *run) compareRequest(intent *journal.Record, s machine.Send) error {
	was, err := requestOf(intent)
	if err != nil {
		return err
	}
	before, after := compare.Request(was), compare.Request(s.Request)
	before["key"], after["key"] = intent.Key, s.Key
	if d := compare.Values(before, after); d != nil {
		return &differs{Result{Verdict: OtherRequest, Path: s.Path, Way: s.Way, Pointer: d.Pointer, Was: d.Was, Now: d.Now, Detail: "the request of " + s.Path + " differs"}}
	}
	return nil
}

// compareWait compares what a step waits for with what it waited for. Only an approval shows
// something; a wait that the journal does not have may still end by a signal that it has.
func (r *run) compareWait(path string, now *saga.Awaited) error {
	all, n := r.rec.awaited[path], r.asked[path]
	r.asked[path]++
	if n >= len(all) {
		r.waits = append(r.waits, path)
		return nil
	}
	was := all[n]
	before, after := decoded(withoutHash(was)), decoded(withoutHash(now))
	if d := compare.Values(before, after); d != nil {
		return &differs{Result{Verdict: OtherRequest, Path: path, Way: journal.Do, Pointer: d.Pointer, Was: d.Was, Now: d.Now, Detail: "step " + path + " asks for something else"}}
	}
	return nil
}

// withoutHash returns what a step waits for without the hash of what is shown, which contains the
// definition's.
func withoutHash(a *saga.Awaited) saga.Awaited {
	out := *a
	if out.Approval != nil {
		approval := *out.Approval
		approval.ShownHash = ""
		out.Approval = &approval
	}
	return out
}

// waitName names what a step waits for.
func waitName(a *saga.Awaited) string {
	if a.Approval != nil {
		return "approval"
	}
	return "signal " + a.Signal
}

// compareEvent compares the event of an emit step with the recorded one, except for its time and
// its trace.
func (r *run) compareEvent(path string, now json.RawMessage) error {
	was, ok := r.rec.events[path]
	if !ok {
		return &differs{Result{Verdict: OtherRequest, Path: path, Way: journal.Do, Now: now, Detail: "step " + path + " publishes an event that was not published"}}
	}
	before, after := decoded(was), decoded(now)
	for _, v := range []any{before, after} {
		if event, ok := v.(map[string]any); ok {
			delete(event, "time")
			delete(event, "traceparent")
		}
	}
	if d := compare.Values(before, after); d != nil {
		return &differs{Result{Verdict: OtherRequest, Path: path, Way: journal.Do, Pointer: d.Pointer, Was: d.Was, Now: d.Now, Detail: "the event of " + path + " differs"}}
	}
	return nil
}

// compare compares the ends.
func (r *run) compare() (Result, error) {
	v := r.m.View()
	cost, err := sum(r.costs)
	if err != nil {
		return Result{}, err
	}
	end := &End{Status: v.Status, Reason: v.Reason, Output: v.Output, Cost: cost, Residual: v.Residual}
	res := Result{Verdict: Same, After: end}
	before, after := decoded(brief(r.rec.end)), decoded(brief(*end))
	if d := compare.Values(before, after); d != nil {
		if end.Status != r.rec.end.Status { // the most important difference
			*d = compare.At(before, after, "/status")
		}
		res.Verdict, res.Pointer, res.Was, res.Now, res.Detail = OtherEnd, d.Pointer, d.Was, d.Now, "the saga ends otherwise"
		return res, nil
	}
	for _, at := range r.rec.order {
		if _, check := saga.SplitQuery(at.path); !r.made[at] && !check {
			request, err := requestOf(r.rec.intents[at])
			res.Verdict, res.Path, res.Way, res.Was, res.Detail = OtherRequest, at.path, at.way, saga.Encode(request), "the recorded request of "+at.path+" is not made"
			return res, err
		}
	}
	for _, path := range r.rec.asked {
		if n, all := r.asked[path], r.rec.awaited[path]; n < len(all) {
			was := withoutHash(all[n])
			res.Verdict, res.Path, res.Way, res.Was, res.Detail = OtherRequest, path, journal.Do, saga.Encode(was), "step "+path+" does not wait for the recorded "+waitName(&was)
			return res, nil
		}
	}
	for _, path := range r.rec.emitted {
		if !r.emitted[path] {
			res.Verdict, res.Path, res.Way, res.Was, res.Detail = OtherRequest, path, journal.Do, r.rec.events[path], "the recorded event of "+path+" is not published"
			return res, nil
		}
	}
	if cost != r.rec.end.Cost {
		res.Verdict, res.Pointer, res.Was, res.Now, res.Detail = OtherCost, "/cost", saga.Encode(r.rec.end.Cost), saga.Encode(cost), "the saga costs "+cost+" instead of "+r.rec.end.Cost
	}
	return res, nil
}

// brief returns what of two ends must agree: texts of reasons may be worded otherwise.
func brief(e End) any {
	var b struct {
		Status   saga.Status     `json:"status"`
		Reason   *saga.Reason    `json:"reason,omitempty"`
		Output   json.RawMessage `json:"output,omitempty"`
		Residual []string        `json:"residual,omitempty"`
	}
	b.Status, b.Output = e.Status, e.Output
	if e.Reason != nil {
		b.Reason = &saga.Reason{Code: e.Reason.Code, Step: e.Reason.Step, Error: e.Reason.Error}
	}
	for _, left := range e.Residual {
		b.Residual = append(b.Residual, left.Path)
	}
	slices.Sort(b.Residual)
	return b
}

func decoded(v any) any {
	doc, ok := v.(json.RawMessage)
	if !ok {
		doc = saga.Encode(v)
	}
	out, _ := expr.Decode(doc) // written by Encode, or read from a journal
	return out
}

// sum adds amounts; "" is none.
func sum(costs []string) (string, error) {
	var total retry.Money
	for _, c := range costs {
		if c == "" {
			continue
		}
		amount, err := retry.Total(c, "")
		if err != nil {
			return "", fmt.Errorf("cost: %w", err)
		}
		total = total.Add(amount)
	}
	return total.Decimal(), nil
}
