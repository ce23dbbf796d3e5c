package metrics_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/engine"
	"recourse/internal/metrics"
	"recourse/internal/story/storytest"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/machine"
)

const trip = `saga: trip
steps:
  - id: book
    http: POST http://x/book
    retry: {attempts: 3, initial: 1ms}
    compensate: {http: POST http://x/unbook, retry: none}
  - id: pay
    http: POST http://x/pay
    retry: none
    in_doubt: ask
`

func TestCounts(t *testing.T) {
	for _, tt := range []struct {
		name     string
		src      string
		answers  map[string][]saga.Answer
		commands []saga.Command
		want     map[string]float64 // without sagas_started_total, which is 1
	}{
		{name: "succeeds at the second try", src: trip,
			answers: map[string][]saga.Answer{"book": {{Code: "connection"}, status(200)}},
			want: map[string]float64{
				"sagas_ended_total{definition=trip,reason=none,status=succeeded}": 1, "saga_seconds{definition=trip,status=succeeded}": 1,
				"attempts_total{class=transient,definition=trip,kind=http,way=do}": 1, "attempts_total{class=succeeded,definition=trip,kind=http,way=do}": 2,
				"attempt_seconds{class=transient,kind=http}": 1, "attempt_seconds{class=succeeded,kind=http}": 2, "retries_total{definition=trip,kind=http}": 1,
			}},
		{name: "undone", src: trip,
			answers: map[string][]saga.Answer{"pay": {status(422)}},
			want: map[string]float64{
				"sagas_ended_total{definition=trip,reason=step_failed,status=compensated}": 1, "saga_seconds{definition=trip,status=compensated}": 1,
				"attempts_total{class=succeeded,definition=trip,kind=http,way=do}": 1, "attempts_total{class=refused,definition=trip,kind=http,way=do}": 1,
				"attempts_total{class=succeeded,definition=trip,kind=http,way=undo}": 1, "attempt_seconds{class=refused,kind=http}": 1, "attempt_seconds{class=succeeded,kind=http}": 2,
				"compensations_total{definition=trip,result=undone}": 1,
			}},
		{name: "a person settles a doubt", src: trip,
			answers:  map[string][]saga.Answer{"pay": {lost()}},
			commands: []saga.Command{{Do: saga.Resume{}}, {Do: saga.Resolve{Outcome: "succeeded"}, Path: "pay"}},
			want: map[string]float64{
				"sagas_ended_total{definition=trip,reason=none,status=succeeded}": 1, "saga_seconds{definition=trip,status=succeeded}": 1,
				"attempts_total{class=succeeded,definition=trip,kind=http,way=do}": 1, "attempts_total{class=in_doubt,definition=trip,kind=http,way=do}": 1,
				"attempt_seconds{class=succeeded,kind=http}": 1, "attempt_seconds{class=in_doubt,kind=http}": 1,
				"in_doubt_total{definition=trip}": 1, "in_doubt_settled_total{by=person,definition=trip}": 1,
				"commands_total{command=resume,result=refused}": 1, "commands_total{command=resolve,result=done}": 1,
			}},
		{name: "an answer settles a doubt", src: "saga: again\nsteps:\n  - {id: a, http: POST http://x/a, retry: {attempts: 3, initial: 1ms}}\n",
			answers: map[string][]saga.Answer{"a": {lost(), lost(), status(200)}},
			want: map[string]float64{
				"sagas_ended_total{definition=again,reason=none,status=succeeded}": 1, "saga_seconds{definition=again,status=succeeded}": 1,
				"attempts_total{class=in_doubt,definition=again,kind=http,way=do}": 2, "attempts_total{class=succeeded,definition=again,kind=http,way=do}": 1,
				"attempt_seconds{class=in_doubt,kind=http}": 2, "attempt_seconds{class=succeeded,kind=http}": 1, "retries_total{definition=again,kind=http}": 2,
				"in_doubt_total{definition=again}": 1, "in_doubt_settled_total{by=answer,definition=again}": 1,
			}},
		{name: "a status check settles a doubt", src: "saga: asks\nsteps:\n" +
			"  - {id: a, http: POST http://x/a, timeout: 1s, in_doubt: {verify: {http: GET http://x/look, found: result.body.n == 1, after: 0s}}}\n",
			answers: map[string][]saga.Answer{"a": {lost()}},
			want: map[string]float64{
				"sagas_ended_total{definition=asks,reason=none,status=succeeded}": 1, "saga_seconds{definition=asks,status=succeeded}": 1,
				"attempts_total{class=in_doubt,definition=asks,kind=http,way=do}": 1, "attempts_total{class=succeeded,definition=asks,kind=http,way=verify}": 1,
				"attempt_seconds{class=in_doubt,kind=http}": 1, "attempt_seconds{class=succeeded,kind=http}": 1,
				"in_doubt_total{definition=asks}": 1, "in_doubt_settled_total{by=verify,definition=asks}": 1,
			}},
		{name: "a query that does not know settles nothing", src: "saga: asks\nsteps:\n" +
			"  - {id: a, http: POST http://x/a, timeout: 1s, in_doubt: {verify: {http: GET http://x/look, found: result.body.n == 1, after: 0s}, otherwise: fail}}\n",
			answers: map[string][]saga.Answer{"a": {lost()}, "look": {status(403)}},
			want: map[string]float64{
				"sagas_ended_total{definition=asks,reason=step_failed,status=failed}": 1, "saga_seconds{definition=asks,status=failed}": 1,
				"attempts_total{class=in_doubt,definition=asks,kind=http,way=do}": 1, "attempts_total{class=refused,definition=asks,kind=http,way=verify}": 1,
				"attempt_seconds{class=in_doubt,kind=http}": 1, "attempt_seconds{class=refused,kind=http}": 1,
				"in_doubt_total{definition=asks}": 1, "in_doubt_settled_total{by=none,definition=asks}": 1,
			}},
		{name: "a compensation that is refused, and done by hand", src: trip,
			answers:  map[string][]saga.Answer{"pay": {status(422)}, "unbook": {status(409)}},
			commands: []saga.Command{{Do: saga.Resolve{Outcome: "compensated"}, Path: "book", Reason: "by telephone"}},
			want: map[string]float64{
				"sagas_ended_total{definition=trip,reason=step_failed,status=compensated}": 1, "saga_seconds{definition=trip,status=compensated}": 1,
				"attempts_total{class=succeeded,definition=trip,kind=http,way=do}": 1, "attempts_total{class=refused,definition=trip,kind=http,way=do}": 1,
				"attempts_total{class=refused,definition=trip,kind=http,way=undo}": 1, "attempt_seconds{class=refused,kind=http}": 2, "attempt_seconds{class=succeeded,kind=http}": 1,
				"compensations_total{definition=trip,result=stuck}": 1, "compensations_total{definition=trip,result=by_hand}": 1, "commands_total{command=resolve,result=done}": 1,
			}},
		{name: "costs", src: "saga: paid\nsteps:\n  - {id: a, http: POST http://x/a, cost: 0.25 EUR, retry: {attempts: 2, initial: 1ms}}\n  - {id: b, http: POST http://x/b, cost: 1 EUR}\n",
			answers: map[string][]saga.Answer{"a": {status(429), status(200)}},
			want: map[string]float64{
				"sagas_ended_total{definition=paid,reason=none,status=succeeded}": 1, "saga_seconds{definition=paid,status=succeeded}": 1,
				"attempts_total{class=transient,definition=paid,kind=http,way=do}": 1, "attempts_total{class=succeeded,definition=paid,kind=http,way=do}": 2,
				"attempt_seconds{class=transient,kind=http}": 1, "attempt_seconds{class=succeeded,kind=http}": 2, "retries_total{definition=paid,kind=http}": 1,
				"cost_total{currency=EUR,definition=paid}": 1.5, "cost_wasted_total{currency=EUR,definition=paid}": .25, "saga_cost{currency=EUR,definition=paid}": 1,
				"cost_outliers_total{definition=paid}": 1,
			}},
		{name: "over the budget", src: "saga: poor\nbudget: 0.50 EUR\nsteps:\n  - {id: a, http: POST http://x/a, cost: 0.30 EUR, compensate: none}\n  - {id: b, http: POST http://x/b, cost: 0.30 EUR}\n",
			want: map[string]float64{
				"sagas_ended_total{definition=poor,reason=budget_exhausted,status=failed}": 1, "saga_seconds{definition=poor,status=failed}": 1,
				"attempts_total{class=succeeded,definition=poor,kind=http,way=do}": 1, "attempt_seconds{class=succeeded,kind=http}": 1,
				"cost_total{currency=EUR,definition=poor}": .3, "saga_cost{currency=EUR,definition=poor}": 1, "budget_refusals_total{definition=poor}": 1,
			}},
		{name: "tokens", src: "saga: chat\nbudget: 50 USD\nsteps:\n  - {id: a, llm: {model: small, prompt: 'Say ${\"so\"}'}}\n",
			answers: map[string][]saga.Answer{"completions": {{Sent: true, Status: 200,
				Body: []byte(`{"model":"small-2026","choices":[{"message":{"content":"so"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":20,"total_tokens":30}}`)}}},
			want: map[string]float64{
				"sagas_ended_total{definition=chat,reason=none,status=succeeded}": 1, "saga_seconds{definition=chat,status=succeeded}": 1,
				"attempts_total{class=succeeded,definition=chat,kind=llm,way=do}": 1, "attempt_seconds{class=succeeded,kind=llm}": 1,
				"tokens_total{definition=chat,direction=input,model=small}": 10, "tokens_total{definition=chat,direction=output,model=small}": 20,
				"cost_total{currency=USD,definition=chat}": .21, "saga_cost{currency=USD,definition=chat}": 1,
			}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			def := compile(t, tt.src)
			m := metrics.New(metrics.Config{Median: func(definition string) (retry.Money, bool) {
				typical, err := retry.ParseMoney("0.4999 EUR")
				return typical, err == nil && definition == "paid"
			}})
			n := start(t, open(), def, &script{answers: tt.answers}, m)
			n.person(t, n.begin(t, def), tt.commands)
			tt.want["sagas_started_total{definition="+def.Name+"}"] = 1
			within(t, "the saga has ended", func() bool { // observers are called after the starter is notified
				return slices.ContainsFunc(slices.Collect(maps.Keys(read(t, m))), func(name string) bool { return strings.HasPrefix(name, "sagas_ended_total") })
			})
			n.stop()
			got := read(t, m)
			maps.DeleteFunc(got, func(name string, _ float64) bool { return strings.HasPrefix(name, "engine_") })
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// Exemplars of durations, costs, doubts and failed attempts contain the id of their saga, and its
// trace id.
func TestExemplars(t *testing.T) {
	def := compile(t, "saga: dear\nsteps:\n  - {id: a, http: POST http://x/a, cost: 0.25 EUR, retry: {attempts: 2, initial: 1ms}}\n")
	m := metrics.New(metrics.Config{})
	n := start(t, open(), def, &script{answers: map[string][]saga.Answer{"a": {lost(), status(200)}}}, m)
	id := n.begin(t, def)
	within(t, "the saga has ended", func() bool { return read(t, m)["saga_cost{currency=EUR,definition=dear}"] == 1 })
	n.stop()
	want := map[string]string{"saga_id": id.String(), "trace_id": saga.NewTrace(id, saga.StartedData{}).ID.String()}
	got := exemplars(t, m)
	for _, name := range []string{
		"recourse_saga_seconds{dear,succeeded}", "recourse_saga_cost{EUR,dear}", "recourse_in_doubt_total{dear}", "recourse_attempt_seconds{in_doubt,http}",
	} {
		if d := cmp.Diff(want, got[name]); d != "" {
			t.Errorf("%s (-want +got):\n%s", name, d)
		}
	}
	if _, has := got["recourse_attempt_seconds{succeeded,http}"]; has {
		t.Error("an attempt that was quick to succeed has an exemplar")
	}
}

// A saga that runs on two nodes, one after the other, is counted once.
func TestCountedOnce(t *testing.T) {
	def := compile(t, "saga: far\nsteps:\n  - {id: a, http: POST http://x/a, cost: 1 EUR, in_doubt: retry, retry: {attempts: 3, initial: 100ms}}\n  - {id: b, http: POST http://x/b, cost: 2 EUR}\n")
	store, s := open(), &script{answers: map[string][]saga.Answer{"a": {status(503), status(200)}}}
	first, second := metrics.New(metrics.Config{}), metrics.New(metrics.Config{})
	n := start(t, store, def, s, first)
	n.begin(t, def)
	within(t, "the first attempt has ended", func() bool { return read(t, first)["in_doubt_total{definition=far}"] == 1 })
	n.stop()
	n = start(t, store, def, s, second)
	within(t, "the saga has ended", func() bool {
		return read(t, second)["sagas_ended_total{definition=far,reason=none,status=succeeded}"] == 1
	})
	n.stop() // an end is counted in several metrics, one after another
	a, b := read(t, first), read(t, second)
	for name, want := range map[string]float64{
		"sagas_started_total{definition=far}": 1, "in_doubt_total{definition=far}": 1, "in_doubt_settled_total{by=answer,definition=far}": 1,
		"attempts_total{class=in_doubt,definition=far,kind=http,way=do}": 1, "attempts_total{class=succeeded,definition=far,kind=http,way=do}": 2,
		"cost_total{currency=EUR,definition=far}": 4, "saga_seconds{definition=far,status=succeeded}": 1,
	} {
		if got := a[name] + b[name]; got != want {
			t.Errorf("%s: %v on the first node and %v on the second, want %v together", name, a[name], b[name], want)
		}
	}
	if a["in_doubt_settled_total{by=answer,definition=far}"] != 0 || b["sagas_started_total{definition=far}"] != 0 {
		t.Errorf("first %v, second %v", a, b)
	}
}

func TestMeter(t *testing.T) {
	def := compile(t, "saga: nap\nsteps:\n  - {id: a, sleep: 200ms}\n  - {id: b, http: POST http://x/b}\n")
	m := metrics.New(metrics.Config{})
	n := start(t, open(), def, &script{}, m)
	n.begin(t, def)
	within(t, "the lease was renewed, and the saga has ended", func() bool {
		got := read(t, m)
		return got["engine_lease_remaining_seconds"] > 0 && got["sagas_ended_total{definition=nap,reason=none,status=succeeded}"] == 1
	})
	n.stop()
	got, stats := read(t, m), n.Stats()
	if got["engine_commit_seconds"] != float64(stats.Commits) || got["engine_commit_appends"] != float64(stats.Commits) || got["engine_claim_delay_seconds"] != 1 {
		t.Errorf("%d commits: %v", stats.Commits, got)
	}
}

// Records that the machine has and that are not durable yet are not counted.
func TestMachineAhead(t *testing.T) {
	p := storytest.Play(t, "saga: paid\nsteps:\n  - {id: a, http: POST http://x/a, cost: 1 EUR}\n  - {id: b, http: POST http://x/b, cost: 2 EUR}\n",
		storytest.Script{Answer: func(machine.Send, time.Time) saga.Answer { return status(200) }})
	m := metrics.New(metrics.Config{})
	last := len(p.Records) - 1
	m.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records[:last]})
	if got := read(t, m); got["cost_total{currency=EUR,definition=paid}"] != 0 || got["attempts_total{class=succeeded,definition=paid,kind=http,way=do}"] != 2 {
		t.Errorf("ahead: %v", got)
	}
	m.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records[last:]})
	if got := read(t, m); got["cost_total{currency=EUR,definition=paid}"] != 3 || got["saga_cost{currency=EUR,definition=paid}"] != 1 {
		t.Errorf("at the end: %v", got)
	}
	m.Released(p.ID)
}

