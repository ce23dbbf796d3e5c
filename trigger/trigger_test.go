package trigger

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/catalog"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/kinds/http"
	"recourse/saga/machine"
)

// rig is a store, and a node that starts sagas in it and does nothing with them.
type rig struct {
	*Starter
	t     *testing.T
	store *memory.Store
	cat   *catalog.Catalog
	clock *clock
	node  string
	fails error // what the next start fails with
	alone bool  // no second machine has what is read
}

// clock is the store's.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) set(text string) {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		panic(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = at
}

func newRig(t *testing.T) *rig {
	c := &clock{}
	c.set("2026-03-02T08:00:00Z")
	return another(t, c, memory.New(memory.Config{Now: c.now}))
}

// another is one more node on a store.
func another(t *testing.T, c *clock, store *memory.Store) *rig {
	t.Helper()
	r := &rig{t: t, store: store, clock: c, node: uuid.Must(uuid.NewV7()).String()}
	if _, err := store.Register(t.Context(), r.node, 1e6*time.Hour); err != nil {
		t.Fatal(err)
	}
	r.cat = catalog.New(store, catalog.Options{Kinds: kinds.All()})
	r.Starter = New(Config{Store: store, Catalog: r.cat, Engine: r, Vars: map[string]json.RawMessage{"v": json.RawMessage("1")}})
	return r
}

// Now implements Engine.
func (r *rig) Now() time.Time { return r.clock.now() }

// Start implements Engine.
func (r *rig) Start(ctx context.Context, def *saga.Definition, start journal.Start, data saga.StartedData, _ bool) (machine.Begun, error) {
	if err := r.fails; err != nil {
		r.fails = nil
		return machine.Begun{}, err
	}
	id := uuid.Must(uuid.NewV7())
	m := machine.New(def, id)
	rec, err := m.Append(m.Start(data), r.clock.now(), r.node)
	if err != nil {
		return machine.Begun{}, err
	}
	start.CreatedAt = r.clock.now()
	results, err := r.store.Append(ctx, r.node, []journal.Append{{Saga: id, Start: &start, Records: []journal.Record{rec}, Row: &journal.Row{Status: "running"}}})
	if err != nil {
		return machine.Begun{}, err
	}
	if err := results[0].Err; err != nil {
		return machine.Begun{ID: results[0].Saga}, err
	}
	return machine.Begun{ID: id, Stop: func() {}}, nil
}

// Confirm implements Engine.
func (r *rig) Confirm(ctx context.Context) error {
	if r.alone {
		return saga.ErrUnavailable
	}
	return r.store.Confirm(ctx, r.node)
}

func (r *rig) publish(src string) {
	r.t.Helper()
	name, _, _ := strings.Cut(strings.TrimPrefix(src, "saga: "), "\n")
	if _, _, _, err := r.cat.Publish(r.t.Context(), name, []byte(src+"\nsteps:\n  - {id: a, set: 1}\n"), ""); err != nil {
		r.t.Fatal(err)
	}
}

