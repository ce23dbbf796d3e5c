package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// millis returns a time as it is stored: in milliseconds, or NULL for the zero time.
func millis(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMilli()
}

func toTime(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

func fromMillis(ms sql.NullInt64) time.Time {
	if !ms.Valid {
		return time.Time{}
	}
	return toTime(ms.Int64)
}

// id returns a UUID as it is stored: sixteen bytes, or NULL for the nil UUID.
func id(u uuid.UUID) any {
	if u.IsNil() {
		return nil
	}
	return u.Bytes()
}

// idInto scans a value that id stored.
type idInto struct{ u *uuid.UUID }

func (i idInto) Scan(v any) error {
	switch b := v.(type) {
	case nil:
		*i.u = uuid.Nil
		return nil
	case []byte:
		u, err := uuid.FromBytes(b)
		*i.u = u
		return err
	}
	return fmt.Errorf("id: unexpected %T", v)
}

// text returns s, or NULL for "".
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// flag returns 1, or NULL for false.
func flag(b bool) any {
	if !b {
		return nil
	}
	return 1
}

// blob returns b, or NULL for nil. An empty b stays empty.
func blob(b []byte) any {
	if b == nil {
		return nil
	}
	return b
}

func labels(m map[string]string) (string, error) {
	if len(m) == 0 {
		return "{}", nil
	}
	b, err := journal.Encode(m)
	return string(b), err
}

func fromLabels(s string) (map[string]string, error) {
	if s == "{}" {
		return nil, nil
	}
	var m map[string]string
	err := json.Unmarshal([]byte(s), &m)
	return m, err
}
