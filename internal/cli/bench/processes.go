package bench

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/bench/measure"
	"recourse/internal/cli/process"
)

// Stub is the remote service of the benchmark, as a separate process.
type Stub struct {
	Delay time.Duration `help:"Duration of each response."`
	Cheat bool          `help:"Record some effects twice."`
}

// Run serves until stdin ends.
func (c *Stub) Run(a *cli.App) error {
	return serveUntilStdinEnds(a, measure.NewStub(c.Delay, c.Cheat))
}

// Floor is the minimal program to compare with, as a separate process.
type Floor struct {
	Database string `required:""`
	Stub     string `required:""`
	Scripts  string `required:""`
}

// Run serves until stdin ends.
func (c *Floor) Run(a *cli.App) error {
	b, err := os.ReadFile(c.Scripts)
	if err != nil {
		return err
	}
	var scripts map[string]measure.Script
	if err := json.Unmarshal(b, &scripts); err != nil {
		return err
	}
	f, err := measure.NewFloor(a.Ctx, c.Database, c.Stub, scripts)
	if err != nil {
		return err
	}
	return serveUntilStdinEnds(a, f)
}

func serveUntilStdinEnds(a *cli.App, h http.Handler) error {
	process.CollectSeldom(a) // as the engine does, so that the comparison is fair
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	a.WhenStdinEnds(func() { s.Close() })
	a.Printf("listening on http://%s\n", l.Addr())
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
