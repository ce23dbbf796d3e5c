package retry

import (
	"strings"
	"time"
)

// MaxRetryAfter limits the wait that a remote service can ask for. A longer wait would be an outage
// of the service, not a rate limit.
const MaxRetryAfter = 24 * time.Hour

// After parses a Retry-After header (RFC 9110, section 10.2.3): seconds or an HTTP date. It returns
// 0 for a missing or invalid header or a time in the past, and never more than MaxRetryAfter. The
// number is limited before it is multiplied, because 9223372037 s overflows a Duration and would
// mean "at once".
func After(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header == "" {
		return 0
	}
	if strings.Trim(header, "0123456789") == "" {
		return seconds(header)
	}
	for _, layout := range []string{"Mon, 02 Jan 2006 15:04:05 GMT", time.RFC850, time.ANSIC} {
		if at, err := time.Parse(layout, header); err == nil {
			return min(max(at.Sub(now), 0), MaxRetryAfter)
		}
	}
	return 0
}

func seconds(digits string) time.Duration {
	digits = strings.TrimLeft(digits, "0")
	if len(digits) > 6 {
		return MaxRetryAfter
	}
	n := 0
	for _, d := range digits {
		n = n*10 + int(d-'0')
	}
	return min(time.Duration(n)*time.Second, MaxRetryAfter)
}
