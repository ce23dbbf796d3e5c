package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
)

// ErrAllow says that an entry of [NewGuard]'s allow list is invalid.
var ErrAllow = errors.New("not usable in --egress-allow")

// Guard decides which addresses may be reached. It checks the address that is dialled, after names
// are resolved. So the same rule applies to a name that resolves differently the second time (DNS
// rebinding), and to every spelling of an address.
//
// Public addresses are allowed. Loopback, private, shared, multicast and other special addresses
// are denied unless the allow list names them. Link-local and cloud metadata addresses are always
// denied. A Guard is immutable and safe for concurrent use.
type Guard struct {
	all   bool // every address is allowed
	nets  []allowedNet
	hosts []allowedHost
}

type allowedNet struct {
	prefix netip.Prefix
	port   uint16 // 0: any
}

type allowedHost struct {
	name string // lower case, no trailing dot
	port uint16 // 0: any
}

// NewGuard parses an allow list. An entry is a host name or an address, each with or without a port
// (IPv6 then in brackets), or a CIDR. All invalid entries are reported at once; each error wraps
// [ErrAllow].
func NewGuard(allow []string) (*Guard, error) {
	g := &Guard{}
	var errs []error
	for _, entry := range allow {
		if err := g.add(strings.TrimSpace(entry)); err != nil {
			errs = append(errs, fmt.Errorf("%q is %w: %s", entry, ErrAllow, err))
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return g, nil
}

// AllowAll returns a Guard that allows all addresses. It is for addresses that the operator has
// configured and that no definition can choose, such as a collector's.
func AllowAll() *Guard { return &Guard{all: true} }

func (g *Guard) add(entry string) error {
	if strings.Contains(entry, "/") {
		p, err := netip.ParsePrefix(entry)
		if err != nil {
			return errors.New("write a CIDR as 10.0.0.0/8 or fd00::/8")
		}
		return g.addNet(p.Masked(), 0)
	}
	host, port, err := splitEntry(entry)
	if err != nil {
		return err
	}
	if a, err := netip.ParseAddr(host); err == nil {
		a = a.Unmap().WithZone("")
		return g.addNet(netip.PrefixFrom(a, a.BitLen()), port)
	}
	name := hostName(host)
	if !isHostName(name) {
		return errors.New("write a host name in ASCII (punycode), host:port, an address or a CIDR; wildcards and URLs are not known here")
	}
	g.hosts = append(g.hosts, allowedHost{name, port})
	return nil
}

func (g *Guard) addNet(p netip.Prefix, port uint16) error {
	if p.Addr().Is4In6() {
		return errors.New("write IPv4 ranges in IPv4 form")
	}
	for _, never := range neverReachable {
		if never.Overlaps(p) && never.Bits() <= p.Bits() {
			return errors.New("link-local and metadata addresses are always denied")
		}
	}
	g.nets = append(g.nets, allowedNet{p, port})
	return nil
}

func splitEntry(entry string) (host string, port uint16, err error) {
	if _, err := netip.ParseAddr(entry); err == nil || !strings.Contains(entry, ":") {
		return entry, 0, nil
	}
	host, digits, err := net.SplitHostPort(entry)
	if err != nil {
		return "", 0, errors.New("write host:port, and an IPv6 address with a port as [::1]:8080")
	}
	n, err := strconv.ParseUint(digits, 10, 16)
	if err != nil || n == 0 {
		return "", 0, errors.New("a port is a number from 1 to 65535")
	}
	return host, uint16(n), nil
}

// Denied says that an address may not be reached. It is safe to show.
type Denied struct {
	Addr   netip.AddrPort // the address that would have been dialled
	Why    string         // the kind of address
	Always bool           // the allow list cannot allow it
}

// Error implements error and says how to fix it.
func (d *Denied) Error() string {
	if d.Always {
		return fmt.Sprintf("steps can never reach %s (%s)", d.Addr, d.Why)
	}
	return fmt.Sprintf("steps may not reach %s (%s); to allow it, name it with --egress-allow %s", d.Addr, d.Why, d.Addr.Addr().WithZone(""))
}

// Check checks one connection: asked is the host:port that the request names, dialled the address
// and port that it resolved to. It returns nil or a [*Denied].
func (g *Guard) Check(asked string, dialled netip.AddrPort) error {
	if g.all {
		return nil
	}
	addr := dialled.Addr().Unmap().WithZone("")
	forms := embedded(addr)
	for _, a := range forms {
		if why := never(a); why != "" {
			return &Denied{Addr: dialled, Why: why, Always: true}
		}
	}
	why := ""
	for _, a := range forms {
		if w := special(a); w != "" {
			why = w
		}
	}
	if why == "" || g.namesHost(asked) {
		return nil
	}
	for _, a := range forms {
		if g.namesAddr(a, dialled.Port()) {
			return nil
		}
	}
	return &Denied{Addr: dialled, Why: why}
}

// Control returns the check of one dial for [net.Dialer.ControlContext], which
// calls it for each address just before connecting. asked is as in [Guard.Check].
func (g *Guard) Control(asked string) func(ctx context.Context, network, address string, c syscall.RawConn) error {
	return func(_ context.Context, network, address string, _ syscall.RawConn) error {
		dialled, err := netip.ParseAddrPort(address)
		if err != nil || !strings.HasPrefix(network, "tcp") {
			return &Denied{Why: "unreadable", Always: true}
		}
		return g.Check(asked, dialled)
	}
}

func (g *Guard) namesHost(asked string) bool {
	host, digits, err := net.SplitHostPort(asked)
	if err != nil {
		return false
	}
	port, err := strconv.ParseUint(digits, 10, 16)
	if err != nil {
		return false
	}
	host = hostName(host)
	for _, h := range g.hosts {
		if h.name == host && (h.port == 0 || h.port == uint16(port)) {
			return true
		}
	}
	return false
}

func (g *Guard) namesAddr(a netip.Addr, port uint16) bool {
	for _, n := range g.nets {
		if n.prefix.Contains(a) && (n.port == 0 || n.port == port) {
			return true
		}
	}
	return false
}

// hostName is the form in which names are compared.
func hostName(s string) string { return strings.TrimSuffix(strings.ToLower(s), ".") }

func isHostName(s string) bool {
	if s == "" || len(s) > 253 || endsInNumber(s) {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return true
}

// endsInNumber reports whether a host's last label is a number, which makes it an IPv4 address to
// some resolvers (2130706433, 0177.1, 0x7f.1). The rule is the WHATWG URL standard's "ends in a
// number checker".
func endsInNumber(host string) bool {
	host = hostName(host)
	last := host[strings.LastIndexByte(host, '.')+1:]
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return last != "" && strings.Trim(last, "0123456789") == ""
}
