package engine_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/compensation"
	"recourse/engine"
	"recourse/internal/notify"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// notification is a notification as its receiver sees it.
type notification struct {
	id   uuid.UUID
	Type string
	Data struct {
		Kind, Path, Title, Detail, URL, Version string
		Since                                   saga.Time
		Reason                                  *saga.Reason
		Cost                                    *saga.CostView
		Labels                                  map[string]string
		Doubts                                  []compensation.Residue
	}
}

// everyone sends all kinds of notifications to the sink "ops".
func everyone() *notify.Notices {
	n := &notify.Notices{To: make(map[string][]string), URL: "https://page"}
	for _, kind := range notify.Kinds {
		n.To[kind] = []string{"ops"}
	}
	return n
}

// noticing returns a bench whose lane sends notifications.
func noticing(t *testing.T, src string, n *notify.Notices) *bench {
	b := newBench(t, src)
	b.lane = b.newLane(n)
	b.lease("n1")
	return b
}

func (b *bench) newLane(n *notify.Notices) *engine.Lane {
	return engine.NewLane(engine.LaneConfig{ParkAfter: time.Second, MaxBatch: 8, MaxRecords: 16, Random: func() uint64 { return 0 }, Notices: n, StallAfter: time.Minute})
}

// commit carries out commits until there are none, and returns the notifications.
func (b *bench) commit() (list []notification) {
	b.t.Helper()
	for slices.ContainsFunc(b.out, func(e engine.Effect) bool { _, ok := e.(engine.Commit); return ok }) {
		b.handle(b.append())
		events, err := b.store.ClaimEvents(b.t.Context(), []string{"ops", "audit"}, 100, time.Hour)
		if err != nil {
			b.t.Fatal(err)
		}
		for _, e := range events {
			n := notification{id: e.ID}
			if err := json.Unmarshal(e.Data, &n); err != nil {
				b.t.Fatal(err)
			}
			list = append(list, n)
			if err := b.store.EventDelivered(b.t.Context(), e.ID, e.Sink); err != nil {
				b.t.Fatal(err)
			}
		}
	}
	return list
}

// types returns the types and paths of notifications, sorted.
func types(list []notification) (out []string) {
	for _, n := range list {
		out = append(out, n.Type+" "+n.Data.Path)
	}
	slices.Sort(out)
	return out
}

// answers responds to all requests that were sent.
func (b *bench) answers(id uuid.UUID, a saga.Answer) {
	for _, p := range take[engine.Perform](b) {
		b.handle(engine.Answered{ID: id, Path: p.Send.Path, Way: p.Send.Way, Attempt: p.Send.Attempt, Answer: a})
	}
}

var (
	okay     = saga.Answer{Sent: true, Status: 200, Body: json.RawMessage(`{"id":"x"}`)}
	refused  = saga.Answer{Sent: true, Status: 422}
	timedOut = saga.Answer{Sent: true, Code: "timeout"}
	locked   = saga.Answer{Sent: true, Status: 401}
)

