package http

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// SecretHosts says which hosts a secret may go to, so that a definition that names another host
// cannot have it. The zero value lets all go anywhere. It is immutable and safe for concurrent use.
type SecretHosts struct {
	of   map[string][]secretHost
	rest []secretHost // of the secrets that are not named
	all  bool         // these are bound, too
}

type secretHost struct {
	name  string // lower case, no trailing dot; an address in its canonical form
	below bool   // what stands below the name, rather than the name itself
	port  uint16 // 0: any
}

// AllSecrets stands for the secrets that are not named themselves.
const AllSecrets = "*"

// NewSecretHosts reads, for each secret's name or [AllSecrets], where it may go: a host name,
// *.name for all names below it, or an address, each with or without a port. Those that an empty
// list is for go nowhere. Secrets that are not named go anywhere, unless AllSecrets is. All bad
// entries are reported at once.
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

// allow returns a refusal if the secret may not go to a URL.
func (h *SecretHosts) allow(secret string, to *url.URL) error {
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
	return &refusal{codeSecretMissing, "the secret " + secret + " does not go to " + clip(printable(to.Host), 200) + ": secret-hosts in the config file says where it may go"}
}
