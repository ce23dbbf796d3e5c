package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/internal/failpoint"
	"recourse/journal"
	"recourse/journal/packed"
)

// Claim implements journal.Log. It chooses and locks the sagas before it sends the COMMIT, so their
// ids are known if the response is lost. The node's next Claim returns those that the node owns by
// then; otherwise it could own sagas without knowing it. It also returns those that nobody owns and
// that are due, because it thereby waits for the lost transaction, which may still be committing.
func (s *Store) Claim(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	return s.claim(ctx, node, claimable, limit)
}

// ClaimLocal implements journal.Local.
func (s *Store) ClaimLocal(ctx context.Context, node string, limit int) ([]journal.Claimed, error) {
	return s.claim(ctx, node, claimableLocal, limit)
}

// claim claims the sagas that a query chooses.
func (s *Store) claim(ctx context.Context, node, query string, limit int) ([]journal.Claimed, error) {
	s.claims.Lock()
	defer s.claims.Unlock()
	if err := s.lineage.fence(node); err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	var out []journal.Claimed
	var chosen []uuid.UUID
	err := retry(ctx, func() error {
		out = nil
		return s.w.writing(ctx, func(conn connection) (err error) {
			defer rollback(ctx, conn)
			chosen, err = s.choose(ctx, conn, node, query, limit)
			if err != nil || len(chosen) == 0 {
				return err
			}
			failpoint.Hit("claim.locked")
			out, err = s.takeOwnership(ctx, conn, node, chosen)
			return err
		})
	})
	if errors.Is(err, journal.ErrUnknown) {
		s.lost[node] = chosen
	}
	if err != nil {
		return nil, fmt.Errorf("claim: %w", err)
	}
	return out, nil
}

var (
	claimable      = claiming("")
	claimableLocal = claiming(` AND local IS NOT NULL`)
	claimableAgain = sql(`SELECT id FROM sagas WHERE id = ANY($1) AND (owner = $2 OR owner IS NULL AND wake_at <= {now}) ORDER BY wake_at, id FOR UPDATE`)
)

// claiming returns a query that chooses sagas; suspects have an index of their own. The rows to
// lock are not chosen in a join, because the planner could change the order and limit of a join.
func claiming(which string) string {
	return sql(`WITH suspect AS (
		SELECT id, wake_at FROM sagas WHERE owner IS NULL AND wake_at <= {now} AND ` + suspected + which + `
		ORDER BY wake_at, id LIMIT LEAST($1::int, 1) FOR UPDATE SKIP LOCKED
	), others AS (
		SELECT id, wake_at FROM sagas WHERE owner IS NULL AND wake_at <= {now} AND ` + unsuspected + which + `
		ORDER BY wake_at, id LIMIT $1::int - (SELECT count(*) FROM suspect) FOR UPDATE SKIP LOCKED
	) SELECT id FROM (SELECT id, wake_at, 0 AS last FROM others UNION ALL SELECT id, wake_at, 1 FROM suspect) c ORDER BY last, wake_at, id`)
}

// choose begins a transaction and locks the sagas to claim, the one that has been due for longest
// first: those of the query, or those that an earlier claim may have taken.
func (s *Store) choose(ctx context.Context, conn connection, node, query string, limit int) (chosen []uuid.UUID, err error) {
	again := s.lost[node]
	f := fence(node)
	b := &pgx.Batch{}
	b.Queue(begin)
	b.Queue(f.query, f.args...)
	if len(again) > 0 {
		b.Queue(claimableAgain, ids(again), node)
	} else {
		b.Queue(query, max(limit, 0))
	}
	br := conn.SendBatch(ctx, b)
	defer func() { err = errors.Join(err, br.Close()) }()
	if _, err := br.Exec(); err != nil {
		return nil, err
	}
	if _, err := br.Exec(); err != nil {
		if meant := f.fails[code(err)]; meant != nil {
			delete(s.lost, node)
			return nil, meant
		}
		return nil, err
	}
	rows, err := br.Query()
	if err != nil {
		return nil, err
	}
	chosen, err = collect(rows, scanID)
	if err == nil && len(chosen) == 0 {
		delete(s.lost, node)
	}
	return chosen, err
}

// takeOwnership makes the node the owner of the chosen sagas and commits.
func (s *Store) takeOwnership(ctx context.Context, conn connection, node string, chosen []uuid.UUID) ([]journal.Claimed, error) {
	at := make(map[uuid.UUID]int, len(chosen))
	out := make([]journal.Claimed, len(chosen))
	for i, u := range chosen {
		at[u], out[i].Saga = i, u
	}
	b := &pgx.Batch{}
	b.Queue(`UPDATE sagas SET owner = $1, claims = claims + (owner IS NULL)::int WHERE id = ANY($2) RETURNING id, definition, version, claims, coalesce(wake_at, 0), pending_messages`, node, ids(chosen)).Query(func(rows pgx.Rows) error {
		var u pgtype.UUID
		var c journal.Claimed
		var due int64
		_, err := pgx.ForEachRow(rows, []any{&u, &c.Definition, &c.Version, &c.Claims, &due, &c.Messages}, func() error {
			c.Saga, c.Due = u.Bytes, toTime(due)
			out[at[u.Bytes]] = c
			return nil
		})
		return err
	})
	var committed string
	b.Queue(`COMMIT`).Exec(func(tag pgconn.CommandTag) error {
		committed = tag.String()
		return nil
	})
	err := conn.SendBatch(ctx, b).Close()
	if lost := failpoint.Err("claim.committed", nil); lost != nil {
		committed, err = "", lost
	}
	if committed == "COMMIT" {
		delete(s.lost, node)
		return out, nil
	}
	if err == nil {
		return nil, errors.New("the transaction was rolled back")
	}
	if err = outcome(err, true); errors.Is(err, journal.ErrUnknown) {
		s.lost[node] = slices.Clone(chosen)
	}
	return nil, err
}

