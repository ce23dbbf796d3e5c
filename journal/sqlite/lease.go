package sqlite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Register implements journal.Log. It locks the file, which proves that each earlier owner is dead
// or was registered by this process and is no longer used. So it takes over all sagas at once and
// fences every earlier node; dead nodes need not be named.
func (s *Store) Register(ctx context.Context, node string, ttl time.Duration, _ ...string) (journal.Lease, error) {
	if err := s.takeLock(); err != nil {
		return journal.Lease{}, fmt.Errorf("register: %w", err)
	}
	var now int64
	err := s.w.do(ctx, func(t *tx) error {
		now = s.clock()
		var taken bool
		if err := t.row(`SELECT count(*) > 0 FROM nodes WHERE id = ?`, []any{node}, &taken); err != nil {
			return err
		}
		if taken {
			return fmt.Errorf("node %s is already registered: register under a new id", node)
		}
		if _, err := t.exec(`DELETE FROM nodes`); err != nil {
			return err
		}
		if err := t.free(now, journal.TakeoverDelay, `owner IS NOT NULL`); err != nil {
			return err
		}
		_, err := t.exec(`INSERT INTO nodes (id, expires_at) VALUES (?, ?)`, node, now+ttl.Milliseconds())
		return err
	})
	if err != nil {
		return journal.Lease{}, fmt.Errorf("register: %w", err)
	}
	s.claims.Lock()
	s.lost = nil // no node that is registered may have taken them
	s.claims.Unlock()
	s.hint()
	return journal.Lease{Node: node, Now: toTime(now), TTL: ttl}, nil
}

// Renew implements journal.Log. Register has fenced all other nodes, so there is none to take over.
func (s *Store) Renew(ctx context.Context, node string, ttl time.Duration) (journal.Lease, error) {
	var now int64
	err := s.w.doFirst(ctx, func(t *tx) error {
		now = s.clock()
		n, err := t.exec(`UPDATE nodes SET expires_at = ? WHERE id = ?`, now+ttl.Milliseconds(), node)
		if err == nil && n == 0 {
			return journal.ErrFenced
		}
		return err
	})
	if err != nil {
		return journal.Lease{}, fmt.Errorf("renew: %w", err)
	}
	return journal.Lease{Node: node, Now: toTime(now), TTL: ttl}, nil
}

// Release implements journal.Log. It unlocks the file when no node is left.
func (s *Store) Release(ctx context.Context, node string) error {
	left := 0
	err := s.w.do(ctx, func(t *tx) error {
		n, err := t.exec(`DELETE FROM nodes WHERE id = ?`, node)
		if err != nil {
			return err
		}
		if n > 0 {
			if _, err := t.exec(`UPDATE sagas SET owner = NULL, wake_at = ?, claims = max(claims - 1, 0) WHERE owner = ?`, s.clock(), node); err != nil {
				return err
			}
		}
		return t.row(`SELECT count(*) FROM nodes`, nil, &left)
	})
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	s.hint()
	if left > 0 {
		return nil
	}
	return s.unlock()
}

// takeLock locks the file unless this store has the lock already.
func (s *Store) takeLock() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock != nil {
		return nil
	}
	path := s.path + ".lock"
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.Join(fmt.Errorf("%w: another recourse process serves %s: stop it first, or use PostgreSQL for several processes", journal.ErrInUse, s.path), f.Close())
	}
	if err != nil {
		return errors.Join(fmt.Errorf("lock %s: %w", path, err), f.Close())
	}
	s.lock = f
	return nil
}

// unlock releases the lock. The file stays: otherwise two processes could lock two files of the
// same name.
func (s *Store) unlock() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	err := s.lock.Close()
	s.lock = nil
	return err
}

// Nodes implements journal.Index.
func (s *Store) Nodes(ctx context.Context) ([]journal.NodeInfo, error) {
	rows, err := s.r.QueryContext(ctx, `SELECT id, expires_at, (SELECT count(*) FROM sagas WHERE owner = nodes.id) FROM nodes ORDER BY id`)
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	var out []journal.NodeInfo
	err = walk(rows, func(scan func(...any) error) error {
		var n journal.NodeInfo
		var at int64
		err := scan(&n.Node, &at, &n.Sagas)
		n.ExpiresAt = toTime(at)
		out = append(out, n)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	return out, nil
}

// Orphans implements journal.Index.
func (s *Store) Orphans(ctx context.Context, limit int) ([]uuid.UUID, error) {
	rows, err := s.r.QueryContext(ctx, `SELECT DISTINCT saga_id FROM journal j WHERE NOT EXISTS (SELECT 1 FROM sagas s WHERE s.id = j.saga_id) ORDER BY saga_id LIMIT ?`, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("orphans: %w", err)
	}
	var out []uuid.UUID
	err = walk(rows, func(scan func(...any) error) error {
		var b []byte
		err := scan(&b)
		out = append(out, uuid.FromBytesOrNil(b))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("orphans: %w", err)
	}
	return out, nil
}

// Synchronous implements journal.Log. The data is on one machine only.
func (s *Store) Synchronous(context.Context) error {
	return fmt.Errorf("%w: this database is on one machine: use PostgreSQL with a synchronous standby", journal.ErrNotSynchronous)
}

// Confirm implements journal.Log. A commit can be read only after it was synced.
func (s *Store) Confirm(ctx context.Context, node string) error {
	if err := s.w.do(ctx, func(t *tx) error { return t.fence(node) }); err != nil {
		return fmt.Errorf("confirm: %w", err)
	}
	return nil
}
