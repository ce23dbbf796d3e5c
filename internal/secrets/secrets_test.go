package secrets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func mustNew(t *testing.T, dir string, environ ...string) *Source {
	t.Helper()
	s, err := New(dir, environ)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestGet(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, dir, "PLAIN", "from-file")
	write(t, dir, "NEWLINE", "one\n")
	write(t, dir, "CRLF", "one\r\n")
	write(t, dir, "TWO_LINES", "one\ntwo\n\n")
	write(t, dir, "BOTH", "from-file")
	write(t, dir, "BLANK", "\n")
	write(t, dir, "LARGEST", strings.Repeat("x", MaxSize)+"\r\n")
	write(t, dir, "TOO_LARGE", strings.Repeat("x", MaxSize+1))
	write(t, dir, "DIR", "in-a-file")
	write(t, outside, "TARGET", "linked")
	if err := os.Symlink(filepath.Join(outside, "TARGET"), filepath.Join(dir, "LINK")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "FOLDER"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "PIPE"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := mustNew(t, dir, "RECOURSE_SECRET_ENV=a=b", "RECOURSE_SECRET_BOTH=from-env", "RECOURSE_SECRET_EMPTY=", "RECOURSE_SECRET_DIR="+dir, "PATH=/bin", "odd")
	tests := []struct {
		name, want string
		err        error
	}{
		{"ENV", "a=b", nil},
		{"PLAIN", "from-file", nil},
		{"NEWLINE", "one", nil},
		{"CRLF", "one", nil},
		{"TWO_LINES", "one\ntwo\n", nil},
		{"BOTH", "from-env", nil},
		{"LINK", "linked", nil},
		{"DIR", "in-a-file", nil},
		{"LARGEST", strings.Repeat("x", MaxSize), nil},
		{"TOO_LARGE", "", ErrInvalid},
		{"FOLDER", "", ErrInvalid},
		{"PIPE", "", ErrInvalid},
		{"BLANK", "", ErrMissing},
		{"EMPTY", "", ErrMissing},
		{"NOPE", "", ErrMissing},
		{"", "", ErrName},
		{"lower", "", ErrName},
		{"../TARGET", "", ErrName},
		{"A/B", "", ErrName},
		{"A\n", "", ErrName},
		{"_A", "", ErrName},
		{"A" + strings.Repeat("B", 63), "", ErrName},
	}
	for _, tt := range tests {
		got, err := s.Get(tt.name)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("Get(%q) = %.20q, %v; want %.20q, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
	if _, err := s.Get("NOPE"); !strings.Contains(err.Error(), "RECOURSE_SECRET_NOPE") || !strings.Contains(err.Error(), "--secret-dir") {
		t.Errorf("the error does not say what to do: %v", err)
	}
	if _, err := mustNew(t, "").Get("DIR"); !errors.Is(err, ErrMissing) || strings.Contains(err.Error(), "set RECOURSE_SECRET_DIR") {
		t.Errorf("Get(DIR) = %v, want ErrMissing and no advice that cannot work", err)
	}
	want := []string{"BLANK", "BOTH", "CRLF", "DIR", "EMPTY", "ENV", "LARGEST", "LINK", "NEWLINE", "PIPE", "PLAIN", "TOO_LARGE", "TWO_LINES"}
	if diff := cmp.Diff(want, s.Names()); diff != "" {
		t.Errorf("Names (-want +got):\n%s", diff)
	}
}

func TestGetReadsRotatedFiles(t *testing.T) {
	dir := t.TempDir()
	s := mustNew(t, dir)
	for _, value := range []string{"first-value", "second-value"} {
		write(t, dir, "KEY", value)
		if got, err := s.Get("KEY"); got != value || err != nil {
			t.Errorf("Get = %q, %v; want %q", got, err, value)
		}
	}
	if got, want := s.Redact("first-value second-value third-value"), "*** *** third-value"; got != want {
		t.Errorf("Redact = %q, want %q", got, want)
	}
}

func TestNewErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	write(t, filepath.Dir(file), "file", "x")
	tests := []struct {
		dir     string
		environ []string
		want    error
	}{
		{"", []string{"RECOURSE_SECRET_lower=v4lue-x"}, ErrName},
		{"", []string{"RECOURSE_SECRET_=v4lue-x"}, ErrName},
		{"", []string{"RECOURSE_SECRET_BIG=v4lue-x" + strings.Repeat("x", MaxSize)}, ErrInvalid},
		{file + "-missing", nil, fs.ErrNotExist},
	}
	for _, tt := range tests {
		s, err := New(tt.dir, tt.environ)
		if s != nil || !errors.Is(err, tt.want) || strings.Contains(err.Error(), "v4lue") {
			t.Errorf("New(%q, %.40q) = %v, %v; want %v and no value", tt.dir, tt.environ, s, err, tt.want)
		}
	}
	if _, err := New(file, nil); err == nil || !strings.Contains(err.Error(), "not a directory") {
		t.Errorf("New of a file = %v", err)
	}
}

func TestRedact(t *testing.T) {
	s := mustNew(t, "", "RECOURSE_SECRET_A=abcdef", "RECOURSE_SECRET_LONG=abcdefgh", "RECOURSE_SECRET_PIN=1234",
		`RECOURSE_SECRET_ODD=q"<€ /1`, "RECOURSE_SECRET_UNUSED=never-read")
	if got := s.Redact("abcdef"); got != "abcdef" {
		t.Errorf("Redact before Get = %q", got)
	}
	for _, name := range []string{"A", "LONG", "PIN", "ODD"} {
		if _, err := s.Get(name); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		"key abcdefgh and abcdef.": "key *** and ***.", "pin 1234": "pin 1234", `raw q"<€ /1`: "raw ***",
		`{"k":"q\"\u003c€ /1"}`: `{"k":"***"}`, "?k=q%22%3C%E2%82%AC+%2F1": "?k=***", "/q%22%3C%E2%82%AC%20%2F1/": "/***/",
		"never-read": "never-read", "": "",
	} {
		if got := s.Redact(text); got != want {
			t.Errorf("Redact(%q) = %q, want %q", text, got, want)
		}
	}
}

// A log in either format has no secret in it, whatever characters the secret has.
func TestRedactLogs(t *testing.T) {
	for _, secret := range []string{"plain-secret", `q"<&>€ /1`, `back\slash"&`, "tab\tand\x7f\u2028&"} {
		s := mustNew(t, "", "RECOURSE_SECRET_A="+secret)
		if _, err := s.Get("A"); err != nil {
			t.Fatal(err)
		}
		for name, handler := range map[string]func(io.Writer) slog.Handler{
			"json": func(w io.Writer) slog.Handler { return slog.NewJSONHandler(w, nil) },
			"text": func(w io.Writer) slog.Handler { return slog.NewTextHandler(w, nil) },
		} {
			body, err := json.Marshal("refused: " + secret + " is unknown")
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"refused: " + secret + " is unknown", string(body), fmt.Sprintf("HTTP 422 %q", body)} {
				var line strings.Builder
				slog.New(handler(&line)).Info("it happened", "error", text)
				if got := s.Redact(line.String()); !strings.Contains(got, "refused: *** is unknown") {
					t.Errorf("%s: %s", name, got)
				}
			}
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "FILE", "from-a-file")
	s := mustNew(t, dir, "RECOURSE_SECRET_ENV=from-the-env")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for _, name := range []string{"ENV", "FILE"} {
				value, err := s.Get(name)
				if got := s.Redact(value); err != nil || got != "***" {
					t.Errorf("%s: Redact = %q, %v", name, got, err)
				}
			}
		})
	}
	all.Wait()
}

// A reserved secret is still redacted.
func TestReserve(t *testing.T) {
	s, err := New("", []string{"RECOURSE_SECRET_KEY=0123456789abcdef"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get("KEY"); err != nil {
		t.Fatal(err)
	}
	s.Reserve("KEY", "it signs anchors")
	if v, err := s.Get("KEY"); v != "" || !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "it signs anchors") || strings.Contains(err.Error(), "0123") {
		t.Errorf("%q %v", v, err)
	}
	if out := s.Redact("a 0123456789abcdef b"); strings.Contains(out, "0123") {
		t.Error(out)
	}
}
