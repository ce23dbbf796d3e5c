//go:build failpoints

// Package faultstore adds failpoints to a store: one before and one after each operation of the
// engine. An error at the first one means that nothing was done; at the second one, that the result
// is unknown.
package faultstore

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/failpoint"
	"recourse/journal"
)

// Store returns s with failpoints.
func Store(s journal.Store) journal.Store { return store{s} }

type store struct{ journal.Store }

// around runs f between its two points. If f fails, the second point is skipped.
func around(name string, f func() error) error {
	if err := failpoint.Err(name+".before", nil); err != nil {
		return err
	}
	if err := f(); err != nil {
		return err
	}
	return failpoint.Err(name+".after", journal.ErrUnknown)
}

// Register implements journal.Log.
func (s store) Register(ctx context.Context, node string, ttl time.Duration, dead ...string) (l journal.Lease, err error) {
	err = around("register", func() (err error) { l, err = s.Store.Register(ctx, node, ttl, dead...); return err })
	return l, err
}

// Renew implements journal.Log. If the response is lost, the caller has no lease.
func (s store) Renew(ctx context.Context, node string, ttl time.Duration) (l journal.Lease, err error) {
	err = around("renew", func() (err error) { l, err = s.Store.Renew(ctx, node, ttl); return err })
	if errors.Is(err, failpoint.ErrInjected) {
		return journal.Lease{}, err
	}
	return l, err
}

// Release implements journal.Log.
func (s store) Release(ctx context.Context, node string) error {
	return around("release", func() error { return s.Store.Release(ctx, node) })
}

// Send implements journal.Log.
func (s store) Send(ctx context.Context, m journal.Message) error {
	return around("post", func() error { return s.Store.Send(ctx, m) })
}

// PutBlobs implements journal.Blobs.
func (s store) PutBlobs(ctx context.Context, saga uuid.UUID, blobs []journal.Blob) error {
	return around("blobs", func() error { return s.Store.PutBlobs(ctx, saga, blobs) })
}

// Append implements journal.Log. It has points for each kind of record that it writes.
func (s store) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	names := kinds(batch)
	if err := pass("commit.before.", names, nil); err != nil {
		return nil, err
	}
	out, err := s.Store.Append(ctx, node, batch)
	if err != nil {
		return nil, err
	}
	if err := pass("commit.after.", names, journal.ErrUnknown); err != nil {
		return nil, err
	}
	return out, nil
}

func pass(prefix string, names []string, as error) error {
	for _, name := range names {
		if err := failpoint.Err(prefix+name, as); err != nil {
			return err
		}
	}
	return nil
}

// kinds returns the kinds of record in a batch, without duplicates.
func kinds(batch []journal.Append) []string {
	var names []string
	add := func(name string) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, a := range batch {
		ended := false
		for _, r := range a.Records {
			name := string(r.Kind)
			if r.Kind == journal.Intent || r.Kind == journal.Outcome {
				name += "." + string(r.Way)
			}
			add(name)
			ended = r.Kind == journal.Finished
		}
		if a.Release && !ended {
			add("parked")
		}
	}
	return names
}

// Claim implements journal.Log. Its points are skipped if there was nothing to claim.
func (s store) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	if err := failpoint.Err("claim.before", nil); err != nil {
		return nil, err
	}
	out, err := s.Store.Claim(ctx, node, limit)
	if err == nil && len(out) > 0 {
		failpoint.Hit("claim.after")
	}
	return out, err
}

// Recipients implements journal.Log.
func (s store) Recipients(ctx context.Context, node string, after uuid.UUID, limit int) ([]journal.Recipient, error) {
	if err := failpoint.Err("mail.before", nil); err != nil {
		return nil, err
	}
	return s.Store.Recipients(ctx, node, after, limit)
}

// Messages implements journal.Log. The second point is skipped if there were no messages.
func (s store) Messages(ctx context.Context, sagas []uuid.UUID, limit, bytes int) ([]journal.Message, error) {
	out, err := s.Store.Messages(ctx, sagas, limit, bytes)
	if err == nil && len(out) > 0 {
		err = failpoint.Err("mail.after", nil)
	}
	return out, err
}

// Begins implements journal.Log.
func (s store) Begins(ctx context.Context, sagas []uuid.UUID, limit, bytes int) (map[uuid.UUID][]journal.Record, error) {
	if err := failpoint.Err("records.before", nil); err != nil {
		return nil, err
	}
	return s.Store.Begins(ctx, sagas, limit, bytes)
}

// Records implements journal.Log.
func (s store) Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	if err := failpoint.Err("records.before", nil); err != nil {
		return nil, err
	}
	return s.Store.Records(ctx, saga, after, limit)
}
