// Command run runs a command with RECOURSE_TEST_POSTGRES set to a temporary
// PostgreSQL server, which test processes share:
//
//	go run ./internal/test/pgserver/run -- go test ./...
//
// The server is fast, but not durable. -c name=value before -- changes a setting.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"recourse/internal/test/pgserver"
)

func main() {
	args := os.Args[1:]
	var settings []string
	for len(args) > 1 && args[0] == "-c" {
		settings, args = append(settings, args[1]), args[2:]
	}
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		fmt.Fprintln(os.Stderr, "usage: run [-c setting=value ...] -- command [argument ...]")
		os.Exit(2)
	}
	status, err := run(settings, args)
	if err != nil {
		fmt.Fprintln(os.Stderr, "pgserver:", err)
	}
	os.Exit(status)
}

// run returns the command's exit status; 128 + n if signal n ended it; 1 and an error if run itself
// fails.
func run(settings, args []string) (status int, err error) {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	c, err := pgserver.Start(settings...)
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(os.Environ(), pgserver.Env+"="+c.URL)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // only this process forwards signals
	if err := cmd.Start(); err != nil {
		return 1, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case sig := <-signals:
			_ = syscall.Kill(-cmd.Process.Pid, sig.(syscall.Signal)) // it may have ended already
		case err := <-ended:
			return exitStatus(err)
		}
	}
}

func exitStatus(err error) (int, error) {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		if err != nil {
			return 1, err
		}
		return 0, nil
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}
