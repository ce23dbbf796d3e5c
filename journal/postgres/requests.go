package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

// Begin implements journal.Requests.
func (s *Store) Begin(ctx context.Context, key, fingerprint string, ttl time.Duration) (r journal.Reply, fresh bool, err error) {
	// An existing reservation may be abandoned before it is read. Then Begin tries again.
	for range maxTries {
		n, err := s.rest.exec(ctx, sql(`INSERT INTO requests (key, fingerprint, done, status, expires_at) VALUES ($1, $2, false, 0, {now} + $3)
			ON CONFLICT (key) DO UPDATE SET fingerprint = excluded.fingerprint, done = false, status = 0, header = NULL, body = NULL,
			expires_at = excluded.expires_at WHERE requests.expires_at <= excluded.expires_at - $3`), key, fingerprint, ttl.Milliseconds())
		if err != nil {
			return journal.Reply{}, false, fmt.Errorf("begin: %w", err)
		}
		if n > 0 {
			return journal.Reply{Fingerprint: fingerprint}, true, nil
		}
		r, err := s.reply(ctx, key)
		if err == nil {
			return r, false, nil
		}
		if !errors.Is(err, pgx.ErrNoRows) {
			return journal.Reply{}, false, fmt.Errorf("begin: %w", err)
		}
	}
	return journal.Reply{}, false, errors.New("begin: the key is reserved and abandoned repeatedly: try again later")
}

func (s *Store) reply(ctx context.Context, key string) (r journal.Reply, err error) {
	var header []byte
	err = s.pool.QueryRow(ctx, `SELECT fingerprint, done, status, header, body FROM requests WHERE key = $1`, key).
		Scan(&r.Fingerprint, &r.Done, &r.Status, &header, &r.Body)
	if err == nil && header != nil {
		err = json.Unmarshal(header, &r.Header)
	}
	return r, err
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
	// If the reservation has expired and another request has the key, the key stays with that
	// request.
	_, err := s.rest.exec(ctx, sql(`INSERT INTO requests (key, fingerprint, done, status, header, body, expires_at) VALUES ($1, $2, true, $3, $4, $5, {now} + $6)
		ON CONFLICT (key) DO UPDATE SET fingerprint = excluded.fingerprint, done = true, status = excluded.status, header = excluded.header,
		body = excluded.body, expires_at = excluded.expires_at
		WHERE requests.fingerprint = excluded.fingerprint OR requests.expires_at <= excluded.expires_at - $6`),
		key, r.Fingerprint, r.Status, header, r.Body, keep.Milliseconds())
	if err != nil {
		return fmt.Errorf("finish: %w", err)
	}
	return nil
}

// Abandon implements journal.Requests.
func (s *Store) Abandon(ctx context.Context, key string) error {
	if _, err := s.rest.exec(ctx, `DELETE FROM requests WHERE key = $1 AND NOT done`, key); err != nil {
		return fmt.Errorf("abandon: %w", err)
	}
	return nil
}

// Sweep implements journal.Requests.
func (s *Store) Sweep(ctx context.Context, limit int) (int, error) {
	n, err := s.rest.exec(ctx, sql(`DELETE FROM requests WHERE key IN
		(SELECT key FROM requests WHERE expires_at <= {now} ORDER BY expires_at LIMIT $1 FOR UPDATE SKIP LOCKED)`), max(limit, 0))
	if err != nil {
		return 0, fmt.Errorf("sweep: %w", err)
	}
	return int(n), nil
}

// AddKey implements journal.Keys.
func (s *Store) AddKey(ctx context.Context, k journal.APIKey) error {
	binding, err := journal.Encode(k.Binding)
	if err != nil {
		return fmt.Errorf("add key %s: %w", k.ID, err)
	}
	n, err := s.rest.exec(ctx, `INSERT INTO api_keys (id, name, role, hash, created_at, expires_at, binding) VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING`,
		id(k.ID), k.Name, k.Role, k.Hash, k.CreatedAt.UnixMilli(), millis(k.ExpiresAt), string(binding))
	if err == nil && n == 0 {
		err = errors.New("a key with this id or hash exists: create a new one")
	}
	if err != nil {
		return fmt.Errorf("add key %s: %w", k.ID, err)
	}
	return nil
}

const keyColumns = `SELECT id, name, role, hash, created_at, expires_at, binding FROM api_keys`

func scanKey(row pgx.CollectableRow) (journal.APIKey, error) {
	var k journal.APIKey
	var u pgtype.UUID
	var created int64
	var expires *int64
	var binding []byte
	err := row.Scan(&u, &k.Name, &k.Role, &k.Hash, &created, &expires, &binding)
	if err == nil {
		err = json.Unmarshal(binding, &k.Binding)
	}
	k.ID, k.CreatedAt, k.ExpiresAt = u.Bytes, toTime(created), fromMillis(expires)
	return k, err
}

// Key implements journal.Keys.
func (s *Store) Key(ctx context.Context, hash string) (journal.APIKey, error) {
	rows, err := s.pool.Query(ctx, keyColumns+` WHERE hash = $1`, hash)
	if err != nil {
		return journal.APIKey{}, fmt.Errorf("key: %w", err)
	}
	k, err := pgx.CollectExactlyOneRow(rows, scanKey)
	if errors.Is(err, pgx.ErrNoRows) {
		err = journal.ErrNotFound
	}
	if err != nil {
		return journal.APIKey{}, fmt.Errorf("key: %w", err)
	}
	return k, nil
}

// ListKeys implements journal.Keys.
func (s *Store) ListKeys(ctx context.Context) ([]journal.APIKey, error) {
	rows, err := s.pool.Query(ctx, keyColumns+` ORDER BY created_at, id`)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	out, err := collect(rows, scanKey)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	return out, nil
}

// RevokeKey implements journal.Keys.
func (s *Store) RevokeKey(ctx context.Context, key uuid.UUID) error {
	n, err := s.rest.exec(ctx, `DELETE FROM api_keys WHERE id = $1`, id(key))
	if err == nil && n == 0 {
		err = journal.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("revoke key %s: %w", key, err)
	}
	return nil
}
