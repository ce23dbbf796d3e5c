package llmstub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"
)

const maxBody = 8 << 20

// Config configures a stub. The zero Config is usable.
type Config struct {
	APIKey string   // required bearer token, otherwise 401; empty for none
	Models []string // known models, others are 404; empty for any
	Window int      // maximum of tokens in a prompt, otherwise 400; 0 for no limit
	// Seed makes each response another one: ids, wording, the order of tool calls and of their
	// arguments. 0: the same question gets the same response.
	Seed     uint64
	OneByOne bool             // at most one tool call in a response
	Fault    func(Call) Fault // the fault of each request; nil for none
}

// Call is a received request.
type Call struct {
	Number int    // from 1, counting all valid requests
	Path   string // of the URL
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
	Path     string `json:"path"`
	Hash     string `json:"hash"` // of the path and the body; the order of keys and white space do not matter
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
	cfg    Config
	mux    *http.ServeMux
	memory *memory
	open   context.Context // done after Close
	shut   context.CancelFunc

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
	s := &Stub{cfg: cfg, mux: http.NewServeMux(), memory: newMemory(), keys: make(map[string]remembered)}
	s.open, s.shut = context.WithCancel(context.Background())
	for path, to := range map[string]api{"/v1/chat/completions": chat{}, "/v1/responses": responses{}, "/v1/embeddings": embeddings{},
		"/v1/messages": messages{}, "/v1/messages/count_tokens": counts{}} {
		s.mux.Handle("POST "+path, s.serve(to))
	}
	s.mux.HandleFunc("GET /v1/models", s.models)
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

// models lists the models in the form of OpenAI's API.
func (s *Stub) models(rw http.ResponseWriter, _ *http.Request) {
	list := []any{}
	for _, name := range s.cfg.Models {
		list = append(list, map[string]any{"id": name, "object": "model", "created": 0, "owned_by": "stub"})
	}
	writeJSON(rw, http.StatusOK, map[string]any{"object": "list", "data": list})
}

// serve answers the requests of an API.
func (s *Stub) serve(to api) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		if err != nil || len(body) > maxBody {
			refuse(rw, to, *invalid("the body is too large, or its end is missing"), nil)
			return
		}
		q, why := to.parse(r.Header, body, s.memory)
		if why != nil {
			refuse(rw, to, *why, nil)
			return
		}
		s.complete(rw, r, to, body, q)
	}
}

func (s *Stub) complete(rw http.ResponseWriter, r *http.Request, to api, body []byte, q *question) {
	s.mu.Lock()
	s.calls++
	call := Call{Number: s.calls, Path: r.URL.Path, Key: r.Header.Get("Idempotency-Key"), Model: q.Model, Header: r.Header.Clone(), Body: body}
	s.mu.Unlock()
	f := s.cfg.Fault(call)
	if !s.wait(r.Context(), f.Delay) {
		panic(http.ErrAbortHandler)
	}
	if why := s.check(r, q, f); why != nil {
		var used *usage
		if f.Usage {
			used = &usage{Input: q.tokens(), Total: q.tokens()}
		}
		s.bill(call, reply{Status: why.Status, Usage: used}, f.Usage, false)
		if f.RetryAfter != "" {
			rw.Header().Set("Retry-After", f.RetryAfter)
		}
		refuse(rw, to, *why, used)
		return
	}
	a, replayed, ok := s.answer(call, q, f)
	if !ok {
		s.bill(call, reply{Status: http.StatusUnprocessableEntity}, false, false)
		refuse(rw, to, refusal{http.StatusUnprocessableEntity, "idempotency_key_reused", "this Idempotency-Key was used for another request: use a new one"}, nil)
		return
	}
	at := s.bill(call, a, !replayed && !q.Free, replayed)
	if replayed {
		rw.Header().Set("Idempotency-Replayed", "true")
	}
	if q.Stream && !f.NoStream {
		s.stream(rw, r, to.events(q, a, f), f)
	} else if f.Malformed {
		rw.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(rw, "<html>this is not JSON</html>")
	} else {
		writeJSON(rw, http.StatusOK, to.document(q, a))
	}
	s.mu.Lock()
	s.bills[at].Whole = r.Context().Err() == nil && !f.NoDone
	s.mu.Unlock()
}

