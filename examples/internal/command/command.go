// Package command runs the examples that are programs: a server with a few flags, which ends when
// it is interrupted or terminated.
package command

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main runs a program and ends the process: with 2 if its arguments are wrong, with 1 after another
// error.
func Main(run func(ctx context.Context, args []string, stdout, stderr io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, ErrUsage):
		os.Exit(2) // Parse has printed the error
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// ErrUsage means that the arguments are wrong.
var ErrUsage = errors.New("usage")

// Parse parses the arguments of a program that has only flags, and prints errors on stderr.
func Parse(flags *flag.FlagSet, args []string, stderr io.Writer) error {
	flags.SetOutput(stderr)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "%s takes no arguments, only flags: leave out %q\n", flags.Name(), flags.Arg(0))
		return ErrUsage
	}
	return nil
}
