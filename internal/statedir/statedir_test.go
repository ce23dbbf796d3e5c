package statedir

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// holder is the environment variable with the directory that this test program locks when it runs
// as a separate process.
const holder = "STATEDIR_TEST_HOLDER"

func TestMain(m *testing.M) {
	dir, ok := os.LookupEnv(holder)
	if !ok {
		os.Exit(m.Run())
	}
	d, err := Open(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Printf("after %q\n", d.Predecessor())
	if err := d.Name(fmt.Sprint("process-", os.Getpid())); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("held")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	os.Exit(0) // without Close
}

// hold starts a process that locks the directory, and returns it and the predecessor that it found.
func hold(t *testing.T, dir string) (p *exec.Cmd, after string) {
	t.Helper()
	p = exec.Command(os.Args[0])
	p.Env = append(os.Environ(), holder+"="+dir)
	in, err := p.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := p.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = p.Process.Kill(); _ = p.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "held" {
		after = lines.Text()
	}
	return p, after
}

func open(t *testing.T, dir string) *Dir {
	t.Helper()
	d, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// A process has the directory until it ends. The next one knows the previous node.
func TestKilledProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "too")
	p, after := hold(t, dir)
	if after != `after ""` {
		t.Errorf("the first process begins %s, want after none", after)
	}
	name := fmt.Sprint("process-", p.Process.Pid)
	if _, err := Open(dir); !errors.Is(err, ErrHeld) || !strings.Contains(err.Error(), name) {
		t.Fatalf("Open while another process has it: %v; want ErrHeld, with the name of %s", err, name)
	}
	if err := p.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = p.Wait() // it was killed
	second, after := hold(t, dir)
	if want := fmt.Sprintf("after %q", name); after != want {
		t.Errorf("the second process begins %s, want %s", after, want)
	}
	if err := second.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = second.Wait() // it was killed
	if got, want := open(t, dir).Predecessor(), fmt.Sprint("process-", second.Process.Pid); got != want {
		t.Errorf("Predecessor() = %q, want %q", got, want)
	}
}

// There is no known predecessor if the file has another boot or cannot be parsed.
func TestNoPredecessor(t *testing.T) {
	for name, content := range map[string]string{
		"another boot":    `{"node":"n1","boot":"an earlier one"}`,
		"no boot":         `{"node":"n1","boot":""}`,
		"empty":           ``,
		"zeros":           strings.Repeat("\x00", 100),
		"torn":            `{"node":"n1","bo`,
		"something other": `[1,2]`,
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "node"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		d := open(t, dir)
		if got := d.Predecessor(); got != "" {
			t.Errorf("%s: Predecessor() = %q, want none", name, got)
		}
		if err := d.Name("n2"); err != nil {
			t.Fatal(err)
		}
		d.Close()
		if got := open(t, dir).Predecessor(); got != "n2" {
			t.Errorf("%s: then Predecessor() = %q, want n2", name, got)
		}
	}
}

// A shorter name replaces a longer one.
func TestShorterName(t *testing.T) {
	dir := t.TempDir()
	d := open(t, dir)
	for _, name := range []string{"a-rather-long-name", "n1"} {
		if err := d.Name(name); err != nil {
			t.Fatal(err)
		}
	}
	d.Close()
	if got := open(t, dir).Predecessor(); got != "n1" {
		t.Errorf("Predecessor() = %q, want n1", got)
	}
}
