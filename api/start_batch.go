package api

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/idempotency"
	"recourse/journal"
	"recourse/saga/machine"
)

// maxStarts is the maximum number of starts in a batch.
const maxStarts = 1000

// keyField is the field of a start in a batch that stands for the header Idempotency-Key.
const keyField = "idempotency_key"

// batchStart is one start of a batch. If err is nil and wait is not, the engine has it.
type batchStart struct {
	index int
	shown string // its key as the client wrote it; "" if it has none
	beginning
	unique string
	wait   func(context.Context) (uuid.UUID, error) // see engine.Engine.Submit
	err    error
}

// batchResult is the result of one start of a batch: a line of the response.
type batchResult struct {
	Index      int      `json:"index"`
	Key        string   `json:"idempotency_key,omitempty"`
	Status     int      `json:"status"`
	ID         string   `json:"id,omitempty"`
	RetryAfter int      `json:"retry_after,omitempty"`
	Error      *problem `json:"error,omitempty"`

	err error
}

// startBatch serves POST /v1/sagas:batch. Every start is submitted before the first result is
// waited for, so that they share commits. Results are written in the order of the starts, each as
// soon as it and all before it are known. A start is independent of the others: its permissions,
// limits, key and errors are those of POST /v1/sagas.
func (s *server) startBatch(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.Limits.Request)
	defer cancel()
	lines, err := s.batchLines(c)
	if err != nil {
		return err
	}
	starts := make([]batchStart, len(lines))
	for i, line := range lines {
		starts[i] = batchStart{index: i}
		s.submitOne(ctx, c, line, &starts[i])
	}
	results := make(chan batchResult, len(starts)) // a client that reads slowly holds up no start
	go func() {
		defer close(results)
		for i := range starts {
			results <- s.resultOf(ctx, &starts[i])
		}
	}()
	return s.answerBatch(c, results)
}

// batchLines returns the lines of a batch that are not blank.
func (s *server) batchLines(c echo.Context) ([][]byte, error) {
	body, err := s.body(c)
	if err != nil {
		return nil, err
	}
	switch t := mediaType(c); t {
	case "", typeNDJSON, "application/ndjson", "application/jsonl":
	default:
		return nil, fail("unsupported_media_type", "send one start per line, with Content-Type: %s, not %.60s", typeNDJSON, t)
	}
	var lines [][]byte
	for line := range bytes.Lines(body) {
		if line = bytes.Trim(line, " \t\r\n"); len(line) > 0 {
			lines = append(lines, line)
		}
	}
	switch n := len(lines); {
	case n == 0:
		return nil, fail("invalid_request", "the batch is empty: send one start per line")
	case n > maxStarts:
		return nil, fail("body_too_large", "the batch has %d starts: send at most %d at once; nothing was started", n, maxStarts)
	}
	return lines, nil
}

// submitOne reads a start and gives it to the engine. A failure, even a panic, is the result of
// this start alone.
func (s *server) submitOne(ctx context.Context, c echo.Context, line []byte, b *batchStart) {
	defer func() {
		if v := recover(); v != nil {
			b.err = panicked(v)
		}
	}()
	if b.index > 0 { // the request itself counts as the first start
		if b.err = s.limited(ctx, callerOf(c)); b.err != nil {
			return
		}
	}
	req, err := s.readBatchStart(c, line, b)
	if err == nil {
		b.beginning, err = s.choose(ctx, req, b.beginning.of(c, req, s.cfg.Vars))
	}
	if err != nil {
		b.err = err
		return
	}
	start, data, err := s.validStart(b.beginning)
	if err == nil {
		b.wait, err = s.cfg.Engine.Submit(ctx, b.def, start, data)
	}
	b.unique, b.err = start.Unique, err
}

