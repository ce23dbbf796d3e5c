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

// fenced is an expression that fails, because sqrt does, if the node $1 is not registered. The lock
// that has_lease takes allows others to renew the lease, but not to delete the row before this
// transaction ends. So a takeover waits for this transaction, and an append that begins after the
// takeover, or that waits for it, finds no row.
const fenced = `sqrt((has_lease($1)::int - 1)::float8)`

// fence fails with ErrFenced if the node is not registered.
func fence(node string) stmt {
	return stmt{query: `SELECT ` + fenced, args: []any{node}, fails: map[string]error{codeBadSquareRoot: journal.ErrFenced}}
}

// lockNodes waits for the transactions in flight of nodes, which it keeps from beginning others.
// The nodes may be deleted by the next statement of the transaction: this one's snapshot is too
// old.
const lockNodes = `SELECT pg_advisory_xact_lock(lock) FROM (SELECT DISTINCT node_lock(n) AS lock FROM unnest($1::text[]) n ORDER BY lock) l`

// ownedBy is the condition for the sagas of a node, which is a SQL expression. The index of owners
// has only the end of an owner's name.
func ownedBy(node string) string {
	return `right(owner, 7) = right(` + node + `, 7) AND owner = ` + node
}

// Register implements journal.Log.
func (s *Store) Register(ctx context.Context, node string, ttl time.Duration, dead ...string) (journal.Lease, error) {
	var now int64
	freed := false
	err := s.lease.tx(ctx, func(t session) (err error) {
		// The dead nodes come first, because their transactions may have to be waited for. The
		// lease must begin after that.
		if len(dead) > 0 {
			if _, err = t.Exec(ctx, lockNodes, dead); err != nil {
				return err
			}
			if freed, err = end(ctx, t, `id = ANY($1)`, dead); err != nil {
				return err
			}
		}
		return t.QueryRow(ctx, sql(`INSERT INTO nodes (id, expires_at) VALUES ($1, {now} + $2) RETURNING expires_at - $2`), node, ttl.Milliseconds()).Scan(&now)
	})
	if freed && err == nil {
		s.hint()
	}
	if code(err) == codeUniqueViolation {
		err = fmt.Errorf("node %s is already registered: register under a new id", node)
	}
	if err != nil {
		return journal.Lease{}, fmt.Errorf("register: %w", err)
	}
	lease := journal.Lease{Node: node, Now: toTime(now), TTL: ttl, Timeline: s.lineage.registered(node)}
	s.lineage.released(dead...)
	// The node is registered now, so an error from here on must not mean that nothing was written.
	if err := retry(ctx, func() error { return s.reconcileInstallation(ctx, s.lease, false) }); err != nil {
		return journal.Lease{}, fmt.Errorf("register: %w: %w", journal.ErrUnknown, err)
	}
	return lease, nil
}

// Renew implements journal.Log.
func (s *Store) Renew(ctx context.Context, node string, ttl time.Duration) (journal.Lease, error) {
	if err := retry(ctx, func() error { return s.current(ctx, node) }); err != nil {
		return journal.Lease{}, fmt.Errorf("renew: %w", err)
	}
	var now int64
	var expired bool
	err := s.lease.transact(ctx, []stmt{{
		query: sql(`UPDATE nodes SET expires_at = {now} + $2 WHERE id = $1 RETURNING expires_at - $2`),
		args:  []any{node, ttl.Milliseconds()},
		scan:  func(r pgx.Row) error { return r.Scan(&now) },
	}, {
		query: sql(`SELECT EXISTS (SELECT 1 FROM nodes WHERE expires_at < {now} AND id <> $1)`),
		args:  []any{node},
		scan:  func(r pgx.Row) error { return r.Scan(&expired) },
	}})
	if errors.Is(err, pgx.ErrNoRows) {
		err = journal.ErrFenced
	}
	if err != nil {
		return journal.Lease{}, fmt.Errorf("renew: %w", err)
	}
	lease := journal.Lease{Node: node, Now: toTime(now), TTL: ttl, Timeline: s.lineage.of(node), Rival: s.lineage.rivalServer()}
	if expired {
		if err := s.takeOver(ctx, node); err != nil {
			return lease, fmt.Errorf("take over dead nodes: %w", err)
		}
	}
	return lease, nil
}

// takeOver deletes the other nodes whose lease has ended. A node that has an append in flight is
// left for the next time, because waiting for it could outlast this node's own lease.
func (s *Store) takeOver(ctx context.Context, node string) error {
	freed := false
	err := s.lease.tx(ctx, func(t session) (err error) {
		freed, err = end(ctx, t, sql(`id IN (SELECT id FROM nodes WHERE CASE WHEN expires_at < {now} AND id <> $1 THEN pg_try_advisory_xact_lock(node_lock(id)) ELSE false END
			ORDER BY id FOR UPDATE SKIP LOCKED)`), node)
		return err
	})
	if freed && err == nil {
		s.hint()
	}
	return err
}

// end deletes the nodes that a condition selects, whose locks this transaction has, frees their
// sagas, and reports whether there were any. A separate statement after the delete finds the sagas:
// an append for which the delete had to wait may have created some that an earlier snapshot does
// not show.
func end(ctx context.Context, t session, where string, args ...any) (freed bool, err error) {
	rows, err := t.Query(ctx, `DELETE FROM nodes WHERE `+where+` RETURNING id`, args...)
	if err != nil {
		return false, err
	}
	dead, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(dead) == 0 {
		return false, err
	}
	failpoint.Hit("takeover.fenced")
	return true, free(ctx, t, dead)
}

// Release implements journal.Log.
func (s *Store) Release(ctx context.Context, node string) error {
	err := s.lease.transact(ctx, []stmt{
		{query: lockNodes, args: []any{[]string{node}}},
		{query: `DELETE FROM nodes WHERE id = $1`, args: []any{node}},
		{query: sql(`UPDATE sagas SET owner = NULL, wake_at = {now}, claims = GREATEST(claims - 1, 0) WHERE ` + ownedBy("$1")), args: []any{node}},
	})
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	s.lineage.released(node)
	s.hint()
	return nil
}

// Nodes implements journal.Index.
func (s *Store) Nodes(ctx context.Context) ([]journal.NodeInfo, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, expires_at, (SELECT count(*) FROM sagas WHERE `+ownedBy("nodes.id")+`) FROM nodes ORDER BY id COLLATE "C"`)
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

// orphans does not join with deferred_deletes, because the planner does not know how many sagas a
// row of it has.
const orphans = `SELECT saga_id FROM journal j WHERE NOT EXISTS (SELECT 1 FROM sagas s WHERE s.id = j.saga_id)
	EXCEPT SELECT unnest(sagas) FROM deferred_deletes ORDER BY saga_id LIMIT $1`

// Orphans implements journal.Index.
func (s *Store) Orphans(ctx context.Context, limit int) ([]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, orphans, max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("orphans: %w", err)
	}
	out, err := collect(rows, scanID)
	if err != nil {
		return nil, fmt.Errorf("orphans: %w", err)
	}
	return out, nil
}
