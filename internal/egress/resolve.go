package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// ErrResolve says that an entry of [ParseResolve] is invalid.
var ErrResolve = errors.New("not usable in --resolve")

// Resolve maps a host and port to the address where they are reached, instead of the address of the
// name. The request and TLS keep the name, and the [Guard] checks the address like one from DNS.
// The keys are host:port, lower case, without a trailing dot.
type Resolve map[string]netip.AddrPort

// ParseResolve parses entries such as pay.example:443=127.0.0.1:8443. An address without a port
// keeps the host's port. All invalid entries are reported at once; each error wraps [ErrResolve].
func ParseResolve(entries []string) (Resolve, error) {
	all := make(Resolve, len(entries))
	var errs []error
	for _, entry := range entries {
		from, to, err := parseResolve(strings.TrimSpace(entry))
		if _, twice := all[from]; err == nil && twice {
			err = errors.New("the same host and port are there twice")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%q is %w: %s", entry, ErrResolve, err))
			continue
		}
		all[from] = to
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return all, nil
}

func parseResolve(entry string) (from string, to netip.AddrPort, err error) {
	from, address, _ := strings.Cut(entry, "=")
	host, digits, err := net.SplitHostPort(from)
	port, e := strconv.ParseUint(digits, 10, 16)
	if err != nil || e != nil || port == 0 || !isHostName(hostName(host)) {
		return "", to, errors.New("write host:port=address or host:port=address:port, such as pay.example:443=127.0.0.1:8443")
	}
	if to, err = netip.ParseAddrPort(address); err != nil {
		a, err := netip.ParseAddr(strings.Trim(address, "[]"))
		if err != nil {
			return "", to, errors.New("the part after = is an IP address, with or without a port ([::1]:8443 for IPv6)")
		}
		to = netip.AddrPortFrom(a, uint16(port))
	}
	return net.JoinHostPort(hostName(host), strconv.FormatUint(port, 10)), to, nil
}

// of returns the address to dial for addr.
func (r Resolve) of(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr
	}
	if to, ok := r[net.JoinHostPort(hostName(host), port)]; ok {
		return to.String()
	}
	return addr
}
