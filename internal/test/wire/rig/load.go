package rig

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/invariant"
)

// Load is clients that start sagas, one after the other, each again under the same key until it is
// acknowledged.
type Load struct {
	sys  *System
	quit chan struct{}
	wg   sync.WaitGroup

	mu      sync.Mutex
	refused []string // answers that should not have been given
}

// Load starts so many clients. Each try goes to the next node.
func (sys *System) Load(clients int) *Load {
	l := &Load{sys: sys, quit: make(chan struct{})}
	for c := range clients {
		l.wg.Go(func() { l.client(c) })
	}
	return l
}

// End begins no more sagas and waits until those begun are acknowledged.
func (l *Load) End() {
	l.sys.t.Helper()
	close(l.quit)
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.refused {
		l.sys.t.Error(r)
	}
}

func (l *Load) client(c int) {
	http := &http.Client{Transport: &http.Transport{}, Timeout: 5 * time.Second}
	defer http.CloseIdleConnections()
	for n := 0; ; n++ {
		select {
		case <-l.quit:
			return
		case <-time.After(30 * time.Millisecond): // the rate
		}
		key, definition := fmt.Sprintf("c%d-%d", c, n), []string{"books", "fails"}[(c+n)%2]
		deadline := time.Now().Add(time.Minute)
		for try := 0; !l.start(http, l.sys.nodes[(c+n+try)%len(l.sys.nodes)], key, definition); try++ {
			if time.Now().After(deadline) {
				l.complain("the start under key %s is never acknowledged", key)
				return
			}
			<-time.After(50 * time.Millisecond)
		}
	}
}

func (l *Load) complain(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.refused) < 10 {
		l.refused = append(l.refused, fmt.Sprintf(format, args...))
	}
}

// start tries once, and says whether the start was acknowledged.
func (l *Load) start(client *http.Client, n *Node, key, definition string) bool {
	id, _, err := Start(client, n.URL, key, definition)
	if err != nil {
		l.complain("start of %s under %s: %v", definition, key, err)
	}
	if id.IsNil() {
		return false
	}
	l.sys.mu.Lock()
	defer l.sys.mu.Unlock()
	l.sys.starts = append(l.sys.starts, invariant.Start{ID: id, Key: key, Input: json.RawMessage(`{}`)})
	return true
}

// Start sends one start. away: the answer was 503 with a time to come back. An answer that is
// neither is an error.
func Start(client *http.Client, url, key, definition string) (id uuid.UUID, away bool, err error) {
	req, err := http.NewRequestWithContext(context.Background(), "POST", url+"/v1/sagas", strings.NewReader(`{"definition":"`+definition+`","input":{}}`))
	if err != nil {
		return id, false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	resp, err := client.Do(req)
	if err != nil {
		return id, false, nil // no answer is one that a client has to live with
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return id, false, nil
	}
	switch resp.StatusCode {
	case http.StatusCreated, http.StatusOK:
		var v struct{ ID uuid.UUID }
		err := json.Unmarshal(body, &v)
		return v.ID, false, err
	case http.StatusServiceUnavailable:
		if resp.Header.Get("Retry-After") == "" {
			err = errors.New("503 without Retry-After")
		}
		return id, true, err
	}
	return id, false, fmt.Errorf("%d %s", resp.StatusCode, body)
}

// Status is that of a GET; 0 if there is no answer.
func Status(url string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return 0
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode
}