// inputs lists the sagas there are, the oldest first, as name and input.
func (r *rig) inputs() []string {
	r.t.Helper()
	found, err := r.store.Sagas(r.t.Context(), journal.Filter{Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	var list []string
	for _, h := range found.Heads {
		records, err := r.store.Records(r.t.Context(), h.ID, 0, 1)
		if err != nil {
			r.t.Fatal(err)
		}
		var d saga.StartedData
		if err := json.Unmarshal(records[0].Data, &d); err != nil {
			r.t.Fatal(err)
		}
		list = append(list, h.Definition+" "+string(d.Input))
	}
	slices.Reverse(list)
	return list
}

func (r *rig) want(want ...string) {
	r.t.Helper()
	if got := r.inputs(); !slices.Equal(got, want) {
		r.t.Errorf("sagas %q, want %q", got, want)
	}
}

func (r *rig) event(e saga.Event) string {
	r.t.Helper()
	started, refused, err := r.Event(r.t.Context(), &e, "me")
	if err != nil {
		r.t.Fatal(err)
	}
	var said []string
	for _, s := range started {
		said = append(said, s.Definition)
	}
	for _, no := range refused {
		said = append(said, fmt.Sprintf("%s/%d:%s", no.Definition, no.Trigger, no.Findings[0].Code))
	}
	return strings.Join(said, " ")
}

// A node whose release cannot read a definition does not accept the events that start it: no other
// node would see them.
func TestEventOfANewerDefinition(t *testing.T) {
	r := newRig(t)
	r.publish("saga: newer\ntriggers: [{event: shop.*}, {cron: '@hourly'}]")
	older := another(t, r.clock, r.store)
	var log bytes.Buffer
	older.cat = catalog.New(r.store, catalog.Options{Kinds: []dsl.Kind{http.Kind()}})
	older.Starter = New(Config{Store: r.store, Catalog: older.cat, Engine: older, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if _, _, _, err := older.cat.Publish(t.Context(), "readable", []byte("saga: readable\ntriggers: [{event: shop.paid}]\nsteps:\n  - {id: a, http: 'GET http://x/'}\n"), ""); err != nil {
		t.Fatal(err)
	}
	paid := &saga.Event{ID: "1", Source: "/shop", Type: "shop.paid", Data: json.RawMessage(`{}`)}
	for range 2 {
		started, _, err := older.Event(t.Context(), paid, "me")
		if !errors.Is(err, saga.ErrUnusable) || len(started) != 1 {
			t.Errorf("%v, %v", started, err)
		}
	}
	r.want("readable {}")
	if n := strings.Count(log.String(), "definition=newer"); n != 2 {
		t.Errorf("logged %d times:\n%s", n, &log)
	}
	if started, _, err := older.Event(t.Context(), &saga.Event{ID: "2", Source: "/shop", Type: "other"}, "me"); err != nil || len(started) != 0 {
		t.Errorf("an event that starts nothing: %v, %v", started, err)
	}
	if got := r.event(*paid); got != "newer readable" {
		t.Errorf("at the newer node: %s", got)
	}
	r.want("readable {}", "newer {}")
	log.Reset()
	c := NewCron(older.Starter)
	older.fire(c, "2026-03-02T09:00:00Z")
	older.fire(c, "2026-03-02T09:00:20Z")
	if n := strings.Count(log.String(), "definition=newer"); n != 1 {
		t.Errorf("its times are logged %d times:\n%s", n, &log)
	}
	r.want("readable {}", "newer {}")
}

func TestEvent(t *testing.T) {
	r := newRig(t)
	r.publish("saga: b-all\ntriggers: [{event: shop.*}, {event: other}, {event: shop.paid, if: event.data.n > 5, input: {big: '${event.data.n}', by: '${event.id}'}}]")
	r.publish("saga: a-strict\ntriggers: [{event: shop.paid}]\ninput: {n: integer}")
	r.publish("saga: c-fails\ntriggers: [{event: shop.paid, if: event.data.missing > 1}, {event: shop.paid, input: {x: '${event.data.missing}'}}]")
	r.publish("saga: d-unique\nunique: ${input.n}\ntriggers: [{event: shop.paid}]")
	r.publish("saga: e-none\ninput: {n: integer}")
	paid := func(id, data string) saga.Event {
		return saga.Event{ID: id, Source: "/shop", Type: "shop.paid", Data: json.RawMessage(data)}
	}
	for _, tt := range []struct {
		e    saga.Event
		want string
	}{
		{paid("1", `{"n":9}`), "a-strict b-all b-all d-unique c-fails/0:if_failed c-fails/1:input_failed"},
		// Nothing is started again.
		{paid("1", `{"n":9}`), "a-strict b-all b-all d-unique c-fails/0:if_failed c-fails/1:input_failed"},
		{paid("2", `{"n":"x"}`), ""},
		{paid("3", `{"n":9}`), "a-strict b-all b-all c-fails/0:if_failed c-fails/1:input_failed d-unique/0:unique_taken"},
		{saga.Event{ID: "1", Source: "/elsewhere", Type: "shop.sent"}, "b-all"},
		{saga.Event{ID: "4", Source: "/shop", Type: "nothing"}, ""},
	} {
		if tt.want == "" && tt.e.ID == "2" {
			tt.want = "b-all d-unique a-strict/0:type b-all/2:if_failed c-fails/0:if_failed c-fails/1:input_failed"
		}
		if got := r.event(tt.e); got != tt.want {
			t.Errorf("event %s: %q, want %q", tt.e.ID, got, tt.want)
		}
	}
	r.want(`a-strict {"n":9}`, `b-all {"n":9}`, `b-all {"big":9,"by":"1"}`, `d-unique {"n":9}`, `b-all {"n":"x"}`, `d-unique {"n":"x"}`,
		`a-strict {"n":9}`, `b-all {"n":9}`, `b-all {"big":9,"by":"3"}`, `b-all null`)
}

// An event that comes again finds its saga, although the definition would not take it today.
func TestEventAgainAfterAChange(t *testing.T) {
	r := newRig(t)
	r.publish("saga: d\ntriggers: [{event: a}]")
	e := saga.Event{ID: "1", Source: "/s", Type: "a", Data: json.RawMessage(`{"n":1}`)}
	if got := r.event(e); got != "d" {
		t.Error(got)
	}
	r.publish("saga: d\ntriggers: [{event: a}]\ninput: {other: string}")
	if got := r.event(e); got != "d" {
		t.Error(got)
	}
	r.want(`d {"n":1}`)
	r.alone = true
	if _, _, err := r.Event(t.Context(), &e, "me"); !errors.Is(err, saga.ErrUnavailable) {
		t.Errorf("%v: the saga is said to be durable, and no second machine may have it", err)
	}
}

// What another node has published or archived meanwhile counts when a saga starts.
func TestEventOfTheNewestVersion(t *testing.T) {
	r := newRig(t)
	other := another(t, r.clock, r.store)
	r.publish("saga: c\ntriggers: [{event: a}]")
	r.publish("saga: d\ntriggers: [{event: a}]")
	r.publish("saga: e\ntriggers: [{event: a}]")
	if got := r.event(saga.Event{ID: "1", Source: "/s", Type: "a"}); got != "c d e" {
		t.Error(got)
	}
	other.publish("saga: d\ntriggers: [{event: a, input: {v: 2}}]")
	if err := other.cat.Archive(t.Context(), journal.Definition, "e"); err != nil {
		t.Fatal(err)
	}
	if got := r.event(saga.Event{ID: "2", Source: "/s", Type: "a"}); got != "c d" {
		t.Error(got)
	}
	r.want("c null", "d null", "e null", "c null", `d {"v":2}`)
}

// An event that a busy node could not act on wholly is acted on when it comes again, each trigger
// once.
func TestEventAgainAfterAnError(t *testing.T) {
	r := newRig(t)
	r.publish("saga: d\ntriggers: [{event: a}]")
	r.publish("saga: e\ntriggers: [{event: a}]")
	e := &saga.Event{ID: "1", Source: "/s", Type: "a"}
	r.fails = saga.ErrBusy
	if _, _, err := r.Event(t.Context(), e, "me"); !errors.Is(err, saga.ErrBusy) {
		t.Fatal(err)
	}
	for range 2 {
		if got := r.event(*e); got != "d e" {
			t.Error(got)
		}
	}
	r.want("d null", "e null")
}

// A sender repeats an event that it got no response for. If a definition with other triggers was
// published meanwhile, the event finds the saga that it started.
func TestEventAgainAfterTriggersMoved(t *testing.T) {
	r := newRig(t)
	e := saga.Event{ID: "1", Source: "/s", Type: "a.b", Data: json.RawMessage(`{}`)}
	r.publish("saga: d\ntriggers: [{event: a.*, input: {n: 1}}, {event: a.b, input: {n: 2}}, {event: a.b, input: {n: 3}}]")
	first := r.event(e)
	want := []string{"d {\"n\":1}", "d {\"n\":2}", "d {\"n\":3}"}
	r.want(want...)
	r.publish("saga: d\ntriggers: [{event: c}, {event: a.b, input: {n: 2}}, {event: a.b, input: {n: 3}}, {event: a.*, input: {n: 1}}]")
	if again := r.event(e); again != first {
		t.Error(again, first)
	}
	r.want(want...)
}

func TestEventKeys(t *testing.T) {
	first, second := "a", "a#2"
	names := make(ordinals)
	if a, b, c := names.name("a"), names.name("b"), names.name("a"); a != first || b != "b" || c != second {
		t.Error(a, b, c)
	}
	keys := map[string]bool{
		eventKey("d", first, &saga.Event{Source: "a:b", ID: "c"}):                   true,
		eventKey("d", first, &saga.Event{Source: "a", ID: "b:c"}):                   true,
		eventKey("d", url.QueryEscape("a:a"), &saga.Event{Source: "b", ID: "c"}):    true,
		eventKey("d", second, &saga.Event{Source: "a:b", ID: "c"}):                  true,
		eventKey("d", url.QueryEscape(second), &saga.Event{Source: "a:b", ID: "c"}): true,
	}
	if len(keys) != 5 || !keys["event:d:a:a%3Ab:c"] || !keys["event:d:a#2:a%3Ab:c"] {
		t.Error(keys)
	}
}
