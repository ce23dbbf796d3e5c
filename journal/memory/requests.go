package memory

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

type request struct {
	reply   journal.Reply
	expires time.Time
}

// Begin implements journal.Requests.
func (s *Store) Begin(ctx context.Context, key, fingerprint string, ttl time.Duration) (journal.Reply, bool, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return journal.Reply{}, false, fmt.Errorf("begin: %w", err)
	}
	defer unlock()
	now := s.clock()
	if have := s.requests[key]; have != nil && have.expires.After(now) {
		return copyReply(have.reply), false, nil
	}
	fresh := &request{reply: journal.Reply{Fingerprint: fingerprint}, expires: milli(now.Add(ttl))}
	s.requests[key] = fresh
	return fresh.reply, true, nil
}

// Finish implements journal.Requests.
func (s *Store) Finish(ctx context.Context, key string, r journal.Reply, keep time.Duration) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	defer unlock()
	now := s.clock()
	have := s.requests[key]
	if have != nil && have.expires.After(now) && have.reply.Fingerprint != r.Fingerprint {
		return nil // the reservation expired, and another request has the key
	}
	r = copyReply(r)
	r.Done = true
	s.requests[key] = &request{reply: r, expires: milli(now.Add(keep))}
	return nil
}

// Abandon implements journal.Requests.
func (s *Store) Abandon(ctx context.Context, key string) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("abandon: %w", err)
	}
	defer unlock()
	if have := s.requests[key]; have != nil && !have.reply.Done {
		delete(s.requests, key)
	}
	return nil
}

// Sweep implements journal.Requests.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	defer unlock()
	now := s.clock()
	swept := 0
	for _, key := range sortedKeys(s.requests) {
		if swept < limit && !s.requests[key].expires.After(now) {
			delete(s.requests, key)
			swept++
		}
	}
	return swept, nil
}

func copyReply(r journal.Reply) journal.Reply {
	r.Body = slices.Clone(r.Body)
	r.Header = maps.Clone(r.Header)
	if len(r.Header) == 0 {
		r.Header = nil
	}
	return r
}

// AddKey implements journal.Keys.
func (s *Store) AddKey(ctx context.Context, k journal.APIKey) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("add key: %w", err)
	}
	defer unlock()
	for _, have := range s.apiKeys {
		if have.ID == k.ID || have.Hash == k.Hash {
			return fmt.Errorf("add key %s: a key with this id or hash exists: make a new one", k.ID)
		}
	}
	k.CreatedAt, k.ExpiresAt = milli(k.CreatedAt), milli(k.ExpiresAt)
	s.apiKeys = append(s.apiKeys, k)
	slices.SortFunc(s.apiKeys, func(a, b journal.APIKey) int {
		if c := a.CreatedAt.Compare(b.CreatedAt); c != 0 {
			return c
		}
		return journal.CompareID(a.ID, b.ID)
	})
	return nil
}

// Key implements journal.Keys.
func (s *Store) Key(ctx context.Context, hash string) (journal.APIKey, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return journal.APIKey{}, fmt.Errorf("key: %w", err)
	}
	defer unlock()
	for _, k := range s.apiKeys {
		if k.Hash == hash {
			return k, nil
		}
	}
	return journal.APIKey{}, fmt.Errorf("key: %w", journal.ErrNotFound)
}

// ListKeys implements journal.Keys.
func (s *Store) ListKeys(ctx context.Context) ([]journal.APIKey, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	defer unlock()
	return slices.Clone(s.apiKeys), nil
}

// RevokeKey implements journal.Keys.
func (s *Store) RevokeKey(ctx context.Context, id uuid.UUID) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("revoke key: %w", err)
	}
	defer unlock()
	at := slices.IndexFunc(s.apiKeys, func(k journal.APIKey) bool { return k.ID == id })
	if at < 0 {
		return fmt.Errorf("revoke key %s: %w", id, journal.ErrNotFound)
	}
	s.apiKeys = slices.Delete(s.apiKeys, at, at+1)
	return nil
}
