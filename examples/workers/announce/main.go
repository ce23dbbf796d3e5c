// Announce is a worker in Go: it announces published pages to the world.
//
// RECOURSE_SERVER and RECOURSE_API_KEY select the server.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"

	"recourse/api/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	server := cmp.Or(os.Getenv("RECOURSE_SERVER"), "http://127.0.0.1:8080")
	err := client.Worker{
		Client:      client.New(server, os.Getenv("RECOURSE_API_KEY")),
		Types:       []string{"page.announce"},
		Concurrency: 4,
		Handle:      announce,
	}.Run(ctx)
	if err != nil {
		log.Fatal(err)
	}
}

// announce does the work. Its result is the step's output; an error that says nothing about its
// effect leaves the step in doubt.
func announce(_ context.Context, t client.Task) (any, error) {
	var in struct {
		Name, File string
		Words      int
	}
	if err := json.Unmarshal(t.Input, &in); err != nil {
		return nil, client.Refuse("bad_input", "the input: %w", err)
	}
	fmt.Printf("read %s: %d words, in %s (key %s)\n", in.Name, in.Words, in.File, t.Key)
	return map[string]bool{"announced": true}, nil
}
