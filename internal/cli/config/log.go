package config

import (
	"fmt"
	"io"
	"log/slog"

	"recourse/internal/cli"
	"recourse/internal/secrets"
)

// NewLog returns a logger whose lines have no secret's value in them.
func NewLog(w io.Writer, format, level string, src *secrets.Source) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, cli.Exit(cli.Usage, fmt.Errorf("--log-level is debug, info, warn or error, not %q", level))
	}
	o := &slog.HandlerOptions{Level: l}
	out := redacting{w, src}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(out, o)), nil
	}
	return slog.New(slog.NewTextHandler(out, o)), nil
}

// redacting removes secrets from whole lines; slog writes one line at a time.
type redacting struct {
	w   io.Writer
	src *secrets.Source
}

func (r redacting) Write(p []byte) (int, error) {
	if _, err := io.WriteString(r.w, r.src.Redact(string(p))); err != nil {
		return 0, err
	}
	return len(p), nil
}
