package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"recourse/internal/failpoint"
	"recourse/journal"
)

// leases counts the node's: 1, or 0. The lock lets the lease be renewed meanwhile, but the row not be deleted before this
// transaction ends: a taker waits for it, and an append that comes after the taker finds no row.
const leases = `SELECT count(*) FROM (SELECT 1 FROM nodes WHERE id = $1 FOR KEY SHARE) n`

// fence fails with ErrFenced if the node's row is gone.
func fence(node string) stmt {
	return stmt{query: `SELECT sqrt((` + leases + `) - 1::float8)`, args: []any{node}, fails: map[string]error{codeBadSquareRoot: journal.ErrFenced}}
}

// Register implements journal.Log.
func (s *Store) Register(ctx context.Context, node string, ttl time.Duration) (journal.Lease, error) {
	var now int64
	err := s.transact(ctx, []stmt{{
		query: sql(`INSERT INTO nodes (id, expires_at) VALUES ($1, {now} + $2) RETURNING expires_at - $2`),
		args:  []any{node, ttl.Milliseconds()},
		scan:  func(r pgx.Row) error { return r.Scan(&now) },
	}})
	if code(err) == codeUniqueViolation {
		err = fmt.Errorf("node %s is registered already: register under a fresh id", node)
	}
	if err != nil {
		return journal.Lease{}, fmt.Errorf("register: %w", err)
	}
	return journal.Lease{Node: node, Now: toTime(now), TTL: ttl}, nil
}

// Renew implements journal.Log.
func (s *Store) Renew(ctx context.Context, node string, ttl time.Duration) (journal.Lease, error) {
	var now int64
	var expired bool
	err := s.transact(ctx, []stmt{{
		query: sql(`UPDATE nodes SET expires_at = {now} + $2 WHERE id = $1 RETURNING expires_at - $2`),
		args:  []any{node, ttl.Milliseconds()},
		scan:  func(r pgx.Row) error { return r.Scan(&now) },
	}, {
		query: sql(`SELECT EXISTS (SELECT 1 FROM nodes WHERE expires_at < {now})`),
		scan:  func(r pgx.Row) error { return r.Scan(&expired) },
	}})
	if errors.Is(err, pgx.ErrNoRows) {
		err = journal.ErrFenced
	}
	if err != nil {
		return journal.Lease{}, fmt.Errorf("renew: %w", err)
	}
	lease := journal.Lease{Node: node, Now: toTime(now), TTL: ttl}
	if expired {
		if err := s.takeOver(ctx); err != nil {
			return lease, fmt.Errorf("take over dead nodes: %w", err)
		}
	}
	return lease, nil
}

// takeOver deletes the nodes whose lease has ended and frees their sagas. A node that is just
// appending is left for the next time, rather than waited for with our own lease running. The sagas are looked
// for by a statement of their own, after the delete: an append that the delete did not have to wait
// for any more may have made some that an earlier snapshot does not show.
func (s *Store) takeOver(ctx context.Context) error {
	freed := false
	err := s.tx(ctx, func(t pgx.Tx) error {
		rows, err := t.Query(ctx, sql(`DELETE FROM nodes WHERE id IN
			(SELECT id FROM nodes WHERE expires_at < {now} ORDER BY id FOR UPDATE SKIP LOCKED) RETURNING id`))
		if err != nil {
			return err
		}
		dead, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(dead) == 0 {
			return err
		}
		freed = true
		failpoint.Hit("takeover.fenced")
		return free(ctx, t, dead)
	})
	if freed && err == nil {
		s.hint()
	}
	return err
}

// Release implements journal.Log.
func (s *Store) Release(ctx context.Context, node string) error {
	err := s.transact(ctx, []stmt{
		{query: `DELETE FROM nodes WHERE id = $1`, args: []any{node}},
		{query: sql(`UPDATE sagas SET owner = NULL, wake_at = {now}, claims = GREATEST(claims - 1, 0) WHERE owner = $1`), args: []any{node}},
	})
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	s.hint()
	return nil
}

// Nodes implements journal.Index.
func (s *Store) Nodes(ctx context.Context) ([]journal.NodeInfo, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, expires_at, (SELECT count(*) FROM sagas WHERE owner = nodes.id) FROM nodes ORDER BY id COLLATE "C"`)
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	out, err := collect(rows, func(r pgx.CollectableRow) (journal.NodeInfo, error) {
		var n journal.NodeInfo
		var at int64
		err := r.Scan(&n.Node, &at, &n.Sagas)
		n.ExpiresAt = toTime(at)
		return n, err
	})
	if err != nil {
		return nil, fmt.Errorf("nodes: %w", err)
	}
	return out, nil
}

// Orphans implements journal.Index.
func (s *Store) Orphans(ctx context.Context, limit int) ([]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, `SELECT DISTINCT saga_id FROM journal j WHERE NOT EXISTS (SELECT 1 FROM sagas s WHERE s.id = j.saga_id) ORDER BY saga_id LIMIT $1`, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("orphans: %w", err)
	}
	out, err := collect(rows, scanID)
	if err != nil {
		return nil, fmt.Errorf("orphans: %w", err)
	}
	return out, nil
}
