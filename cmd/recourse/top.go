package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"recourse/internal/story"
)

type topCmd struct {
	serverFlags
	Once  bool          `help:"Print it once and exit."`
	Every time.Duration `default:"2s" help:"Time between two refreshes; default ${default}."`
}

// Terminal sequences: switch to the alternate screen without a cursor, and back.
const (
	screenOn  = "\x1b[?1049h\x1b[?25l"
	screenOff = "\x1b[?25h\x1b[?1049l"
	topLeft   = "\x1b[H"
)

// onceRows is the number of listed sagas without a terminal.
const onceRows = 50

// Run shows the state of a server until q is pressed.
func (c *topCmd) Run(a *app) error {
	if c.Every < 100*time.Millisecond {
		return exit(exitUsage, errors.New("--every is at least 100ms"))
	}
	ctx, stop := context.WithCancel(a.ctx)
	defer stop()
	cl, err := c.client(ctx)
	if err != nil {
		return err
	}
	o := &overview{client: cl, steps: make(map[string]stepSeen)}
	if err := o.read(a.listed()); err != nil {
		return err
	}
	if c.Once || !a.live {
		for _, r := range o.frame(a.frameWidth(), time.Now()) {
			a.printf("%s\n", story.Paint(r.text, r.tone, a.colour))
		}
		return nil
	}
	if f, ok := a.Stdin.(*os.File); ok && terminal(f) {
		back, err := keyPresses(f)
		if err != nil {
			return fmt.Errorf("the terminal's keys: %w", err)
		}
		defer back()
		go quitKey(f, stop)
	}
	a.printf("%s", screenOn)
	defer a.printf("%s", screenOff)
	return c.refresh(ctx, a, o)
}

// refresh draws until ctx is done. It keeps polling a server that does not respond.
func (c *topCmd) refresh(ctx context.Context, a *app, o *overview) error {
	every := time.NewTicker(c.Every)
	defer every.Stop()
	for {
		a.drawFrame(o.frame(a.columns(), time.Now()))
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		o.trouble = ""
		if err := o.read(a.listed()); err != nil && ctx.Err() == nil {
			if code := codeOf(err); code != exitUnreachable && code != exitFailed {
				return err
			}
			o.trouble = err.Error()
		}
	}
}

// listed returns how many sagas fit on the screen.
func (a *app) listed() int {
	if !a.tty {
		return onceRows
	}
	return max(a.rows()-headLines, 1)
}

// frameWidth returns the terminal's width; without a terminal lines are not shortened.
func (a *app) frameWidth() int {
	if !a.tty {
		return 1 << 20
	}
	return a.columns()
}

// drawFrame replaces the frame before.
func (a *app) drawFrame(rows []row) {
	var b strings.Builder
	b.WriteString(topLeft)
	rows = rows[:min(len(rows), a.rows()-1)]
	for _, r := range rows {
		fmt.Fprintf(&b, "%s\x1b[K\r\n", story.Paint(r.text, r.tone, a.colour))
	}
	b.WriteString("\x1b[J")
	a.printf("%s", b.String())
}

// quitKey waits for q. Ctrl-C stays a signal.
func quitKey(f *os.File, quit func()) {
	key := make([]byte, 1)
	for {
		n, err := f.Read(key)
		if err != nil || n == 1 && (key[0] == 'q' || key[0] == 'Q') {
			quit()
			return
		}
	}
}
