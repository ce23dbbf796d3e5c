package ui

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"recourse/api"
	"recourse/api/ui/format"
	"recourse/internal/test/chrome"
	"recourse/saga"
)

const dear = "saga: dear\ninput: {price: decimal}\nsteps:\n  - {id: buy, http: \"POST ${vars.things}/things\", body: {}, cost: {from: input.price, reserve: 99 USD}}\n"

// uncached disables the cache of costs.
func uncached(a *api.Config, _ *Config) { a.Limits.Costs = time.Nanosecond }

// spend runs sagas with these costs, one after another.
func (x *site) spend(prices ...string) (last string) {
	x.t.Helper()
	for _, price := range prices {
		last = x.start("dear", `{"price": `+price+`}`)
		x.becomes(last, saga.Succeeded)
	}
	return last
}

func TestCosts(t *testing.T) {
	x := newSite(t, uncached)
	x.page("/costs").want(200).has("No saga was started in this period").lacks("<svg")
	x.publish(dear)
	x.publish(quick)
	x.becomes(x.start("quick", `{}`), saga.Succeeded)
	id := x.spend("0.10", "0.10", "0.10", "0.105", "0.5")
	today := time.Now().UTC().Format(time.DateOnly)
	all := x.page("/costs").want(200)
	all.has("0.905 USD", "by 6 sagas", `aria-current="page" data-go="c"`, `href="/costs?within=168h&amp;definition=dear"`, `href="/sagas/`+id+`"`, "5.0 ×", today+": 0.905 USD, 5 sagas").
		lacks("Cost per saga", "By language model", "too many sagas")
	if n := strings.Count(all.body, "<rect"); n < 8 { // a field for each of seven days, and a bar
		t.Errorf("%d bars in\n%s", n, all.body)
	}
	one := x.page("/costs?within=24h&definition=dear").want(200)
	one.has("Cost of dear", "Cost per saga", "three times the median 0.30 USD", `<line class="median"`, `<line class="above"`, `class="over"`, "0.1 to 0.11 USD: 4 sagas").lacks("quick</a>")
	x.page("/costs?definition=none").want(200).has("No saga was started in this period of none", "<option selected>none</option>")
	x.page("/costs?within=soon").want(400).has("No such period")
	x.page("/costs?within=-1h").want(400)
	x.page("/costs?within=8784h").want(200)
	x.page("/costs?within=8785h").want(400).has("at most one year")
}

// canned responds to the page's requests with fixed texts.
func canned(t *testing.T, texts map[string]string) *site {
	t.Helper()
	texts["/v1/whoami"] = `{"name": "somebody", "role": "viewer", "may": ["read"]}`
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := texts[r.URL.Path+"?"+r.URL.Query().Get("group_by")]
		if !ok {
			text, ok = texts[r.URL.Path]
		}
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(text))
	})
	srv := httptest.NewServer(New(Config{API: h, Now: func() time.Time { return noon }}))
	t.Cleanup(srv.Close)
	return &site{t: t, url: srv.URL, http: srv.Client()}
}

var noon = time.Date(2026, 1, 3, 12, 0, 0, 0, time.UTC)

// Costs by model, several currencies, and a window with too many sagas.
func TestCostsOfModels(t *testing.T) {
	x := canned(t, map[string]string{
		"/v1/costs?day": `{"since": "2026-01-02T23:00:00Z", "until": "2026-01-03T12:00:00Z", "complete": false, "sagas": 200000, "groups": [
			{"key": "2026-01-03", "currency": "EUR", "sagas": 3, "ended": 3, "spent": "2", "wasted": "0.5", "max": "1", "tokens": {"input": 12345, "output": 9}, "outliers": []},
			{"key": "2026-01-03", "currency": "USD", "sagas": 2, "ended": 2, "spent": "0.004", "wasted": "0", "max": "1", "tokens": {"input": 0, "output": 0}, "outliers": []},
			{"key": "2026-01-03", "sagas": 5, "ended": 5, "spent": "0", "wasted": "0", "max": "0", "tokens": {"input": 0, "output": 0}, "outliers": []}]}`,
		"/v1/costs?definition": `{"complete": false, "groups": []}`,
		"/v1/costs?model": `{"complete": false, "groups": [
			{"key": "gpt-5", "currency": "EUR", "sagas": 3, "ended": 3, "spent": "1.5", "max": "1", "tokens": {"input": 12345, "output": 9}, "outliers": []},
			{"key": "local", "currency": "EUR", "sagas": 1, "ended": 1, "spent": "0", "max": "0", "tokens": {"input": 1, "output": 1}, "outliers": []}]}`,
	})
	x.page("/costs").want(200).has("the newest 200000, started since", "2 EUR", "0.5 EUR", "25% of what was spent", "0.004 USD", "12.3k in, 9 out", "<code>gpt-5</code>", "1.5 EUR", "no price")
}

func TestWindows(t *testing.T) {
	for _, tt := range []struct {
		window time.Duration
		want   string
	}{{time.Hour, "2026-01-03T11:00:00Z"}, {24 * time.Hour, "2026-01-02T12:00:00Z"}, {168 * time.Hour, "2025-12-28T00:00:00Z"}} {
		if got := from(noon.Add(3*time.Second), tt.window).Format(time.RFC3339); got != tt.want {
			t.Errorf("a window of %s begins at %s, want %s", tt.window, got, tt.want)
		}
	}
}

// On a phone nothing scrolls sideways, a table opens by keyboard, and a new saga appears live.
func TestCostsInABrowser(t *testing.T) {
	x := newSite(t, uncached)
	x.publish(dear)
	x.spend("0.10", "0.10", "0.70")
	for _, look := range []chrome.Look{{Width: 360, Height: 780, Phone: true}, {Dark: true}, {NoScript: true}} {
		w := chrome.Open(t, look)
		w.Go(x.url + "/costs?definition=dear")
		w.Sees("Cost of dear", "Far above the median")
		w.Fits()
		w.TabTo("As a table")
		w.Enter()
		w.Sees("Day (UTC)")
		w.Fits()
		w.Go(x.url + "/system")
		w.Sees("Nothing is overdue", "this one", "Lanes")
		w.Fits()
	}
	w := chrome.Open(t, chrome.Look{})
	w.Go(x.url + "/costs")
	w.Sees("By definition")
	w.Key("j")
	w.Until("the first row has the focus", `document.activeElement.innerText === "dear"`)
	w.Enter()
	w.Sees("Cost per saga", "3 sagas")
	w.TabTo(format.Short(x.spend("0.90")))
	w.Sees("4 sagas")
}

// ids are unique on the pages, because live updates go by them.
func TestIDsAreUnique(t *testing.T) {
	x := newSite(t, uncached)
	x.publish(dear)
	x.spend("0.10", "0.10", "0.70")
	x.start("dear", `{"price": 1}`)
	for _, path := range []string{"/costs", "/costs?definition=dear", "/system"} {
		seen := map[string]bool{}
		for _, m := range regexp.MustCompile(`\sid="([^"]*)"`).FindAllStringSubmatch(x.page(path).want(200).body, -1) {
			if seen[m[1]] || m[1] == "" {
				t.Errorf("%s has the id %q twice, or empty", path, m[1])
			}
			seen[m[1]] = true
		}
	}
}
