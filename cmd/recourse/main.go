// Command recourse runs sagas: sequences of side-effecting steps that either reach their goal or
// are undone. `recourse --help` lists its commands; docs/cli.md explains them.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // triggers name time zones, and not every machine has a time zone database
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	m := Main{Args: os.Args[1:], Env: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	code := m.Run(ctx)
	stop()
	os.Exit(code)
}
