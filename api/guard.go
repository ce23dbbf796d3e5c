package api

import (
	"maps"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/labstack/echo/v4"
)

// common are the headers of every response. Responses share the slices, so nothing may change them
// in place.
var common = http.Header{
	"X-Content-Type-Options":  {"nosniff"},
	"X-Frame-Options":         {"DENY"},
	"Referrer-Policy":         {"no-referrer"},
	"Content-Security-Policy": {"default-src 'none'; frame-ancestors 'none'"},
	"Cache-Control":           {"no-store"},
}

// guard sets the common headers. While no API key is required it also refuses requests that a web
// page of another site may have sent: such a page must not reach a server on the user's own
// machine, neither directly nor through a name that resolves to it (DNS rebinding).
func (s *server) guard(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		maps.Copy(c.Response().Header(), common)
		if wrong := s.fromElsewhere(c.Request()); wrong != nil && !s.keysRequired(c.Request().Context()) {
			return wrong
		}
		return next(c)
	}
}

// fromElsewhere returns a problem if a web page of another site may have sent the request.
func (s *server) fromElsewhere(r *http.Request) error {
	if !s.ownHost(r.Host) {
		return fail("forbidden_host", "the Host header is %.100q: use a loopback name or an IP address, or create an API key, so that keys are required", r.Host)
	}
	if origin := r.Header.Get("Origin"); origin != "" && !sameHost(origin, r) {
		return fail("forbidden_origin", "the Origin header is %.100q, which is not this server: call it from a program, or from its own page", origin)
	}
	return nil
}

// ownHost reports whether no other site can have this Host header.
func (s *server) ownHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.ToLower(strings.TrimSuffix(strings.Trim(name, "[]"), "."))
	if _, err := netip.ParseAddr(name); err == nil {
		return true
	}
	return name == "localhost" || strings.HasSuffix(name, ".localhost") ||
		slices.ContainsFunc(s.cfg.Hosts, func(h string) bool { return strings.EqualFold(h, name) || strings.EqualFold(h, host) })
}

func sameHost(origin string, r *http.Request) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && strings.EqualFold(u.Host, r.Host)
}
