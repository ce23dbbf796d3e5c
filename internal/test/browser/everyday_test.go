package browser

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp/kb"

	"recourse/internal/test/chrome"
)

// People use one demo at the same time: in dark mode, on a phone, without scripts, quickly.
func TestEveryday(t *testing.T) {
	t.Parallel()
	d := newDemo(t, databases["sqlite"](t))
	undone := d.saga("refund-claim", "compensated") // before others are started
	doubtful := d.saga("order-return", "stuck")
	for name, test := range map[string]func(*testing.T, *demo){
		"phone":    func(t *testing.T, d *demo) { onAPhone(t, d, undone.ID) },
		"plain":    func(t *testing.T, d *demo) { withoutScript(t, d, doubtful.ID) },
		"start":    startOnce,
		"publish":  publish,
		"look":     func(t *testing.T, d *demo) { lookAround(t, d, undone.ID) },
		"keys":     byKeys,
		"two":      decideTogether,
		"list":     listGrows,
		"together": typeWhileItGrows,
		"session":  watchSession,
		"outage":   staysLive,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &demo{t: t, url: d.url})
		})
	}
}

// Every page fits on a phone in dark mode, and its scripts have no errors.
func onAPhone(t *testing.T, d *demo, saga string) {
	w := chrome.Open(t, chrome.Look{Width: 375, Height: 700, Dark: true, Phone: true})
	for _, page := range []struct{ path, shows string }{
		{"/", "refund-claim"},
		{"/?status=failed&q=nothing+has+this+in+it", "Nothing matches"},
		{"/sagas/" + saga, "the card has expired"},
		{"/sagas/" + saga + "/journal", "started"},
		{"/sagas/" + saga + "/steps/label", "labels"},
		{"/inbox", "Inbox"},
		{"/definitions", "order-return"},
		{"/definitions/booking", "Steps"},
		{"/definitions/booking/start", "traveller"},
		{"/publish?definition=booking", "Source"},
		{"/costs", "Spent"},
		{"/system", "Nodes"},
		{"/sagas/no-such-saga", "Back to the sagas"},
	} {
		w.Go(d.url + page.path)
		w.Sees(page.shows)
		w.Until("it is dark", `(c => Number(c[0]) < 80)(getComputedStyle(document.body).backgroundColor.match(/\d+/g))`)
		w.Fits()
	}
	longLabel(t, d, w)
}

// A label of the greatest length is shown completely, and so are the fields next to it, on a phone
// and on a desktop.
func longLabel(t *testing.T, d *demo, phone *chrome.Window) {
	d.publish("labelled", "saga: %s\nsteps: [{id: word, signal: word}]\n")
	d.rest("POST", "/v1/sagas", `{"definition":"labelled","labels":{"order":"A-1","note":"`+strings.Repeat("on and ", 30)+`on"}}`, nil)
	for _, w := range []*chrome.Window{phone, chrome.Open(t, chrome.Look{Width: 1280, Height: 800})} {
		w.Go(d.url + "/?definition=labelled")
		w.Sees("order=A-1")
		w.Until("nothing in the list is cut", `(list => list.scrollWidth <= list.clientWidth && [...list.querySelectorAll(".label")].every(l => l.scrollWidth <= l.clientWidth + 1
			&& l.getBoundingClientRect().right <= list.getBoundingClientRect().right))(document.getElementById("sagas"))`)
		w.Until("ids are in one line", `document.querySelector("#sagas a.row").getClientRects().length === 1`)
	}
}

// Without scripts all forms work.
func withoutScript(t *testing.T, d *demo, doubtful string) {
	w := chrome.Open(t, chrome.Look{NoScript: true})
	w.Go(d.url + "/inbox?saga=" + doubtful)
	w.Sees("It is unknown whether step refund has happened")
	w.Click("Resolve refund")
	w.Click("retry")
	w.Fill("Reason", "the provider honours keys")
	w.Click("Resolve the step")
	w.Sees("No matching entries")
	d.ends(doubtful)

	asking := d.ask()
	w.Go(d.url + "/inbox?saga=" + asking)
	w.Sees("Refund 12.00 USD")
	w.Fill("Comment", "it is known")
	w.Click("Approve")
	w.Sees("No matching entries")
	d.ends(asking)
}

// A person plans a booking, clicks the start button repeatedly, and has one booking.
func startOnce(t *testing.T, d *demo) {
	before := d.count("booking")
	w := chrome.Open(t, chrome.Look{})
	w.Go(d.url + "/definitions")
	w.Click("booking")
	w.Sees("Books a flight and a hotel")
	w.Click("Start a saga")
	w.Fill("traveller", "p-3001")
	w.Fill("to", "LIS")
	w.Date("depart", "2027-05-01")
	w.Fill("nights", "many")
	w.Fill("card", "4242")
	w.Click("Plan")
	w.Until("it is said which field is wrong", `document.activeElement && document.querySelector("[name='/input/nights'][aria-invalid=true]")`)
	w.Fill("nights", "2")
	w.Click("Plan")
	w.Sees("The plan", "Nothing was sent", "/air/bookings", "would be undone")
	if n := d.count("booking"); n != before {
		t.Errorf("a plan has started %d sagas", n-before)
	}
	// The response to the first click is lost, but the server has received it.
	w.Until("it was sent", `(f => (window.sent ??= fetch(f.action, {method: "POST", body: new URLSearchParams([...new FormData(f), ["do", "start"]])}).then(r => window.taken = r.ok), window.taken))(document.getElementById("start"))`)
	w.DoubleClick("Start")
	w.Sees("succeeded", "ch_")
	w.Until("it is a saga's page", `location.pathname.startsWith("/sagas/")`)
	if n := d.count("booking"); n != before+1 {
		t.Errorf("clicks on one form have started %d sagas", n-before)
	}
}