// Each kind of notification is sent once, in the append that causes it.
func TestNotices(t *testing.T) {
	const undo = `, compensate: {http: "DELETE http://w/a", retry: 1}`
	for name, tt := range map[string]struct {
		src   string
		sends []saga.Answer
		want  []string
	}{
		"an approval":             {"saga: x\nsteps:\n  - {id: ok, approval: {title: Pay?}}\n", nil, []string{"recourse.inbox.approval ok"}},
		"two at once":             {"saga: x\nsteps:\n  - id: p\n    parallel:\n      - {id: l, approval: {title: L}}\n      - {id: r, approval: {title: R}}\n", nil, []string{"recourse.inbox.approval l", "recourse.inbox.approval r"}},
		"in doubt":                {"saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", in_doubt: ask}\n", []saga.Answer{timedOut}, []string{"recourse.inbox.in_doubt a"}},
		"credentials":             {"saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n", []saga.Answer{locked}, []string{"recourse.inbox.held a"}},
		"a budget":                {"saga: x\nbudget: {amount: 0.01 USD, on_exceed: ask}\nsteps:\n  - {id: a, http: \"POST http://w/a\", cost: 0.02 USD}\n", nil, []string{"recourse.inbox.budget a"}},
		"after the pivot":         {"saga: x\nsteps:\n  - {id: p, http: \"POST http://w/p\", pivot: true}\n  - {id: a, http: \"POST http://w/a\"}\n", []saga.Answer{okay, refused}, []string{"recourse.inbox.stuck a"}},
		"an undo that is refused": {"saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"" + undo + "}\n  - {id: b, http: \"POST http://w/b\"}\n", []saga.Answer{okay, refused, refused}, []string{"recourse.inbox.stuck a"}},
		"compensated":             {"saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"" + undo + "}\n  - {id: b, http: \"POST http://w/b\"}\n", []saga.Answer{okay, refused, okay}, []string{"recourse.saga.compensated "}},
		"failed":                  {"saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n  - {id: b, http: \"POST http://w/b\"}\n", []saga.Answer{okay, refused}, []string{"recourse.saga.failed "}},
		"failed at once":          {"saga: x\nsteps:\n  - {id: a, fail: so}\n", nil, []string{"recourse.saga.compensated "}},
		"succeeded":               {"saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\"}\n", []saga.Answer{okay}, nil},
		"over a doubt":            {"saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", in_doubt: fail, on_error: continue, retry: none}\n", []saga.Answer{timedOut}, []string{"recourse.saga.in_doubt "}},
		"a signal is no entry":    {"saga: x\nsteps:\n  - {id: a, signal: paid}\n", nil, nil},
		"sleeping":                {"saga: x\nsteps:\n  - {id: a, sleep: 1h}\n", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			b := noticing(t, tt.src, everyone())
			id := b.start()
			got := b.commit()
			for _, a := range tt.sends {
				b.answers(id, a)
				got = append(got, b.commit()...)
			}
			if d := cmp.Diff(tt.want, types(got)); d != "" {
				t.Fatalf("notifications (-want +got):\n%s", d)
			}
			for _, n := range got {
				link := "https://page/sagas/" + id.String()
				if strings.HasPrefix(n.Type, "recourse.inbox.") {
					link = "https://page/inbox#"
				}
				if !strings.HasPrefix(n.Data.URL, link) || n.Data.Title == "" || n.Data.Since.IsZero() || n.Data.Version != "v1" || !strings.HasSuffix(n.Type, "."+n.Data.Kind) {
					t.Errorf("a notification lacks a field: %+v", n)
				}
			}
			if len(tt.want) > 0 && strings.HasPrefix(tt.want[0], "recourse.saga.") && (got[0].Data.Kind != saga.InboxInDoubt && got[0].Data.Reason == nil || got[0].Data.Cost == nil) {
				t.Errorf("the end has no reason or no cost: %+v", got[0].Data)
			}
			if of := tt.want; len(of) == 1 && of[0] == "recourse.saga.in_doubt " && (len(got[0].Data.Doubts) != 1 || got[0].Data.Doubts[0].Path != "a" || got[0].Data.Detail != "They may have happened: a.") {
				t.Errorf("the doubt is not named: %+v", got[0].Data)
			}
			// A lane that loads the saga sends nothing again, although it writes a record.
			if h, err := b.store.Saga(t.Context(), id); err != nil || h.EndedAt.IsZero() && h.Owner == "" {
				if err := b.store.Send(t.Context(), journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: id, Kind: saga.CommandMessage, Data: json.RawMessage(`{"command":"pause"}`)}); err != nil {
					t.Fatal(err)
				}
				b.lane = b.newLane(everyone())
				b.handle(engine.Leased{Node: "n1"})
				b.handle(b.claim("n1"))
				if again := b.commit(); len(again) > 0 {
					t.Errorf("sent again after a takeover: %q", types(again))
				}
			}
		})
	}
}

