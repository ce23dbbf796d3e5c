// Package program builds recourse for tests that run it as a process: once for all test
// processes, and again when the code has changed.
package program

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Race are build flags for the race detector, without packages that it only slows down. The
// Makefile has the same flags and the reasons.
var Race = []string{"-race", "-gcflags=modernc.org/...=-race=false -d=checkptr=0", "-gcflags=modernc.org/sqlite=-d=checkptr=0", "-gcflags=github.com/alecthomas/kong/...=-race=false", "-gcflags=regexp/...=-race=false"}

// kept is how long a build is kept after its last use.
const kept = 24 * time.Hour

// Path returns the path of the program, built from the current code with flags of go build such as
// "-race". The file never changes, so a process that starts later runs the same program.
func Path(tb testing.TB, flags ...string) string {
	tb.Helper()
	path, err := built(strings.Join(flags, "\n"))
	if err != nil {
		tb.Fatalf("program: %v", err)
	}
	return path
}

var (
	mu    sync.Mutex
	paths = make(map[string]string) // flags → path
)

// built builds once per process, because tests do not change the code.
func built(flags string) (string, error) {
	mu.Lock()
	defer mu.Unlock()
	if path := paths[flags]; path != "" {
		return path, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a directory for programs: %w", err)
	}
	s := store{dir: filepath.Join(cache, "recourse-tests"), program: strings.TrimSuffix(reflect.TypeFor[store]().PkgPath(), "internal/test/program") + "cmd/recourse"}
	path, err := s.path(strings.FieldsFunc(flags, func(r rune) bool { return r == '\n' }))
	if err == nil {
		paths[flags] = path
	}
	return path, err
}

// store is a directory of programs, which processes share.
type store struct {
	dir     string
	program string // import path
	source  string // directory of its module; empty: the working directory is in it
}

// path returns the path of the program, in a directory whose name depends on everything that is
// linked into it.
func (s store) path(flags []string) (string, error) {
	parts, err := s.output("list", flags, "-deps", "-export", "-f", "{{.ImportPath}} {{.BuildID}}", s.program)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(strings.Join(flags, "\n") + "\n" + parts))
	own := filepath.Join(s.dir, hex.EncodeToString(sum[:8]))
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(s.dir, "lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := prune(s.dir); err != nil {
		return "", err
	}
	path := filepath.Join(own, "recourse")
	now := time.Now()
	if err := os.Chtimes(own, now, now); err == nil {
		return path, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	// A directory with the final name is always complete, even if this process is killed.
	draft := own + ".draft"
	if err := os.RemoveAll(draft); err != nil {
		return "", err
	}
	if _, err := s.output("build", flags, "-buildvcs=false", "-o", filepath.Join(draft, "recourse"), s.program); err != nil {
		return "", err
	}
	return path, os.Rename(draft, own)
}

// lock waits until no other process builds.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { _ = f.Close() }, nil
}

// prune removes programs that were not used for a long time.
func prune(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && e.IsDir() && time.Since(info.ModTime()) > kept {
			err = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// output runs a command of the go tool.
func (s store) output(command string, flags []string, args ...string) (string, error) {
	cmd := exec.Command("go", slices.Concat([]string{command}, flags, args)...)
	cmd.Dir = s.source
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("go %s: %w\n%s", command, err, errOut.String())
	}
	return out.String(), nil
}