// Records implements journal.Log.
func (s *Store) Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	after, limit = min(max(after, 0), math.MaxInt32), min(max(limit, 0), math.MaxInt32)
	rows, err := s.pool.Query(ctx, recordsQuery, id(saga), after, after+int64(limit))
	if err != nil {
		return nil, fmt.Errorf("records of %s: %w", saga, err)
	}
	found, err := collectRows(rows, math.MaxInt)
	var out []journal.Record
	if err == nil {
		out, err = packed.Records(saga, found.Of(saga), after, limit, s.find(ctx))
	}
	if err == nil && len(out) == 0 {
		err = s.exists(ctx, saga)
	}
	if err != nil {
		return nil, fmt.Errorf("records of %s: %w", saga, err)
	}
	return out, nil
}

// recordsQuery finds no records of a deleted saga, whose rows may be left: see Reclaim.
var recordsQuery = `SELECT ` + rowColumns + ` FROM journal j WHERE ` + rowsFrom(`$1`, `$2::bigint`, ``) + ` AND j.seq <= $3::bigint AND EXISTS (SELECT 1 FROM sagas WHERE id = $1) ORDER BY j.seq`

// Begins implements journal.Log.
func (s *Store) Begins(ctx context.Context, sagas []uuid.UUID, limit, bytes int) (map[uuid.UUID][]journal.Record, error) {
	limit = min(max(limit, 0), math.MaxInt32)
	rows, err := s.pool.Query(ctx, `SELECT `+rowColumns+` FROM journal WHERE saga_id = ANY($1) AND seq <= $2 AND EXISTS (SELECT 1 FROM sagas s WHERE s.id = journal.saga_id) ORDER BY saga_id, seq`, ids(sagas), limit)
	if err != nil {
		return nil, fmt.Errorf("begins: %w", err)
	}
	out := make(map[uuid.UUID][]journal.Record, len(sagas))
	found, err := collectRows(rows, bytes)
	if err == nil {
		_, err = found.Begins(out, limit, bytes, s.find(ctx))
	}
	if err != nil {
		return nil, fmt.Errorf("begins: %w", err)
	}
	return out, nil
}

func (s *Store) exists(ctx context.Context, saga uuid.UUID) error {
	var there bool
	err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM sagas WHERE id = $1)`, id(saga)).Scan(&there)
	if err == nil && !there {
		return journal.ErrNotFound
	}
	return err
}

// Send implements journal.Log. It locks the saga's row first. So a release of the saga either waits
// for the message, or has committed and is seen here. For one message this costs less than the
// statement that appends use.
func (s *Store) Send(ctx context.Context, m journal.Message) error {
	err := s.rest.patiently(ctx, []stmt{{
		query: `SELECT 1 FROM sagas WHERE id = $1 FOR UPDATE`, args: []any{id(m.Saga)},
		scan: func(r pgx.Row) error {
			var one int
			return r.Scan(&one)
		},
	}, {
		query: sql(`WITH inserted AS (
				INSERT INTO messages (saga_id, id, kind, data) SELECT id, $2, $3, $4 FROM sagas WHERE id = $1 ON CONFLICT DO NOTHING RETURNING 1
			) UPDATE sagas SET pending_messages = pending_messages + 1, wake_at = CASE WHEN owner IS NULL THEN LEAST({now}, wake_at) ELSE wake_at END
			WHERE id = $1 AND EXISTS (SELECT 1 FROM inserted)`),
		args: []any{id(m.Saga), id(m.ID), m.Kind, []byte(m.Data)},
	}})
	if errors.Is(err, pgx.ErrNoRows) {
		err = journal.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("send to %s: %w", m.Saga, err)
	}
	s.notify(ctx, s.rest)
	return nil
}

var owned = `SELECT id FROM (SELECT id FROM sagas WHERE ` + ownedBy("$1") + ` OFFSET 0) s WHERE id > $2 ORDER BY id LIMIT $3`

// Owned implements journal.Log.
func (s *Store) Owned(ctx context.Context, node string, after uuid.UUID, limit int) ([]uuid.UUID, error) {
	rows, err := s.pool.Query(ctx, owned, node, id(after), max(limit, 0))
	if err != nil {
		return nil, fmt.Errorf("owned: %w", err)
	}
	out, err := collect(rows, scanID)
	if err != nil {
		return nil, fmt.Errorf("owned: %w", err)
	}
	return out, nil
}

// scanID scans a row that has only an id.
func scanID(r pgx.CollectableRow) (uuid.UUID, error) {
	var u pgtype.UUID
	err := r.Scan(&u)
	return u.Bytes, err
}
