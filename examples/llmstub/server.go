package llmstub

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

// Server is a Stub that listens.
type Server struct {
	*Stub
	URL string // http://host:port; the base URL of the provider is URL + "/v1"

	http   *http.Server
	served chan error // receives the result of Serve
}

// Listen serves the stub on addr (127.0.0.1:0 for a free port) until Close.
func (s *Stub) Listen(addr string) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("llmstub: listen on %s (choose another address): %w", addr, err)
	}
	srv := &Server{Stub: s, URL: "http://" + l.Addr().String(),
		http: &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}, served: make(chan error, 1)}
	go func() { srv.served <- srv.http.Serve(l) }()
	return srv, nil
}

// Close stops listening, ends the requests in flight, and waits for the listener. Close it once.
func (s *Server) Close() error {
	s.Stub.Close()
	err := s.http.Close()
	if end := <-s.served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
