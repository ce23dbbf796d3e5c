package wire_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/test/wire"
	"recourse/journal"
)

// failed takes an unknown outcome for a failure.
type failed struct{ journal.Store }

func (s failed) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	out, err := s.Store.Append(ctx, node, batch)
	return out, known(err)
}

func (s failed) Send(ctx context.Context, m journal.Message) error {
	return known(s.Store.Send(ctx, m))
}

func (s failed) Publish(ctx context.Context, d journal.Document, match string) (journal.Document, bool, error) {
	v, created, err := s.Store.Publish(ctx, d, match)
	return v, created, known(err)
}

func (s failed) EndTask(ctx context.Context, task, token uuid.UUID, how string, m journal.Message) error {
	return known(s.Store.EndTask(ctx, task, token, how, m))
}

func known(err error) error {
	if errors.Is(err, journal.ErrUnknown) {
		return errors.New("it failed")
	}
	return err
}

// again repeats under a new id what may have been done.
type again struct{ journal.Store }

func (s again) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	out, err := s.Store.Append(ctx, node, batch)
	if errors.Is(err, journal.ErrUnknown) {
		a := batch[0]
		a.Saga = newID()
		a.Records = []journal.Record{record(a.Saga, 1, nil)}
		return s.Store.Append(ctx, node, []journal.Append{a})
	}
	return out, err
}

func (s again) Send(ctx context.Context, m journal.Message) error {
	err := s.Store.Send(ctx, m)
	if errors.Is(err, journal.ErrUnknown) {
		m.ID = newID()
		return s.Store.Send(ctx, m)
	}
	return err
}

func (s again) ClaimTasks(ctx context.Context, c journal.TaskClaim) ([]journal.ClaimedTask, error) {
	out, err := s.Store.ClaimTasks(ctx, c)
	if errors.Is(err, journal.ErrUnknown) {
		c.Token = newID()
		return s.Store.ClaimTasks(ctx, c)
	}
	return out, err
}

// done takes an unknown outcome for a success.
type done struct{ journal.Store }

func (s done) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	out, err := s.Store.Append(ctx, node, batch)
	if errors.Is(err, journal.ErrUnknown) {
		return make([]journal.Result, len(batch)), nil
	}
	return out, err
}

// loses forgets what a claim whose answer was lost has taken.
type loses struct{ journal.Store }

func (s loses) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	out, err := s.Store.Claim(ctx, node, limit)
	if errors.Is(err, journal.ErrUnknown) {
		_, _ = s.Store.Claim(context.WithoutCancel(ctx), node, limit)
	}
	return out, err
}

// Stores that get it wrong are noticed.
func TestEveryCommitCanFail(t *testing.T) {
	w := newWired(t)
	named := func(name string) operation {
		return operations[slices.IndexFunc(operations, func(op operation) bool { return op.name == name })]
	}
	if _, err := w.count(named("a start")); err != nil { // the first one also commits dictionaries
		t.Fatal(err)
	}
	after := wire.Fault{Do: wire.Close, After: true}
	for _, tt := range []struct {
		bad   string
		store journal.Store
		op    string
		fault wire.Fault
	}{
		{"an unknown start is a failed one", failed{w.store}, "a start", after},
		{"an unknown batch is a failed one", failed{w.store}, "two starts, and records of a third saga", after},
		{"an unknown message is a failed one", failed{w.store}, "a message", after},
		{"an unknown version is a failed one", failed{w.store}, "a new version", after},
		{"an unknown start is begun again", again{w.store}, "a start without a key", after},
		{"an unknown message is posted again", again{w.store}, "a message", after},
		{"an unknown end of a task is a failed one", failed{w.store}, "a task that is claimed", after},
		{"an unknown claim of tasks is made under another token", again{w.store}, "a task", after},
		{"an unknown task is a success", done{w.store}, "a task and an event", wire.Fault{Do: wire.Close}},
		{"an unknown start is a success", done{w.store}, "a start", wire.Fault{Do: wire.Close}},
		{"a lost claim is forgotten", loses{w.store}, "a parked saga", after},
		{"it does not try again", w.store, "a start", wire.Fault{Do: wire.Refuse, Code: "40001", Times: -1}},
	} {
		if struck, err := w.strike(tt.store, named(tt.op), tt.fault); struck == 0 || err == nil {
			t.Errorf("%s: not noticed (the fault struck %d times)", tt.bad, struck)
		} else {
			t.Logf("%s: %v", tt.bad, err)
		}
	}
}
