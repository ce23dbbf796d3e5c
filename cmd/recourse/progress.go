package main

import (
	"fmt"
	"time"
)

// progress is a line on a terminal that counts.
type progress struct {
	app   *app
	live  bool
	shown time.Time
}

const progressEvery = 200 * time.Millisecond

// progress counts on Stderr if that is a terminal.
func (a *app) progress() *progress {
	return &progress{app: a, live: terminal(a.Stderr) && a.env["TERM"] != "dumb"}
}

func (p *progress) tick(n int) {
	if now := time.Now(); p.live && now.Sub(p.shown) >= progressEvery {
		p.shown = now
		fmt.Fprintf(p.app.Stderr, "\r%d sagas", n)
	}
}

// end wipes the line.
func (p *progress) end() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.app.Stderr, "\r\x1b[K")
	}
}
