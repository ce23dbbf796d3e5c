package postgres

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

// millis returns a time as it is stored: in milliseconds, or NULL for the zero time.
func millis(t time.Time) *int64 {
	if t.IsZero() {
		return nil
	}
	ms := t.UnixMilli()
	return &ms
}

func toTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func fromMillis(ms *int64) time.Time {
	if ms == nil {
		return time.Time{}
	}
	return toTime(*ms)
}

func id(u uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: u, Valid: true} }

// byID compares ids as the database does.
func byID(a, b pgtype.UUID) int { return bytes.Compare(a.Bytes[:], b.Bytes[:]) }

// optionalID returns u, or NULL for the nil UUID.
func optionalID(u uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: u, Valid: !u.IsNil()} }

func ids(us []uuid.UUID) []pgtype.UUID {
	out := make([]pgtype.UUID, len(us))
	for i, u := range us {
		out[i] = id(u)
	}
	return out
}

// clean replaces characters that PostgreSQL's text cannot store. It is for derived values and for
// names to look up, which may come from a client's input. Hashed data stays as it is.
func clean(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func labels(m map[string]string) (string, error) {
	if len(m) == 0 {
		return "{}", nil
	}
	cleaned := make(map[string]string, len(m))
	for k, v := range m {
		cleaned[clean(k)] = clean(v)
	}
	b, err := journal.Encode(cleaned)
	return string(b), err
}

func fromLabels(b []byte) (map[string]string, error) {
	var m map[string]string
	if err := json.Unmarshal(b, &m); err != nil || len(m) == 0 {
		return nil, err
	}
	return m, nil
}

// limited returns limit, or NULL, which is no limit, if limit is 0 or less.
func limited(limit int) *int {
	if limit <= 0 {
		return nil
	}
	return &limit
}

// collect reads all rows; it returns nil if there are none.
func collect[T any](rows pgx.Rows, each func(pgx.CollectableRow) (T, error)) ([]T, error) {
	var none []T
	out, err := pgx.AppendRows(none, rows, each)
	return out, err
}
