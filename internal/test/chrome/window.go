package chrome

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// patience is the longest wait for a condition.
const patience = time.Minute

// Window is a window of the browser. Its methods act as people do and find elements by their names.
// They wait until an element is there, and fail the test if it does not appear.
type Window struct {
	tb       testing.TB
	ctx      context.Context
	noScript bool // scripts do not run

	mu      sync.Mutex
	console []string // its errors and warnings
}

// listen collects errors and warnings of the console.
func (w *Window) listen() {
	for m, err := range chromedp.Console(w.ctx) {
		if err != nil {
			return
		}
		if m.IsException() || m.Source == "security" || (m.Type == "error" && m.Source != "network") {
			w.mu.Lock()
			w.console = append(w.console, m.String())
			w.mu.Unlock()
		}
	}
}

func (w *Window) complaints() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.console
}

// do runs one action, with the window's timeout.
func (w *Window) do(what string, a chromedp.Action[chromedp.Void]) {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, a); err != nil {
		w.tb.Fatalf("%s: %v\n%s", what, err, w.Text())
	}
}

// eval evaluates an expression in the page.
func eval[T any](w *Window, expression string) (T, error) {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[T](expression))
}

// Go opens an address.
func (w *Window) Go(url string) {
	w.tb.Helper()
	w.do("open "+url, chromedp.Navigate(url))
}

// Reload loads the page again.
func (w *Window) Reload() {
	w.tb.Helper()
	w.do("reload", chromedp.Reload())
}

// Back goes to the previous page, as the browser's button does.
func (w *Window) Back() {
	w.tb.Helper()
	// A cached page does not load again, so there is nothing to wait for. The timer lets Chromium
	// answer this call before the page leaves: an answer that is still in flight then is an error.
	if _, err := eval[bool](w, `(setTimeout(() => history.back()), true)`); err != nil {
		w.tb.Fatalf("go back: %v", err)
	}
}

// Path returns the path and query of the page.
func (w *Window) Path() string {
	w.tb.Helper()
	p, err := eval[string](w, `location.pathname + location.search`)
	if err != nil {
		w.tb.Fatalf("address: %v", err)
	}
	return p
}

// Text returns the visible text of the page.
func (w *Window) Text() string {
	text, err := eval[string](w, `document.body ? document.body.innerText : ""`)
	if err != nil {
		return fmt.Sprintf("(no page: %v)", err)
	}
	return text
}

// Until waits for a condition, an expression in the page.
func (w *Window) Until(what, condition string) {
	w.tb.Helper()
	for deadline := time.Now().Add(patience); ; {
		ok, err := eval[bool](w, "Boolean("+condition+")") // fails while a page is loading
		if ok {
			return
		}
		if time.Now().After(deadline) {
			w.tb.Fatalf("%s: not within %s (%v). %s shows:\n%s", what, patience, err, w.Path(), w.Text())
		}
		time.Sleep(20 * time.Millisecond) // between two checks
	}
}

// Sees waits until the page shows these texts. Case and runs of spaces are ignored.
func (w *Window) Sees(texts ...string) {
	w.tb.Helper()
	for _, s := range texts {
		w.Until(fmt.Sprintf("%q is shown", s), `(document.body.innerText || "").toLowerCase().replace(/\s+/g, " ").includes(`+quote(strings.ToLower(s))+`)`)
	}
}

// Lacks waits until the page does not show a text.
func (w *Window) Lacks(text string) {
	w.tb.Helper()
	w.Until(fmt.Sprintf("%q is not shown", text), `!(document.body.innerText || "").toLowerCase().replace(/\s+/g, " ").includes(`+quote(strings.ToLower(text))+`)`)
}

// called is a function in the page that returns the name of an element, as a screen reader would
// say it.
const called = `(e => ((e.getAttribute("aria-label") || (e.labels && e.labels.length ? [...e.labels].map(l => l.innerText).join(" ") : "") || e.innerText || e.value || e.placeholder || e.title || "")
	+ "").replace(/\s+/g, " ").trim())`

// Selectors for elements that can be used, and for those that accept text.
const (
	controls = `a[href], button, summary, input:not([type=hidden]), select, textarea`
	fields   = `input:not([type=hidden], [type=radio], [type=checkbox]), textarea`
)

// control returns a function in the page that finds the first visible control with this name,
// preferably the exact name.
func control(kinds, name string) string {
	return `(() => { const called = ` + called + `, want = ` + quote(strings.ToLower(name)) + `;
		const all = [...document.querySelectorAll(` + quote(kinds) + `)].filter(e => e.checkVisibility && e.checkVisibility());
		return all.find(e => called(e).toLowerCase() === want) || all.find(e => called(e).toLowerCase().startsWith(want)) || all.find(e => called(e).toLowerCase().includes(want)); })()`
}

