package api

import (
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
)

// seqTag returns the ETag of a saga: the seq of its journal.
func seqTag(seq int64) string { return `"` + strconv.FormatInt(seq, 10) + `"` }

// tags splits an If-Match or If-None-Match header. It accepts weak tags and missing quotes.
func tags(header string) []string {
	var list []string
	for t := range strings.SplitSeq(header, ",") {
		t = strings.TrimPrefix(strings.TrimSpace(t), "W/")
		if t = strings.Trim(t, `"`); t != "" {
			list = append(list, t)
		}
	}
	return list
}

// matches reports whether a header names the tag (given without quotes).
func matches(header, tag string) bool {
	for _, t := range tags(header) {
		if t == "*" || t == tag {
			return true
		}
	}
	return false
}

// ifSeq reads the If-Match of a command that requires one; 0 means any.
func ifSeq(c echo.Context) (int64, error) {
	header := c.Request().Header.Get("If-Match")
	if header == "" {
		return 0, fail("precondition_required", "send If-Match with the ETag that you have read, so that the command does not apply to a saga that has changed since; If-Match: * applies it to any")
	}
	list := tags(header)
	if len(list) == 1 && list[0] == "*" {
		return 0, nil
	}
	if len(list) == 1 {
		if seq, err := strconv.ParseInt(list[0], 10, 64); err == nil && seq > 0 {
			return seq, nil
		}
	}
	return 0, fail("changed", "If-Match is not an ETag of this saga: read it again and send its ETag")
}

// ifSeqGiven reads the optional If-Match of other commands; 0 means any.
func ifSeqGiven(c echo.Context) (int64, error) {
	if c.Request().Header.Get("If-Match") == "" {
		return 0, nil
	}
	return ifSeq(c)
}

// preferWait returns the wait that the client prefers (RFC 7240); 0 for none.
func (s *server) preferWait(c echo.Context) time.Duration {
	for _, header := range c.Request().Header.Values("Prefer") {
		for part := range strings.FieldsFuncSeq(header, func(r rune) bool { return r == ',' || r == ';' }) {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			if !strings.EqualFold(strings.TrimSpace(name), "wait") {
				continue
			}
			n, err := strconv.ParseUint(strings.Trim(strings.TrimSpace(value), `"`), 10, 31)
			if err != nil {
				continue // unknown preferences are ignored
			}
			wait := min(time.Duration(n)*time.Second, s.cfg.Limits.Wait)
			if end, ok := c.Request().Context().Deadline(); ok { // leaves time for the response
				wait = min(wait, (time.Until(end) / 2).Truncate(time.Second))
			}
			c.Response().Header().Set("Preference-Applied", "wait="+strconv.Itoa(int(wait/time.Second)))
			return wait
		}
	}
	return 0
}
