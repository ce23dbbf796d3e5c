package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"recourse/internal/story"
)

// ProgressBar is a line that shows how far a long task is, its rate, and the remaining time. It is
// written to Stderr if that is a terminal.
type ProgressBar struct {
	app   *App
	what  string // "sagas"
	of    int    // 0: unknown
	live  bool
	began time.Time
	shown time.Time
}

const (
	progressEvery = 200 * time.Millisecond
	barWidth      = 24
)

// Progress returns a counter of things of a kind.
func (a *App) Progress(what string, of int) *ProgressBar {
	return &ProgressBar{app: a, what: what, of: of, live: IsTerminal(a.Stderr) && a.Variables["TERM"] != "dumb", began: time.Now()}
}

// At reports that n of them are done.
func (p *ProgressBar) At(n int) {
	if now := time.Now(); p.live && now.Sub(p.shown) >= progressEvery {
		p.shown = now
		fmt.Fprintf(p.app.Stderr, "\r%s\x1b[K", story.Short(p.line(n, now.Sub(p.began)), p.columns()-1))
	}
}

// End clears the line.
func (p *ProgressBar) End() {
	if !p.shown.IsZero() {
		fmt.Fprint(p.app.Stderr, "\r\x1b[K")
		p.shown = time.Time{}
	}
}

// line returns the text of the line.
func (p *ProgressBar) line(n int, took time.Duration) string {
	text := fmt.Sprintf("%d %s", n, p.what)
	if p.of > 0 {
		full := min(n, p.of) * barWidth / p.of
		text = fmt.Sprintf("[%s%s] %d/%d %s", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), n, p.of, p.what)
	}
	ms := took.Milliseconds()
	if n == 0 || ms == 0 {
		return text
	}
	rate := int64(n) * 10_000 / ms // in tenths a second
	if rate >= 1000 {
		text += fmt.Sprintf("  %d/s", rate/10)
	} else {
		text += fmt.Sprintf("  %d.%d/s", rate/10, rate%10)
	}
	if p.of > n {
		text += fmt.Sprintf("  %s left", Span(took/time.Duration(n)*time.Duration(p.of-n)))
	}
	return text
}

func (p *ProgressBar) columns() int {
	if f, ok := p.app.Stderr.(*os.File); ok {
		if n, _ := sizeOf(f); n > 0 {
			return n
		}
	}
	return usualColumns
}

// Meter shows the progress of one kind of work after another.
func (a *App) Meter() func(done, of int, what string) {
	var p *ProgressBar
	return func(done, of int, what string) {
		if p == nil || p.what != what || p.of != of {
			p = a.Progress(what, of)
		}
		p.At(done)
		if done >= of {
			p.End()
			p = nil
		}
	}
}

// During shows the elapsed time of a task that cannot be counted.
func (a *App) During(what string, do func() error) error {
	p := a.Progress(what, 0)
	if !p.live {
		return do()
	}
	done := make(chan error, 1)
	go func() { done <- do() }()
	every := time.NewTicker(progressEvery)
	defer every.Stop()
	defer p.End()
	for {
		select {
		case err := <-done:
			return err
		case now := <-every.C:
			p.shown = now
			fmt.Fprintf(a.Stderr, "\r%s  %s\x1b[K", story.Short(what, p.columns()-12), Span(now.Sub(p.began)))
		}
	}
}
