// Package chrome provides tests with a real browser, headless Chromium, which uses pages as
// people do.
//
// Tests never skip: without Chromium they fail and say what to install. As root on Debian they
// install it.
package chrome

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"recourse/internal/test/debian"
)

// names are the names of the program in different packages.
var names = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// binary finds the browser or installs it.
var binary = sync.OnceValues(func() (string, error) {
	if path, ok := find(); ok {
		return path, nil
	}
	if err := debian.Install("chromium", "fonts-dejavu-core"); err != nil {
		return "", fmt.Errorf("there is no Chromium: install it (Debian: apt-get install chromium): %w", err)
	}
	if path, ok := find(); ok {
		return path, nil
	}
	return "", errors.New("chromium was installed but is not found")
})

func find() (string, bool) {
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// Look is the appearance of a window.
type Look struct {
	Width, Height int  // 1200 by 900
	Dark          bool // the preferred color scheme is dark
	Phone         bool // touch, and a pixel ratio of 2
	NoScript      bool
}

// Open opens a window of a new browser, until tb ends. The test fails if a page violates its
// security policy or a script throws an error.
func Open(tb testing.TB, look Look) *Window {
	tb.Helper()
	path, err := binary()
	if err != nil {
		tb.Fatalf("chrome: %v", err)
	}
	if look.Width == 0 {
		look.Width, look.Height = 1200, 900
	}
	options := append([]chromedp.ExecAllocatorOption{}, chromedp.DefaultExecAllocatorOptions[:]...)
	options = append(options, chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(tb.TempDir()),
		chromedp.WindowSize(look.Width, look.Height),
		// The browser must not access the network by itself.
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("hide-scrollbars", true), chromedp.Flag("force-color-profile", "srgb"))
	browser, closeBrowser := chromedp.NewExecAllocator(context.Background(), options...)
	silent := func(string, ...any) {} // it logs unknown events
	ctx, closeWindow := chromedp.NewContext(browser, chromedp.WithErrorf(silent), chromedp.WithLogf(silent))
	w := &Window{tb: tb, ctx: ctx, noScript: look.NoScript}
	tb.Cleanup(func() {
		closeWindow()
		closeBrowser()
		for _, text := range w.complaints() {
			tb.Errorf("the browser's console: %s", text)
		}
	})
	if err := chromedp.Do(ctx, emulate(look)); err != nil {
		tb.Fatalf("chrome: start %s: %v", path, err)
	}
	go w.listen()
	return w
}
