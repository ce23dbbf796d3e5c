package world

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"
)

const readHeaderTimeout = 10 * time.Second

// Server is a World that listens.
type Server struct {
	*World
	URL string // http://host:port

	http   *http.Server
	served chan error // receives the result of Serve
}

// Start listens on addr (127.0.0.1:0 for a free port) and serves a new World with the zero Config.
func Start(addr string) (*Server, error) { return New(Config{}).Listen(addr) }

// Listen serves the world on addr until Close.
func (w *World) Listen(addr string) (*Server, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("world: listen on %s (choose another address): %w", addr, err)
	}
	s := &Server{
		World:  w,
		URL:    "http://" + l.Addr().String(),
		http:   &http.Server{Handler: w, ReadHeaderTimeout: readHeaderTimeout},
		served: make(chan error, 1),
	}
	go func() { s.served <- s.http.Serve(l) }()
	return s, nil
}

// Close stops listening, closes the world and its connections, and waits for them. Close it once.
func (s *Server) Close() error {
	err := s.http.Close()
	s.World.Close()
	if end := <-s.served; !errors.Is(end, http.ErrServerClosed) {
		err = errors.Join(err, end)
	}
	return err
}
