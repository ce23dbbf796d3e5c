package egress

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"recourse/internal/httptext"
)

// SecretHosts says which hosts may receive a secret, so that a definition that names another host
// cannot send it there. The zero value allows all hosts. It is immutable and safe for concurrent
// use.
type SecretHosts struct {
	of   map[string][]secretHost
	rest []secretHost // the hosts of secrets that are not named
	all  bool         // secrets that are not named are restricted, too
}

type secretHost struct {
	name  string // lower case, no trailing dot; an address in its canonical form
	below bool   // it matches the names below the name, not the name itself
	port  uint16 // 0: any
}

// AllSecrets stands for the secrets that are not named.
const AllSecrets = "*"

// NewSecretHosts parses the allowed hosts of each secret, by its name or [AllSecrets]: a host name,
// *.name for all names below it, or an address, each with or without a port. A secret with an empty
// list may not be sent anywhere. Secrets that are not named may be sent anywhere, unless AllSecrets
// is named. All invalid entries are reported at once.
func NewSecretHosts(of map[string][]string) (*SecretHosts, error) {
	h := &SecretHosts{of: make(map[string][]secretHost, len(of))}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(of)) {
		list := []secretHost{}
		for _, entry := range of[name] {
			one, err := readSecretHost(strings.TrimSpace(entry))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %q: %w", name, entry, err))
			}
			list = append(list, one)
		}
		if name == AllSecrets {
			h.rest, h.all = list, true
		} else {
			h.of[name] = list
		}
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return h, nil
}

func readSecretHost(entry string) (secretHost, error) {
	form := errors.New("write a host name in ASCII (punycode), *.name for those below it, or an address, each with a port if need be; no URL")
	if strings.Contains(entry, "/") {
		return secretHost{}, form
	}
	host, port, err := splitEntry(entry)
	if err != nil {
		return secretHost{}, err
	}
	if a, err := netip.ParseAddr(host); err == nil {
		return secretHost{name: a.String(), port: port}, nil
	}
	name, below := strings.CutPrefix(hostName(host), "*.")
	if !isHostName(name) {
		return secretHost{}, form
	}
	return secretHost{name, below, port}, nil
}

// Allow returns an error if the secret may not be sent to a URL that [CheckURL] accepts.
func (h *SecretHosts) Allow(secret string, to *url.URL) error {
	if h == nil {
		return nil
	}
	list, named := h.of[secret]
	if !named {
		if !h.all {
			return nil
		}
		list = h.rest
	}
	host := hostName(to.Hostname())
	if a, err := netip.ParseAddr(host); err == nil {
		host = a.String()
	}
	port, _ := strconv.ParseUint(portOf(to), 10, 16) // the URL is a checked one
	if slices.ContainsFunc(list, func(s secretHost) bool {
		return (host == s.name && !s.below || s.below && strings.HasSuffix(host, "."+s.name)) && (s.port == 0 || uint64(s.port) == port)
	}) {
		return nil
	}
	return errors.New("the secret " + secret + " does not go to " + httptext.Clip(httptext.Printable(to.Host), 200) + ": secret-hosts in the config file says where it may go")
}