// readBatchStart reads a start of a batch and its key. The fingerprint is that of the same start
// without the key, as the body of POST /v1/sagas: a key finds the same saga in both forms.
func (s *server) readBatchStart(c echo.Context, line []byte, b *batchStart) (startRequest, error) {
	if limit := s.cfg.Limits.Body; int64(len(line)) > limit {
		return startRequest{}, fail("body_too_large", "a start has at most %d bytes", limit)
	}
	fields, p := strictFields(line)
	if p != nil {
		return startRequest{}, p
	}
	o := &object{fields: fields}
	wrong := o.check("", append(slices.Clone(startFields), keyField))
	key := o.str(keyField)
	if isKey(key) {
		b.shown = key
	}
	switch {
	case wrong != nil:
		return startRequest{}, wrong
	case b.shown == "":
		o.wrong = nil // of another type
		o.bad("/"+keyField, "bad_key", "give each start of a batch its own idempotency_key, so that the batch can be sent again: 1 to %d visible ASCII characters without spaces, such as a UUID", maxKey)
		return startRequest{}, o.err()
	}
	b.key, b.hash = callerOf(c).scope()+":"+key, fingerprintOf(fields)
	return readStart(o)
}

// fingerprintOf returns the fingerprint of a start that has these fields, and a key.
func fingerprintOf(fields map[string]json.RawMessage) string {
	body := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name == keyField {
			continue
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(append(append(body, '"'), name...), '"', ':')
		body = append(body, fields[name]...)
	}
	return idempotency.Fingerprint(http.MethodPost, startPath, append(body, '}'))
}

// resultOf waits for the result of a start.
func (s *server) resultOf(ctx context.Context, b *batchStart) (r batchResult) {
	defer func() {
		if v := recover(); v != nil {
			r = b.failed(panicked(v))
		}
	}()
	begun, replayed, err := s.startOnce(ctx, b.beginning, func() (machine.Begun, bool, error) { return s.awaitOne(ctx, b) })
	if err != nil {
		return b.failed(err)
	}
	r = batchResult{Index: b.index, Key: b.shown, Status: http.StatusCreated, ID: begun.ID.String()}
	if replayed {
		r.Status = http.StatusOK
	}
	return r
}

// awaitOne waits until a start is durable or refused, as startNew does.
func (s *server) awaitOne(ctx context.Context, b *batchStart) (begun machine.Begun, replayed bool, err error) {
	if err = b.err; b.wait != nil {
		begun.Stop = func() {}
		begun.ID, err = b.wait(ctx)
		begun, replayed, err = s.begun(ctx, b.beginning, b.unique, begun, err)
	}
	if b.newest && byVersion(err) {
		return s.startNewest(ctx, b.beginning, err)
	}
	return begun, replayed, err
}

// failed returns the result of a start that was refused.
func (b *batchStart) failed(err error) batchResult {
	p := asProblem(err)
	return batchResult{Index: b.index, Key: b.shown, Status: p.Status, RetryAfter: p.retryAfter, Error: p, err: err}
}

// flushAfter is how long a result may wait for the next one before both are sent.
const flushAfter = 2 * time.Millisecond

// answerBatch writes the results.
func (s *server) answerBatch(c echo.Context, results <-chan batchResult) error {
	w := c.Response()
	w.Header().Set(echo.HeaderContentType, typeNDJSON)
	w.WriteHeader(http.StatusOK)
	logged := false
	for {
		r, ok := next(results, w)
		if !ok {
			return nil
		}
		if r.err != nil && r.Status >= http.StatusInternalServerError && !logged { // one line for a batch
			logged = true
			s.logFailure(c, r.Status, r.err)
		}
		line, err := journal.Encode(r)
		if err != nil {
			return err
		}
		if _, err = w.Write(append(line, '\n')); err != nil {
			return err
		}
	}
}

// next returns the next result, and reports whether there is one. It flushes the response if the
// result does not come soon.
func next(results <-chan batchResult, w http.Flusher) (batchResult, bool) {
	select {
	case r, ok := <-results:
		return r, ok
	default:
	}
	timer := time.NewTimer(flushAfter)
	defer timer.Stop()
	select {
	case r, ok := <-results:
		return r, ok
	case <-timer.C:
	}
	w.Flush()
	r, ok := <-results
	return r, ok
}
