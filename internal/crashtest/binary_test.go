package crashtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// The programs under test, each built once.
var (
	raced   = program("raced", "-race", "-tags", "failpoints")
	unraced = program("unraced", "-tags", "failpoints")
	mutated = program("mutated", "-tags", "failpoints,mutants")
	shipped = program("shipped")
)

var built = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "recourse-crashtest") })

func program(name string, flags ...string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := built()
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		args := append(append([]string{"build"}, flags...), "-o", path, "recourse/cmd/recourse")
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("build: %w\n%s", err, out)
		}
		return path, nil
	})
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

func mustBuild(t *testing.T, build func() (string, error)) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
