package statedir

import (
	"os"
	"strings"
)

// boot names this boot of the machine, for all containers on it; see random(4).
func boot() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