// A step that asks again after a retry causes a new notification. A step that is still in the inbox
// does not, whatever other steps do.
func TestNoticesOfOneStep(t *testing.T) {
	b := noticing(t, "saga: x\nbudget: {amount: 0.10 USD, on_exceed: ask}\nsteps:\n  - {id: a, http: \"POST http://w/a\", in_doubt: ask, cost: 0.01 USD}\n  - {id: b, http: \"POST http://w/b\", cost: 0.20 USD}\n", everyone())
	id := b.start()
	b.commit()
	seen := map[uuid.UUID]bool{}
	want := func(what string, kinds ...string) {
		b.t.Helper()
		if b.lane.Len() == 0 { // it was parked
			b.handle(b.claim("n1"))
		}
		got := b.commit()
		if d := cmp.Diff(kinds, types(got)); d != "" {
			t.Fatalf("%s (-want +got):\n%s", what, d)
		}
		for _, n := range got {
			if seen[n.id] {
				t.Errorf("%s: the id %s was used before", what, n.id)
			}
			seen[n.id] = true
		}
	}
	post := func(c saga.Command) {
		b.t.Helper()
		m, err := c.Message(uuid.Must(uuid.NewV7()), id)
		if err == nil {
			err = b.store.Send(t.Context(), m)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b.answers(id, timedOut)
	got := b.commit()
	if d := cmp.Diff([]string{"recourse.inbox.in_doubt a"}, types(got)); d != "" {
		t.Fatal(d)
	}
	seen[got[0].id] = true
	post(saga.Command{Do: saga.Patch{Labels: map[string]string{"team": "a"}}})
	want("a label")
	post(saga.Command{Do: saga.Resolve{Outcome: "retry"}, Path: "a", Reason: "again"})
	want("a retry")
	b.answers(id, timedOut)
	want("in doubt again", "recourse.inbox.in_doubt a")
	post(saga.Command{Do: saga.Resolve{Outcome: "succeeded", Output: json.RawMessage(`{}`)}, Path: "a", Reason: "looked"})
	want("the budget", "recourse.inbox.budget b")
	post(saga.Command{Do: saga.Patch{Labels: map[string]string{"team": "b"}}})
	want("another label") // although the entry has another id now
}

// If a worker stops sending heartbeats, the append with the outcome has a notification.
func TestWorkerSilent(t *testing.T) {
	b := noticing(t, "saga: x\nsteps:\n  - {id: a, task: ocr, in_doubt: ask}\n", everyone())
	id := b.start()
	b.commit()
	m := engine.Reaped(journal.Task{Saga: id, Path: "a", Way: journal.Do, Attempt: 1}, journal.TaskExpired)
	if err := b.store.Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	b.handle(b.claim("n1"))
	got := b.commit()
	slices.SortFunc(got, func(x, y notification) int { return strings.Compare(x.Type, y.Type) })
	if d := cmp.Diff([]string{"recourse.inbox.in_doubt a", "recourse.step.stalled a"}, types(got)); d != "" {
		t.Fatal(d)
	}
	if r := got[1].Data.Reason; r == nil || r.Code != journal.StallWorkerSilent {
		t.Errorf("%+v", got[1].Data)
	}
}

// A saga that costs far more than usual causes a notification at its end, whatever its status is.
func TestCostOutlier(t *testing.T) {
	money := func(s string) retry.Money {
		m, err := retry.ParseMoney(s)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for name, tt := range map[string]struct {
		median func(string) (retry.Money, bool)
		want   []string
	}{
		"more than three times":   {func(d string) (retry.Money, bool) { return money("0.10 USD"), d == "x" }, []string{"recourse.saga.cost_outlier "}},
		"three times":             {func(string) (retry.Money, bool) { return money("0.20 USD"), true }, nil},
		"not known":               {func(string) (retry.Money, bool) { return money("0.10 USD"), false }, nil},
		"in another currency":     {func(string) (retry.Money, bool) { return money("0.10 EUR"), true }, nil},
		"nothing costs a thing":   {func(string) (retry.Money, bool) { return retry.Money{Currency: "USD"}, true }, nil},
		"nobody knows of medians": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := everyone()
			n.Median = tt.median
			b := noticing(t, "saga: x\nbudget: 9 USD\nsteps:\n  - {id: a, http: \"POST http://w/a\", cost: 0.60 USD}\n", n)
			id := b.start()
			b.commit()
			b.answers(id, okay)
			got := b.commit()
			if d := cmp.Diff(tt.want, types(got)); d != "" {
				t.Fatal(d)
			}
			if len(got) > 0 && (got[0].Data.Cost.Spent != "0.60" || !strings.Contains(got[0].Data.Detail, "0.10 USD")) {
				t.Errorf("%+v", got[0].Data)
			}
		})
	}
}

// Each sink gets the kinds that it asks for. Without sinks there are no notifications.
func TestNoticesToThoseWhoAsk(t *testing.T) {
	const src = "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", in_doubt: ask}\n"
	for name, tt := range map[string]struct {
		n    *notify.Notices
		want int
	}{
		"none":             {nil, 0},
		"other kinds":      {&notify.Notices{To: map[string][]string{saga.InboxApproval: {"ops"}}}, 0},
		"two of this kind": {&notify.Notices{To: map[string][]string{saga.InboxInDoubt: {"ops", "pager"}}}, 2},
	} {
		b := noticing(t, src, tt.n)
		id := b.start()
		b.commit()
		b.answers(id, timedOut)
		c := take[engine.Commit](b)
		if len(c) != 1 || len(c[0].Batch[0].Events) != tt.want {
			t.Errorf("%s: %+v, want %d events", name, c, tt.want)
		}
	}
}

