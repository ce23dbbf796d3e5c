package browser

import (
	"encoding/json"
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"

	"recourse/internal/test/chrome"
	"recourse/internal/test/program"
)

// newServer starts a server that requires API keys, with a key of the role admin for the test.
func newServer(t *testing.T) (d *demo, database string) {
	t.Helper()
	database = filepath.Join(t.TempDir(), "keys.db")
	key, _ := newKey(t, database, "admin")
	at, err := url.Parse(run(t, nil, "listening on ", "listening on ", "serve", "--listen", "0.0.0.0:0", "--database", database))
	if err != nil {
		t.Fatal(err)
	}
	return &demo{t: t, url: "http://127.0.0.1:" + at.Port(), key: key}, database
}

// newKey creates an API key of a role, and returns its id, too.
func newKey(t *testing.T, database, role string) (key, id string) {
	t.Helper()
	var made struct{ ID, Key string }
	if err := json.Unmarshal(keys(t, "create", "--role", role, "--name", "a-"+role, "--database", database, "-o", "json"), &made); err != nil {
		t.Fatal(err)
	}
	return made.Key, made.ID
}

func keys(t *testing.T, args ...string) []byte {
	t.Helper()
	path := program.Path(t)
	out, err := exec.Command(path, append([]string{"keys"}, args...)...).Output()
	if err != nil {
		t.Fatalf("keys %v: %v", args, err)
	}
	return out
}

// A person who signs in has the permissions of the key; if the key is revoked, the person is signed
// out.
func TestKeys(t *testing.T) {
	t.Parallel()
	d, database := newServer(t)
	d.publish("asks", "saga: %s\nsteps:\n  - id: ok\n    approval: {title: \"Shall it go on?\"}\n")
	saga := d.start("asks", "{}")
	viewer, _ := newKey(t, database, "viewer")
	approver, id := newKey(t, database, "approver")

	w := chrome.Open(t, chrome.Look{})
	w.Go(d.url + "/inbox")
	w.Sees("Sign in", "API key")
	w.Lacks("Shall it go on?")
	signIn := func(key string) {
		t.Helper()
		w.Until("the field has the focus", `document.activeElement.name === "key"`) // without a click
		w.Key(key)
		w.Enter()
	}
	signIn("rk_this-is-none-of-them")
	w.Sees("Sign in")
	w.Until("it says why", `document.getElementById("why") && document.getElementById("why").innerText.length > 10`)
	w.Lacks("Shall it go on?")

	signIn(viewer)
	w.Until("it is where they wanted to go", `location.pathname === "/inbox"`)
	w.Sees("Shall it go on?", "a-viewer", "Your role, viewer, may not decide this")
	for _, page := range []string{"/inbox", "/sagas/" + saga, "/definitions", "/definitions/asks"} {
		w.Go(d.url + page)
		w.Sees("a-viewer")
		w.Until("a viewer is offered nothing to do on "+page, `document.querySelectorAll("main form[method=post], main details.action, main a.button.main").length === 0`)
	}
	w.TabTo("Sign out")
	w.Enter()
	w.Sees("API key")
	w.Lacks("a-viewer")
	w.Go(d.url + "/sagas/" + saga)
	w.Sees("API key")
	w.Lacks("Shall it go on?")

	signIn(approver)
	w.Sees("Shall it go on?", "Approve", "a-approver")
	keys(t, "revoke", id, "--database", database)
	w.Click("Approve")
	w.Sees("API key")
	w.Lacks("Shall it go on?")
	w.Go(d.url)
	w.Sees("API key")
	var s one
	if d.rest("GET", "/v1/sagas/"+saga, "", &s); s.Status != "waiting" {
		t.Errorf("a decision with a revoked key had an effect: the saga is %s", s.Status)
	}
}
