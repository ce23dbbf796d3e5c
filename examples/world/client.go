package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Control controls a world in a separate process.
type Control struct {
	URL    string       // URL of the world, http://host:port
	Client *http.Client // nil for http.DefaultClient
}

// Ledger returns the ledger's entries with N > after. With a positive wait (at most a minute) it
// waits for one; if none arrives, the result is empty.
func (c Control) Ledger(ctx context.Context, after int64, wait time.Duration) (Ledger, error) {
	q := url.Values{"after": {strconv.FormatInt(after, 10)}, "wait": {wait.String()}}
	var l Ledger
	return l, c.do(ctx, http.MethodGet, "/_ledger?"+q.Encode(), nil, &l)
}

// Balance returns what each service did and undid.
func (c Control) Balance(ctx context.Context) (Balances, error) {
	var b Balances
	return b, c.do(ctx, http.MethodGet, "/_balance", nil, &b)
}

// AddFault adds a rule.
func (c Control) AddFault(ctx context.Context, r Rule) error {
	return c.do(ctx, http.MethodPost, "/_faults", r, nil)
}

// Faults returns the rules with their counts.
func (c Control) Faults(ctx context.Context) ([]FaultState, error) {
	var f []FaultState
	return f, c.do(ctx, http.MethodGet, "/_faults", nil, &f)
}

// ClearFaults removes all rules.
func (c Control) ClearFaults(ctx context.Context) error {
	return c.do(ctx, http.MethodDelete, "/_faults", nil, nil)
}

// SetToken makes a service require a bearer token; empty for none.
func (c Control) SetToken(ctx context.Context, service, token string) error {
	return c.do(ctx, http.MethodPost, "/_auth", map[string]string{"service": service, "token": token}, nil)
}

// Reset deletes the world's state.
func (c Control) Reset(ctx context.Context) error {
	return c.do(ctx, http.MethodPost, "/_reset", nil, nil)
}

func (c Control) do(ctx context.Context, method, path string, send, get any) error {
	var body io.Reader
	if send != nil {
		body = bytes.NewReader(encode(send))
	}
	req, err := http.NewRequestWithContext(ctx, method, c.URL+path, body)
	if err != nil {
		return fmt.Errorf("world: %s %s: %w", method, path, err)
	}
	client := c.Client
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("world: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return fmt.Errorf("world: %s %s: read the answer: %w", method, path, err)
	}
	if resp.StatusCode > 299 {
		return fmt.Errorf("world: %s %s: %s: %s", method, path, resp.Status, bytes.TrimSpace(text))
	}
	if get == nil {
		return nil
	}
	if err := json.Unmarshal(text, get); err != nil {
		return fmt.Errorf("world: %s %s: decode the answer: %w", method, path, err)
	}
	return nil
}
