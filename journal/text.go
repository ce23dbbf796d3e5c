package journal

import (
	"strings"

	"github.com/gofrs/uuid/v5"
)

// Plain reports whether JSON has a text as it is, so that it can be looked for without decoding.
func Plain(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`"\<>&`, r) })
}

// IDRange returns the first and the last id that begin with a text; ok is false if none can.
func IDRange(text string) (lo, hi uuid.UUID, ok bool) {
	const least, most = "00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"
	if len(text) > len(least) {
		return lo, hi, false
	}
	lo, err := uuid.FromString(text + least[len(text):])
	if err != nil {
		return lo, hi, false
	}
	hi, err = uuid.FromString(text + most[len(text):])
	return lo, hi, err == nil
}