// What child sagas have cost is counted by them, also on a node that takes their parent over.
func TestTakenOverWithChildren(t *testing.T) {
	p := storytest.Play(t, "saga: paid\nsteps:\n  - {id: a, http: POST http://x/a, cost: 1 EUR}\n  - {id: b, http: POST http://x/b, cost: 2 EUR}\n",
		storytest.Script{Answer: func(machine.Send, time.Time) saga.Answer { return status(200) }})
	m := metrics.New(metrics.Config{})
	half := len(p.Records) - 2
	m.Acquired(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records[:half], Cost: saga.CostView{Currency: "EUR", Spent: "10", Children: &saga.ChildrenView{Spent: "9"}}})
	m.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records[half:]})
	if got := read(t, m); got["cost_total{currency=EUR,definition=paid}"] != 2 {
		t.Errorf("%v", got)
	}
}

// The number of labels is bounded, however many definitions there are.
func TestDefinitionsAreBounded(t *testing.T) {
	m := metrics.New(metrics.Config{})
	for i := range 510 {
		p := storytest.Play(t, fmt.Sprintf("saga: d%d\nsteps: [{id: a, set: 1}]\n", i), storytest.Script{})
		m.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records})
		m.Released(p.ID)
	}
	got := read(t, m)
	if got["sagas_started_total{definition=d499}"] != 1 || got["sagas_started_total{definition=other}"] != 10 || got["sagas_started_total{definition=d500}"] != 0 {
		t.Errorf("d499 %v, other %v, d500 %v", got["sagas_started_total{definition=d499}"], got["sagas_started_total{definition=other}"], got["sagas_started_total{definition=d500}"])
	}
}