// at waits until a control with this name can be clicked, and returns its position.
func (w *Window) at(kinds, name string) (x, y float64) {
	w.tb.Helper()
	for deadline := time.Now().Add(patience); ; {
		at, err := eval[[]float64](w, `(e => { if (!e || document.readyState !== "complete") return []; e.scrollIntoView({block: "center"}); const r = e.getClientRects()[0], x = r.x + r.width / 2, y = r.y + r.height / 2, top = document.elementFromPoint(x, y);
			sessionStorage.removeItem("clicked"); e.addEventListener("click", () => sessionStorage.setItem("clicked", "yes"), {capture: true, once: true});
			return top && (e.contains(top) || [...(e.labels || [])].some(l => l.contains(top))) ? [x, y] : []; })(`+control(kinds, name)+`)`)
		if len(at) == 2 {
			return at[0], at[1]
		}
		if time.Now().After(deadline) {
			w.tb.Fatalf("there is no control %q to click within %s (%v). %s shows:\n%s", name, patience, err, w.Path(), w.Text())
		}
		time.Sleep(20 * time.Millisecond) // between two checks
	}
}

// A live page may change between finding an element and the click. A person would click again.
const tries = 5

// clicked reports whether the element found last was clicked.
func (w *Window) clicked() bool {
	if w.noScript {
		return true // without scripts this is unknown
	}
	for range 50 {
		if ok, _ := eval[bool](w, `sessionStorage.getItem("clicked") === "yes"`); ok { // fails while a page is loading
			return true
		}
		time.Sleep(10 * time.Millisecond) // between two checks
	}
	return false
}

// Click clicks the element with this name.
func (w *Window) Click(name string) {
	w.tb.Helper()
	for range tries {
		w.do("click "+name, chromedp.MouseClickXY(w.at(controls, name)))
		if w.clicked() {
			return
		}
	}
	w.tb.Fatalf("the click on %q does not reach it. %s shows:\n%s", name, w.Path(), w.Text())
}

// DoubleClick clicks twice, as fast as possible.
func (w *Window) DoubleClick(name string) {
	w.tb.Helper()
	x, y := w.at(controls, name)
	w.do("click "+name+" twice", chromedp.Steps(chromedp.MouseClickXY(x, y), chromedp.MouseClickXY(x, y, chromedp.ClickCount(2))))
}

// Fill replaces the text in the field with this name.
func (w *Window) Fill(label, text string) {
	w.tb.Helper()
	for range tries {
		w.do("go to "+label, chromedp.MouseClickXY(w.at(fields, label)))
		// If the element is not there, the page has changed.
		if there, _ := eval[bool](w, "document.activeElement === "+control(fields, label)); there {
			w.do("fill "+label, chromedp.Steps(chromedp.KeyEvent("a", chromedp.KeyModifiers(chromedp.ModifierCtrl)), chromedp.KeyEvent(text)))
			return
		}
	}
	w.tb.Fatalf("the click into %q does not reach it. %s shows:\n%s", label, w.Path(), w.Text())
}

// Choose chooses an option of a list by their names.
func (w *Window) Choose(label, option string) {
	w.tb.Helper()
	w.Until(fmt.Sprintf("%q has the option %q", label, option), `(() => { const s = `+control("select", label)+`, o = s && [...s.options].find(o => o.text.includes(`+quote(option)+`));
		if (!o) return false; s.value = o.value; s.dispatchEvent(new Event("input", {bubbles: true})); s.dispatchEvent(new Event("change", {bubbles: true})); return true; })()`)
}

// Date sets the field with this name to a day, YYYY-MM-DD. It sets the value by script, because the
// keys for a date depend on the browser's locale.
func (w *Window) Date(label, day string) {
	w.tb.Helper()
	w.Until(fmt.Sprintf("%q is a field for a date", label), `(e => { if (!e) return false; e.value = `+quote(day)+`; e.dispatchEvent(new Event("input", {bubbles: true})); return e.value !== ""; })(`+control("input[type=date]", label)+`)`)
}

// Fits fails if the page is wider than the window, so that a reader would have to scroll sideways.
func (w *Window) Fits() {
	w.tb.Helper()
	w.Until("the page fits into the window's width", `document.documentElement.scrollWidth <= window.innerWidth`)
}

// Picture saves a screenshot of the window as a PNG file.
func (w *Window) Picture(file string) {
	w.tb.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		w.tb.Fatalf("picture: %v", err)
	}
	if err := os.WriteFile(file, png, 0o644); err != nil {
		w.tb.Fatal(err)
	}
}

func quote(s string) string {
	b, _ := json.Marshal(s) // strings always encode
	return string(b)
}
