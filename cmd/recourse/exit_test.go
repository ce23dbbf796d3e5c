package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"recourse/internal/cli"
)

func testContext(t *testing.T) (context.Context, context.CancelFunc) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	return ctx, cancel
}

// Every mistake gets one line with advice, and an exit code.
func TestMistakes(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() })
	dir := t.TempDir()
	db := filepath.Join(dir, "a.db")
	junk := file(t, "junk.db", strings.Repeat("this is no database ", 100))
	config := file(t, "bad.yaml", "listen: 127.0.0.1:0\nlisten-on: x\n")
	dead := "http://" + taken.Addr().String()
	tests := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no command", nil, cli.Usage, "recourse demo"},
		{"no such command", []string{"strat"}, cli.Usage, "--help"},
		{"no such flag", []string{"list", "--lmit", "3"}, cli.Usage, "--lmit"},
		{"no such file", []string{"validate", filepath.Join(dir, "none.yaml")}, cli.Usage, "none.yaml"},
		{"no server", []string{"list", "--server", "http://127.0.0.1:1"}, cli.Unreachable, "recourse serve"},
		{"no URL", []string{"list", "--server", "localhost:8080"}, cli.Usage, "http://"},
		{"bad JSON", []string{"start", "x", "-i", "{a:1}", "--server", dead}, cli.Usage, "--input is not JSON"},
		{"bad label", []string{"start", "x", "-l", "a", "--server", dead}, cli.Usage, "name=value"},
		{"reason missing", []string{"resolve", "x", "y", "--outcome", "failed"}, cli.Usage, "--reason"},
		{"directory missing", []string{"serve", "--database", filepath.Join(dir, "no", "a.db")}, cli.Usage, "does not exist"},
		{"database is a directory", []string{"serve", "--database", dir}, cli.Usage, "is a directory"},
		{"database is something else", []string{"serve", "--database", junk}, cli.Usage, "not a SQLite file"},
		{"database of another kind", []string{"serve", "--database", "mysql://x/y"}, cli.Usage, "only postgres://"},
		{"bad DSN", []string{"serve", "--database", "postgres://u:secretword@h:port/d"}, cli.Usage, "not a PostgreSQL URL"},
		{"PostgreSQL is down", []string{"serve", "--database", "postgres://u:secretword@127.0.0.1:1/d"}, cli.Unreachable, "cannot be reached"},
		{"port in use", []string{"serve", "--database", db, "--listen", taken.Addr().String()}, cli.Conflict, "address already in use"},
		{"port for profiles in use", []string{"serve", "--database", db, "--listen", "127.0.0.1:0", "--debug-listen", taken.Addr().String()}, cli.Conflict, "address already in use"},
		{"open to all", []string{"serve", "--database", db, "--listen", ":0"}, cli.Usage, "recourse keys create --role admin"},
		{"no address", []string{"serve", "--database", db, "--listen", "8080"}, cli.Usage, "host:port"},
		{"bad egress", []string{"serve", "--database", db, "--egress-allow", "169.254.169.254"}, cli.Usage, "always denied"},
		{"authorities missing", []string{"serve", "--database", db, "--ca-file", filepath.Join(dir, "no")}, cli.Usage, "--ca-file"},
		{"no authorities", []string{"serve", "--database", db, "--ca-file", file(t, "ca.pem", "no")}, cli.Usage, "PEM"},
		{"bad resolve", []string{"serve", "--database", db, "--resolve", "a.example=1"}, cli.Usage, "--resolve"},
		{"secrets missing", []string{"serve", "--database", db, "--secret-dir", filepath.Join(dir, "no")}, cli.Usage, "--secret-dir"},
		{"vars missing", []string{"serve", "--database", db, "--vars", filepath.Join(dir, "no")}, cli.Usage, "--vars"},
		{"bad config", []string{"serve", "--config", config}, cli.Usage, `no setting "listen-on"`},
		{"keys of no database", []string{"keys", "list", "--database", filepath.Join(dir, "none.db")}, cli.Usage, "recourse migrate up"},
		{"status of no database", []string{"migrate", "status", "--database", filepath.Join(dir, "none.db")}, cli.Usage, "recourse migrate up"},
		{"down without force", []string{"migrate", "down", "--steps", "1", "--database", db}, cli.Usage, "--force"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := run(t, nil, tt.args...)
			if r.code != tt.code || !strings.Contains(r.errOut, tt.says) {
				t.Errorf("exit %d, not %d, or %q is not said: %s", r.code, tt.code, tt.says, r.errOut)
			}
			if strings.Count(strings.TrimSpace(r.errOut), "\n") > 0 || strings.Contains(r.errOut, "goroutine") {
				t.Errorf("more than a line: %s", r.errOut)
			}
			if strings.Contains(r.errOut, "secretword") {
				t.Errorf("the password is shown: %s", r.errOut)
			}
		})
	}
}

func TestOneServerPerSQLiteFile(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "a.db")
	serve(t, nil, "--database", db)
	r := run(t, nil, "serve", "--database", db, "--listen", "127.0.0.1:0")
	if r.code != cli.Conflict || !strings.Contains(r.errOut, "another recourse process uses this database") {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
}

// docPage reads a page of the documentation.
func docPage(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// docs/cli.md has exactly the commands, their flags and the exit codes.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	text := docPage(t, "cli.md")
	k, err := kong.New(&commands{})
	if err != nil {
		t.Fatal(err)
	}
	var commands []string
	for _, n := range k.Model.Leaves(true) {
		name := strings.TrimPrefix(n.Path(), "")
		name = strings.TrimSpace(regexp.MustCompile(`\(.*?\)`).ReplaceAllString(name, ""))
		commands = append(commands, name)
		_, section, found := strings.Cut(text, "\n### `recourse "+name)
		if !found {
			t.Errorf("docs/cli.md has no section on `recourse %s`", name)
			continue
		}
		section, _, _ = strings.Cut(section, "\n### ")
		for _, f := range n.Flags {
			shared := slices.Contains([]string{"server", "api-key", "output", "help"}, f.Name)
			if !f.Hidden && !shared && !strings.Contains(section, "--"+f.Name) {
				t.Errorf("docs/cli.md does not mention --%s of `recourse %s`", f.Name, name)
			}
		}
	}
	for _, m := range regexp.MustCompile("(?m)^### `recourse ([a-z ]+)").FindAllStringSubmatch(text, -1) {
		if !slices.Contains(commands, strings.TrimSpace(m[1])) {
			t.Errorf("docs/cli.md has a section on `recourse %s`, which is no command", m[1])
		}
	}
	for code := cli.OK; code <= cli.Forbidden; code++ {
		if !strings.Contains(text, fmt.Sprintf("\n| %d |", code)) {
			t.Errorf("docs/cli.md does not explain exit code %d", code)
		}
	}
	operating := docPage(t, "operating.md")
	for _, n := range k.Model.Leaves(true) {
		for _, f := range n.Flags {
			if n.Name == "serve" && !f.Hidden && f.Name != "help" && strings.Count(operating, "\n| `--"+f.Name+"` ") != 1 {
				t.Errorf("docs/operating.md does not explain --%s, once", f.Name)
			}
		}
	}
}
