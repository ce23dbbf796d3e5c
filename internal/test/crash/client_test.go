package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/invariant"
)

// clients start sagas and send commands, and remember the responses.
type clients struct {
	t     *testing.T
	fleet *fleet
	http  *http.Client

	timeout string // of an attempt, in the definitions

	mu        sync.Mutex
	starts    []invariant.Start
	started   map[string]string // key → the body that was sent
	cancelled []uuid.UUID
	split     [][2]uuid.UUID // the sagas of a key that were acknowledged before and after a failover
	answers   map[int]int    // by status; 0: none
	acked     time.Time      // when the last start was acknowledged
	pause     time.Duration  // the longest between two of them, see longest
}

func newClients(f *fleet) *clients {
	return &clients{t: f.t, fleet: f, timeout: "1s", started: make(map[string]string), answers: make(map[int]int), acked: time.Now(),
		http: &http.Client{Timeout: 2500 * time.Millisecond, Transport: &http.Transport{MaxIdleConnsPerHost: 32, IdleConnTimeout: time.Second}}}
}

// request sends a request to a node that is up. Status 0: no response.
func (c *clients) request(method, path string, body []byte, headers ...string) (status int, answer []byte) {
	p := c.fleet.node()
	if p == nil {
		<-time.After(20 * time.Millisecond)
		return 0, nil
	}
	status, answer = c.send(p.url, method, path, body, headers...)
	c.mu.Lock()
	c.answers[status]++
	c.mu.Unlock()
	if status >= 500 && status != http.StatusServiceUnavailable {
		c.t.Errorf("%s %s: %d %s", method, path, status, answer)
	}
	return status, answer
}

func (c *clients) send(url, method, path string, body []byte, headers ...string) (int, []byte) {
	r, err := http.NewRequest(method, url+path, bytes.NewReader(body))
	if err != nil {
		c.t.Error(err)
		return 0, nil
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := c.http.Do(r)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, nil
	}
	return resp.StatusCode, b
}

// publish publishes the definitions.
func (c *clients) publish() {
	for _, src := range sources {
		status, body := c.request("PUT", "/v1/definitions/"+name(src), []byte(text(src, c.timeout)), "Content-Type", "application/yaml")
		if status != http.StatusCreated && status != http.StatusOK {
			c.t.Fatalf("publish %s: %d %s", name(src), status, body)
		}
	}
}

// start starts a saga under a key, at one node after another until one acknowledges it.
func (c *clients) start(ctx context.Context, definition, key string, n int) (id uuid.UUID, ok bool) {
	input := fmt.Sprintf(`{"n":%d}`, n)
	body := fmt.Sprintf(`{"definition":%q,"input":%s}`, definition, input)
	for ctx.Err() == nil {
		var status int
		var answer []byte
		if n%3 == 0 {
			status, answer = c.startTwice(key, body)
		} else {
			status, answer = c.request("POST", "/v1/sagas", []byte(body), "Idempotency-Key", key)
		}
		switch status {
		case http.StatusCreated, http.StatusOK:
			id := sagaOf(c.t, answer)
			c.mu.Lock()
			c.pause, c.acked = max(c.pause, time.Since(c.acked)), time.Now()
			c.starts, c.started[key] = append(c.starts, invariant.Start{ID: id, Key: key, Input: json.RawMessage(input)}), body
			c.mu.Unlock()
			return id, true
		case 0, http.StatusServiceUnavailable, http.StatusTooManyRequests:
			<-time.After(10 * time.Millisecond)
		default:
			c.t.Errorf("start %s: %d %s", definition, status, answer)
			return uuid.Nil, false
		}
	}
	return uuid.Nil, false
}

// startTwice sends a batch that has a start twice, and returns the status and the line of the first
// one that is acknowledged. If both are, they must be one saga. If a failover between the two may
// lose the first one, there may be two, of which losesATail finds at most one.
func (c *clients) startTwice(key, body string) (int, []byte) {
	line := fmt.Sprintf(`{"idempotency_key":%q,%s`+"\n", key, body[1:])
	status, answer := c.request("POST", "/v1/sagas:batch", []byte(line+line), "Content-Type", "application/x-ndjson")
	lines := bytes.SplitAfter(answer, []byte("\n"))
	switch {
	case status != http.StatusOK:
		return status, answer
	case len(lines) != 3:
		c.t.Errorf("a batch of two starts is answered %q", answer)
		return 0, nil
	}
	var results [2]struct {
		Status int
		ID     uuid.UUID
	}
	for i := range results {
		if err := json.Unmarshal(lines[i], &results[i]); err != nil {
			c.t.Errorf("%s: %v", lines[i], err)
		}
		if s := results[i].Status; s >= 500 && s != http.StatusServiceUnavailable {
			c.t.Errorf("start in a batch: %s", lines[i])
		}
	}
	one, two := results[0], results[1]
	switch {
	case one.Status < 300 && two.Status < 300 && one.ID != two.ID && c.fleet.cfg.db.loses:
		c.mu.Lock()
		c.split = append(c.split, [2]uuid.UUID{one.ID, two.ID})
		c.mu.Unlock()
	case one.Status < 300 && two.Status < 300 && one.ID != two.ID:
		c.t.Errorf("one key, two sagas: %s", answer)
	case one.Status >= 300 && two.Status < 300:
		return two.Status, lines[1]
	}
	return one.Status, lines[0]
}

// longest returns the longest pause between two acknowledged starts since it was called before.
func (c *clients) longest() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	pause := c.pause
	c.pause = 0
	return pause.Round(time.Millisecond)
}

func sagaOf(t *testing.T, answer []byte) uuid.UUID {
	var saga struct {
		ID uuid.UUID `json:"id"`
	}
	if err := json.Unmarshal(answer, &saga); err != nil {
		t.Errorf("%s: %v", answer, err)
	}
	return saga.ID
}

// command sends a command under a key of its own. The journal shows its result.
func (c *clients) command(id uuid.UUID, what, body string) {
	key, err := uuid.NewV4()
	if err != nil {
		c.t.Error(err)
		return
	}
	for range 3 { // a node that died may have reserved the key: then the command is not repeated
		status, _ := c.request("POST", "/v1/sagas/"+id.String()+"/"+what, []byte(body), "Idempotency-Key", key.String(), "If-Match", "*")
		if status == http.StatusAccepted && what == "cancel" {
			c.mu.Lock()
			c.cancelled = append(c.cancelled, id)
			c.mu.Unlock()
		}
		if status != 0 && status != http.StatusServiceUnavailable {
			return
		}
	}
}

// patch changes a saga.
func (c *clients) patch(id uuid.UUID, body string) {
	c.request("PATCH", "/v1/sagas/"+id.String(), []byte(body), "If-Match", "*")
}

// ended waits a little for a saga's end.
func (c *clients) ended(id uuid.UUID) {
	c.request("GET", "/v1/sagas/"+id.String(), nil, "Prefer", "wait=1")
}
