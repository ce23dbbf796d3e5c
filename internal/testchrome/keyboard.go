package testchrome

import (
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Key presses keys: characters, or those of chromedp's kb. It waits until the page is all there,
// and hears them.
func (w *Window) Key(keys string) {
	w.tb.Helper()
	w.Until("the page is there", `document.readyState === "complete"`)
	w.do("press a key", chromedp.KeyEvent(keys, raw))
}

// raw presses a key as keyboards do: what a page does instead of typing a character keeps it from
// being typed.
func raw(k *input.DispatchKeyEventParams) {
	if k.Type == kb.KeyDown {
		k.Type = input.DispatchKeyEventTypeRawKeyDown
	}
}

// Focused is what has the focus is called.
func (w *Window) Focused() string {
	w.tb.Helper()
	name, err := eval[string](w, `(e => e && e !== document.body ? `+called+`(e) : "")(document.activeElement)`)
	if err != nil {
		w.tb.Fatalf("focus: %v", err)
	}
	return name
}

// tabs is how often Tab may be pressed on the way to something.
const tabs = 150

// TabTo presses Tab until a control has the focus that is called so, and can be seen to have it.
func (w *Window) TabTo(name string) {
	w.tb.Helper()
	w.Until(fmt.Sprintf("there is a control %q", name), control(controls, name))
	var passed []string
	for range tabs {
		w.Key(kb.Tab)
		at := w.Focused()
		if strings.Contains(strings.ToLower(at), strings.ToLower(name)) {
			w.Until("the focus on "+name+" is to be seen", `(s => s.outlineStyle !== "none" || s.boxShadow !== "none")(getComputedStyle(document.activeElement))`)
			return
		}
		passed = append(passed, at)
	}
	w.tb.Fatalf("Tab does not lead to %q, but to %q", name, passed)
}

// Enter presses Enter on what has the focus.
func (w *Window) Enter() {
	w.tb.Helper()
	w.Key(kb.Enter)
}

// TabToGroup presses Tab until a radio button has the focus of the group that has one called so.
func (w *Window) TabToGroup(name string) {
	w.tb.Helper()
	wanted := control("input[type=radio]", name)
	w.Until(fmt.Sprintf("there is a radio button %q", name), wanted)
	for range tabs {
		w.Key(kb.Tab)
		ok, err := eval[bool](w, `((a, e) => a.type === "radio" && Boolean(e) && a.name === e.name && a.form === e.form)(document.activeElement, `+wanted+`)`)
		if err != nil {
			w.tb.Fatalf("focus: %v", err)
		}
		if ok {
			return
		}
	}
	w.tb.Fatalf("Tab does not lead to the group of %q", name)
}

// Picked reports whether the radio button or checkbox that has the focus is chosen, and called so.
func (w *Window) Picked(name string) bool {
	w.tb.Helper()
	ok, err := eval[bool](w, `document.activeElement.checked && `+called+`(document.activeElement).toLowerCase().includes(`+quote(strings.ToLower(name))+`)`)
	if err != nil {
		w.tb.Fatalf("focus: %v", err)
	}
	return ok
}
