package browser

import (
	"testing"

	"github.com/chromedp/chromedp/kb"

	"recourse/internal/test/chrome"
)

// hands is a way to use the page.
type hands interface {
	Use(name string)          // a link, a button, a summary
	Write(field, text string) // into a field
	Pick(option string)       // a radio button or a checkbox
}

// mouse uses the mouse.
type mouse struct{ *chrome.Window }

func (m mouse) Use(name string)          { m.Click(name) }
func (m mouse) Write(field, text string) { m.Fill(field, text) }
func (m mouse) Pick(option string)       { m.Click(option) }

// keyboard uses only keys.
type keyboard struct {
	*chrome.Window
	t *testing.T
}

func (k keyboard) Use(name string) {
	k.t.Helper()
	k.TabTo(name)
	k.Enter()
}

func (k keyboard) Write(field, text string) {
	k.t.Helper()
	k.TabTo(field)
	k.Key(text)
}

// Pick reaches a group of radio buttons with Tab, and an option with the arrow keys.
func (k keyboard) Pick(option string) {
	k.t.Helper()
	k.TabToGroup(option)
	k.Key(" ")
	for range 10 {
		if k.Picked(option) {
			return
		}
		k.Key(kb.ArrowDown)
	}
	k.t.Fatalf("the arrows do not lead to %q", option)
}
