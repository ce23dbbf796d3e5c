package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"

	"recourse/internal/cli"
	"recourse/internal/cli/agent"
	"recourse/internal/cli/completion"
	"recourse/internal/cli/config"
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

// Run runs the command in Args until it ends or ctx is done. It prints errors on Stderr and returns
// one of the exit codes in exit.go.
func (m Main) Run(ctx context.Context) (code int) {
	a := cli.New(ctx, m.Env, m.Stdin, m.Stdout, m.Stderr)
	a.Version = version()
	if m.Program != nil {
		a.Program = m.Program
	}
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
	err := dispatch(a, m.Args)
	if err == nil {
		err = a.OutputError()
	}
	return a.Report(err)
}

type earlyExit int

// dispatch runs the command that the arguments name.
func dispatch(a *cli.App, args []string) error {
	var c commands
	file := config.NewFile(a.Variables)
	k, err := kong.New(&c,
		kong.Name("recourse"),
		kong.Description("Run sagas: steps with side effects that either all succeed or are undone."),
		kong.Writers(a.Stdout, a.Stderr),
		kong.Exit(func(code int) { panic(earlyExit(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.Resolvers(file, variables(a.Variables)),
	)
	if err != nil {
		return fmt.Errorf("command line: %w", err)
	}
	if len(args) == 0 && completion.Complete(a, k) {
		return nil
	}
	ctx, err := k.Parse(args)
	if err != nil {
		var parse *kong.ParseError
		if errors.As(err, &parse) && parse.Context != nil && len(args) == 0 {
			_ = parse.Context.PrintUsage(false)
			return cli.Exit(cli.Usage, errors.New("name a command; `recourse demo` is a good first one"))
		}
		if errors.Is(err, config.ErrFile) { // kong reports it for the first flag that it looked up
			_, said, _ := strings.Cut(err.Error(), config.ErrFile.Error())
			return cli.Exit(cli.Usage, errors.New(config.ErrFile.Error()+said))
		}
		return cli.Exit(cli.Usage, fmt.Errorf("%w; `recourse --help` lists commands, `recourse COMMAND --help` their flags", err))
	}
	for _, f := range ctx.Flags() {
		a.YAML = a.YAML || f.Name == "output" && ctx.FlagValue(f) == "yaml"
	}
	return ctx.Run(a, file, agent.Embed(embed))
}
