package egress

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"recourse/internal/egress/egresstest"
)

// A name is reached at another address. TLS and the request keep the name, and the guard checks the
// address.
func TestResolve(t *testing.T) {
	url, conf := serveTLS(t, tls.VersionTLS13, func(conn *tls.Conn, _ *heldConn) {
		answering(conn, func() { _, _ = conn.Write([]byte(egresstest.OK)) })
	})
	addr := strings.TrimPrefix(url, "https://")
	_, port, _ := net.SplitHostPort(addr)
	resolve, err := ParseResolve([]string{"example.com:443=" + addr, "other.test:443=" + addr, "meta.test:80=169.254.169.254", "same.test:" + port + "=127.0.0.1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		allow, url, code string
	}{
		{"127.0.0.1", "https://example.com/", ""},
		{"127.0.0.1", "https://EXAMPLE.com./", ""},
		{"example.com", "https://example.com/", ""},
		{"127.0.0.1", "https://other.test/", "tls"}, // the certificate is not this name's
		{"10.0.0.1", "https://example.com/", "egress_denied"},
		{"meta.test", "http://meta.test/", "egress_denied"},
		{"127.0.0.1", "https://example.com:444/", "dns"},
		{"127.0.0.1", "https://same.test:" + port + "/", "tls"},
	} {
		c := newCaller(t, Config{Guard: mustGuard(t, tt.allow), TLS: conf, Resolve: resolve, Resolver: egresstest.FakeDNS(t, func(string) string { return "" })})
		a := c.Call(within(t, 5*time.Second), get(tt.url))
		if a.Code != tt.code || tt.code == "" && !a.ok() {
			t.Errorf("%s, %s allowed: %+v, want %q", tt.url, tt.allow, a, tt.code)
		}
	}
}

func TestParseResolveErrors(t *testing.T) {
	bad := []string{"", "a.example", "a.example=127.0.0.1", "a.example:0=127.0.0.1", "a.example:443", "a.example:443=", "a.example:443=b.example",
		"a.example:443=127.0.0.1:x", "http://a.example:443=127.0.0.1", "10.0.0.1:80=127.0.0.1", "*.example:443=127.0.0.1"}
	for _, entry := range bad {
		if r, err := ParseResolve([]string{"ok.example:443=::1", entry}); !errors.Is(err, ErrResolve) || r != nil {
			t.Errorf("ParseResolve(%q) = %v, %v; want ErrResolve", entry, r, err)
		}
	}
	if _, err := ParseResolve([]string{"a.example:443=::1", "A.example.:443=127.0.0.1"}); err == nil {
		t.Error("the same host twice is taken")
	}
	r, err := ParseResolve([]string{"a.example:443=::1", "b.example:443=[::1]:8443", "c.example:80=[::1]"})
	if err != nil || r.of("A.EXAMPLE:443") != "[::1]:443" || r.of("b.example.:443") != "[::1]:8443" || r.of("c.example:80") != "[::1]:80" || r.of("c.example:81") != "c.example:81" {
		t.Errorf("%v, %v", r, err)
	}
}