// Clients may choose the currency, so the number of its labels is bounded, too.
func TestCurrenciesAreBounded(t *testing.T) {
	m := metrics.New(metrics.Config{})
	for i := range 25 {
		p := storytest.Play(t, fmt.Sprintf("saga: paid\nsteps: [{id: a, http: POST http://x/a, cost: 1 X%c%c}]\n", 'A'+i, 'A'),
			storytest.Script{Answer: func(machine.Send, time.Time) saga.Answer { return status(200) }})
		m.Appended(engine.Growth{Saga: p.ID, Machine: p.Machine, Records: p.Records})
		m.Released(p.ID)
	}
	if got := read(t, m); got["cost_total{currency=XAA,definition=paid}"] != 1 || got["cost_total{currency=other,definition=paid}"] != 5 {
		t.Errorf("%v", got)
	}
}

// agentSession returns the definition of an agent's sessions, which may call the action charge.
func agentSession(t *testing.T) *saga.Definition {
	t.Helper()
	const action = "action: charge\nagents: auto\nhttp: POST http://x/charge\nin_doubt: retry\nretry: none\ncompensate: {http: POST http://x/refund}\n"
	options := dsl.Options{Kinds: kinds.All()}
	options.Actions = func(_ string, version int) (*saga.Action, error) {
		a, errs := dsl.ParseAction("charge", []byte(action), dsl.Options{Kinds: kinds.All()})
		if errs != nil {
			return nil, errs
		}
		a.Version = version
		return a, nil
	}
	policy := &saga.SessionData{Name: "s", Actions: []string{"charge@1"}}
	def, errs := dsl.Session(policy, options)
	if errs != nil {
		t.Fatal(errs)
	}
	return def
}

