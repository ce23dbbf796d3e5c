package linearizability_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

var errInjected = errors.New("injected: nothing was done")

// faults decides the faults between nodes and their store. All nodes share it.
type faults struct {
	on   atomic.Bool
	late sync.WaitGroup // writes that happen after their caller got ErrUnknown
}

// faulty is the store of one node.
type faulty struct {
	journal.Store
	*faults
	dead  atomic.Bool // the node was killed: no call reaches the store
	stuck atomic.Bool // the lease is not renewed

	mu      sync.Mutex
	taken   []journal.Claimed // by claims whose response was lost
	takenBy string
}

// writes has a write fail, succeed without anyone knowing, take its time, or,
// if it may, land when its caller has given up on it.
func (f *faulty) writes(ctx context.Context, mayLand bool, do func(context.Context) error) error {
	if f.dead.Load() {
		return errInjected
	}
	if !f.on.Load() {
		return do(ctx)
	}
	switch n := rand.IntN(100); {
	case n < 6:
		return errInjected
	case n < 8:
		return fmt.Errorf("injected: not written: %w", journal.ErrUnknown)
	case n < 14:
		if err := do(ctx); err != nil {
			return err
		}
		return fmt.Errorf("injected: written: %w", journal.ErrUnknown)
	case n < 17 && mayLand:
		f.late.Go(func() {
			pause(50)
			if !f.dead.Load() {
				_ = do(context.WithoutCancel(ctx))
			}
		})
		return fmt.Errorf("injected: on its way: %w", journal.ErrUnknown)
	case n < 27:
		pause(40)
	}
	err := do(ctx)
	if f.dead.Load() {
		return errInjected // the response is lost
	}
	return err
}

func (f *faulty) reads() error {
	if f.dead.Load() {
		return errInjected
	}
	if f.on.Load() {
		switch n := rand.IntN(100); {
		case n < 4:
			return errInjected
		case n < 12:
			pause(40)
		}
	}
	return nil
}

// pause waits for up to that many milliseconds, to simulate a slow store.
func pause(most int) {
	<-time.After(time.Duration(rand.IntN(most*1000)) * time.Microsecond)
}

func (f *faulty) Register(ctx context.Context, node string, ttl time.Duration, dead ...string) (l journal.Lease, err error) {
	err = f.writes(ctx, false, func(ctx context.Context) error { l, err = f.Store.Register(ctx, node, ttl, dead...); return err })
	return lease(l, err), err
}

func (f *faulty) Renew(ctx context.Context, node string, ttl time.Duration) (l journal.Lease, err error) {
	if f.stuck.Load() {
		return journal.Lease{}, errInjected
	}
	err = f.writes(ctx, false, func(ctx context.Context) error { l, err = f.Store.Renew(ctx, node, ttl); return err })
	return lease(l, err), err
}

func lease(l journal.Lease, err error) journal.Lease {
	if err != nil {
		return journal.Lease{}
	}
	return l
}

func (f *faulty) Release(ctx context.Context, node string) error {
	return f.writes(ctx, false, func(ctx context.Context) error { return f.Store.Release(ctx, node) })
}

func (f *faulty) Append(ctx context.Context, node string, batch []journal.Append) ([]journal.Result, error) {
	var out []journal.Result
	got := make(chan []journal.Result, 2)
	err := f.writes(ctx, true, func(ctx context.Context) error {
		results, err := f.Store.Append(ctx, node, batch)
		got <- results
		return err
	})
	if err == nil {
		out = <-got
	}
	return out, err
}

// Claim first returns the sagas of an earlier claim whose response was lost, as the contract says.
func (f *faulty) Claim(ctx context.Context, node string, limit int) (list []journal.Claimed, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.takenBy != node {
		f.taken, f.takenBy = nil, node
	}
	err = f.writes(ctx, false, func(ctx context.Context) error {
		list, err = f.Store.Claim(ctx, node, limit)
		f.taken = append(f.taken, list...)
		return err
	})
	if err != nil {
		return nil, err
	}
	list, f.taken = f.taken, nil
	return list, nil
}

func (f *faulty) Send(ctx context.Context, m journal.Message) error {
	return f.writes(ctx, true, func(ctx context.Context) error { return f.Store.Send(ctx, m) })
}

func (f *faulty) PutBlobs(ctx context.Context, saga uuid.UUID, blobs []journal.Blob) error {
	return f.writes(ctx, true, func(ctx context.Context) error { return f.Store.PutBlobs(ctx, saga, blobs) })
}

func (f *faulty) Blobs(ctx context.Context, saga uuid.UUID, hashes [][sha256.Size]byte) ([]journal.Blob, error) {
	if err := f.reads(); err != nil {
		return nil, err
	}
	return f.Store.Blobs(ctx, saga, hashes)
}

func (f *faulty) Recipients(ctx context.Context, node string, after uuid.UUID, limit int) ([]journal.Recipient, error) {
	if err := f.reads(); err != nil {
		return nil, err
	}
	return f.Store.Recipients(ctx, node, after, limit)
}

func (f *faulty) Messages(ctx context.Context, sagas []uuid.UUID, limit, bytes int) ([]journal.Message, error) {
	if err := f.reads(); err != nil {
		return nil, err
	}
	return f.Store.Messages(ctx, sagas, limit, bytes)
}

func (f *faulty) Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	if err := f.reads(); err != nil {
		return nil, err
	}
	return f.Store.Records(ctx, saga, after, limit)
}

func (f *faulty) SagaByKey(ctx context.Context, key string) (journal.Head, error) {
	if err := f.reads(); err != nil {
		return journal.Head{}, err
	}
	return f.Store.SagaByKey(ctx, key)
}

func (f *faulty) Document(ctx context.Context, kind, name string, version int) (journal.Document, error) {
	if err := f.reads(); err != nil {
		return journal.Document{}, err
	}
	return f.Store.Document(ctx, kind, name, version)
}

func (f *faulty) Begin(ctx context.Context, key, fingerprint string, ttl time.Duration) (r journal.Reply, fresh bool, err error) {
	err = f.writes(ctx, false, func(ctx context.Context) error {
		r, fresh, err = f.Store.Begin(ctx, key, fingerprint, ttl)
		return err
	})
	if err != nil {
		return journal.Reply{}, false, err
	}
	return r, fresh, nil
}

func (f *faulty) Finish(ctx context.Context, key string, r journal.Reply, keep time.Duration) error {
	return f.writes(ctx, true, func(ctx context.Context) error { return f.Store.Finish(ctx, key, r, keep) })
}

func (f *faulty) Abandon(ctx context.Context, key string) error {
	return f.writes(ctx, true, func(ctx context.Context) error { return f.Store.Abandon(ctx, key) })
}
