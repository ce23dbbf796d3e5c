package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"recourse/internal/egress"
	"recourse/internal/secrets"
)

// ReadSecretHosts reads `secret-hosts` from the config file, nil if absent. unknown lists names
// without a secret, which are errors unless their files are created later.
func ReadSecretHosts(path string, src *secrets.Source) (hosts *egress.SecretHosts, unknown []string, err error) {
	raw, err := section(path, "secret-hosts")
	if err != nil || raw == nil {
		return nil, nil, err
	}
	var of map[string][]string
	if err := json.Unmarshal(raw, &of); err != nil {
		return nil, nil, fmt.Errorf("%w %s: secret-hosts: write a map of secrets' names to lists of hosts, such as PAY_KEY: [pay.example]", ErrFile, path)
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if name == egress.AllSecrets {
			continue
		}
		switch _, err := src.Get(name); {
		case errors.Is(err, secrets.ErrName):
			return nil, nil, fmt.Errorf("%w %s: secret-hosts: %w", ErrFile, path, err)
		case errors.Is(err, secrets.ErrMissing):
			unknown = append(unknown, name)
		}
	}
	hosts, err = egress.NewSecretHosts(of)
	if err != nil {
		return nil, nil, fmt.Errorf("%w %s: secret-hosts: %s", ErrFile, path, strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	return hosts, unknown, nil
}
