// Command cmd runs examples/llmstub as a separate process.
//
//	go run ./examples/llmstub/cmd [-listen 127.0.0.1:0] [-key KEY]
//
// It prints "llm stub listening on http://…/v1" when it is ready, and runs until it is interrupted
// or terminated.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"recourse/examples/internal/command"
	"recourse/examples/llmstub"
)

func main() { command.Main(run) }

// run serves a stub until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("llmstub", flag.ContinueOnError)
	listen := flags.String("listen", "127.0.0.1:0", "address to listen on; port 0 selects a free port")
	key := flags.String("key", "", "required API key; empty for none")
	if err := command.Parse(flags, args, stderr); err != nil {
		return err
	}
	s, err := llmstub.New(llmstub.Config{APIKey: *key}).Listen(*listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "llm stub listening on", s.URL+"/v1")
	<-ctx.Done()
	return s.Close()
}
