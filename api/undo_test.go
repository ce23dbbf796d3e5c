package api

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// undoableDef has two effects that can be undone for a while. %[1]s is the world, %[2]s the window
// of the first one, %[3]s more steps.
const undoableDef = `saga: undoable
steps:
  - {id: label, http: POST %[1]s/shipping/labels, body: {}, compensate: {http: "POST %[1]s/shipping/labels/${output.id}/void", undo_within: %[2]s}}
  - {id: charge, http: POST %[1]s/pay/charges, body: {amount: 5}, compensate: {http: "POST %[1]s/pay/charges/${output.id}/refund", undo_within: 30d}}
%[3]s`

// A saga that has succeeded is undone by another one, once, in the reverse order.
func TestUndoLater(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		x.publish(fmt.Sprintf(undoableDef, x.world.URL, "1h", ""))
		v := x.do("POST", "/v1/sagas", `{"definition": "undoable", "labels": {"team": "a"}}`, header{"Prefer", "wait=30"}).want(201).saga()
		if v.Status != saga.Succeeded || len(x.world.Ledger().Live()) != 2 {
			t.Fatalf("%s, %d effects", v.Status, len(x.world.Ledger().Live()))
		}
		path := "/v1/sagas/" + v.ID
		var plan undoView
		x.do("GET", path+"/undo", "").want(200).into(&plan)
		if !plan.Possible || plan.Until == nil || len(plan.Steps) != 2 || plan.Steps[0].Path != "charge" || plan.Steps[1].Path != "label" || plan.Steps[0].Request == nil {
			t.Errorf("%+v", plan)
		}
		x.do("POST", path+"/compensate", `{}`).problem(422, "invalid_command")
		undo := x.do("POST", path+"/compensate", `{"reason": "the customer changed her mind"}`, header{"Prefer", "wait=30"}).want(201).saga()
		if undo.UndoOf != v.ID || undo.Status != saga.Succeeded || undo.Labels["team"] != "a" || len(x.world.Ledger().Live()) != 0 {
			t.Errorf("%+v, %d effects", undo, len(x.world.Ledger().Live()))
		}
		var order []string
		for _, e := range x.world.Ledger() {
			if e.Undoes != "" {
				order = append(order, e.Op)
			}
		}
		if d := cmp.Diff([]string{"refund_charge", "void"}, order); d != "" {
			t.Error(d)
		}
		sent := len(x.world.Ledger())
		again := x.do("POST", path+"/compensate", `{"reason": "again"}`).want(200)
		if again.Header.Get(replayHeader) != "true" || again.saga().ID != undo.ID || len(x.world.Ledger()) != sent {
			t.Errorf("%v, %d requests", again.Header, len(x.world.Ledger()))
		}
		x.do("GET", path+"/undo", "").want(200).into(&plan)
		if plan.Possible || plan.Undo != undo.ID {
			t.Errorf("%+v", plan)
		}
		x.do("POST", "/v1/sagas/"+undo.ID+"/compensate", `{"reason": "undo it"}`).problem(409, "undo_of_undo")
		var original machine.View
		if x.do("GET", path, "").want(200).into(&original); original.Status != saga.Succeeded || original.Seq != v.Seq {
			t.Errorf("%+v", original)
		}
		var list page[machine.View]
		if x.do("GET", "/v1/sagas?definition=undoable", "").want(200).into(&list); len(list.Data) != 2 || list.Data[0].UndoOf != v.ID {
			t.Errorf("%+v", list)
		}
	})
}

// What cannot be undone as a whole is not undone at all, and the problem says why.
func TestUndoRefused(t *testing.T) {
	for _, tt := range []struct{ name, window, more, code string }{
		{"past the window", "1ms", "", "undo_window_over"},
		{"past the pivot", "1h", "  - {id: final, http: PUT %s/things/a, body: {}, pivot: true, compensate: none}\n", "past_pivot"},
		{"no compensation", "1h", "  - {id: last, http: POST %s/mail/send, body: {to: a@b.example}, in_doubt: fail}\n", "not_undoable"},
		{"no window", "1h", "  - {id: last, http: POST %s/shipping/labels, body: {}, compensate: {http: \"POST %[1]s/shipping/labels/${output.id}/void\"}}\n", "no_undo_window"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newFixture(t)
			more := tt.more
			if more != "" {
				more = fmt.Sprintf(strings.ReplaceAll(more, "%s", "%[1]s"), x.world.URL)
			}
			x.publish(fmt.Sprintf(undoableDef, x.world.URL, tt.window, more))
			v := x.do("POST", "/v1/sagas", `{"definition": "undoable"}`, header{"Prefer", "wait=30"}).want(201).saga()
			if v.Status != saga.Succeeded {
				t.Fatalf("%+v", v)
			}
			for plan := (undoView{Possible: true}); tt.code == "undo_window_over" && plan.Possible; {
				x.do("GET", "/v1/sagas/"+v.ID+"/undo", "").want(200).into(&plan)
			}
			before := len(x.world.Ledger())
			if p := x.do("POST", "/v1/sagas/"+v.ID+"/compensate", `{"reason": "r"}`).problem(409, code(tt.code)); p.Detail == "" {
				t.Errorf("%+v", p)
			}
			var plan undoView
			x.do("GET", "/v1/sagas/"+v.ID+"/undo", "").want(200).into(&plan)
			if plan.Possible || len(plan.Refused) == 0 || plan.Refused[0].Code != tt.code || len(x.world.Ledger()) != before {
				t.Errorf("%+v", plan)
			}
		})
	}
}

// readless is a store that cannot read a saga while it fails, and writes all the same, as over
// another connection.
type readless struct {
	journal.Store
	fails *atomic.Bool
}

// Saga implements journal.Index.
func (s readless) Saga(ctx context.Context, id uuid.UUID) (journal.Head, error) {
	if s.fails.Load() {
		return journal.Head{}, fmt.Errorf("%w: the connection was cut", journal.ErrUnknown)
	}
	return s.Store.Saga(ctx, id)
}

// If it cannot be read whether a saga may be deleted, it is not deleted.
func TestUndoIsKeptIfItCannotBeRead(t *testing.T) {
	var fails atomic.Bool
	x := newFixture(t, func(c *Config) { c.Store = readless{c.Store, &fails} })
	x.publish(fmt.Sprintf(undoableDef, x.world.URL, "1h", ""))
	v := x.do("POST", "/v1/sagas", `{"definition": "undoable"}`, header{"Prefer", "wait=30"}).want(201).saga()
	undo := x.do("POST", "/v1/sagas/"+v.ID+"/compensate", `{"reason": "a mistake"}`, header{"Prefer", "wait=30"}).want(201).saga()
	if undo.Status != saga.Succeeded {
		t.Fatalf("%+v", undo)
	}
	fails.Store(true)
	if a := x.do("DELETE", "/v1/sagas/"+undo.ID, ""); a.Status < 500 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	fails.Store(false)
	x.do("DELETE", "/v1/sagas/"+undo.ID, "").problem(409, "undo_kept")
}
