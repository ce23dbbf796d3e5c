package egress

import (
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// ParseURL parses an absolute http or https URL that can be sent. Its failures do not contain the
// URL.
func ParseURL(text string) (*url.URL, *Failure) {
	u, err := url.Parse(text)
	if err != nil || strings.ContainsAny(text, " \t\r\n\x00") {
		return nil, &Failure{Code: CodeURLInvalid, Why: "the URL cannot be read"}
	}
	if f := CheckURL(u); f != nil {
		return nil, f
	}
	return u, nil
}

// CheckURL returns why a request cannot be sent to a URL, or nil.
func CheckURL(u *url.URL) *Failure {
	invalid := func(why string) *Failure { return &Failure{Code: CodeURLInvalid, Why: why} }
	host := u.Hostname()
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return invalid("the URL must begin with http:// or https://")
	case u.Opaque != "" || host == "":
		return invalid("the URL has no host")
	case u.Path != "" && u.Path[0] != '/':
		return invalid("the URL's path must begin with /")
	case u.User != nil:
		return invalid("the URL must not hold a user or password; use auth with a secret")
	}
	if p := u.Port(); p != "" || strings.HasSuffix(u.Host, ":") {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return invalid("the URL's port must be from 1 to 65535")
		}
	}
	if _, err := netip.ParseAddr(host); err != nil && endsInNumber(host) {
		return invalid("write an IPv4 address as four decimal numbers")
	}
	return nil
}

// SameOrigin reports whether two URLs have the same scheme, host and port as written.
func SameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && hostName(a.Host) == hostName(b.Host)
}
