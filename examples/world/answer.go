package world

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
)

// answer is a response before it meets the network.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// reply is a JSON answer.
func reply(status int, v any) answer {
	return answer{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: encode(v)}
}

// problem is a refusal; detail says what to do.
func problem(status int, title, detail string) answer {
	a := reply(status, struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Status int    `json:"status"`
		Detail string `json:"detail"`
	}{"about:blank", title, status, detail})
	a.header.Set("Content-Type", "application/problem+json")
	return a
}

// encode gives v as JSON. The world's answers are made of strings, ints and JSON that was valid
// when it came in, so that a failure is a bug.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // bytes that came in go out as they were
	if err := e.Encode(v); err != nil {
		panic("world: encode an answer: " + err.Error())
	}
	return b.Bytes()
}

// replay is the answer as a repeated request gets it.
func (a answer) replay() answer {
	a.header = a.header.Clone()
	a.header.Set("Idempotency-Replayed", "true")
	return a
}

func (a answer) replayed() bool { return a.header.Get("Idempotency-Replayed") == "true" }

// start writes the header, with a body of length bytes to follow; a negative length leaves it out.
func (a answer) start(rw http.ResponseWriter, length int) {
	for name, values := range a.header {
		rw.Header()[name] = values
	}
	if length >= 0 {
		rw.Header().Set("Content-Length", strconv.Itoa(length))
	}
	rw.WriteHeader(a.status)
}

// send writes the whole answer.
func (a answer) send(rw http.ResponseWriter) {
	a.start(rw, len(a.body))
	_, _ = rw.Write(a.body) // the client has gone: there is no one left to tell
}