// A refused commit sends no notification, and a repeated one sends it once.
func TestNoticesFollowTheCommit(t *testing.T) {
	b := noticing(t, "saga: x\nsteps:\n  - {id: a, http: \"POST http://w/a\", in_doubt: ask}\n", everyone())
	id := b.start()
	b.commit()
	b.answers(id, timedOut)
	c := take[engine.Commit](b)[0]
	b.handle(engine.Committed{Number: c.Number, Err: journal.ErrUnknown})
	if _, err := b.store.Append(t.Context(), c.Node, c.Batch); err != nil { // it was written
		t.Fatal(err)
	}
	b.tick()
	if got := b.commit(); len(got) != 1 {
		t.Errorf("notifications %q, want one", types(got))
	}
}

// A request that waits long for a call slot, or for the lease, is a stall. A request that was sent
// is not.
func TestRequestsThatCannotLeave(t *testing.T) {
	b := noticing(t, oneCall, everyone())
	id := b.start()
	b.commit()
	send := take[engine.Perform](b)[0].Send
	began := b.now
	waits := func(what string) {
		b.handle(engine.Waits{ID: id, Path: send.Path, Way: send.Way, Attempt: send.Attempt, For: what})
		b.sendWatches(1)
	}
	for range 11 {
		waits(journal.StallNoSlot)
	}
	if got := take[engine.Delayed](b); len(got) > 0 {
		t.Fatalf("delayed before a minute was over: %+v", got)
	}
	waits(journal.StallNoSlot)
	waits(journal.StallNoLease)
	waits("")
	got := take[engine.Delayed](b)
	if len(got) != 2 || got[0].Stall.Kind != journal.StallNoSlot || got[1].Stall.Kind != journal.StallNoLease || got[0].Stall.Path != "a" || !got[0].Stall.Since.Equal(began) {
		t.Errorf("delayed: %+v", got)
	}
}