// A definition with an error is not published, and its line is shown. After the error is fixed, it
// is published.
func publish(t *testing.T, d *demo) {
	w := chrome.Open(t, chrome.Look{})
	w.Go(d.url + "/definitions")
	w.Click("Publish…")
	w.Fill("Source", "saga: nap\nsteps:\n- id: rest\n  sleep: a while\n")
	w.Click("Publish")
	w.Sees("1 error: nothing was published")
	w.Click("line 4")
	w.Until("the line is found", `location.hash === "#L4" && document.querySelector("#L4.wrong")`)
	w.Fill("Source", "saga: nap\nsteps:\n- id: rest\n  sleep: 1ms\n")
	w.Click("Check")
	w.Sees("No errors")
	w.Click("Publish")
	w.Sees("Steps", "1 step")
	w.Click("Start a saga")
	w.Click("Start")
	w.Sees("nap", "succeeded")
	if n := d.count("nap"); n != 1 {
		t.Errorf("%d sagas of nap", n)
	}
}

// The journal search, the cost breakdown and the system page work.
func lookAround(t *testing.T, d *demo, saga string) {
	w := chrome.Open(t, chrome.Look{})
	w.Go(d.url + "/sagas/" + saga)
	w.Click("Journal")
	w.Sees("started", "finished")
	w.Fill("Search", "compensating")
	w.Key(kb.Enter)
	w.Sees("compensating")
	w.Lacks("started")
	w.Fill("Search", "no record says this")
	w.Key(kb.Enter)
	w.Sees("No record has that in it")

	w.Click("Cost")
	w.Sees("Spent", "Wasted on failed attempts", "gpt-5-mini", "refund-claim")
	w.Choose("Definition", "refund-claim")
	w.Click("Show")
	w.Sees("Cost of refund-claim")
	w.Back()
	w.Sees("By definition")

	w.Click("System")
	w.Sees("this one", "Commits", "Inbox")
	w.Click("succeeded")
	w.Sees("booking")
	w.Until("the list is of those", `location.search.includes("status=succeeded")`)
}

// byKeys tests the keys of the page, and the browser's back button after them.
func byKeys(t *testing.T, d *demo) {
	w := chrome.Open(t, chrome.Look{})
	list := d.url + "/?definition=order-return" // no test starts these
	w.Go(list)
	w.Sees("order-return v1")
	w.Key("?")
	w.Sees("Next and previous entry")
	w.Key(kb.Escape)
	w.Lacks("Next and previous entry")
	w.Key("j")
	w.Until("the first saga has the focus", rowHasFocus+"0")
	w.Key("j")
	w.Until("the second has it", rowHasFocus+"1")
	w.Key("k")
	w.Until("the first has it again", rowHasFocus+"0")
	w.Enter()
	w.Sees("History")
	w.Back()
	w.Until("the list is back", `location.pathname === "/" && document.getElementById("sagas")`)
	w.Key("/")
	w.Until("the search has the focus", `document.activeElement.name === "q"`)
	w.Key("gi?") // in a text field they are letters
	w.Until("what is typed is text", `document.activeElement.value === "gi?" && location.pathname === "/"`)
	w.Go(list)
	w.Key("gi")
	w.Until("g i leads to the inbox", `location.pathname === "/inbox"`)
	w.Back()
	w.Until("the list is back", `location.pathname === "/"`)
}

const rowHasFocus = `[...document.querySelectorAll("a.row")].indexOf(document.activeElement) === `

// ask starts a claim that needs an approval.
func (d *demo) ask() string {
	d.t.Helper()
	return d.start("refund-claim", `{"order":"A-`+d.t.Name()[len("TestEveryday/"):]+`","sku":"lamp-7","amount":12.00,"email":"customer@example.com","complaint":"It hums."}`)
}

// publish publishes a definition whose text has a %s for its name.
func (d *demo) publish(name, text string) {
	d.t.Helper()
	d.send("PUT", "/v1/definitions/"+name, "application/yaml", fmt.Sprintf(text, name), nil)
}

// start starts a saga, and waits until it waits or has succeeded.
func (d *demo) start(definition, input string) string {
	d.t.Helper()
	body, err := json.Marshal(map[string]any{"definition": definition, "input": json.RawMessage(input)})
	if err != nil {
		d.t.Fatal(err)
	}
	var s one
	d.rest("POST", "/v1/sagas", string(body), &s)
	d.becomes(s.ID, "waiting", "succeeded")
	return s.ID
}

// count counts a definition's sagas.
func (d *demo) count(definition string) int {
	d.t.Helper()
	return len(d.sagas(definition))
}

// sagas lists a definition's sagas, the newest first.
func (d *demo) sagas(definition string) []one {
	d.t.Helper()
	var list struct {
		Data []one `json:"data"`
	}
	d.rest("GET", "/v1/sagas?limit=200&definition="+definition, "", &list)
	return list.Data
}
