package memory

import (
	"context"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Register implements journal.Log.
func (s *Store) Register(ctx context.Context, node string, ttl time.Duration, dead ...string) (journal.Lease, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return journal.Lease{}, fmt.Errorf("register: %w", err)
	}
	defer unlock()
	if _, taken := s.nodes[node]; taken {
		return journal.Lease{}, fmt.Errorf("register: node %s is already registered: register under a new id", node)
	}
	for _, other := range dead {
		if _, ok := s.nodes[other]; ok {
			s.takeOver(other)
		}
	}
	return s.extend(node, ttl), nil
}

// Renew implements journal.Log.
func (s *Store) Renew(ctx context.Context, node string, ttl time.Duration) (journal.Lease, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return journal.Lease{}, fmt.Errorf("renew: %w", err)
	}
	defer unlock()
	if _, ok := s.nodes[node]; !ok {
		return journal.Lease{}, fmt.Errorf("renew: %w", journal.ErrFenced)
	}
	lease := s.extend(node, ttl)
	for other, end := range s.nodes { // any order
		if end.Before(lease.Now) {
			s.takeOver(other)
		}
	}
	return lease, nil
}

// Release implements journal.Log.
func (s *Store) Release(ctx context.Context, node string) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	defer unlock()
	if _, ok := s.nodes[node]; ok {
		s.free(node, func(g *saga, now time.Time) {
			g.head.WakeAt = now
			g.head.Claims = max(g.head.Claims-1, 0)
		})
	}
	return nil
}

// Nodes implements journal.Index. It sorts by node.
func (s *Store) Nodes(ctx context.Context) ([]journal.NodeInfo, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	defer unlock()
	owned := map[string]int64{}
	for _, g := range s.sagas {
		owned[g.head.Owner]++
	}
	var out []journal.NodeInfo
	for _, node := range sortedKeys(s.nodes) {
		out = append(out, journal.NodeInfo{Node: node, ExpiresAt: s.nodes[node], Sagas: owned[node]})
	}
	return out, nil
}

// Orphans implements journal.Index. A record is part of its saga here, so there are none.
func (s *Store) Orphans(ctx context.Context, _ int) ([]uuid.UUID, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("orphans: %w", err)
	}
	unlock()
	return nil, nil
}

func (s *Store) extend(node string, ttl time.Duration) journal.Lease {
	now := s.clock()
	s.nodes[node] = milli(now.Add(ttl))
	return journal.Lease{Node: node, Now: now, TTL: ttl}
}

// takeOver deletes a dead node.
func (s *Store) takeOver(node string) {
	s.free(node, func(g *saga, now time.Time) { g.postpone(now, journal.TakeoverDelay) })
}

// free deletes a node, and calls wake for each of its sagas to set when the saga can be claimed.
func (s *Store) free(node string, wake func(g *saga, now time.Time)) {
	delete(s.nodes, node)
	now := s.clock()
	for _, g := range s.sagas {
		if g.head.Owner == node {
			g.head.Owner = ""
			wake(g, now)
		}
	}
	s.hint()
}

// Synchronous implements journal.Log. The data is on one machine only.
func (s *Store) Synchronous(context.Context) error {
	return fmt.Errorf("%w: this database is on one machine: use PostgreSQL with a synchronous standby", journal.ErrNotSynchronous)
}

// Confirm implements journal.Log.
func (s *Store) Confirm(ctx context.Context, node string) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("confirm: %w", err)
	}
	defer unlock()
	if _, ok := s.nodes[node]; !ok {
		return fmt.Errorf("confirm: %w", journal.ErrFenced)
	}
	return nil
}
