package world

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
)

// answer is a response before any network fault.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// reply returns a JSON response.
func reply(status int, v any) answer {
	return answer{status: status, header: http.Header{"Content-Type": {"application/json"}}, body: encode(v)}
}

// problem returns a refusal; detail says what the client can do.
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

// encode returns v as JSON. Responses consist of strings, ints and JSON that was valid on arrival,
// so a failure is a bug.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // texts are returned unchanged
	if err := e.Encode(v); err != nil {
		panic("world: encode an answer: " + err.Error())
	}
	return b.Bytes()
}

// replay returns the response to a repeated request.
func (a answer) replay() answer {
	a.header = a.header.Clone()
	a.header.Set("Idempotency-Replayed", "true")
	return a
}

func (a answer) replayed() bool { return a.header.Get("Idempotency-Replayed") == "true" }

// start writes the header; a body of length bytes follows. A negative length omits Content-Length.
func (a answer) start(rw http.ResponseWriter, length int) {
	maps.Copy(rw.Header(), a.header)
	if length >= 0 {
		rw.Header().Set("Content-Length", strconv.Itoa(length))
	}
	rw.WriteHeader(a.status)
}

// send writes the whole response.
func (a answer) send(rw http.ResponseWriter) {
	a.start(rw, len(a.body))
	_, _ = rw.Write(a.body) // an error means that the client has disconnected
}
