package browser

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"recourse/internal/test/chrome"
)

// pair waits for a decision and for a signal, at the same time.
const pair = `saga: %s
steps:
  - id: both
    parallel:
      - id: ok
        approval: {title: "Shall it go on?"}
      - id: word
        signal: word
`

// stays marks the page, and returns the condition that it was not loaded again.
func stays(w *chrome.Window) string {
	w.Until("the page is marked", `window.marked = true`)
	return `window.marked === true`
}

// An open list shows new sagas, and the keyboard focus stays.
func listGrows(t *testing.T, d *demo) {
	d.publish("grows", pair)
	w := chrome.Open(t, chrome.Look{})
	first := d.start("grows", "{}")
	w.Go(d.url + "/?definition=grows")
	same := stays(w)
	w.TabTo(short(first))
	second := d.start("grows", "{}")
	w.Sees(short(second))
	if at := w.Focused(); at != short(first) {
		t.Errorf("the focus is on %q, was on %q", at, short(first))
	}
	// A saga that leaves the list before the focused one does not move the focus.
	waiting := chrome.Open(t, chrome.Look{})
	waiting.Go(d.url + "/?definition=grows&status=waiting")
	waiting.TabTo(short(first))
	d.rest("POST", "/v1/sagas/"+second+"/cancel", `{}`, nil)
	waiting.Lacks(short(second))
	if at := waiting.Focused(); at != short(first) {
		t.Errorf("the focus is on %q, was on %q", at, short(first))
	}
	d.rest("POST", "/v1/sagas/"+first+"/cancel", `{}`, nil)
	w.Sees("compensated")
	w.Until("nothing was loaded again", same)
}

// The text in a field, and the focus, stay while the page around it changes. The saga's end is
// shown when it comes.
func typeWhileItGrows(t *testing.T, d *demo) {
	d.publish("growing", pair)
	id := d.start("growing", "{}")
	w := chrome.Open(t, chrome.Look{})
	w.Go(d.url + "/sagas/" + id)
	w.Sees("Shall it go on?", "waiting")
	same := stays(w)
	w.Fill("Comment", "as far as I")
	d.rest("POST", "/v1/sagas/"+id+"/signals/word", `{"said":"tiramisu"}`, nil)
	w.Sees("tiramisu")
	w.Key(" can see") // continues to type
	w.Until("what is typed is there", `document.activeElement.name === "comment" && document.activeElement.value === "as far as I can see"`)
	w.Until("nothing was loaded again", same)

	other := chrome.Open(t, chrome.Look{})
	other.Go(d.url + "/sagas/" + id)
	other.Sees("Shall it go on?")
	same = stays(other)
	w.Click("Approve")
	other.Sees("succeeded")
	other.Until("it no longer asks", `!document.querySelector("form.decide")`)
	other.Until("nothing was loaded again", same)
	w.Sees("succeeded")
}

// Two people decide at the same time: the second one sees that it is decided, and how.
func decideTogether(t *testing.T, d *demo) {
	id := d.ask()
	// The second page does not update itself, as if both clicked at the same moment.
	quick, slow := chrome.Open(t, chrome.Look{}), chrome.Open(t, chrome.Look{NoScript: true})
	for _, w := range []*chrome.Window{quick, slow} {
		w.Go(d.url + "/inbox?saga=" + id)
		w.Sees("Refund 12.00 USD")
	}
	quick.Click("Approve")
	d.ends(id)
	slow.Click("Reject")
	slow.Sees("The approval is decided")
	var s one
	if d.rest("GET", "/v1/sagas/"+id, "", &s); s.Status != "succeeded" {
		t.Errorf("it was approved, and is %s", s.Status)
	}
}

// An open list is live again after a proxy has answered for the server, as while it is restarted.
func staysLive(t *testing.T, d *demo) {
	d.publish("outlives", pair)
	to, err := url.Parse(d.url)
	if err != nil {
		t.Fatal(err)
	}
	var refused atomic.Int64
	pass := httputil.NewSingleHostReverseProxy(to)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/live" && refused.Add(1) <= 2 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	w := chrome.Open(t, chrome.Look{})
	t.Cleanup(func() {
		proxy.CloseClientConnections() // ends the stream, which Close would wait for
		proxy.Close()
	})
	w.Go(proxy.URL + "/?definition=outlives")
	same := stays(w)
	w.Sees(short(d.start("outlives", "{}")))
	w.Until("nothing was loaded again", same)
	if n := refused.Load(); n < 3 {
		t.Errorf("it has connected %d times", n)
	}
}
