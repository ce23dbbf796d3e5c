package sqlite

import (
	"database/sql"
	"fmt"
	"strings"
	"time"

	"recourse/journal"
)

// quarantined is journal.Head.Quarantined in SQL.
var quarantined = fmt.Sprintf(`claims >= %d AND status = '%s' AND ended_at IS NULL`, journal.QuarantineAfter, journal.StatusStuck)

// free removes the owners of sagas. Each saga is claimable after the delay that its claims give it,
// or is quarantined if they give it none.
func (t *tx) free(now int64, rest func(claims int) (time.Duration, bool), where string, args ...any) error {
	halted, err := t.halted(now, where, args)
	if err != nil {
		return err
	}
	for _, h := range halted {
		if err := t.quarantine(now, h); err != nil {
			return err
		}
	}
	_, err = t.exec(`UPDATE sagas SET owner = NULL, wake_at = ? + `+cases(rest)+` WHERE `+where, append([]any{now}, args...)...)
	return err
}

// cases returns a delay in milliseconds as a SQL expression; NULL for no delay.
func cases(rest func(claims int) (time.Duration, bool)) string {
	var b strings.Builder
	b.WriteString("CASE claims")
	for claims := 0; ; claims++ {
		d, ok := rest(claims)
		if !ok {
			return b.String() + " END"
		}
		fmt.Fprintf(&b, " WHEN %d THEN %d", claims, d.Milliseconds())
	}
}

// halted returns the live ones among the sagas that have reached the limit of claims.
func (t *tx) halted(now int64, where string, args []any) (out []journal.Halted, err error) {
	err = t.query(`SELECT id, definition, claims, coalesce((SELECT last FROM journal WHERE saga_id = sagas.id ORDER BY seq DESC LIMIT 1), 0) AS last,
			(SELECT at FROM journal WHERE saga_id = sagas.id ORDER BY seq DESC LIMIT 1)
		FROM sagas WHERE claims >= ? AND ended_at IS NULL AND `+where, append([]any{journal.QuarantineAfter}, args...),
		func(scan func(...any) error) error {
			h := journal.Halted{Now: toTime(now)}
			var at sql.NullInt64
			err := scan(idInto{&h.Saga}, &h.Definition, &h.Claims, &h.Seq, &at)
			h.Last = fromMillis(at)
			out = append(out, h)
			return err
		})
	return out, err
}

func (t *tx) quarantine(now int64, h journal.Halted) error {
	e := h.Entry()
	_, err := t.exec(`INSERT INTO inbox (saga_id, id, kind, path, since, data) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (saga_id, id) DO UPDATE SET data = excluded.data`, e.Saga.Bytes(), e.ID.Bytes(), e.Kind, e.Path, e.Since.UnixMilli(), blob(e.Data))
	if err != nil {
		return err
	}
	_, err = t.exec(`UPDATE sagas SET status = ?, updated_at = ? WHERE id = ? AND status <> ?`, journal.StatusStuck, now, e.Saga.Bytes(), journal.StatusStuck)
	return err
}
