package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Record is a record of a saga's journal. docs/format.md explains the fields.
type Record struct {
	Seq        int64           `json:"seq"`
	At         time.Time       `json:"at"`
	Kind       string          `json:"kind"`
	Path       string          `json:"path"`
	Way        string          `json:"way"`
	Attempt    int             `json:"attempt"`
	Generation int             `json:"generation"`
	Key        string          `json:"key"`
	Class      string          `json:"class"`
	Node       string          `json:"node"`
	Data       json.RawMessage `json:"data"`
	Hash       string          `json:"hash"`
}

// Watch yields the records of a saga's journal after the record with the seq after, as they come,
// until the saga has ended. While the server is down it connects again until ctx is done. The last
// pair has an error unless the saga has ended: an *Error is a refusal.
func (c *Client) Watch(ctx context.Context, id string, after int64) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for n := 0; ; n++ {
			before := after
			ended, err := c.events(ctx, id, &after, func(r Record) bool { return yield(r, nil) })
			switch {
			case errors.Is(err, errStopped) || ended:
				return
			case err != nil && !temporary(err), ctx.Err() != nil:
				if err == nil {
					err = ctx.Err()
				}
				yield(Record{}, err)
				return
			}
			if after > before {
				n = 0
			}
			if backoff(ctx, n, err) != nil {
				yield(Record{}, ctx.Err())
				return
			}
		}
	}
}

// errStopped means that the caller of Watch wants no more records.
var errStopped = errors.New("stopped")

// maxSilence is how long an event stream may say nothing. The server sends a comment every 15s.
const maxSilence = time.Minute

// events reads the journal's event stream until it breaks off, or says nothing for too long. ended
// says that there are no more records.
func (c *Client) events(ctx context.Context, id string, after *int64, record func(Record) bool) (ended bool, _ error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(maxSilence, cancel)
	defer silence.Stop()
	req, err := c.request(ctx, http.MethodGet, "/v1/sagas/"+url.PathEscape(id)+"/journal", nil)
	if err != nil {
		return false, err
	}
	req.Header.Set("Accept", "text/event-stream")
	req.Header.Set("Last-Event-ID", strconv.FormatInt(*after, 10))
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNoContent {
		return true, nil
	}
	if resp.StatusCode >= 300 {
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return false, err
		}
		return false, refusal(resp, b)
	}
	lines := bufio.NewReader(resp.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return false, nil // the saga has ended, or the connection is cut: the next request says which
		}
		if err != nil {
			return false, err
		}
		silence.Reset(maxSilence)
		data, ok := bytes.CutPrefix(line, []byte("data:"))
		if !ok {
			continue
		}
		var r Record
		if err := json.Unmarshal(data, &r); err != nil {
			return false, err
		}
		*after = r.Seq
		silence.Stop() // the caller may take its time
		if !record(r) {
			return false, errStopped
		}
		silence.Reset(maxSilence)
	}
}
