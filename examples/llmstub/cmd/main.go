// Command cmd runs examples/llmstub as a separate process.
//
//	go run ./examples/llmstub/cmd [-listen 127.0.0.1:0] [-key KEY]
//
// It prints "llm stub listening on http://…/v1" when it is ready, and runs until it is interrupted
// or terminated.
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

	"recourse/examples/llmstub"
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

// run serves a stub until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("llmstub", flag.ContinueOnError)
	flags.SetOutput(stderr)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on; port 0 selects a free port")
	key := flags.String("key", "", "required API key; empty for none")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %w", errUsage, err)
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "llmstub takes no arguments, only flags: leave out %q\n", flags.Arg(0))
		return errUsage
	}
	s, err := llmstub.New(llmstub.Config{APIKey: *key}).Listen(*listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "llm stub listening on", s.URL+"/v1")
	<-ctx.Done()
	return s.Close()
}
