package chrome

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const sheet = `<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>t</title>
<h1>Orders</h1><label>Name <input name="name" value="old"></label> <label>Size <select name="size"><option>small</option><option value="l">large</option></select></label>
<label>Day <input type="date" name="day"></label>
<button>Send</button> <button>Send all</button> <p hidden>secret</p><p id="said"></p>
<script>
document.querySelectorAll("button").forEach(b => b.onclick = () => setTimeout(() => said.textContent = b.innerText + ": " + document.querySelector("input").value + " " + document.querySelector("select").value, 30));
if (matchMedia("(prefers-color-scheme: dark)").matches) said.textContent = "it is dark";
</script>`

func open(t *testing.T, look Look) *Window {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, sheet)
	}))
	t.Cleanup(s.Close)
	w := Open(t, look)
	w.Go(s.URL)
	return w
}

func TestWindow(t *testing.T) {
	w := open(t, Look{})
	w.Sees("orders")
	w.Lacks("secret")
	w.Fill("Name", "tea & <milk>")
	w.Choose("Size", "large")
	w.Click("Send") // not "Send all"
	w.Sees("Send: tea & <milk> l")
	w.Go(w.url())
	w.TabTo("Send all")
	w.Enter()
	w.Sees("Send all: old small")
	w.Date("Day", "2027-05-01")
	w.Until("the day is chosen", `document.querySelector("[type=date]").value === "2027-05-01"`)
	w.Until("clicks are counted", `document.addEventListener("dblclick", () => document.body.append("twice")) || true`)
	w.DoubleClick("Send")
	w.Sees("twice")
	w.Go(w.url() + "?next")
	w.Back()
	w.Until("it is back", `location.search === ""`)
	w.Fits()
	file := filepath.Join(t.TempDir(), "it.png")
	w.Picture(file)
	if b, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(b), "\x89PNG") {
		t.Errorf("no picture: %v", err)
	}
}

func (w *Window) url() string {
	u, err := eval[string](w, "location.href")
	if err != nil {
		w.tb.Fatal(err)
	}
	return u
}

func TestLooks(t *testing.T) {
	w := open(t, Look{Width: 375, Height: 700, Dark: true, Phone: true})
	w.Sees("it is dark")
	w.Fits()
	w.Until("it is a phone", "innerWidth === 375 && navigator.maxTouchPoints > 0 && devicePixelRatio === 2")
	open(t, Look{NoScript: true}).Lacks("it is dark")
}
