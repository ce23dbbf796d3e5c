// Package promtool provides tests with promtool, Prometheus' checker of rules, configurations and
// metrics.
//
// It uses the installed promtool, or else unpacks that of Debian's package into the user's cache
// directory, so that no service is installed. Tests never skip: without promtool they fail and say
// what to install.
package promtool

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"recourse/internal/test/debian"
)

// advice says what to do without apt-get.
const advice = "no promtool found: install Prometheus (apt-get install prometheus, or from https://prometheus.io/download/) so that promtool is in the PATH"

var promtool = sync.OnceValues(find)

// Run runs promtool in a directory with this standard input, and fails the test if it reports an
// error or a warning. It returns the output.
func Run(tb testing.TB, dir string, stdin []byte, args ...string) string {
	tb.Helper()
	tool, err := promtool()
	if err != nil {
		tb.Fatalf("promtool: %v", err)
	}
	cmd := exec.Command(tool, args...)
	cmd.Dir, cmd.Stdin = dir, bytes.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Errorf("promtool %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// find finds promtool or fetches it.
func find() (string, error) {
	if path, err := exec.LookPath("promtool"); err == nil {
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("%s: %w", advice, err)
	}
	path := filepath.Join(cache, "recourse", "promtool")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := fetch(path); err != nil {
		return "", fmt.Errorf("%s: %w", advice, err)
	}
	return path, nil
}

// fetch unpacks promtool from Debian's package to path.
func fetch(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	unlock, err := debian.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	dir, err := os.MkdirTemp(filepath.Dir(path), "fetch-") // in the directory of path, so that a rename is atomic
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := run(dir, "apt-get", "download", "prometheus"); err != nil { // its lists may be missing or old
		if again := errors.Join(run(dir, "apt-get", "update"), run(dir, "apt-get", "download", "prometheus")); again != nil {
			return again
		}
	}
	found, err := filepath.Glob(filepath.Join(dir, "prometheus_*.deb"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("apt-get download left %d packages, want 1", len(found))
	}
	if err := run(dir, "dpkg-deb", "-x", found[0], dir); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "usr", "bin", "promtool"), path)
}

func run(dir, name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, args[0], err, out)
	}
	return nil
}
