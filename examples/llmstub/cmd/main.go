// Command cmd runs examples/llmstub as a separate process.
//
//	go run ./examples/llmstub/cmd [-listen 127.0.0.1:0] [-key KEY] [-seed N] [-one-by-one] [-delay 300ms]
//
// It prints "llm stub listening on http://…/v1" when it is ready, and runs until it is interrupted
// or terminated. That is the base URL for OpenAI's clients; Anthropic's get it without /v1.
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
	seed := flags.Uint64("seed", 0, "make each response another one, by this number; 0: the same question gets the same response")
	oneByOne := flags.Bool("one-by-one", false, "at most one tool call in a response")
	delay := flags.Duration("delay", 0, "delay before each response")
	if err := command.Parse(flags, args, stderr); err != nil {
		return err
	}
	cfg := llmstub.Config{APIKey: *key, Seed: *seed, OneByOne: *oneByOne,
		Fault: func(llmstub.Call) llmstub.Fault { return llmstub.Fault{Delay: *delay} }}
	s, err := llmstub.New(cfg).Listen(*listen)
	if err != nil {
		return err
	}
	fmt.Fprintln(stdout, "llm stub listening on", s.URL+"/v1")
	<-ctx.Done()
	return s.Close()
}
