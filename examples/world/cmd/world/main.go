// Command world runs examples/world as a separate process, for demos and crash tests.
//
//	world [-listen 127.0.0.1:0] [-ledger FILE]
//
// It prints "world listening on http://…" when it is ready, and runs until it is interrupted or
// terminated.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"recourse/examples/world"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage):
		os.Exit(2) // the flag package has printed the error
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

var errUsage = errors.New("usage")

// run serves a world until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("world", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on; port 0 selects a free port")
	ledger := flags.String("ledger", "", "file to append the ledger to, as NDJSON")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "world takes no arguments, only flags: leave out %q\n", flags.Arg(0))
		return errUsage
	}
	var cfg world.Config
	if *ledger != "" {
		f, last, err := openLedger(*ledger)
		if err != nil {
			return err
		}
		defer f.Close()
		cfg.LedgerTo, cfg.After = f, last
	}
	s, err := world.New(cfg).Listen(*listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "world listening on", s.URL)
	<-ctx.Done()
	return s.Close()
}
