package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"recourse/internal/egress/egresstest"
)

func TestGuardCheck(t *testing.T) {
	const allowed, denied, always = "allowed", "denied", "always denied"
	wide := []string{"0.0.0.0/0", "::/0", "named.test"}
	tests := []struct {
		addr                 string
		bare, withEverything string
	}{
		{"93.184.215.14", allowed, allowed},
		{"172.15.255.255", allowed, allowed},
		{"172.32.0.0", allowed, allowed},
		{"100.63.255.255", allowed, allowed},
		{"100.128.0.0", allowed, allowed},
		{"2606:4700::1111", allowed, allowed},
		{"::ffff:93.184.215.14", allowed, allowed},
		{"64:ff9b::5db8:d70e", allowed, allowed},
		{"2002:5db8:d70e::1", allowed, allowed},

		{"127.0.0.1", denied, allowed},
		{"127.255.255.254", denied, allowed},
		{"0.0.0.0", denied, allowed},
		{"0.1.2.3", denied, allowed},
		{"10.0.0.1", denied, allowed},
		{"172.16.0.1", denied, allowed},
		{"172.31.255.255", denied, allowed},
		{"192.168.1.1", denied, allowed},
		{"100.64.0.1", denied, allowed},
		{"198.18.0.1", denied, allowed},
		{"224.0.0.1", denied, allowed},
		{"255.255.255.255", denied, allowed},
		{"::1", denied, allowed},
		{"::", denied, allowed},
		{"fc00::1", denied, allowed},
		{"fd12:3456::1", denied, allowed},
		{"fd12:3456::1%eth0", denied, allowed},
		{"fec0::1", denied, allowed},
		{"ff02::1", denied, allowed},
		{"2001:db8::1", denied, allowed},
		{"2001::1", denied, allowed},
		{"64:ff9b:1::a00:1", denied, allowed},
		{"::ffff:127.0.0.1", denied, allowed},
		{"::ffff:10.0.0.1", denied, allowed},
		{"::127.0.0.1", denied, allowed},
		{"64:ff9b::7f00:1", denied, allowed},
		{"64:ff9b::a00:1", denied, allowed},
		{"2002:7f00:1::", denied, allowed},
		{"2002:c0a8:101::1", denied, allowed},

		{"169.254.169.254", always, always},
		{"169.254.0.1", always, always},
		{"::ffff:169.254.169.254", always, always},
		{"::169.254.169.254", always, always},
		{"64:ff9b::a9fe:a9fe", always, always},
		{"2002:a9fe:a9fe::", always, always},
		{"fe80::1", always, always},
		{"fe80::1%eth0", always, always},
		{"febf::1", always, always},
		{"fd00:ec2::254", always, always},
		{"fd20:ce::254", always, always},
		{"100.100.100.200", always, always},
		{"168.63.129.16", always, always},
		{"192.0.0.192", always, always},
	}
	verdict := func(err error) string {
		d, is := errors.AsType[*Denied](err)
		switch {
		case err == nil:
			return allowed
		case is && d.Always:
			return always
		}
		return denied
	}
	none, all, byName := mustGuard(t), mustGuard(t, wide[:2]...), mustGuard(t, wide[2])
	for _, tt := range tests {
		dialled := netip.AddrPortFrom(netip.MustParseAddr(tt.addr), 443)
		for name, c := range map[string]struct{ got, want string }{
			"no list":       {verdict(none.Check("named.test:443", dialled)), tt.bare},
			"everything":    {verdict(all.Check("other.test:443", dialled)), tt.withEverything},
			"by host name":  {verdict(byName.Check("Named.Test.:443", dialled)), tt.withEverything},
			"another name":  {verdict(byName.Check("xnamed.test:443", dialled)), tt.bare},
			"the dial hook": {verdict(none.Control("named.test:443")(t.Context(), "tcp", dialled.String(), nil)), tt.bare},
		} {
			if c.got != c.want {
				t.Errorf("%s, %s: %s, want %s", tt.addr, name, c.got, c.want)
			}
		}
	}
}

func TestGuardNames(t *testing.T) {
	g := mustGuard(t, "db.internal:5432", "127.0.0.1:8080", "[::1]:8080", "10.1.0.0/16", "fd00::1", "LOCALHOST", " spaced.internal ", "::ffff:10.9.9.9")
	tests := []struct {
		asked, dialled string
		want           bool
	}{
		{"db.internal:5432", "10.0.0.9:5432", true},
		{"db.internal:80", "10.0.0.9:80", false},
		{"a.test:8080", "127.0.0.1:8080", true},
		{"a.test:8081", "127.0.0.1:8081", false},
		{"a.test:8080", "[::1]:8080", true},
		{"a.test:8080", "[::ffff:127.0.0.1]:8080", true},
		{"a.test:1", "10.1.255.255:1", true},
		{"a.test:1", "10.2.0.0:1", false},
		{"a.test:1", "[64:ff9b::a01:1]:1", true},
		{"a.test:1", "[fd00::1]:1", true},
		{"a.test:1", "[fd00::2]:1", false},
		{"localhost:9", "127.0.0.1:9", true},
		{"evil.localhost:9", "127.0.0.1:9", false},
		{"spaced.internal:9", "192.168.0.1:9", true},
		{"a.test:9", "10.9.9.9:9", true},
		{"unreadable", "10.0.0.9:5432", false},
	}
	for _, tt := range tests {
		err := g.Check(tt.asked, netip.MustParseAddrPort(tt.dialled))
		if (err == nil) != tt.want {
			t.Errorf("Check(%q, %s) = %v, want allowed: %v", tt.asked, tt.dialled, err, tt.want)
		}
		if err != nil && !strings.Contains(err.Error(), "--egress-allow "+netip.MustParseAddrPort(tt.dialled).Addr().String()) {
			t.Errorf("the error does not say what to do: %v", err)
		}
	}
}

