package ui

import (
	"bufio"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"recourse/api"
	"recourse/saga"
)

const quick = "saga: quick\nsteps:\n  - id: note\n    set: {a: 1}\n"

func TestSagas(t *testing.T) {
	x := newSite(t)
	x.page("/").want(200).has("There are no sagas yet")
	x.publish(quick)
	id := x.start("quick", `{}`)
	x.becomes(id, saga.Succeeded)
	x.page("/").want(200).has(`href="/sagas/`+id+`"`, "quick", "succeeded")
	x.page("/?status=failed").want(200).has("Nothing matches").lacks(id)
	x.page("/?q=" + id[:8]).want(200).has(id)
	x.page("/?label=order").want(400).has("write it as order=1017")
	x.page("/?status=odd").want(400).has("there is no status")
}

func TestPagesOfSagas(t *testing.T) {
	x := newSite(t)
	x.publish(quick)
	const all = 120
	for range all {
		x.start("quick", `{}`)
	}
	row := regexp.MustCompile(`<tr id="saga-([0-9a-f-]+)"`)
	older := regexp.MustCompile(`<a href="([^"]+)" rel="next">`)
	seen := map[string]bool{}
	for at := "/?definition=quick"; at != ""; {
		a := x.page(at).want(200)
		for _, m := range row.FindAllStringSubmatch(a.body, -1) {
			if seen[m[1]] {
				t.Fatalf("%s is listed twice", m[1])
			}
			seen[m[1]] = true
		}
		at = ""
		if m := older.FindStringSubmatch(a.body); m != nil {
			at = strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if len(seen) != all {
		t.Errorf("%d sagas listed, want %d", len(seen), all)
	}
}

func TestRoot(t *testing.T) {
	x := newSite(t)
	if a := x.do(x.request("GET", "/", nil)).want(200); a.header.Get("Content-Type") != "application/json" || a.header.Get("Vary") != "Accept" {
		t.Errorf("programs get %s", a.header)
	}
	x.page("/").want(200).has("<!doctype html>")
	x.do(x.request("GET", "/healthz", nil)).want(200)
	x.do(x.request("POST", "/", nil)).want(405)
}

// Every response has headers against foreign scripts and frames.
func TestHeaders(t *testing.T) {
	x := newSite(t)
	for _, path := range []string{"/", "/sign-in", "/static/page.js", "/static/page.css", "/static/icon.svg"} {
		a := x.page(path).want(200)
		for name, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
	}
}

// The policy forbids inline code and external resources, so no template may use them.
func TestTemplatesKeepThePolicy(t *testing.T) {
	inline := regexp.MustCompile(`(?i)<style|\sstyle=|\son[a-z]+=|<script(?: |>)(?:[^>]*)?>[^<]|javascript:|(?:src|href|action)="(?:https?:)?//`)
	for _, files := range []fs.FS{templates, static} {
		err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(name, ".js") {
				return err
			}
			b, err := fs.ReadFile(files, name)
			if m := inline.Find(b); m != nil {
				t.Errorf("%s: %q", name, m)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestSignIn(t *testing.T) {
	x := newSite(t, keysRequired)
	k, secret, err := api.NewKey("the desk", "operator")
	if err != nil {
		t.Fatal(err)
	}
	if err := x.store.AddKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	if a := x.page("/?status=stuck").want(303); a.header.Get("Location") != "/sign-in?to=%2F%3Fstatus%3Dstuck" {
		t.Errorf("sent to %s", a.header.Get("Location"))
	}
	x.page("/live?page=/").want(401)
	x.post("/sign-in", "key", "rk_wrong", "to", "/").want(401).has("not one of this server", "value=\"/\"")
	x.post("/sign-in", "key", "", "to", "/").want(422)
	for _, to := range []string{"//evil.example", "https://evil.example", `/\evil.example`, "/\t/evil.example", "/\n/evil.example", "javascript:alert(1)"} {
		if a := x.post("/sign-in", "key", secret, "to", to).want(303); a.header.Get("Location") != "/" {
			t.Errorf("signing in leads from %q to %q", to, a.header.Get("Location"))
		}
	}
	a := x.post("/sign-in", "key", secret, "to", "/?status=stuck").want(303)
	if c := a.header.Get("Set-Cookie"); !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Strict") || a.header.Get("Location") != "/?status=stuck" {
		t.Errorf("answer %v", a.header)
	}
	x.page("/").want(200).has("the desk", "Sign out").lacks(secret)
	x.post("/sign-out").want(303)
	x.page("/").want(303)
}

// A sign-in form that stops arriving is refused when its time is over, and its connection is
// closed.
func TestSignInFormComesInTime(t *testing.T) {
	x := newSite(t, keysRequired, func(_ *api.Config, c *Config) { c.SignIn = 50 * time.Millisecond })
	conn, err := net.Dial("tcp", strings.TrimPrefix(x.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, "POST /sign-in HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nkey="); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("half a form has no response: %v", err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("half a form: status %d, %v", resp.StatusCode, err)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("the connection of half a form: %v", err)
	}
}

// For an unknown path a browser gets a page with the navigation, and a program the API's problem.
func TestNothingThere(t *testing.T) {
	x := newSite(t)
	for path, title := range map[string]string{"/nonsense": "Page not found", "/sagas/no-such-saga": "There is no", "/definitions/none": "There is no"} {
		x.page(path).want(404).has("<h1>"+title, `href="/"`, "<nav").lacks("urn:recourse")
	}
	req := x.request("GET", "/nonsense", nil)
	req.Header.Set("Accept", "*/*")
	x.do(req).want(404).has("urn:recourse:problem:route_not_found").lacks("<h1>")
	req = x.request("GET", "/openapi.json", nil)
	req.Header.Set("Accept", "text/html")
	x.do(req).want(200).has(`"openapi"`)
}

// Every table has a name, for screen readers.
func TestTablesHaveNames(t *testing.T) {
	table := regexp.MustCompile(`<table[^>]*>`)
	sheets, err := fs.Glob(templates, "templates/*.html")
	if err != nil || len(sheets) == 0 {
		t.Fatal(sheets, err)
	}
	for _, name := range sheets {
		text, err := fs.ReadFile(templates, name)
		if err != nil {
			t.Fatal(err)
		}
		for _, tag := range table.FindAllString(string(text), -1) {
			if !strings.Contains(tag, `aria-label="`) && !strings.Contains(tag, `role="presentation"`) {
				t.Errorf("%s: %s has no name", name, tag)
			}
		}
	}
}

// Requests that another site makes a browser send are refused, with and without the cookie.
func TestCrossSite(t *testing.T) {
	x := newSite(t)
	for _, header := range []http.Header{
		{"Sec-Fetch-Site": {"cross-site"}}, {"Sec-Fetch-Site": {"same-site"}}, {"Origin": {"https://evil.example"}}, {"Origin": {"null"}},
	} {
		req := x.request("POST", "/sign-out", strings.NewReader(""))
		req.Header = header
		x.do(req).want(403)
	}
	req := x.request("GET", "/", nil)
	req.Host = "evil.example" // a foreign name that resolves to this server
	req.Header.Set("Accept", "text/html")
	x.do(req).want(403).lacks("<table")
}

// A list shows a new saga live.
func TestLiveList(t *testing.T) {
	x := newSite(t)
	x.publish(quick)
	x.page("/live?page=/nowhere").want(404)
	resp, err := x.http.Do(x.request("GET", "/live?page=/", nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			lines <- s.Text()
		}
	}()
	await := func(text string) {
		t.Helper()
		for deadline := time.After(time.Minute); ; {
			select {
			case l, ok := <-lines:
				if !ok {
					t.Fatalf("the stream ended before %q", text)
				}
				if strings.HasPrefix(l, "data: ") && strings.Contains(l, text) {
					return
				}
			case <-deadline:
				t.Fatalf("no %q on the stream", text)
			}
		}
	}
	await("There are no sagas yet")
	await("/sagas/" + x.start("quick", `{}`))
}

// A page beyond the maximum of live pages is refused, and is accepted when another one is closed.
func TestTooManyStreams(t *testing.T) {
	x := newSite(t, func(_ *api.Config, page *Config) { page.Streams = 1 })
	resp, err := x.http.Do(x.request("GET", "/live?page=/", nil))
	if err != nil {
		t.Fatal(err)
	}
	x.connectsAgain("/live?page=/")
	resp.Body.Close()
	x.until("there is room again", func() bool {
		resp, err := x.http.Do(x.request("GET", "/live?page=/", nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		line, err := bufio.NewReader(resp.Body).ReadString('\n')
		return err == nil && strings.HasPrefix(line, "data: ")
	})
}

// connectsAgain fails unless a stream ends without an event, and makes the browser connect again
// later. After any status but 200 an EventSource never does.
func (x *site) connectsAgain(path string) {
	x.t.Helper()
	a := x.page(path).want(200).has("retry: ").lacks("data: ")
	if a.header.Get("Content-Type") != "text/event-stream" {
		x.t.Errorf("it is %v", a.header)
	}
}

// A page stays live when the server is overloaded or fails for a moment.
func TestLiveAfterAnOutage(t *testing.T) {
	x := newSite(t)
	var status atomic.Int64
	page := Config{API: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
	})}
	srv := httptest.NewServer(New(page))
	defer srv.Close()
	x.url = srv.URL
	for _, passing := range []int{429, 500, 503} {
		status.Store(int64(passing))
		x.connectsAgain("/live?page=/")
	}
	status.Store(404)
	x.page("/live?page=/").want(404)
}

// A search that has not scanned every saga never says that nothing matches: it says how far it has
// scanned, and offers the rest.
func TestSearchGoesOn(t *testing.T) {
	x := newSite(t, func(a *api.Config, _ *Config) { a.Limits.Listed = 3 })
	x.publish("saga: buy\ninput: {order: string}\nsteps:\n  - {id: note, set: {a: 1}}\n")
	oldest := x.start("buy", `{"order": "1005"}`)
	x.becomes(oldest, saga.Succeeded)
	for range 3*maxScans + 1 {
		x.start("buy", `{"order": "2000"}`)
	}
	at, pages := "/?q=1005", 0
	for ; ; pages++ {
		a := x.page(at).want(200)
		if strings.Contains(a.body, `id="saga-`+oldest+`"`) {
			break
		}
		m := regexp.MustCompile(`<a href="([^"]+)" rel="next">Search older sagas</a>`).FindStringSubmatch(a.has("Nothing matches among the sagas started since").lacks("Nothing matches.").body)
		if m == nil || pages > 3 {
			t.Fatalf("page %d does not lead on: %s", pages, a.body)
		}
		at = strings.ReplaceAll(m[1], "&amp;", "&")
	}
	if pages == 0 {
		t.Error("the first page has scanned everything")
	}
	x.page(strings.Replace(at, "1005", "1006", 1)).want(200).has("No older saga matches").lacks("Nothing matches")
	x.page("/?definition=nothing").want(200).has("Nothing matches.")
}

func TestSagaByTheBeginningOfItsID(t *testing.T) {
	x := newSite(t)
	x.publish(quick)
	id := x.start("quick", `{}`)
	for _, rest := range []string{"", "/journal?kind=started", "/steps/note", "/saga.json"} {
		if to := x.page("/sagas/" + id[:13] + rest).want(302).header.Get("Location"); to != "/sagas/"+id+rest {
			t.Errorf("%s leads to %s", rest, to)
		}
	}
	x.page("/sagas/ffffffff").want(404).has("There is no such saga")
	for other := ""; ; { // until two sagas start in the same minute
		if other = x.start("quick", `{}`); other[:8] == id[:8] {
			x.page("/sagas/"+id[:8]).want(409).has(id, other)
			return
		}
		id = other
	}
}
