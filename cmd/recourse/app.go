package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/mattn/go-isatty"

	"recourse/internal/story"
)

// Main is the program as a value. It holds everything that the program gets from its environment.
type Main struct {
	Args   []string // without the program's name
	Env    []string // in the form of os.Environ
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	// Program returns the executable that demo and bench run as separate processes; nil:
	// os.Executable.
	Program func() (string, error)
}

// app is the environment of a command.
type app struct {
	Main
	ctx    context.Context // done when the program should stop
	env    map[string]string
	config *configFile
	colour bool // use colours on Stdout
	live   bool // Stdout is a terminal whose lines can be redrawn
	tty    bool // Stdout is a terminal
	yaml   bool // machine-readable output is YAML, not JSON
}

// Run runs the command in Args until it ends or ctx is done. It prints errors on Stderr and returns
// one of the exit codes in exit.go.
func (m Main) Run(ctx context.Context) (code int) {
	if m.Program == nil {
		m.Program = os.Executable
	}
	a := &app{Main: m, ctx: ctx, env: environ(m.Env)}
	a.config = &configFile{env: a.env}
	a.tty = terminal(m.Stdout)
	a.live = a.tty && a.env["TERM"] != "dumb"
	a.colour = a.live && a.env["NO_COLOR"] == ""
	defer func() {
		// kong ends the program after printing help, with the function given to kong.Exit.
		if p := recover(); p != nil {
			early, ok := p.(earlyExit)
			if !ok {
				panic(p)
			}
			code = int(early)
		}
	}()
	return a.report(a.dispatch())
}

type earlyExit int

func (a *app) dispatch() error {
	var c cli
	k, err := kong.New(&c,
		kong.Name("recourse"),
		kong.Description("Run sagas: steps with side effects that either all succeed or are undone."),
		kong.Writers(a.Stdout, a.Stderr),
		kong.Exit(func(code int) { panic(earlyExit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Resolvers(a.config, variables(a.env)),
	)
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	if len(a.Args) == 0 && a.completing(k) {
		return nil
	}
	ctx, err := k.Parse(a.Args)
	if err != nil {
		var parse *kong.ParseError
		if errors.As(err, &parse) && parse.Context != nil && len(a.Args) == 0 {
			_ = parse.Context.PrintUsage(false)
			return exit(exitUsage, errors.New("name a command; `recourse demo` is a good first one"))
		}
		if errors.Is(err, errConfig) { // kong reports it for the first flag that it looked up
			_, said, _ := strings.Cut(err.Error(), errConfig.Error())
			return exit(exitUsage, errors.New(errConfig.Error()+said))
		}
		return exit(exitUsage, fmt.Errorf("%w; `recourse --help` lists commands, `recourse COMMAND --help` their flags", err))
	}
	for _, f := range ctx.Flags() {
		a.yaml = a.yaml || f.Name == "output" && ctx.FlagValue(f) == "yaml"
	}
	return ctx.Run(a)
}

// report prints an error and returns its exit code.
func (a *app) report(err error) int {
	if err == nil {
		return exitOK
	}
	code := codeOf(err)
	if text := err.Error(); text != "" {
		for line := range strings.Lines("recourse: " + text) {
			fmt.Fprintln(a.Stderr, story.Harmless(strings.TrimSuffix(line, "\n")))
		}
	}
	return code
}

// printf writes to Stdout. Write errors are ignored, because there is nowhere to report them.
func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.Stdout, format, args...) }

// note writes a line of progress to Stderr.
func (a *app) note(format string, args ...any) { fmt.Fprintf(a.Stderr, format+"\n", args...) }

func environ(list []string) map[string]string {
	env := make(map[string]string, len(list))
	for _, entry := range list {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	return env
}

func terminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && isatty.IsTerminal(f.Fd())
}
