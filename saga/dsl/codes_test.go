package dsl_test

import "regexp"

// codeCall matches where an error code is given: p.fail(n, "code", …) and its kin.
var codeCall = regexp.MustCompile(`(?:\.fail|\.Fail|\.failInside|\.FailInside|\.at|\.refuse|\.stop|refuseByte)\([^"\n]*"([a-z_]+)",`)

var firstQuoted = regexp.MustCompile(`"([a-z_]+)"`)

// quotedFirst is the first quoted name of a message.
func quotedFirst(detail string) string {
	if m := firstQuoted.FindStringSubmatch(detail); m != nil {
		return m[1]
	}
	return ""
}