func TestGuardControlRefusesWhatItCannotRead(t *testing.T) {
	control := mustGuard(t, "0.0.0.0/0").Control("a.test:1")
	for network, address := range map[string]string{"tcp4": "not an address", "unix": "/run/docker.sock", "udp": "8.8.8.8:53"} {
		if err := control(t.Context(), network, address, nil); err == nil {
			t.Errorf("%s %s is allowed", network, address)
		}
	}
}

func TestNewGuardErrors(t *testing.T) {
	bad := []string{"", "http://a.example", "a.example/x", "*.example", "a b", "10.0.0.0/33", "a.example:0", "a.example:http", "::1:8080x", "2130706433",
		"0x7f.1", "127.1", "bücher.example", "169.254.169.254", "169.254.0.0/16", "fe80::1", "fd00:ec2::254", "100.100.100.200:80", "::ffff:10.0.0.0/104"}
	for _, entry := range bad {
		if g, err := NewGuard([]string{"10.0.0.0/8", entry}); !errors.Is(err, ErrAllow) || g != nil {
			t.Errorf("NewGuard(%q) = %v, %v; want ErrAllow", entry, g, err)
		}
	}
	_, err := NewGuard(bad)
	if n := strings.Count(err.Error(), ErrAllow.Error()); n != len(bad) {
		t.Errorf("%d errors reported at once, want %d", n, len(bad))
	}
}

// No spelling of a loopback address is reached.
func TestGuardStopsEverySpelling(t *testing.T) {
	c := newCaller(t, Config{Guard: mustGuard(t), Resolver: egresstest.FakeDNS(t, func(string) string { return "127.0.0.1" })})
	s := egresstest.Serve(t, egresstest.Say(egresstest.OK))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	for host, code := range map[string]string{
		"127.0.0.1": "egress_denied", "localhost": "egress_denied", "LOCALHOST.": "egress_denied", "[::1]": "egress_denied",
		"[::ffff:127.0.0.1]": "egress_denied", "[::ffff:7f00:1]": "egress_denied", "[0:0:0:0:0:0:0:1]": "egress_denied", "0.0.0.0": "egress_denied",
		"[::]": "egress_denied", "[::1%25lo]": "egress_denied", "innocent.test": "egress_denied", "127.0.0.1.nip.test": "egress_denied",
		"2130706433": CodeURLInvalid, "0x7f000001": CodeURLInvalid, "017700000001": CodeURLInvalid, "0177.0.0.1": CodeURLInvalid,
		"127.0.0.01": CodeURLInvalid, "127.1": CodeURLInvalid, "①②⑦.0.0.1": CodeURLInvalid, "①②⑦。⓪。⓪。①": "egress_denied",
	} {
		a := c.Call(t.Context(), get("http://"+host+":"+port+"/"))
		if got, want := a, (outcome{Code: code}); !got.is(want) {
			t.Errorf("%s: %+v (%s), want %+v", host, got, a.why, want)
		}
	}
	if n := len(s.Requests()); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

func TestGuardAgainstRebinding(t *testing.T) {
	var lookups atomic.Int32
	resolver := egresstest.FakeDNS(t, func(name string) string {
		switch {
		case name == "meta.test":
			return "169.254.169.254"
		case name == "inside.test", lookups.Add(1) <= 2: // A and AAAA of the first dial
			return "127.0.0.1"
		}
		return "127.0.0.2"
	})
	s := egresstest.Serve(t, egresstest.SayAndClose("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"))
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))

	c := newCaller(t, Config{Guard: mustGuard(t, "127.0.0.1/32"), Resolver: resolver})
	if a := c.Call(t.Context(), get("http://rebind.test:"+port)); !a.ok() {
		t.Errorf("the first address = %+v, want 200", a)
	}
	if got, want := c.Call(t.Context(), get("http://rebind.test:"+port)), (outcome{Code: "egress_denied"}); !got.is(want) {
		t.Errorf("the second address = %+v, want %+v", got, want)
	}

	c = newCaller(t, Config{Guard: mustGuard(t, "inside.test:"+port, "meta.test"), Resolver: resolver})
	if a := c.Call(t.Context(), get("http://inside.test:"+port)); !a.ok() {
		t.Errorf("a named host = %+v, want 200", a)
	}
	if a := c.Call(t.Context(), get("http://127.0.0.1:"+port)); a.Code != "egress_denied" {
		t.Errorf("the named host's address by itself = %+v, want egress_denied", a)
	}
	if a := c.Call(t.Context(), get("http://meta.test")); a.Code != "egress_denied" || !strings.Contains(a.why, "never") {
		t.Errorf("a named host at the metadata address = %+v, want egress_denied", a)
	}
}

func ExampleGuard() {
	_, err := NewGuard([]string{"169.254.169.254"})
	fmt.Println(err)
	// Output: "169.254.169.254" is not usable in --egress-allow: link-local and metadata addresses are always denied
}
