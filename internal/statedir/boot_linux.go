package statedir

import (
	"os"
	"strings"
)

// boot returns an id of this boot of the machine, which all containers on it share; see random(4).
func boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
