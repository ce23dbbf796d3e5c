package intake

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// start serves h with limits and returns the address.
func start(t *testing.T, cfg Config, h http.HandlerFunc) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	New(cfg).Guard(s)
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	return l.Addr().String()
}

// send opens a connection and sends text. Reads from the connection time out.
func send(t *testing.T, at, text string) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	return c, bufio.NewReader(c)
}

func read(t *testing.T, r *bufio.Reader) (status int, text string) {
	t.Helper()
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

const half = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\nhalf"

// A request whose body does not arrive is aborted. A handler that has read its body may take any
// time, and the connection is reused.
func TestBodiesComeInTime(t *testing.T) {
	go1 := make(chan struct{})
	at := start(t, Config{Read: 30 * time.Millisecond}, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusRequestTimeout)
			return
		}
		select { // a long poll takes longer than the time for the body
		case <-go1:
		case <-r.Context().Done():
			return
		}
		fmt.Fprintf(w, "%s", b)
	})
	_, r := send(t, at, half)
	if status, _ := read(t, r); status != http.StatusRequestTimeout {
		t.Errorf("half a body: %d", status)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("the connection of half a body: %v", err)
	}
	c, r := send(t, at, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody")
	time.AfterFunc(100*time.Millisecond, func() { close(go1) }) // later than the time for the body
	if status, text := read(t, r); status != 200 || text != "body" {
		t.Errorf("%d %q", status, text)
	}
	if _, err := io.WriteString(c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\ntwo\r\n0\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if status, text := read(t, r); status != 200 || text != "two" {
		t.Errorf("%d %q", status, text)
	}
}

// A request that is refused because of its headers is answered at once, although its body has not
// arrived and is not late.
func TestRefusedBeforeTheBody(t *testing.T) {
	at := start(t, Config{Read: time.Hour}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	_, r := send(t, at, half)
	if status, _ := read(t, r); status != http.StatusUnauthorized {
		t.Errorf("status %d", status)
	}
	if _, err := r.ReadByte(); err != io.EOF {
		t.Errorf("the connection: %v", err)
	}
}

// If there are too many unknown connections, the oldest is closed. Known ones stay open.
func TestUnknownConnections(t *testing.T) {
	at := start(t, Config{Unknown: 3, Grace: 1}, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" {
			Known(r.Context())
		}
	})
	known, kr := send(t, at, "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: yes\r\n\r\n")
	read(t, kr)
	_, oldest := send(t, at, "GET / HTTP/1.1\r\nHo")
	for range 3 {
		_, r := send(t, at, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		read(t, r)
	}
	if _, err := oldest.ReadByte(); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the oldest unknown connection: %v", err)
	}
	if _, err := io.WriteString(known, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if status, _ := read(t, kr); status != 200 {
		t.Errorf("the known connection: %d", status)
	}
}

// Clients that connect at the same time are not closed, up to ten times the limit.
func TestUnknownConnectionsOfABurst(t *testing.T) {
	at := start(t, Config{Unknown: 3, Grace: time.Hour}, func(http.ResponseWriter, *http.Request) {})
	var conns []net.Conn
	var answers []*bufio.Reader
	for range 3 * burst {
		c, r := send(t, at, "GET / HT")
		conns, answers = append(conns, c), append(answers, r)
	}
	finish := func(i int) error {
		if _, err := io.WriteString(conns[i], "TP/1.1\r\nHost: a\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(answers[i], nil)
		if err == nil {
			resp.Body.Close()
		}
		return err
	}
	for i := range conns {
		if err := finish(i); err != nil {
			t.Errorf("connection %d: %v", i, err)
		}
	}
	_, r := send(t, at, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	read(t, r)
	if _, err := answers[0].ReadByte(); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the oldest of one too many: %v", err)
	}
}

func TestPatience(t *testing.T) {
	in := New(Config{})
	for length, want := range map[int64]time.Duration{1: 10*time.Second + 15258*time.Nanosecond, 1 << 20: 26 * time.Second, -1: 266 * time.Second, 1 << 40: 266 * time.Second} {
		if got := in.patience(length); got != want {
			t.Errorf("%d bytes: %v, want %v", length, got, want)
		}
	}
}
