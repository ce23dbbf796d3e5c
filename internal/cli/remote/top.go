package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"recourse/internal/cli"
	"recourse/internal/cli/view"
	"recourse/internal/story"
)

// Top is `recourse top`.
type Top struct {
	ServerFlags
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
func (c *Top) Run(a *cli.App) error {
	if c.Every < 100*time.Millisecond {
		return cli.Exit(cli.Usage, errors.New("--every is at least 100ms"))
	}
	ctx, stop := context.WithCancel(a.Ctx)
	defer stop()
	cl, err := c.Client(ctx)
	if err != nil {
		return err
	}
	o := &overview{client: cl, steps: make(map[string]stepSeen), inboxCommand: c.Command(a, "inbox --kind stuck")}
	if err := o.read(listedRows(a)); err != nil {
		return err
	}
	if c.Once || !a.Live {
		for _, r := range o.frame(frameWidth(a), time.Now()) {
			a.Printf("%s\n", story.Paint(r.Text, r.Tone, a.Colour))
		}
		return nil
	}
	if f, ok := a.Stdin.(*os.File); ok && cli.IsTerminal(f) {
		back, err := cli.ReadKeys(f)
		if err != nil {
			return fmt.Errorf("the terminal's keys: %w", err)
		}
		defer back()
		go quitKey(f, stop)
	}
	a.Printf("%s", screenOn)
	defer a.Printf("%s", screenOff)
	return c.refresh(ctx, a, o)
}

// refresh draws until ctx is done. It keeps polling a server that does not respond.
func (c *Top) refresh(ctx context.Context, a *cli.App, o *overview) error {
	every := time.NewTicker(c.Every)
	defer every.Stop()
	for {
		drawFrame(a, o.frame(a.Columns(), time.Now()))
		select {
		case <-ctx.Done():
			return nil
		case <-every.C:
		}
		o.trouble = ""
		if err := o.read(listedRows(a)); err != nil && ctx.Err() == nil {
			if code := cli.ExitCode(err); code != cli.Unreachable && code != cli.Failed {
				return err
			}
			o.trouble = err.Error()
		}
	}
}

// listedRows returns how many sagas fit on the screen.
func listedRows(a *cli.App) int {
	if !a.TTY {
		return onceRows
	}
	return max(a.Rows()-headLines, 1)
}

// frameWidth returns the terminal's width; without a terminal lines are not shortened.
func frameWidth(a *cli.App) int {
	if !a.TTY {
		return 1 << 20
	}
	return a.Columns()
}

// drawFrame replaces the frame before.
func drawFrame(a *cli.App, rows []view.Row) {
	var b strings.Builder
	b.WriteString(topLeft)
	rows = rows[:min(len(rows), a.Rows()-1)]
	for _, r := range rows {
		fmt.Fprintf(&b, "%s\x1b[K\r\n", story.Paint(r.Text, r.Tone, a.Colour))
	}
	b.WriteString("\x1b[J")
	a.Printf("%s", b.String())
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
