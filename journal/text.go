package journal

import "strings"

// SearchText is a text as searches compare it: in lower case, and without what Postgres cannot
// store, which is NUL and what is not UTF-8. Row.Text is made of it, and stores look for
// SearchText(Filter.Text) in it byte for byte, so that all of them find the same.
func SearchText(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(strings.ToLower(s), "\uFFFD"), "\x00", "\uFFFD")
}
