// Package cli is what the commands of the program share: their environment, their exit codes, and
// how they read arguments and print text, tables, progress, JSON and YAML.
//
// A command is a struct whose fields are its flags and arguments, with a method
//
//	Run(a *cli.App) error
//
// It prints results with [App.Printf] or, for programs, [App.Encode], and remarks with [App.Note].
// An error from [Exit] has an exit code; every other error means [Failed].
package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/mattn/go-isatty"

	"recourse/internal/story"
)

// App is the environment of a command.
type App struct {
	Ctx       context.Context   // done when the program should stop
	Env       []string          // in the form of os.Environ
	Variables map[string]string // Env by name
	Stdin     io.Reader
	Stdout    io.Writer
	Stderr    io.Writer
	Program   func() (string, error) // the executable, for commands that run it as a separate process
	Version   string                 // of the program
	Colour    bool                   // use colours on Stdout
	Live      bool                   // Stdout is a terminal whose lines can be redrawn
	TTY       bool                   // Stdout is a terminal
	YAML      bool                   // machine-readable output is YAML, not JSON
}

// New returns the environment of a command that prints to these streams.
func New(ctx context.Context, env []string, stdin io.Reader, stdout, stderr io.Writer) *App {
	a := &App{Ctx: ctx, Env: env, Variables: environ(env), Stdin: stdin, Stdout: &output{Writer: stdout}, Stderr: stderr, Program: os.Executable}
	a.TTY = IsTerminal(stdout)
	a.Live = a.TTY && a.Variables["TERM"] != "dumb"
	a.Colour = a.Live && a.Variables["NO_COLOR"] == ""
	return a
}

// Report prints an error and returns its exit code.
func (a *App) Report(err error) int {
	if err == nil {
		return OK
	}
	code := ExitCode(err)
	if text := err.Error(); text != "" {
		a.Note("recourse: %s", strings.TrimSuffix(text, "\n"))
	}
	return code
}

// Printf writes to Stdout. It returns no error: OutputError has the first one.
func (a *App) Printf(format string, args ...any) { fmt.Fprintf(a.Stdout, format, args...) }

// RawStdout returns the stream that Stdout writes to, for a process that writes to it itself.
func (a *App) RawStdout() io.Writer {
	if o, ok := a.Stdout.(*output); ok {
		return o.Writer
	}
	return a.Stdout
}

// OutputError returns the first error of writing to Stdout, such as that of a full disk. The
// program reports it when the command has ended, because then a result is missing or cut off.
func (a *App) OutputError() error {
	o, ok := a.Stdout.(*output)
	if !ok {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.first
}

// output remembers the first error of its writer.
type output struct {
	io.Writer

	mu    sync.Mutex
	first error
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.first = cmp.Or(o.first, fmt.Errorf("the output is not complete: %w", err))
	}
	return n, err
}

// Note writes a line of progress to Stderr, or several. Control characters become spaces, because
// the text may be that of a remote service, and Stderr a terminal.
func (a *App) Note(format string, args ...any) {
	lines := strings.Split(fmt.Sprintf(format, args...), "\n")
	for i, line := range lines {
		lines[i] = story.Harmless(line)
	}
	fmt.Fprintln(a.Stderr, strings.Join(lines, "\n"))
}

// WhenStdinEnds calls f once, on a goroutine of its own, when Stdin ends: the parent process has
// closed it, or has exited. The input is discarded.
func (a *App) WhenStdinEnds(f func()) {
	go func() {
		_, _ = io.Copy(io.Discard, a.Stdin)
		f()
	}()
}

func environ(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, entry := range list {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}

// Remark prints a text as a note, unless it is empty.
func (a *App) Remark(text string) {
	if text != "" {
		a.Note("%s", text)
	}
}
