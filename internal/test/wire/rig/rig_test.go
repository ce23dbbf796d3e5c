package rig_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"recourse/engine"
	"recourse/examples/world"
	"recourse/internal/test/wire/rig"
	"recourse/journal"
	"recourse/journal/memory"
)

// forgets loses sagas once they have ended.
type forgets struct{ journal.Store }

func (s forgets) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	out, err := s.Store.Append(ctx, node, batch)
	for _, a := range batch {
		if err == nil && a.Row != nil && !a.Row.EndedAt.IsZero() {
			err = s.Store.Delete(ctx, a.Saga)
		}
	}
	return out, err
}

// play runs a few sagas on a node and returns what is wrong afterwards.
func play(t *testing.T, w *world.Server, wrap func(journal.Store) journal.Store) []string {
	t.Helper()
	store := memory.New(memory.Config{})
	sys := rig.New(t, store, w, "")
	sys.Add(wrap(store), engine.Config{})
	l := sys.Load(2)
	rig.Until(t, "sagas are acknowledged", func() bool { return sys.Acknowledged() >= 6 })
	l.End()
	return sys.Settle()
}

func whole(s journal.Store) journal.Store { return s }

// What is right is found right, and what is wrong wrong.
func TestSettle(t *testing.T) {
	lost := world.Rule{Match: world.Match{Method: "POST", PathPrefix: "/pay/charges"}, Times: 2, Do: world.Do{After: world.FaultDrop}}
	for _, tt := range []struct {
		name  string
		world world.Config
		wrap  func(journal.Store) journal.Store
		want  string // in what is wrong; "" for nothing
	}{
		{"all is well", world.Config{}, whole, ""},
		{"a world that forgets keys", world.Config{KeyWindow: time.Nanosecond}, whole, " effects under key"},
		{"a store that loses sagas", world.Config{}, func(s journal.Store) journal.Store { return forgets{s} }, "an acknowledged start is lost"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := rig.World(t, tt.world)
			if err := w.AddFault(lost); err != nil {
				t.Fatal(err)
			}
			wrong := play(t, w, tt.wrap)
			if tt.want == "" && len(wrong) > 0 {
				t.Errorf("found %q", wrong)
			}
			if tt.want != "" && !slices.ContainsFunc(wrong, func(s string) bool { return strings.Contains(s, tt.want) }) {
				t.Errorf("found %q, want one with %q", wrong, tt.want)
			}
		})
	}
}
