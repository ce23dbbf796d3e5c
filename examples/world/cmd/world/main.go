// Command world runs examples/world as a separate process, for demos and crash tests.
//
//	world [-listen 127.0.0.1:0] [-ledger FILE]
//
// It prints "world listening on http://…" when it is ready, and runs until it is interrupted or
// terminated.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"recourse/examples/internal/command"
	"recourse/examples/world"
)

func main() { command.Main(run) }

// run serves a world until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("world", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on; port 0 selects a free port")
	ledger := flags.String("ledger", "", "file to append the ledger to, as NDJSON")
	if err := command.Parse(flags, args, stderr); err != nil {
		return err
	}
	var cfg world.Config
	if *ledger != "" {
		f, last, err := openLedger(*ledger)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
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
