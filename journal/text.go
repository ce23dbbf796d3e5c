package journal

import "strings"

// SearchText returns s in the form that searches compare: in lower case, with U+FFFD for NUL and
// for invalid UTF-8, which Postgres cannot store. Row.Text has this form; a store searches it for
// the bytes of SearchText(Filter.Text), so that all stores find the same sagas.
func SearchText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(strings.ToLower(s), "\uFFFD"), "\x00", "\uFFFD")
}
