package measure

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of CPU time in /proc: USER_HZ, which Linux fixes at 100 for programs.
const tick = 10 * time.Millisecond

// stat is a process's CPU time, from /proc.
type stat struct {
	parent int
	name   string
	own    time.Duration // of its threads
	dead   time.Duration // of its children that have ended and were waited for
}

// readStat reads /proc/<pid>/stat; see proc(5).
func readStat(pid int) (stat, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return stat{}, err
	}
	_, rest, _ := strings.Cut(string(b), "(")
	at := strings.LastIndexByte(rest, ')')
	if at < 0 {
		return stat{}, errors.New("unreadable /proc stat")
	}
	f := strings.Fields(rest[at+1:])
	if len(f) < 15 {
		return stat{}, errors.New("unreadable /proc stat")
	}
	n := func(i int) time.Duration {
		v, _ := strconv.ParseInt(f[i], 10, 64)
		return time.Duration(v) * tick
	}
	parent, _ := strconv.Atoi(f[1])
	return stat{parent: parent, name: rest[:at], own: n(11) + n(12), dead: n(13) + n(14)}, nil
}

// cpuOf returns the CPU time of a process, 0 if it is unknown.
func cpuOf(pid int) time.Duration {
	s, err := readStat(pid)
	if err != nil {
		return 0
	}
	return s.own
}

// cpuOfFamily returns the CPU time of a process and its children.
func cpuOfFamily(pid int) (sum time.Duration) {
	for _, member := range family(pid) {
		if s, err := readStat(member); err == nil {
			sum += s.own + s.dead
		}
	}
	return sum
}

// residentOfFamily returns the current memory of a process and its children in MB.
func residentOfFamily(pid int) (sum int64) {
	for _, member := range family(pid) {
		sum += residentOf(member)
	}
	return sum
}

// family returns a process and its children.
func family(pid int) []int {
	list := []int{pid}
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range all {
		child, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		if c, err := readStat(child); err == nil && c.parent == pid {
			list = append(list, child)
		}
	}
	return list
}

// busy returns the CPU time that all programs on this machine have used so far; 0 if it is unknown.
// Interrupts do not count: those of the network are the benchmark's own.
func busy() time.Duration {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	fields := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal; see proc(5)
	if len(fields) < 9 {
		return 0
	}
	var sum time.Duration
	for _, i := range []int{1, 2, 3, 8} {
		n, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return 0
		}
		sum += time.Duration(n) * tick
	}
	return sum
}

// others returns the CPU time that programs other than these, this one and the database have used
// on this machine so far.
func others(db *database, programs ...Process) time.Duration {
	rest := busy() - cpuOf(os.Getpid()) - db.cpu()
	for _, p := range programs {
		rest -= cpuOf(p.PID)
	}
	return rest
}

// mostOthers is how many cores other programs use on a machine that counts as idle.
const mostOthers = 0.1

// peakOf returns the peak memory of a process in MB, 0 if it is unknown.
func peakOf(pid int) int64 { return memory(pid, "VmHWM:") }

// residentOf returns the current memory of a process in MB, 0 if it is unknown.
func residentOf(pid int) int64 { return memory(pid, "VmRSS:") }

func memory(pid int, field string) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, field); ok {
			kb, _ := strconv.ParseInt(strings.Fields(v)[0], 10, 64)
			return kb >> 10
		}
	}
	return 0
}

// writtenBy returns how many bytes a process has written to disks.
func writtenBy(pid int) int64 {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "write_bytes:"); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
			return n
		}
	}
	return 0
}

// Hardware describes the machine.
func Hardware() string {
	model := runtime.GOARCH
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if name, ok := strings.CutPrefix(line, "model name"); ok {
				model = strings.TrimSpace(strings.TrimLeft(name, "\t :"))
				break
			}
		}
	}
	return fmt.Sprintf("%d × %s, %s", runtime.NumCPU(), model, runtime.GOOS)
}
