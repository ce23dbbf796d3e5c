package journal

import "strings"

// Plain reports whether JSON has a text as it is, so that it can be looked for without decoding.
func Plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) })
}
