package llmstub

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const maxBody = 8 << 20

// Config configures a stub. The zero Config is usable.
type Config struct {
	APIKey string           // required bearer token, otherwise 401; empty for none
	Models []string         // known models, others are 404; empty for any
	Window int              // maximum of tokens in a prompt, otherwise 400; 0 for no limit
	Fault  func(Call) Fault // the fault of each request; nil for none
}

// Call is a received request.
type Call struct {
	Number int    // from 1, counting all valid requests
	Key    string // the Idempotency-Key
	Model  string
	Header http.Header
	Body   json.RawMessage
}

// Fault is what goes wrong with a request. The zero Fault is no fault. Billed requests were
// answered, at least in part.
type Fault struct {
	Status     int    // status of an error response
	Code       string // its error code
	RetryAfter string // its Retry-After header
	// Usage gives an error response the prompt's usage, which is billed, and a stream usage in each
	// chunk.
	Usage     bool
	Delay     time.Duration // delay before the response
	Pace      time.Duration // delay between the chunks of a stream
	Cut       int           // the connection breaks after this many chunks
	Silence   int           // the stream stalls after this many chunks, until the client disconnects
	Malformed bool          // the response is not JSON
	Refusal   bool          // the model refuses
	BadSchema bool          // the response violates the schema
	NoDone    bool          // the stream ends without finish_reason and its last lines
	NoStream  bool          // the response is not streamed, although the request asked for it
}

// Bill is a call as GET /bills lists it.
type Bill struct {
	Number   int    `json:"number"`
	Key      string `json:"key"`
	Model    string `json:"model"`
	Status   int    `json:"status"`
	Input    int    `json:"prompt_tokens"`
	Output   int    `json:"completion_tokens"`
	Billed   bool   `json:"billed"`   // this call used the tokens
	Replayed bool   `json:"replayed"` // an earlier call with the same key used them
	Whole    bool   `json:"whole"`    // the response was written completely
}

// Stub is an http.Handler, safe for concurrent use.
type Stub struct {
	cfg  Config
	mux  *http.ServeMux
	open context.Context // done after Close
	shut context.CancelFunc

	mu    sync.Mutex // guards the fields below
	calls int
	bills []Bill
	keys  map[string]remembered
}

// remembered is the stored response of a key.
type remembered struct {
	body   []byte
	answer reply
}

// New returns a stub without calls.
func New(cfg Config) *Stub {
	if cfg.Fault == nil {
		cfg.Fault = func(Call) Fault { return Fault{} }
	}
	s := &Stub{cfg: cfg, mux: http.NewServeMux(), keys: make(map[string]remembered)}
	s.open, s.shut = context.WithCancel(context.Background())
	s.mux.HandleFunc("POST /v1/chat/completions", s.complete)
	s.mux.HandleFunc("GET /bills", func(rw http.ResponseWriter, _ *http.Request) {
		writeJSON(rw, http.StatusOK, map[string]any{"data": s.Bills()})
	})
	return s
}

// ServeHTTP implements http.Handler. To break a connection it panics with http.ErrAbortHandler, and
// the server closes the connection.
func (s *Stub) ServeHTTP(rw http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(rw, r) }

// Close ends delays and silences.
func (s *Stub) Close() { s.shut() }

// Bills returns the calls in the order of their arrival.
func (s *Stub) Bills() []Bill {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Bill{}, s.bills...)
}

// question is the part of a request that the stub reads.
type question struct {
	Model    string
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	MaxTokens           int `json:"max_tokens"`
	MaxCompletionTokens int `json:"max_completion_tokens"`
	Stream              bool
	StreamOptions       struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	ResponseFormat struct {
		Type       string
		JSONSchema struct{ Schema json.RawMessage } `json:"json_schema"`
	} `json:"response_format"`
}

