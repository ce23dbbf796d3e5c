package egress

import "net/netip"

// neverReachable are link-local ranges and the addresses where clouds serve instance credentials.
// The allow list cannot allow them.
var neverReachable = prefixes(
	"169.254.0.0/16",     // link-local (RFC 3927); metadata of AWS, Azure, Google Cloud and others
	"fe80::/10",          // link-local (RFC 4291)
	"fd00:ec2::/32",      // AWS: instance metadata, DNS, ECS credentials
	"fd20:ce::254/128",   // Google Cloud metadata
	"100.100.100.200/32", // Alibaba Cloud metadata
	"168.63.129.16/32",   // Azure's host agent
	"192.0.0.192/32",     // Oracle Cloud metadata
)

type namedRange struct {
	prefix netip.Prefix
	what   string
}

// specialRanges are not public (IANA special-purpose address registries, RFC 6890).
var specialRanges = []namedRange{
	{netip.MustParsePrefix("127.0.0.0/8"), "loopback"},
	{netip.MustParsePrefix("10.0.0.0/8"), "private"},
	{netip.MustParsePrefix("172.16.0.0/12"), "private"},
	{netip.MustParsePrefix("192.168.0.0/16"), "private"},
	{netip.MustParsePrefix("100.64.0.0/10"), "shared (RFC 6598)"},
	{netip.MustParsePrefix("0.0.0.0/8"), "unspecified"},
	{netip.MustParsePrefix("192.0.0.0/24"), "reserved"},
	{netip.MustParsePrefix("192.0.2.0/24"), "documentation"},
	{netip.MustParsePrefix("198.51.100.0/24"), "documentation"},
	{netip.MustParsePrefix("203.0.113.0/24"), "documentation"},
	{netip.MustParsePrefix("198.18.0.0/15"), "benchmarking"},
	{netip.MustParsePrefix("224.0.0.0/4"), "multicast"},
	{netip.MustParsePrefix("240.0.0.0/4"), "reserved"},

	{netip.MustParsePrefix("::1/128"), "loopback"},
	{netip.MustParsePrefix("::/128"), "unspecified"},
	{netip.MustParsePrefix("fc00::/7"), "private"},
	{netip.MustParsePrefix("ff00::/8"), "multicast"},
	{netip.MustParsePrefix("2001::/23"), "reserved"}, // protocol assignments, Teredo among them
	{netip.MustParsePrefix("2001:db8::/32"), "documentation"},
	{netip.MustParsePrefix("3fff::/20"), "documentation"},
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	compatible    = netip.MustParsePrefix("::/96")        // RFC 4291, deprecated
	nat64         = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
	sixToFour     = netip.MustParsePrefix("2002::/16")    // RFC 3056
)

// embedded returns an address and the IPv4 address that it contains, if any, because a translator
// or tunnel would deliver packets to the latter.
func embedded(a netip.Addr) []netip.Addr {
	b := a.As16()
	switch {
	case a.Is4():
	case nat64.Contains(a):
		return []netip.Addr{a, netip.AddrFrom4([4]byte(b[12:]))}
	case sixToFour.Contains(a):
		return []netip.Addr{a, netip.AddrFrom4([4]byte(b[2:6]))}
	case compatible.Contains(a) && a != netip.IPv6Unspecified() && a != netip.IPv6Loopback():
		return []netip.Addr{a, netip.AddrFrom4([4]byte(b[12:]))}
	}
	return []netip.Addr{a}
}

// never returns why an address can never be reached, or "".
func never(a netip.Addr) string {
	for _, p := range neverReachable {
		if p.Contains(a) {
			return "link-local or metadata"
		}
	}
	return ""
}

// special returns the kind of a non-public address, or "" for a public one.
func special(a netip.Addr) string {
	for _, r := range specialRanges {
		if r.prefix.Contains(a) {
			return r.what
		}
	}
	if a.Is4() || globalUnicast.Contains(a) || nat64.Contains(a) {
		return ""
	}
	return "reserved"
}

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}
