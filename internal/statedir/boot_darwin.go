package statedir

import "syscall"

// boot returns an id of this boot of the machine.
func boot() string {
	id, err := syscall.Sysctl("kern.bootsessionuuid")
	if err != nil {
		return ""
	}
	return id
}
