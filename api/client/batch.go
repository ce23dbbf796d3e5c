package client

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"time"
)

// The size of one request of StartBatch. The server allows 1,000 starts and 8 MiB.
const (
	batchStarts = 1000
	batchBytes  = 4 << 20
)

// batchTime is how long one attempt of a request may take: the server commits its starts in turn.
const batchTime = 2 * time.Minute

// Started is the result of one start of a batch.
type Started struct {
	ID  string // of the saga; "" if Err is set
	Key string // the start's idempotency key
	Err error  // an *Error is a refusal of this start
}

// StartBatch starts any number of sagas, which share requests and commits, and returns one result
// for each, in their order. A start that is refused does not affect the others. While the server is
// down or at its limits, StartBatch repeats what has no final result until ctx is done; each start
// starts one saga at most.
func (c *Client) StartBatch(ctx context.Context, starts []Start) []Started {
	results := make([]Started, len(starts))
	lines := make([][]byte, len(starts))
	var open []int // the starts without a final result
	for i, s := range starts {
		if s.Key == "" {
			s.Key = rand.Text()
		}
		results[i].Key = s.Key
		lines[i], results[i].Err = encode(batchLine{s.Key, s})
		if results[i].Err == nil {
			open = append(open, i)
		}
	}
	for n := 0; len(open) > 0; n++ {
		for rest := open; len(rest) > 0; {
			size := chunk(lines, rest)
			c.startChunk(ctx, lines, rest[:size], results)
			rest = rest[size:]
		}
		left, err := unfinished(open, results)
		if len(left) < len(open) {
			n = 0
		}
		open = left
		if err == nil || ctx.Err() != nil || backoff(ctx, n, err) != nil {
			break
		}
	}
	return results
}

// batchLine is a line of a batch.
type batchLine struct {
	Key string `json:"idempotency_key"`
	Start
}

// chunk returns how many of the open starts fit into one request.
func chunk(lines [][]byte, open []int) int {
	size := 0
	for i, at := range open {
		if size += len(lines[at]) + 1; i == batchStarts || i > 0 && size > batchBytes {
			return i
		}
	}
	return len(open)
}

// unfinished returns those of the starts that a repetition may start, and the error of the last.
func unfinished(open []int, results []Started) (list []int, err error) {
	for _, i := range open {
		if temporary(results[i].Err) {
			list, err = append(list, i), results[i].Err
		}
	}
	return list, err
}

// startChunk sends the starts of one request and sets their results.
func (c *Client) startChunk(ctx context.Context, lines [][]byte, open []int, results []Started) {
	var body []byte
	for _, i := range open {
		body = append(append(body, lines[i]...), '\n')
	}
	ctx, cancel := context.WithTimeout(ctx, batchTime)
	defer cancel()
	answered, err := c.send(ctx, http.MethodPost, "/v1/sagas:batch", "application/x-ndjson", body)
	n := 0
	for line := range bytes.Lines(answered) {
		var r struct {
			Status     int
			ID         string
			RetryAfter int `json:"retry_after"`
			Error      *problem
		}
		if n == len(open) || json.Unmarshal(line, &r) != nil {
			break // of a response that was cut, or is not a server's
		}
		to := &results[open[n]]
		if to.ID, to.Err = r.ID, nil; r.Error != nil {
			to.Err = r.Error.as(r.Status, r.RetryAfter)
		}
		n++
	}
	if err == nil {
		err = errors.New("the response ends early")
	}
	for _, i := range open[n:] {
		results[i].Err = err
	}
}
