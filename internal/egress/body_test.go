package egress

import (
	"io"
	"net"
	"testing"
	"time"

	"recourse/internal/egress/egresstest"
)

// sent sends a POST and returns the response.
func sent(t *testing.T, c caller, url string) (body io.Reader, trailer func() string) {
	t.Helper()
	u, f := ParseURL(url)
	if f != nil {
		t.Fatal(f)
	}
	resp, f := c.Send(within(t, 10*time.Second), Request{Method: "POST", URL: u})
	if f != nil {
		t.Fatal(f)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp.Body, func() string { return resp.Trailer.Get("X-Sum") }
}

// A body delivers bytes as they arrive: the server writes the next part when the last one was read.
func TestBodyIsAStream(t *testing.T) {
	read := make(chan bool)
	s := egresstest.Serve(t, func(_ int, conn *net.TCPConn) bool {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n")
		for _, part := range []string{"a", "b", "c"} {
			io.WriteString(conn, "1\r\n"+part+"\r\n")
			<-read
		}
		io.WriteString(conn, "0\r\nX-Sum: 3\r\n\r\n")
		return true
	})
	body, trailer := sent(t, newCaller(t, Config{}), s.URL)
	for _, want := range []string{"a", "b", "c"} {
		got := make([]byte, 10)
		n, err := body.Read(got)
		if string(got[:n]) != want || err != nil {
			t.Fatalf("read %q, %v; want %q", got[:n], err, want)
		}
		read <- true
	}
	if rest, err := io.ReadAll(body); len(rest) != 0 || err != nil || trailer() != "3" {
		t.Errorf("the end is %q, %v; the trailer %q", rest, err, trailer())
	}
}

// Proxies in the environment are not used.
func TestNoProxy(t *testing.T) {
	proxy, s := egresstest.Serve(t, egresstest.Say(egresstest.OK)), egresstest.Serve(t, egresstest.Say(egresstest.OK))
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY"} {
		t.Setenv(name, proxy.URL)
	}
	_, port, err := net.SplitHostPort(s.URL[len("http://"):])
	if err != nil {
		t.Fatal(err)
	}
	resolver := egresstest.FakeDNS(t, func(string) string { return "127.0.0.1" })
	if a := newCaller(t, Config{Resolver: resolver}).Call(within(t, 10*time.Second), get("http://service.test:"+port)); !a.ok() || len(proxy.Requests()) > 0 {
		t.Errorf("%+v, and %d requests to the proxy", a, len(proxy.Requests()))
	}
}
