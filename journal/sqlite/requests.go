package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Begin implements journal.Requests.
func (s *Store) Begin(ctx context.Context, key, fingerprint string, ttl time.Duration) (r journal.Reply, fresh bool, err error) {
	err = s.w.do(ctx, func(t *tx) error {
		now := s.clock()
		n, err := t.exec(`INSERT INTO requests (key, fingerprint, done, status, expires_at) VALUES (?, ?, 0, 0, ?)
			ON CONFLICT (key) DO UPDATE SET fingerprint = excluded.fingerprint, done = 0, status = 0, header = NULL, body = NULL,
			expires_at = excluded.expires_at WHERE requests.expires_at <= ?`, key, fingerprint, now+ttl.Milliseconds(), now)
		if err != nil {
			return err
		}
		if fresh = n > 0; fresh {
			r = journal.Reply{Fingerprint: fingerprint}
			return nil
		}
		var header []byte
		err = t.row(`SELECT fingerprint, done, status, header, body FROM requests WHERE key = ?`, []any{key}, &r.Fingerprint, &r.Done, &r.Status, &header, &r.Body)
		if err == nil && header != nil {
			err = json.Unmarshal(header, &r.Header)
		}
		return err
	})
	if err != nil {
		return journal.Reply{}, false, fmt.Errorf("begin: %w", err)
	}
	return r, fresh, nil
}

// Finish implements journal.Requests.
func (s *Store) Finish(ctx context.Context, key string, r journal.Reply, keep time.Duration) error {
	var header []byte
	if len(r.Header) > 0 {
		var err error
		if header, err = json.Marshal(r.Header); err != nil {
			return fmt.Errorf("finish: %w", err)
		}
	}
	err := s.w.do(ctx, func(t *tx) error {
		now := s.clock()
		// If the reservation has expired and another request has the key, the key stays with that
		// request.
		_, err := t.exec(`INSERT INTO requests (key, fingerprint, done, status, header, body, expires_at) VALUES (?, ?, 1, ?, ?, ?, ?)
			ON CONFLICT (key) DO UPDATE SET fingerprint = excluded.fingerprint, done = 1, status = excluded.status, header = excluded.header,
			body = excluded.body, expires_at = excluded.expires_at
			WHERE requests.fingerprint = excluded.fingerprint OR requests.expires_at <= ?`,
			key, r.Fingerprint, r.Status, blob(header), blob(r.Body), now+keep.Milliseconds(), now)
		return err
	})
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	return nil
}

// Abandon implements journal.Requests.
func (s *Store) Abandon(ctx context.Context, key string) error {
	_, err := s.change(ctx, `DELETE FROM requests WHERE key = ? AND NOT done`, key)
	if err != nil {
		return fmt.Errorf("abandon: %w", err)
	}
	return nil
}

// Sweep implements journal.Requests.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	n, err := s.change(ctx, `DELETE FROM requests WHERE key IN (SELECT key FROM requests WHERE expires_at <= ? ORDER BY expires_at LIMIT +?)`, s.clock(), max(limit, 0))
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	return int(n), nil
}

// change runs one statement in a transaction of its own.
func (s *Store) change(ctx context.Context, query string, args ...any) (n int64, err error) {
	err = s.w.do(ctx, func(t *tx) error {
		n, err = t.exec(query, args...)
		return err
	})
	return n, err
}

// AddKey implements journal.Keys.
func (s *Store) AddKey(ctx context.Context, k journal.APIKey) error {
	binding, err := journal.Encode(k.Binding)
	if err != nil {
		return fmt.Errorf("add key %s: %w", k.ID, err)
	}
	n, err := s.change(ctx, `INSERT INTO api_keys (id, name, role, hash, created_at, expires_at, binding) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		k.ID.Bytes(), k.Name, k.Role, k.Hash, k.CreatedAt.UnixMilli(), millis(k.ExpiresAt), string(binding))
	if err == nil && n == 0 {
		err = errors.New("a key with this id or hash exists: create a new one")
	}
	if err != nil {
		return fmt.Errorf("add key %s: %w", k.ID, err)
	}
	return nil
}

const keyColumns = `SELECT id, name, role, hash, created_at, expires_at, binding FROM api_keys`

func scanKey(scan func(...any) error) (journal.APIKey, error) {
	var k journal.APIKey
	var created int64
	var expires sql.NullInt64
	var binding []byte
	err := scan(idInto{&k.ID}, &k.Name, &k.Role, &k.Hash, &created, &expires, &binding)
	if err == nil {
		err = json.Unmarshal(binding, &k.Binding)
	}
	k.CreatedAt, k.ExpiresAt = toTime(created), fromMillis(expires)
	return k, err
}

// Key implements journal.Keys.
func (s *Store) Key(ctx context.Context, hash string) (journal.APIKey, error) {
	k, err := scanKey(s.row(ctx, keyColumns+` WHERE hash = ?`, hash))
	if errors.Is(err, sql.ErrNoRows) {
		err = journal.ErrNotFound
	}
	if err != nil {
		return journal.APIKey{}, fmt.Errorf("key: %w", err)
	}
	return k, nil
}

// ListKeys implements journal.Keys.
func (s *Store) ListKeys(ctx context.Context) ([]journal.APIKey, error) {
	rows, err := s.r.QueryContext(ctx, keyColumns+` ORDER BY created_at, id`)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	var out []journal.APIKey
	err = walk(rows, func(scan func(...any) error) error {
		k, err := scanKey(scan)
		out = append(out, k)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return out, nil
}

// RevokeKey implements journal.Keys.
func (s *Store) RevokeKey(ctx context.Context, key uuid.UUID) error {
	n, err := s.change(ctx, `DELETE FROM api_keys WHERE id = ?`, key.Bytes())
	if err == nil && n == 0 {
		err = journal.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("revoke key %s: %w", key, err)
	}
	return nil
}