// stream writes server-sent events.
func (s *Stub) stream(rw http.ResponseWriter, r *http.Request, events []event, f Fault) {
	rw.Header().Set("Content-Type", "text/event-stream")
	rw.WriteHeader(http.StatusOK)
	flush := http.NewResponseController(rw).Flush
	send := func(text string) {
		_, _ = io.WriteString(rw, text)
		_ = flush() // the request's context ends when the client disconnects
	}
	parts := 0
	for _, e := range events {
		if e.Last && f.NoDone {
			return
		}
		send(e.Text)
		if !e.Part {
			continue
		}
		if !s.wait(r.Context(), f.Pace) {
			panic(http.ErrAbortHandler)
		}
		switch parts++; {
		case parts == f.Cut:
			panic(http.ErrAbortHandler)
		case parts == f.Silence:
			select {
			case <-r.Context().Done():
			case <-s.open.Done():
			}
			panic(http.ErrAbortHandler)
		case f.Malformed:
			send("data: {this is not JSON\n\n")
		}
	}
}

// check returns why a request is refused, or nil. Anthropic's API takes the key in a header of its
// own.
func (s *Stub) check(r *http.Request, q *question, f Fault) *refusal {
	switch {
	case f.Status != 0:
		return &refusal{f.Status, f.Code, "an injected fault"}
	case s.cfg.APIKey != "" && r.Header.Get("Authorization") != "Bearer "+s.cfg.APIKey && r.Header.Get("x-api-key") != s.cfg.APIKey:
		return &refusal{http.StatusUnauthorized, "invalid_api_key", "send this stub's key, as Authorization: Bearer or as x-api-key"}
	case len(s.cfg.Models) > 0 && !slices.Contains(s.cfg.Models, q.Model):
		return &refusal{http.StatusNotFound, "model_not_found", "there is no model " + q.Model}
	case s.cfg.Window > 0 && q.tokens() > s.cfg.Window:
		return &refusal{http.StatusBadRequest, "context_length_exceeded", "the prompt is longer than this model's context window"}
	}
	return nil
}

// answer returns the stored response of the key, or generates one. ok is false if the key was used
// with another body.
func (s *Stub) answer(c Call, q *question, f Fault) (a reply, replayed, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, known := s.keys[c.Key]; known && c.Key != "" {
		return before.answer, true, bytes.Equal(before.body, c.Body)
	}
	a = q.answer(f, s.actor(c))
	s.keys[c.Key] = remembered{c.Body, a}
	if q.Stored {
		s.memory.store(q, a)
	}
	return a, false, true
}

// actor returns a player whose choices depend on the request alone, or, with a seed, on the seed
// and the number of the request.
func (s *Stub) actor(c Call) *actor {
	sum := sha256.Sum256(c.Body)
	source := rand.NewPCG(binary.BigEndian.Uint64(sum[:]), 0)
	if s.cfg.Seed != 0 {
		source = rand.NewPCG(s.cfg.Seed, uint64(c.Number))
	}
	return &actor{rng: rand.New(source), random: s.cfg.Seed != 0, oneByOne: s.cfg.OneByOne}
}

// bill records a call, and returns its index.
func (s *Stub) bill(c Call, a reply, billed, replayed bool) int {
	b := Bill{Number: c.Number, Path: c.Path, Hash: hash(c.Path, c.Body), Key: c.Key, Model: c.Model, Status: a.Status, Billed: billed, Replayed: replayed}
	if a.Usage != nil {
		b.Input, b.Output = a.Usage.Input, a.Usage.Output
	}
	s.mu.Lock()
	defer s.mu.Unlock()
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

// refuse writes an error in the form of an API.
func refuse(rw http.ResponseWriter, to api, why refusal, used *usage) {
	writeJSON(rw, why.Status, to.problem(why, used))
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