// The lives and the calls of an agent's session are counted once, on whichever node they end.
func TestSessionCounts(t *testing.T) {
	def := agentSession(t)
	m, store := metrics.New(metrics.Config{}), open()
	s := &script{answers: map[string][]saga.Answer{"charge": {status(200), status(422), status(200)}}}
	n := start(t, store, def, s, m)
	id := n.begin(t, def)
	send := func(path string, do saga.Operation) {
		t.Helper()
		message, err := saga.Command{Do: do, Path: path}.Message(uuid.Must(uuid.NewV7()), id)
		if err := errors.Join(err, n.Send(t.Context(), message)); err != nil {
			t.Fatal(err)
		}
		within(t, "the command is read", func() bool { return n.folded(t, id, message.ID) })
	}
	send("", saga.Attach{Token: "aa"})
	send("", saga.CallAction{Life: 1, Action: "charge", ID: "a", Input: []byte("1")})
	// The second call is made after the answer to the first one, so that this one gets the 200.
	within(t, "a call has ended", func() bool { return read(t, m)["session_calls_total{action=charge,result=succeeded}"] == 1 })
	send("", saga.CallAction{Life: 1, Action: "charge", ID: "b", Input: []byte("2")})
	send("", saga.Attach{Token: "bb", Previous: "aa"})
	within(t, "two calls have ended", func() bool {
		got := read(t, m)
		return got["session_calls_total{action=charge,result=succeeded}"] == 1 && got["session_calls_total{action=charge,result=failed}"] == 1
	})
	send("charge[0]", saga.UndoCall{Life: 2})
	within(t, "a call is undone", func() bool { return read(t, m)["session_calls_total{action=charge,result=undone}"] == 1 })

	n.stop()
	n = start(t, store, def, s, m)
	send("", saga.CallAction{Life: 2, Action: "charge", ID: "c", Input: []byte("3")})
	within(t, "another call has ended", func() bool { return read(t, m)["session_calls_total{action=charge,result=succeeded}"] == 2 })
	got := read(t, m)
	want := map[string]float64{"session_lives_total{definition=~s}": 2, "session_calls_total{action=charge,result=succeeded}": 2,
		"session_calls_total{action=charge,result=failed}": 1, "session_calls_total{action=charge,result=undone}": 1}
	maps.DeleteFunc(got, func(name string, _ float64) bool { return !strings.HasPrefix(name, "session_") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The tokens of an agent's own requests to a model are counted as those of llm steps are.
func TestSessionTokens(t *testing.T) {
	def := agentSession(t)
	m := metrics.New(metrics.Config{})
	answer := saga.Answer{Sent: true, Status: 200, Body: []byte(`{"whole":true,"tokens":{"input":10,"output":20}}`), Content: []byte(`{}`)}
	n := start(t, open(), def, &script{answers: map[string][]saga.Answer{"completions": {answer}}}, m)
	id := n.begin(t, def)
	for _, do := range []saga.Operation{saga.Attach{Token: "aa"}, saga.AskModel{Life: 1, Identity: "i", Input: []byte(`{"route":"openai/chat/completions","model":"small"}`)}} {
		message, err := saga.Command{Do: do}.Message(uuid.Must(uuid.NewV7()), id)
		if err := errors.Join(err, n.Send(t.Context(), message)); err != nil {
			t.Fatal(err)
		}
		within(t, "the command is read", func() bool { return n.folded(t, id, message.ID) })
	}
	within(t, "the request has ended", func() bool { return read(t, m)["attempts_total{class=succeeded,definition=~s,kind=ask,way=do}"] == 1 })
	n.stop()
	got := read(t, m)
	for name, want := range map[string]float64{"tokens_total{definition=~s,direction=input,model=small}": 10, "tokens_total{definition=~s,direction=output,model=small}": 20} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}
