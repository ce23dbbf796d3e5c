package api

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
)

// Limits of lists.
const (
	defaultLimit = 50
	maxLimit     = 200
)

// query is a request's query parameters.
type query struct {
	url.Values
	wrong []saga.Finding
}

// readQuery returns a problem for parameters that are not in names, and for repeated ones. A name
// that ends in "." allows every parameter with that prefix; a parameter whose name follows "*" may
// repeat.
func readQuery(c echo.Context, names ...string) (*query, error) {
	values, err := url.ParseQuery(c.Request().URL.RawQuery)
	if err != nil {
		return nil, fail("invalid_request", "the query string is invalid: percent-encode its values")
	}
	q := &query{Values: values}
	var plain []string
	for _, n := range names {
		plain = append(plain, strings.TrimPrefix(n, "*"))
	}
	given := make([]string, 0, len(values))
	for name := range values {
		given = append(given, name)
	}
	slices.Sort(given)
	for _, name := range given {
		known := slices.ContainsFunc(plain, func(n string) bool { return n == name || strings.HasSuffix(n, ".") && strings.HasPrefix(name, n) })
		switch {
		case !known:
			hint := dsl.Suggest(name, plain)
			if hint == "" && len(plain) > 0 {
				hint = "; there are " + strings.Join(plain, ", ")
			}
			q.bad(name, "unknown_parameter", "there is no parameter %.60q here%s", name, hint)
		case len(values[name]) > 1 && !slices.Contains(names, "*"+name):
			q.bad(name, "repeated_parameter", "%.60s is given twice: give it once", name)
		case !utf8.ValidString(values.Get(name)) || strings.ContainsRune(values.Get(name), 0):
			q.bad(name, "not_utf8", "%.60s is not text in UTF-8", name)
		}
	}
	return q, q.err()
}

// bad records an error of a parameter.
func (q *query) bad(name, code, detail string, args ...any) {
	q.wrong = append(q.wrong, saga.Finding{Pointer: "?" + name, Code: code, Detail: fmt.Sprintf(detail, args...)})
}

func (q *query) err() error {
	if len(q.wrong) == 0 {
		return nil
	}
	return invalid(q.wrong...)
}

// number returns a parameter between low and high; def if it is absent.
func (q *query) number(name string, def, low, high int64) int64 {
	if !q.Has(name) {
		return def
	}
	n, err := strconv.ParseInt(q.Get(name), 10, 64)
	if err != nil || n < low || n > high {
		q.bad(name, "bad_number", "%s is a whole number from %d to %d", name, low, high)
		return def
	}
	return n
}

// within reads a duration up to a bound; 0 if it is absent.
func (q *query) within(name string, most time.Duration) time.Duration {
	text := q.Get(name)
	if text == "" {
		return 0
	}
	d, err := dsl.ParseDuration(text)
	if err != nil || d > most {
		q.bad(name, "bad_duration", "%s is a duration such as 30s, at most %v", name, most)
		return 0
	}
	return d
}

func (q *query) limit() int { return int(q.number("limit", defaultLimit, 1, maxLimit)) }

// cursor returns the parts of a cursor that pack made with this tag; nil without a cursor.
func (q *query) cursor(tag string, parts int) []string {
	if !q.Has("cursor") {
		return nil
	}
	fields, ok := unpack(q.Get("cursor"), tag, parts)
	if !ok {
		q.bad("cursor", "bad_cursor", "this cursor is not from this list: send next_cursor unchanged, or omit it to start from the beginning")
	}
	return fields
}

// saga returns the saga whose items are listed; nil: all sagas.
func (q *query) saga() (id uuid.UUID) {
	if !q.Has("saga") {
		return id
	}
	id, err := uuid.FromString(q.Get("saga"))
	if err != nil {
		q.bad("saga", "bad_id", "saga is a saga's id, or its first %d characters or more", leastName)
	} else if cell := journal.IDCell(id); cell != 0 {
		q.bad("saga", "unknown_cell", "the id is of cell %d, which this server does not serve", cell)
	}
	return id
}

// place reads the cursor of a list in the order of time and id; zero without a cursor.
func (q *query) place(tag string) (since time.Time, id uuid.UUID) {
	parts := q.cursor(tag, 2)
	if parts == nil {
		return since, id
	}
	ms, err := strconv.ParseInt(parts[0], 10, 64)
	id, err2 := uuid.FromString(parts[1])
	if err != nil || err2 != nil {
		q.bad("cursor", "bad_cursor", "send next_cursor unchanged")
	}
	return time.UnixMilli(ms).UTC(), id
}

// pack makes a cursor.
func pack(tag string, parts ...string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(tag + "\n" + strings.Join(parts, "\n")))
}

// unpack returns the parts of a cursor that pack has made; ok is false if it is of another list.
func unpack(cursor, tag string, parts int) (fields []string, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	fields = strings.Split(string(b), "\n")
	if err != nil || len(fields) != parts+1 || fields[0] != tag {
		return nil, false
	}
	return fields[1:], true
}

// page is the response of a list.
type page[T any] struct {
	Data []T    `json:"data"`
	Next string `json:"next_cursor,omitempty"`
}

// cut returns a page of a list that was read with a limit one higher than the page's.
func cut[T any](list []T, limit int, next func(last T) string) page[T] {
	p := page[T]{Data: list}
	if p.Data == nil {
		p.Data = []T{}
	}
	if len(list) > limit {
		p.Data = list[:limit]
		p.Next = next(list[limit-1])
	}
	return p
}

// param returns a decoded parameter of the path.
func param(c echo.Context, name string) string {
	v := c.Param(name)
	if c.Request().URL.RawPath == "" {
		return v // net/http has decoded it
	}
	if decoded, err := url.PathUnescape(v); err == nil {
		return decoded
	}
	return v
}
