package demo

import (
	"context"
	"fmt"
	"time"

	"recourse/examples/world"
	"recourse/internal/cli"
)

// World runs the demo's world as a separate process, so that it survives the kill of the server.
type World struct {
	Listen    string        `default:"127.0.0.1:0"`
	KeyWindow time.Duration `help:"Time that the world remembers an idempotency key; 0: forever. A short time breaks the world's promise, for tests."`
}

// Run serves the world until stdin ends, which means that the demo has ended.
func (c *World) Run(a *cli.App) error {
	ctx, stop := context.WithCancel(a.Ctx)
	defer stop()
	s, err := world.New(world.Config{KeyWindow: c.KeyWindow}).Listen(c.Listen)
	if err != nil {
		return fmt.Errorf("world: %w", err)
	}
	a.WhenStdinEnds(stop)
	a.Printf("world listening on %s\n", s.URL)
	<-ctx.Done()
	return s.Close()
}
