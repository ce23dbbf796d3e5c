package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

var (
	suspected   = fmt.Sprintf(`claims >= %d`, journal.SuspectAfter)
	unsuspected = fmt.Sprintf(`claims < %d`, journal.SuspectAfter)
	// quarantined is journal.Head.Quarantined in SQL.
	quarantined = fmt.Sprintf(`claims >= %d AND status = '%s' AND ended_at IS NULL`, journal.QuarantineAfter, journal.StatusStuck)
	// halting selects each saga s that has reached the limit of claims.
	halting = fmt.Sprintf(`s.claims >= %d AND s.ended_at IS NULL`, journal.QuarantineAfter)
)

// cases returns the delay of a saga s in milliseconds as a SQL expression; NULL for no delay.
func cases(rest func(claims int) (time.Duration, bool)) string {
	var b strings.Builder
	b.WriteString("CASE s.claims")
	for claims := 0; ; claims++ {
		d, ok := rest(claims)
		if !ok {
			return b.String() + " END"
		}
		fmt.Fprintf(&b, " WHEN %d THEN %d", claims, d.Milliseconds())
	}
}

// haltedIn returns the sagas of a batch that the batch quarantines. It reads them before the
// transaction, because only the node's own appends change the claims of its sagas.
func (s *Store) haltedIn(ctx context.Context, node string, batch []part) ([]journal.Halted, error) {
	var saga []pgtype.UUID
	for i := range batch {
		if a := &batch[i]; a.Release && a.Start == nil && a.Row == nil && len(a.Records) == 0 {
			saga = append(saga, id(a.Saga))
		}
	}
	if len(saga) == 0 {
		return nil, nil
	}
	var found []journal.Halted
	err := retry(ctx, func() (err error) {
		found, err = halted(ctx, s.w.session, `s.id = ANY($1) AND s.owner = $2`, saga, node)
		return err
	})
	return found, err
}

func halted(ctx context.Context, q session, where string, args ...any) ([]journal.Halted, error) {
	rows, err := q.Query(ctx, sql(`SELECT s.id, s.definition, s.claims, coalesce(j.last, 0), j.at, {now} FROM sagas s
		CROSS JOIN LATERAL journal_end(s.id) j
		WHERE `+halting+` AND `+where), args...)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(r pgx.CollectableRow) (journal.Halted, error) {
		var h journal.Halted
		var u pgtype.UUID
		var last *int64
		var now int64
		err := r.Scan(&u, &h.Definition, &h.Claims, &h.Seq, &last, &now)
		h.Saga, h.Last, h.Now = u.Bytes, fromMillis(last), toTime(now)
		return h, err
	})
}

// quarantine adds sagas to the inbox. An entry that exists keeps its since.
func quarantine(sagas []journal.Halted) stmt {
	var (
		saga, entry []pgtype.UUID
		since       []int64
		data        [][]byte
	)
	for _, h := range sagas {
		e := h.Entry()
		saga, entry = append(saga, id(e.Saga)), append(entry, id(e.ID))
		since, data = append(since, e.Since.UnixMilli()), append(data, e.Data)
	}
	return stmt{query: `INSERT INTO inbox (saga_id, id, kind, path, since, data)
		SELECT saga, entry, $5, '', since, data FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::bytea[]) AS a (saga, entry, since, data)
		ON CONFLICT (saga_id, id) DO UPDATE SET data = excluded.data`, args: []any{saga, entry, since, data, journal.KindStuck}}
}

// ownedByAny is the condition for the sagas s of some nodes. See ownedBy.
const ownedByAny = `right(s.owner, 7) = ANY(ARRAY(SELECT right(n, 7) FROM unnest($1::text[]) n)) AND s.owner = ANY($1)`

// free removes dead nodes as the owners of their sagas.
func free(ctx context.Context, t session, dead []string) error {
	sagas, err := halted(ctx, t, ownedByAny, dead)
	if err != nil {
		return err
	}
	if len(sagas) > 0 {
		st := quarantine(sagas)
		if _, err := t.Exec(ctx, st.query, st.args...); err != nil {
			return err
		}
	}
	_, err = t.Exec(ctx, sql(`UPDATE sagas s SET owner = NULL, wake_at = {now} + `+cases(journal.TakeoverDelay)+`,
		status = CASE WHEN `+halting+` THEN $2 ELSE status END,
		updated_at = CASE WHEN `+halting+` AND status <> $2 THEN {now} ELSE updated_at END
		WHERE `+ownedByAny), dead, journal.StatusStuck)
	return err
}
