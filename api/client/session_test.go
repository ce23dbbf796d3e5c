package client_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"recourse/api/client"
)

// A heartbeat without a response, because its connection is dead, is followed by others. After a
// lease without a response the session may be lost, and the heartbeats go on.
func TestHeartbeatsWithoutResponses(t *testing.T) {
	answer := make(chan bool)
	var beats atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // so that the server notices when the client leaves
		switch {
		case strings.HasSuffix(r.URL.Path, "/detach"):
			return
		case strings.HasSuffix(r.URL.Path, "/heartbeat"):
			may := answer
			if beats.Add(1) == 1 {
				may = nil
			}
			select {
			case <-may:
			case <-r.Context().Done():
			}
		}
		_, _ = io.WriteString(w, `{"life": 1, "lease_ms": 150, "stop": false}`)
	}))
	defer srv.Close()
	s, err := client.New(srv.URL, "").Attach(t.Context(), "0193a000-0000-7000-8000-000000000001")
	if err != nil {
		t.Fatal(err)
	}
	answer <- true // to the second one
	<-s.Over()
	answer <- true
	if err := s.Detach(t.Context()); err != nil {
		t.Error(err)
	}
}
