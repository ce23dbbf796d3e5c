package measure

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Stub is the remote service: it honours keys, and counts.
//
//	POST /do/…       an effect under the Idempotency-Key; 201 {"id": …}
//	POST /refuse     422
//	DELETE /do/…/id  undoes it; 200
//	GET /ledger      a Ledger
//	POST /reset      forgets everything
//	POST /hold?path= stores requests to that path from now on, but responds only after
//	POST /go
//
// It also has a language model: see modelPath.
type Stub struct {
	delay time.Duration // of each response
	cheat bool
	mu    sync.Mutex
	made  map[string]string // key → effect id
	gone  map[string]bool   // effect id
	l     Ledger
	held  string        // the path whose responses are delayed; "": none
	gate  chan struct{} // closed when they may be sent
}

// Ledger has the stub's counts.
type Ledger struct {
	Requests int `json:"requests"`
	Effects  int `json:"effects"`
	Again    int `json:"again"`   // requests whose key had its effect already
	Keyless  int `json:"keyless"` // writes without a key
	Undone   int `json:"undone"`
	Strange  int `json:"strange"` // undos of effects that were already undone, or never existed
	Refused  int `json:"refused"`
	Held     int `json:"held"` // responses that are delayed now
	Asks     int `json:"asks"` // requests to the model
}

// NewStub returns a stub that delays each response. With cheat it counts
// every tenth effect twice, which must be detected.
func NewStub(delay time.Duration, cheat bool) *Stub {
	s := &Stub{delay: delay, cheat: cheat}
	s.reset()
	return s
}

func (s *Stub) reset() {
	s.made, s.gone, s.l = make(map[string]string), make(map[string]bool), Ledger{}
}

// ServeHTTP implements http.Handler.
func (s *Stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/ledger":
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s.l)
		return
	case r.URL.Path == "/reset":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reset()
		return
	case r.URL.Path == "/hold":
		s.mu.Lock()
		defer s.mu.Unlock()
		s.held, s.gate = r.URL.Query().Get("path"), make(chan struct{})
		return
	case r.URL.Path == "/go":
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held != "" {
			s.held = ""
			close(s.gate)
		}
		return
	}
	if r.URL.Path == modelPath {
		s.answer(w, r)
		return
	}
	if s.delay > 0 {
		time.Sleep(s.delay)
	}
	status, body := s.take(r)
	s.hold(r)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// hold waits until the response may be sent.
func (s *Stub) hold(r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held == "" || r.URL.Path != s.held {
		return
	}
	s.l.Held++
	gate := s.gate
	s.mu.Unlock()
	<-gate
	s.mu.Lock()
	s.l.Held--
}

func (s *Stub) take(r *http.Request) (status int, body string) {
	key := r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.l.Requests++
	switch {
	case key == "":
		s.l.Keyless++
		return http.StatusBadRequest, `{}`
	case r.URL.Path == "/refuse":
		s.l.Refused++
		return http.StatusUnprocessableEntity, `{"title":"no seats left"}`
	case r.Method == http.MethodDelete:
		id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if n, err := strconv.Atoi(id); err != nil || n < 1 || n > s.l.Effects || s.gone[id] {
			s.l.Strange++
		}
		s.gone[id] = true
		s.l.Undone++
		return http.StatusOK, `{}`
	}
	id := s.made[key]
	if id != "" {
		s.l.Again++
	} else {
		s.l.Effects++
		id = strconv.Itoa(s.l.Effects)
		s.made[key] = id
		if s.cheat && s.l.Effects%3 == 0 {
			s.l.Effects++
		}
	}
	return http.StatusCreated, `{"id":"` + id + `"}`
}
