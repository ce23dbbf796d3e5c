package browser

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"recourse/internal/test/pgserver"
	"recourse/internal/test/program"
)

// databases are the databases on which the demo runs.
var databases = map[string]func(*testing.T) string{
	"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "demo.db") },
	"postgres": func(t *testing.T) string { return pgserver.DSN(t) },
}

// demo is a running `recourse demo`.
type demo struct {
	t   *testing.T
	url string
	key string // an API key, if the server requires one
}

// run starts the program, waits until its output has the text last, and returns what follows the
// text before. It interrupts the program when the test ends.
func run(t *testing.T, env []string, before, last string, args ...string) string {
	t.Helper()
	path := program.Path(t)
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), env...)
	var log bytes.Buffer
	cmd.Stderr = &log
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cmd.StdinPipe(); err != nil { // it ends with this process
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	said := make(chan string, 1)
	go func() {
		defer close(ended)
		var found string
		for lines := bufio.NewScanner(out); lines.Scan(); {
			if _, after, ok := strings.Cut(lines.Text(), before); ok && found == "" {
				found, _, _ = strings.Cut(after, " ")
			}
			if strings.Contains(lines.Text(), last) {
				said <- strings.TrimRight(found, ".")
				break
			}
		}
		_, _ = io.Copy(io.Discard, out)
		_ = cmd.Wait() // its state has the result
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGINT)
		select {
		case <-ended:
		case <-time.After(time.Minute):
			_ = cmd.Process.Kill()
			t.Errorf("%v did not end:\n%s", args, &log)
		}
	})
	select {
	case url := <-said:
		return url
	case <-ended:
		t.Fatalf("%v ended: %s\n%s", args, cmd.ProcessState, &log)
	case <-time.After(time.Minute):
		t.Fatalf("%v does not say %q:\n%s", args, last, &log)
	}
	return ""
}

// newDemo starts the demo on a database.
func newDemo(t *testing.T, database string) *demo {
	t.Helper()
	return &demo{t: t, url: run(t, nil, "stays up at ", "Ctrl-C ends it", "demo", "--listen", "127.0.0.1:0", "--database", database)}
}

// rest sends a request with JSON to the API.
func (d *demo) rest(method, path, body string, into any) {
	d.t.Helper()
	d.send(method, path, "application/json", body, into)
}

// send sends a request with a body of a media type to the API.
func (d *demo) send(method, path, media, body string, into any) {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Content-Type", media)
	if d.key != "" {
		req.Header.Set("Authorization", "Bearer "+d.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = errors.New(resp.Status)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		d.t.Fatalf("%s %s: %v: %s", method, path, err, b)
	}
}

// one is a saga of a list.
type one struct {
	ID     string `json:"id"`
	Status string `json:"status"`
	Cost   struct {
		Spent string `json:"spent"`
	} `json:"cost"`
}

// saga finds the only saga of a definition with a status.
func (d *demo) saga(definition, status string) one {
	d.t.Helper()
	var list struct {
		Data []one `json:"data"`
	}
	d.rest("GET", "/v1/sagas?definition="+definition+"&status="+status, "", &list)
	if len(list.Data) != 1 {
		d.t.Fatalf("%d sagas of %s are %s", len(list.Data), definition, status)
	}
	return list.Data[0]
}

// ends waits until a saga has ended, and fails unless it has succeeded.
func (d *demo) ends(id string) {
	d.t.Helper()
	d.becomes(id, "succeeded")
}

// becomes waits until a saga has one of these statuses.
func (d *demo) becomes(id string, statuses ...string) {
	d.t.Helper()
	deadline := time.Now().Add(time.Minute)
	var s one
	for !slices.Contains(statuses, s.Status) {
		if time.Now().After(deadline) {
			d.t.Fatalf("saga %s is %s", id, s.Status)
		}
		d.rest("GET", "/v1/sagas/"+id, "", &s)
		time.Sleep(20 * time.Millisecond) // between two checks
	}
}

// short returns a saga's id as lists show it.
func short(id string) string { return id[:8] + "…" + id[len(id)-6:] }
