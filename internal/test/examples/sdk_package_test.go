package examples

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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

var (
	building sync.Mutex
	built    bool // guarded by building. Programs run what is built, so it is not built again
)

// buildTypeScript installs the compiler, and compiles the SDK for TypeScript and its test program,
// once. It returns the path of a Node 20, the oldest that the SDK runs on.
func buildTypeScript(t *testing.T) (node string) {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	node = installPackages(t, sdks+"/typescript", true)
	if !built {
		npm(t, sdks+"/typescript", "run", "build")
		built = true
	}
	return node
}

func npm(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "npm", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("npm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// TestSDKTypeScript packs the package, and installs it in a program that uses it with its types,
// and with the sample of its page.
func TestSDKTypeScript(t *testing.T) {
	t.Parallel()
	node := buildTypeScript(t)
	user := t.TempDir()
	npm(t, sdks+"/typescript", "pack", "--ignore-scripts", "--pack-destination", user)
	packages, err := filepath.Glob(filepath.Join(user, "recourse-*.tgz"))
	if err != nil || len(packages) != 1 {
		t.Fatalf("packages %q, %v", packages, err)
	}
	const program = "import { attach, Client, Problem } from 'recourse'\nconst client: Client = new Client('http://127.0.0.1:1')\nconsole.log(client.url, typeof attach, Problem.name)\n"
	for name, text := range map[string]string{"package.json": `{"type": "module"}`, "user.ts": program} {
		if err := os.WriteFile(filepath.Join(user, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	npm(t, user, "install", "--offline", "--no-audit", "--no-fund", packages[0])
	tsc, err := filepath.Abs(sdks + "/typescript/node_modules/.bin/tsc")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{tsc, "--strict", "--module", "NodeNext", "--lib", "ES2022,DOM", "user.ts"}, {node, "user.js"}} {
		cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
		cmd.Dir = user
		out, err := cmd.CombinedOutput()
		if err != nil || args[0] == node && string(out) != "http://127.0.0.1:1 function Problem\n" {
			t.Fatalf("%s: %v\n%s", args[0], err, out)
		}
	}
	readme, err := os.ReadFile(sdks + "/typescript/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, sample, _ := strings.Cut(string(readme), "```ts\n")
	sample, _, _ = strings.Cut(sample, "```")
	if err := os.WriteFile(filepath.Join(user, "first.js"), []byte(strings.ReplaceAll(sample, "'report.json', JSON", "'"+user+"/report.json', JSON")), 0o600); err != nil {
		t.Fatal(err)
	}
	s := stage(t, databases["sqlite"](t), nil)
	s.publishActions(refundAgent)
	out, code := s.command("agent", "run", "--server", "http://"+s.server.addr, "--name", "refund", "--actions", "look,refund", "--restarts", "0", "--", node, filepath.Join(user, "first.js"))
	if _, none := os.Stat(filepath.Join(user, "report.json")); code != 0 || none != nil || len(s.world.Ledger().Live()) != 1 {
		t.Errorf("the sample: exit %d, %d effects:\n%s", code, len(s.world.Ledger().Live()), out)
	}
}