func (s *Stub) complete(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	var q question
	if err != nil || len(body) > maxBody || json.Unmarshal(body, &q) != nil || len(q.Messages) == 0 {
		refuse(rw, http.StatusBadRequest, "invalid_request", "send a chat completion request: {model, messages}", nil)
		return
	}
	s.mu.Lock()
	s.calls++
	call := Call{Number: s.calls, Key: r.Header.Get("Idempotency-Key"), Model: q.Model, Header: r.Header.Clone(), Body: body}
	s.mu.Unlock()
	f := s.cfg.Fault(call)
	if !s.wait(r.Context(), f.Delay) {
		panic(http.ErrAbortHandler)
	}
	if status, code, why := s.check(r, &q, f); status != 0 {
		var used *usage
		if f.Usage {
			used = &usage{Input: q.tokens(), Total: q.tokens()}
		}
		s.bill(call, reply{Status: status, Usage: used}, f.Usage, false)
		if f.RetryAfter != "" {
			rw.Header().Set("Retry-After", f.RetryAfter)
		}
		refuse(rw, status, code, why, used)
		return
	}
	a, replayed, ok := s.answer(call, &q, f)
	if !ok {
		s.bill(call, reply{Status: http.StatusUnprocessableEntity}, false, false)
		refuse(rw, http.StatusUnprocessableEntity, "idempotency_key_reused", "this Idempotency-Key was used for another request: use a new one", nil)
		return
	}
	at := s.bill(call, a, !replayed, replayed)
	if replayed {
		rw.Header().Set("Idempotency-Replayed", "true")
	}
	if q.Stream && !f.NoStream {
		s.stream(rw, r, &q, a, f)
	} else if f.Malformed {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, "<html>this is not JSON</html>")
	} else {
		writeJSON(rw, http.StatusOK, a.document())
	}
	s.mu.Lock()
	s.bills[at].Whole = r.Context().Err() == nil && !f.NoDone
	s.mu.Unlock()
}

// check returns why a request is refused; status is 0 if it is not.
func (s *Stub) check(r *http.Request, q *question, f Fault) (status int, code, why string) {
	switch {
	case f.Status != 0:
		return f.Status, f.Code, "an injected fault"
	case s.cfg.APIKey != "" && r.Header.Get("Authorization") != "Bearer "+s.cfg.APIKey:
		return http.StatusUnauthorized, "invalid_api_key", "send Authorization: Bearer with this stub's key"
	case len(s.cfg.Models) > 0 && !slices.Contains(s.cfg.Models, q.Model):
		return http.StatusNotFound, "model_not_found", "there is no model " + q.Model
	case s.cfg.Window > 0 && q.tokens() > s.cfg.Window:
		return http.StatusBadRequest, "context_length_exceeded", "the prompt is longer than this model's context window"
	}
	return 0, "", ""
}

// answer returns the stored response of the key, or generates one. ok is false if the key was used
// with another body.
func (s *Stub) answer(c Call, q *question, f Fault) (a reply, replayed, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, known := s.keys[c.Key]; known && c.Key != "" {
		return before.answer, true, bytes.Equal(before.body, c.Body)
	}
	a = q.answer(f)
	s.keys[c.Key] = remembered{c.Body, a}
	return a, false, true
}

// bill records a call, and returns its index.
func (s *Stub) bill(c Call, a reply, billed, replayed bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := Bill{Number: c.Number, Key: c.Key, Model: c.Model, Status: a.Status, Billed: billed, Replayed: replayed}
	if a.Usage != nil {
		b.Input, b.Output = a.Usage.Input, a.Usage.Output
	}
	s.bills = append(s.bills, b)
	return len(s.bills) - 1
}

// wait waits. It returns false if the client disconnects or the stub closes.
func (s *Stub) wait(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
	case <-s.open.Done():
	}
	return false
}

// refuse writes an error in OpenAI's format.
func refuse(rw http.ResponseWriter, status int, code, why string, used *usage) {
	doc := map[string]any{"error": map[string]any{"message": why, "type": "stub_error", "param": nil, "code": code}}
	if used != nil {
		doc["usage"] = used
	}
	writeJSON(rw, status, doc)
}

func writeJSON(rw http.ResponseWriter, status int, v any) {
	rw.Header().Set("Content-Type", "application/json")
	rw.WriteHeader(status)
	_, _ = rw.Write(encode(v)) // an error means that the client has disconnected
}

// encode returns v as JSON. Responses consist of text, ints and JSON that was valid on arrival, so
// a failure is a bug.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("llmstub: " + err.Error())
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// text returns a message's text, with its parts joined.
func text(content json.RawMessage) string {
	var s string
	if json.Unmarshal(content, &s) == nil {
		return s
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts) // any other content has no text
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text)
	}
	return b.String()
}
