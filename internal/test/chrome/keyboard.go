package chrome

import (
	"fmt"
	"strings"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Key presses keys: characters, or those of chromedp's kb. It first waits until the page is loaded
// and handles keys.
func (w *Window) Key(keys string) {
	w.tb.Helper()
	w.Until("the page is there", `document.readyState === "complete"`)
	w.do("press a key", chromedp.KeyEvent(keys, raw))
}

// raw makes a key press like that of a keyboard: if the page handles it, no character is typed.
func raw(k *input.DispatchKeyEventParams) {
	if k.Type == kb.KeyDown {
		k.Type = input.DispatchKeyEventTypeRawKeyDown
	}
}

// Focused returns the name of the focused element.
func (w *Window) Focused() string {
	w.tb.Helper()
	name, err := eval[string](w, `(e => e && e !== document.body ? `+called+`(e) : "")(document.activeElement)`)
	if err != nil {
		w.tb.Fatalf("focus: %v", err)
	}
	return name
}

// tabs limits how often Tab is pressed to reach a control.
const tabs = 150

// TabTo presses Tab until the control with this name has the focus, visibly.
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

// Enter presses Enter on the focused element.
func (w *Window) Enter() {
	w.tb.Helper()
	w.Key(kb.Enter)
}

// TabToGroup presses Tab until the focus is in the group of the radio button with this name.
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

// Picked reports whether the focused radio button or checkbox is checked and has this name.
func (w *Window) Picked(name string) bool {
	w.tb.Helper()
	ok, err := eval[bool](w, `document.activeElement.checked && `+called+`(document.activeElement).toLowerCase().includes(`+quote(strings.ToLower(name))+`)`)
	if err != nil {
		w.tb.Fatalf("focus: %v", err)
	}
	return ok
}
