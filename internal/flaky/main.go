// Command flaky runs the tests of packages many times with -race, and prints a line for each
// package:
//
//	go run ./internal/flaky [-runs 20] [-timeout 30m] [-logs DIR] [-unraced "NAMES"] [packages]
//
// The first half of the runs is calm: as many packages run at the same time as there are cores. The
// second half is crowded: four times as many, so that processor time is short, as it is on a busy
// machine. A package never runs twice at the same time.
//
// It names each test that failed in a run, stores the output of such runs in DIR, and exits with 1
// if there were any. When it is interrupted, it prints what it has seen so far.
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
	runs    int           // runs of each package
	timeout time.Duration // of one run
	logs    string        // directory for the output of failed runs
	pure    []string      // packages that run without the race detector
}

// crowd is how many packages run at the same time for each core in a crowded run.
const crowd = 4

// pkg is a package, its compiled tests, and the results of its runs.
type pkg struct {
	name, dir    string
	bin          string
	runs         int
	crowded      int            // of runs, those in a crowd
	failed       int            // of runs, those that failed
	tests        map[string]int // the tests that failed, and in how many runs
	least, worst time.Duration
}

func main() {
	var o options
	flag.IntVar(&o.runs, "runs", 20, "how many times to run each package; half of the runs are crowded")
	flag.DurationVar(&o.timeout, "timeout", 30*time.Minute, "how long one run may take")
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

// all tests packages, prints their results, and reports whether a run failed.
func all(ctx context.Context, out io.Writer, o options, patterns []string) (failed bool, err error) {
	if err := os.MkdirAll(o.logs, 0o700); err != nil {
		return false, err
	}
	bin, err := os.MkdirTemp("", "flaky-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(bin)
	packages, err := build(ctx, o, bin, patterns)
	if err != nil {
		return false, err
	}
	crowded := o.runs / 2
	err = rounds(ctx, out, o, packages, o.runs-crowded, runtime.NumCPU(), false)
	if err == nil {
		err = rounds(ctx, out, o, packages, crowded, crowd*runtime.NumCPU(), true)
	}
	for _, p := range packages {
		fmt.Fprintln(out, p)
		failed = failed || p.failed > 0
	}
	return failed, err
}

// build compiles the tests of packages into a directory, each once.
func build(ctx context.Context, o options, dir string, patterns []string) (packages []*pkg, err error) {
	list, err := exec.CommandContext(ctx, "go", append([]string{"list", "-f", "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}"}, patterns...)...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list %v: %w", patterns, err)
	}
	for line := range strings.Lines(string(list)) {
		p := &pkg{tests: make(map[string]int)}
		p.name, p.dir, _ = strings.Cut(strings.TrimSpace(line), " ")
		p.bin = filepath.Join(dir, strings.ReplaceAll(p.name, "/", "-"))
		race := program.Race
		if slices.Contains(o.pure, p.name) {
			race = nil
		}
		if out, err := exec.CommandContext(ctx, "go", slices.Concat([]string{"test", "-c", "-o", p.bin}, race, []string{p.name})...).CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build the tests of %s: %w\n%s", p.name, err, out)
		}
		packages = append(packages, p)
	}
	return packages, nil
}

// rounds runs each package n times, at most `limit` packages at the same time, and prints a line
// for each run that failed. Packages take turns: the one that has waited longest gets the next
// place.
func rounds(ctx context.Context, out io.Writer, o options, packages []*pkg, n, limit int, crowded bool) error {
	places := make(chan struct{}, limit)
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	for _, p := range packages {
		all.Go(func() {
			for range n {
				places <- struct{}{}
				report, err := p.run(ctx, o, crowded)
				<-places
				mu.Lock()
				if report != "" {
					fmt.Fprintln(out, report)
				}
				if err != nil {
					errs = append(errs, err)
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return errors.New("interrupted")
	}
	return errors.Join(errs...)
}

// run runs the tests of the package once. It returns a line if they fail, and an error if they
// could not be run.
func (p *pkg) run(ctx context.Context, o options, crowded bool) (report string, err error) {
	cmd := exec.CommandContext(ctx, p.bin, "-test.v", "-test.timeout", o.timeout.String())
	cmd.Dir = p.dir
	start := time.Now()
	output, failure := cmd.CombinedOutput()
	took := time.Since(start)
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	p.runs++
	if crowded {
		p.crowded++
	}
	p.worst = max(p.worst, took)
	if p.least == 0 || took < p.least {
		p.least = took
	}
	if failure == nil {
		return "", nil
	}
	p.failed++
	names := failures(output)
	for _, test := range names {
		p.tests[test]++
	}
	log := filepath.Join(o.logs, fmt.Sprintf("%s-%d.log", filepath.Base(p.bin), p.runs))
	report = fmt.Sprintf("failed: %s, run %d: %s; see %s", p.name, p.runs, strings.Join(names, ", "), log)
	return report, os.WriteFile(log, fmt.Appendf(output, "\n%v\n", failure), 0o600)
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

// String returns the line of the package, and one for each test that failed.
func (p *pkg) String() string {
	s := fmt.Sprintf("%-4s %-32s %d runs, %d of them crowded, %d failed, %.1f s to %.1f s", map[bool]string{true: "FAIL", false: "ok"}[p.failed > 0],
		p.name, p.runs, p.crowded, p.failed, p.least.Seconds(), p.worst.Seconds())
	for _, test := range slices.Sorted(maps.Keys(p.tests)) {
		s += fmt.Sprintf("\n       %s: %d of %d", test, p.tests[test], p.runs)
	}
	return s
}
