package egresstest

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
)

// RefusedAddr returns a loopback address where nobody listens.
func RefusedAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// ServeTCP handles each connection in a goroutine of its own until the test ends, and returns its
// address.
func ServeTCP(t testing.TB, handle func(*net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	var open sync.Map
	conns.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			open.Store(conn, true)
			conns.Go(func() {
				defer conn.Close()
				handle(conn.(*net.TCPConn))
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		open.Range(func(conn, _ any) bool { conn.(net.Conn).Close(); return true })
		conns.Wait()
	})
	return l.Addr().String()
}

// Request is a request that a [Server] has read.
type Request struct {
	Line, Body string
	Header     http.Header
	Chunked    bool
	Length     int64
}

// Script answers the nth request of a server, counting from 1 over all connections. If it returns
// false, the connection is closed.
type Script func(n int, conn *net.TCPConn) bool

// Server is an HTTP server that a test scripts byte by byte.
type Server struct {
	URL string

	mu    sync.Mutex
	conns int
	seen  []Request
}

// Serve starts a server that answers with script until the test ends.
func Serve(t testing.TB, script Script) *Server {
	t.Helper()
	s := &Server{}
	s.URL = "http://" + ServeTCP(t, func(conn *net.TCPConn) { s.serve(conn, script) })
	return s
}

func (s *Server) serve(conn *net.TCPConn, script Script) {
	s.mu.Lock()
	s.conns++
	s.mu.Unlock()
	in := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(in)
		if err != nil {
			return
		}
		body, _ := io.ReadAll(req.Body)
		s.mu.Lock()
		s.seen = append(s.seen, Request{req.Method + " " + req.RequestURI, string(body), req.Header, len(req.TransferEncoding) > 0, req.ContentLength})
		n := len(s.seen)
		s.mu.Unlock()
		if !script(n, conn) {
			return
		}
	}
}

// Requests returns the requests that the server has read.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seen)
}

// Connections returns how many connections were opened.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.conns
}

// Say writes an answer.
func Say(answer string) Script {
	return func(_ int, conn *net.TCPConn) bool {
		_, err := io.WriteString(conn, answer)
		return err == nil
	}
}

// SayAndClose writes an answer and closes the connection.
func SayAndClose(answer string) Script {
	return func(_ int, conn *net.TCPConn) bool { _, _ = io.WriteString(conn, answer); return false }
}

// DeadAfterFirst answers the first request, keeps the connection, reads the next request completely
// and then closes, or resets, the connection: what a server does whose idle timeout races with a
// request, or that crashes after the effect.
func DeadAfterFirst(reset bool) Script {
	return func(n int, conn *net.TCPConn) bool {
		if n == 1 {
			return Say(OK)(n, conn)
		}
		if reset {
			_ = conn.SetLinger(0)
		}
		return false
	}
}

// OK is a response with the JSON body {}.
const OK = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"

// Response returns a complete response. headers are lines, without an end of line after the last;
// "" for none.
func Response(status int, headers, body string) string {
	if headers != "" {
		headers += "\r\n"
	}
	return fmt.Sprintf("HTTP/1.1 %d X\r\n%sContent-Length: %d\r\n\r\n%s", status, headers, len(body), body)
}

// FakeDNS answers A queries with answer(name); "" means no such name.
func FakeDNS(t testing.TB, answer func(name string) string) *net.Resolver {
	t.Helper()
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			defer far.Close()
			for serveDNS(far, answer) == nil {
			}
		}()
		return near, nil
	}}
}

// serveDNS answers one query in the TCP framing, which the resolver uses on
// anything that is not a packet connection.
func serveDNS(conn net.Conn, answer func(string) string) error {
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return err
	}
	query := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(conn, query); err != nil {
		return err
	}
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return err
	}
	m.Response, m.RecursionAvailable, m.Additionals = true, true, nil
	q, addr := m.Questions[0], ""
	if answer != nil {
		addr = answer(strings.TrimSuffix(q.Name.String(), "."))
	}
	if addr == "" {
		m.RCode = dnsmessage.RCodeNameError
	} else if ip := net.ParseIP(addr).To4(); ip != nil && q.Type == dnsmessage.TypeA {
		m.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class},
			Body:   &dnsmessage.AResource{A: [4]byte(ip)},
		}}
	}
	packed, err := m.Pack()
	if err != nil {
		return err
	}
	_, err = conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(packed))), packed...))
	return err
}
