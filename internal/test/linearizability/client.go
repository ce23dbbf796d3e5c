package linearizability

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"recourse/journal"
	"recourse/saga"
)

// Client makes requests and records them. Its methods return the recorded operations.
type Client struct {
	Number   int
	Recorder *Recorder
	HTTP     *http.Client
}

// Target is the node that a request goes to.
type Target struct {
	Name string
	URL  string // without a trailing slash
}

// Start starts a saga of a definition; n is its whole input.
func (c *Client) Start(ctx context.Context, to Target, key, definition string, n int) Op {
	body := fmt.Sprintf(`{"definition":%q,"input":{"n":%d}}`, definition, n)
	return c.do(ctx, to, Op{Do: Start, Key: key, Body: fmt.Sprintf("%s-%d", definition, n)}, "POST", "/v1/sagas", body)
}

// Get reads a saga. known, if not 0, goes into If-None-Match; prefer, if not "", into Prefer.
func (c *Client) Get(ctx context.Context, to Target, id string, known int64, prefer string) Op {
	h := http.Header{}
	if known != 0 {
		h.Set("If-None-Match", tag(known))
	}
	if prefer != "" {
		h.Set("Prefer", prefer)
	}
	return c.with(ctx, to, Op{Do: Get, Saga: id, Known: known}, "GET", "/v1/sagas/"+id, "", h)
}

// Journal reads a page of a saga's journal, or, as lines, all there is after a seq.
func (c *Client) Journal(ctx context.Context, to Target, id string, after int64, limit int, lines bool) Op {
	h := http.Header{}
	path := fmt.Sprintf("/v1/sagas/%s/journal?after=%d", id, after)
	if lines {
		h.Set("Accept", "application/x-ndjson")
	} else {
		path += fmt.Sprintf("&limit=%d", limit)
	}
	return c.with(ctx, to, Op{Do: Journal, Saga: id, After: after}, "GET", path, "", h)
}

// Command sends a command. Its Reason must be unique.
func (c *Client) Command(ctx context.Context, to Target, key, id string, o saga.Command) Op {
	op := Op{Do: Command, Saga: id, Key: key, Command: o}
	path, method := "/v1/sagas/"+id, "POST"
	body := map[string]any{"reason": o.Reason}
	h := http.Header{}
	match := "*"
	if o.IfSeq != 0 {
		match = tag(o.IfSeq)
	}
	switch do := o.Do.(type) {
	case saga.Patch:
		method = "PATCH"
		body["labels"] = do.Labels
		h.Set("If-Match", match)
	case saga.Resolve:
		path += "/steps/" + o.Path + "/resolve"
		body["outcome"] = do.Outcome
		if do.Output != nil {
			body["output"] = do.Output
		}
		h.Set("If-Match", match)
	case saga.Cancel:
		path += "/cancel"
		if do.Mode != "" {
			body["mode"] = do.Mode
		}
	default:
		path += "/" + do.Verb()
	}
	text, err := journal.Encode(body)
	if err != nil {
		panic(err)
	}
	return c.with(ctx, to, op, method, path, string(text), h)
}

func tag(seq int64) string { return `"` + strconv.FormatInt(seq, 10) + `"` }

func (c *Client) do(ctx context.Context, to Target, op Op, method, path, body string) Op {
	return c.with(ctx, to, op, method, path, body, http.Header{})
}

func (c *Client) with(ctx context.Context, to Target, op Op, method, path, body string, h http.Header) Op {
	op.Client, op.Node = c.Number, to.Name
	req, err := http.NewRequestWithContext(ctx, method, to.URL+path, strings.NewReader(body))
	if err != nil {
		panic(err)
	}
	req.Header, req.GetBody = h, nil // otherwise net/http may send it twice
	if body != "" {
		h.Set("Content-Type", "application/json")
	}
	if op.Key != "" {
		h.Set("Idempotency-Key", op.Key)
	}
	op.Call = c.Recorder.Now()
	op.Answer = c.ask(req, op)
	op.Return = c.Recorder.Now()
	c.Recorder.Add(op)
	return op
}

// ask sends a request and reads its response.
func (c *Client) ask(req *http.Request, op Op) Answer {
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return Answer{Failed: err.Error()}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{Failed: "the answer was cut: " + err.Error()}
	}
	a := Answer{Status: resp.StatusCode, Replayed: resp.Header.Get("Idempotency-Replayed") == "true"}
	a.Seq, _ = strconv.ParseInt(strings.Trim(resp.Header.Get("ETag"), `"`), 10, 64)
	switch {
	case a.Status >= 400:
		var p struct{ Type, Saga string }
		if err := json.Unmarshal(b, &p); err != nil {
			return Answer{Failed: "the answer cannot be read: " + err.Error()}
		}
		a.Code, a.Saga = p.Type[strings.LastIndex(p.Type, ":")+1:], p.Saga
	case op.Do == Journal:
		a.Failed = a.records(b, resp.Header.Get("Content-Type"))
	case len(b) > 0:
		var v struct{ ID string }
		if err := json.Unmarshal(b, &v); err != nil {
			return Answer{Failed: "the answer cannot be read: " + err.Error()}
		}
		a.Saga, a.Body = v.ID, string(bytes.TrimSpace(b))
	}
	return a
}

// records reads a page or lines, and returns an error if they are invalid.
func (a *Answer) records(b []byte, contentType string) string {
	if strings.HasPrefix(contentType, "application/x-ndjson") {
		for line := range bytes.Lines(b) {
			var r journal.Record
			if err := json.Unmarshal(line, &r); err != nil {
				return err.Error()
			}
			a.Records = append(a.Records, r)
		}
		return ""
	}
	var page struct {
		Data []journal.Record
		Next *string `json:"next_cursor"`
	}
	if err := json.Unmarshal(b, &page); err != nil {
		return err.Error()
	}
	a.Records, a.More = page.Data, page.Next != nil
	return ""
}
