package saga

import "strings"

// MatchEvent reports whether an event's type is one that a pattern means: the type itself, or one
// that begins with what stands before a last ".*".
func MatchEvent(pattern, kind string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok && strings.HasSuffix(prefix, ".") {
		return len(kind) > len(prefix) && strings.HasPrefix(kind, prefix)
	}
	return pattern == kind
}
