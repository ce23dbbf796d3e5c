// Command flaky runs the tests of packages many times with -race, every second time while other
// processes load the machine, and prints a line for each package:
//
//	go run ./internal/flaky [-runs 20] [-most 30m] [-logs DIR] [-unraced "NAMES"] [packages]
//
// It names each test that failed in a run, stores the output of such runs in DIR, and exits with 1
// if there were any.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"recourse/internal/test/program"
)

// options describe how to run.
type options struct {
	runs int           // runs of each package
	most time.Duration // no further run of a package after this time; also the timeout of one run
	logs string        // directory for the output of failed runs
	pure []string      // packages without goroutines, whose tests the race detector only slows down
}

// result is the result of a package's runs.
type result struct {
	name         string
	runs, loaded int            // all runs, and those under load
	failed       int            // failed runs
	tests        map[string]int // the tests that failed, and in how many runs
	least, worst time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 20, "how many times to run each package, every other time under other load")
	flag.DurationVar(&o.most, "most", 30*time.Minute, "no further run of a package begins after so long")
	flag.StringVar(&o.logs, "logs", filepath.Join(os.TempDir(), "recourse-flaky"), "where the outputs of failed runs go")
	flag.Func("unraced", "packages to test without -race, separated by spaces", func(names string) error {
		o.pure = strings.Fields(names)
		return nil
	})
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	patterns := flag.Args()
	if len(patterns) == 0 {
		patterns = []string{"./..."}
	}
	failed, err := all(ctx, os.Stdout, o, patterns)
	if err != nil {
		fmt.Fprintln(os.Stderr, "flaky:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// all tests packages one after the other, and reports whether a run failed.
func all(ctx context.Context, out io.Writer, o options, patterns []string) (failed bool, err error) {
	if err := os.MkdirAll(o.logs, 0o700); err != nil {
		return false, err
	}
	bin, err := os.MkdirTemp("", "flaky-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(bin)
	list, err := exec.CommandContext(ctx, "go", append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}"}, patterns...)...).Output()
	if err != nil {
		return false, fmt.Errorf("go list %v: %w", patterns, err)
	}
	for line := range strings.Lines(string(list)) {
		name, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		r, err := often(ctx, o, name, dir, filepath.Join(bin, "test"))
		if err != nil {
			return failed, err
		}
		fmt.Fprintln(out, r)
		failed = failed || r.failed > 0
	}
	return failed, nil
}

// often builds a package's tests once and runs them repeatedly.
func often(ctx context.Context, o options, name, dir, bin string) (result, error) {
	r := result{name: name, tests: make(map[string]int)}
	race := program.Race
	if slices.Contains(o.pure, name) {
		race = nil
	}
	if out, err := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-c", "-o", bin}, race, []string{name})...).CombinedOutput(); err != nil {
		return r, fmt.Errorf("build the tests of %s: %w\n%s", name, err, out)
	}
	began := time.Now()
	for ; r.runs < o.runs && time.Since(began) < o.most; r.runs++ {
		unload := func() {}
		if r.runs%2 == 1 {
			r.loaded++
			unload = load()
		}
		cmd := exec.CommandContext(ctx, bin, "-test.v", "-test.timeout", o.most.String())
		cmd.Dir = dir
		start := time.Now()
		out, err := cmd.CombinedOutput()
		took := time.Since(start)
		unload()
		if ctx.Err() != nil {
			return r, errors.New("interrupted")
		}
		r.worst = max(r.worst, took)
		if r.least == 0 || took < r.least {
			r.least = took
		}
		if err == nil {
			continue
		}
		r.failed++
		for _, test := range failures(out) {
			r.tests[test]++
		}
		log := filepath.Join(o.logs, fmt.Sprintf("%s-%d.log", strings.ReplaceAll(name, "/", "-"), r.runs+1))
		if err := os.WriteFile(log, fmt.Appendf(out, "\n%v\n", err), 0o600); err != nil {
			return r, err
		}
	}
	return r, nil
}

// failures returns the tests that failed according to a verbose output, without tests that only
// contain a failed one. For an interrupted run it returns the test that was running.
func failures(out []byte) (names []string) {
	last := ""
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if running, ok := strings.CutPrefix(line, "=== RUN "); ok {
			last = strings.TrimSpace(running)
		}
		if name, ok := strings.CutPrefix(line, "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return []string{last}
	}
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	})
}

// load runs two busy processes for each core until end is called.
func load() (end func()) {
	ctx, stop := context.WithCancel(context.Background())
	var busy sync.WaitGroup
	for range 2 * runtime.NumCPU() {
		cmd := exec.CommandContext(ctx, "sh", "-c", "while :; do :; done")
		busy.Go(func() { _ = cmd.Run() }) // its error does not matter: it is killed
	}
	return func() {
		stop()
		busy.Wait()
	}
}

// String returns the line of the package.
func (r result) String() string {
	s := fmt.Sprintf("%-4s %-32s %d runs, %d of them under other load, %d failed, %.1f s to %.1f s", map[bool]string{true: "FAIL", false: "ok"}[r.failed > 0],
		r.name, r.runs, r.loaded, r.failed, r.least.Seconds(), r.worst.Seconds())
	for _, test := range slices.Sorted(maps.Keys(r.tests)) {
		s += fmt.Sprintf("\n       %s: %d of %d", test, r.tests[test], r.runs)
	}
	return s
}
