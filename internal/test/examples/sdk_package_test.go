package examples

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"recourse/internal/test/debian"
)

// TestSDKPython builds the package of the SDK for Python as pip does, and imports it from there.
// The file has the syntax of the oldest Python that it promises.
func TestSDKPython(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "python") // a copy: setuptools writes into the directory
	if err := os.CopyFS(dir, os.DirFS(sdks+"/python")); err != nil {
		t.Fatal(err)
	}
	python := setuptools(t)
	run := func(env, script string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), python, append([]string{"-c", script}, args...)...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), env)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	run("", `import ast; ast.parse(open("recourse.py").read(), feature_version=(3, 9))`)
	run("", `from setuptools import build_meta; build_meta.build_wheel("dist")`)
	wheels, err := filepath.Glob(filepath.Join(dir, "dist", "recourse-*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("wheels %q, %v", wheels, err)
	}
	if out := run("PYTHONPATH="+wheels[0], `import os; os.chdir("/"); import sys; sys.path.remove(""); import recourse; print(recourse.__file__, recourse.attach)`); !strings.Contains(out, ".whl/recourse.py") {
		t.Errorf("imported %s", out)
	}
}

// setuptools returns a Python that can build packages without a network.
func setuptools(t *testing.T) string {
	t.Helper()
	const system = "/usr/bin/python3"
	for _, install := range []bool{false, true} {
		if install {
			if err := debian.Install("python3-setuptools", "python3-wheel"); errors.Is(err, debian.ErrCannot) {
				t.Skip("building the package needs setuptools and wheel of Python")
			} else if err != nil {
				t.Fatal(err)
			}
		}
		for _, python := range []string{"python3", system} {
			if exec.CommandContext(t.Context(), python, "-c", "import setuptools.build_meta, wheel").Run() == nil {
				return python
			}
		}
	}
	t.Fatal("setuptools and wheel are installed, and Python does not find them")
	return ""
}
