package http

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/saga"
)

func redirect(status int, to string) func(int, *net.TCPConn) bool {
	return say(response(status, "Location: "+to, ""))
}

func TestWritesAreNotRedirected(t *testing.T) {
	c := newCaller(t, CallerConfig{})
	target := serveWire(t, say(ok200))
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			s := serveWire(t, redirect(status, target.url))
			for _, body := range []string{`{}`, ""} {
				r := post(s.url, body)
				r.Method = method
				a := c.Call(t.Context(), r)
				if got, want := of(a), (outcome{Sent: true, Status: status}); got != want || a.Headers["location"] != target.url {
					t.Errorf("%s %d %q = %+v, want the redirect itself", method, status, body, a)
				}
			}
		}
	}
	if n := len(target.requests()); n != 0 {
		t.Errorf("the target saw %d requests, want none", n)
	}
}

func TestReadsAreRedirected(t *testing.T) {
	c := newCaller(t, CallerConfig{Secret: vault})
	target := serveWire(t, say(ok200))
	for i, status := range []int{301, 302, 303, 307, 308} {
		s := serveWire(t, redirect(status, target.url+"/there?x=1"))
		r := get(s.url)
		r.Headers = map[string]string{"Authorization": "Bearer ${secrets.TOKEN}", "X-Api-Key": "literal", "Cookie": "a=b",
			"Accept": "application/json", "Idempotency-Key": "k"}
		if got, want := of(c.Call(t.Context(), r)), (outcome{true, 200, "", "{}"}); got != want {
			t.Errorf("%d = %+v, want %+v", status, got, want)
		}
		want := map[string][]string{"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"recourse"}}
		got := target.requests()[2*i]
		if diff := cmp.Diff(want, map[string][]string(got.Header)); diff != "" || got.Line != "GET /there?x=1" {
			t.Errorf("%d: another origin saw %q (-want +got):\n%s", status, got.Line, diff)
		}
		r.Headers = map[string]string{"User-Agent": "shop/1 ${secrets.TOKEN}", "Accept-Language": "de"}
		c.Call(t.Context(), r)
		if got := target.requests(); got[len(got)-1].Header.Get("User-Agent") != "recourse" || got[len(got)-1].Header.Get("Accept-Language") != "de" {
			t.Errorf("%d: another origin saw %v", status, got[len(got)-1].Header)
		}
	}
}

func TestRedirectsWithinAnOriginKeepHeaders(t *testing.T) {
	c := newCaller(t, CallerConfig{Secret: vault})
	s := serveWire(t, func(n int, conn *net.TCPConn) bool {
		if n == 1 {
			return redirect(302, "../next")(n, conn)
		}
		return say(ok200)(n, conn)
	})
	a := c.Call(t.Context(), saga.Request{Method: "GET", URL: s.url + "/a/b?k=${secrets.TOKEN}", Headers: map[string]string{"X-Key": "${secrets.TOKEN}"}})
	if got := s.requests(); !of200(a) || len(got) != 2 || got[1].Line != "GET /next" || got[1].Header.Get("X-Key") != "tok-1234567" || got[1].Header.Get("Referer") != "" {
		t.Errorf("answer %+v after %+v", a, got)
	}
}

func TestRedirectsThatEnd(t *testing.T) {
	loop := func(conn *net.TCPConn, status int) bool {
		return redirect(status, "http://"+conn.LocalAddr().String()+"/again")(0, conn)
	}
	tests := []struct {
		name   string
		script func(int, *net.TCPConn) bool
		want   outcome
		sends  int
		detail string
	}{
		{"a loop", func(_ int, conn *net.TCPConn) bool { return loop(conn, 302) }, outcome{true, 302, "redirect", ""}, 11, "more than 10"},
		{"to a denied address", redirect(307, "http://10.0.0.1/x?token=hunter22"), outcome{true, 307, "redirect", ""}, 1, "--egress-allow 10.0.0.1"},
		{"to the metadata service", redirect(302, "http://169.254.169.254/latest"), outcome{true, 302, "redirect", ""}, 1, "never"},
		{"to a file", redirect(302, "file:///etc/passwd"), outcome{true, 302, "redirect", ""}, 1, "http or https"},
		{"to a user", redirect(302, "http://hunter22:x@127.0.0.1/"), outcome{true, 302, "redirect", ""}, 1, "without a user"},
		{"to nowhere", redirect(302, "http://%zz"), outcome{true, 302, "redirect", ""}, 1, "Location"},
		{"to a closed port", redirect(302, "http://"+refusedAddr(t)), outcome{true, 0, "connection", ""}, 1, "refused"},
		{"without a Location", say(response(302, "", "gone")), outcome{true, 302, "", `"gone"`}, 1, ""},
		{"not modified", say("HTTP/1.1 304 X\r\nLocation: /x\r\n\r\n"), outcome{true, 304, "", ""}, 1, ""},
	}
	c := newCaller(t, CallerConfig{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := serveWire(t, tt.script)
			a := c.Call(t.Context(), get(s.url))
			if got := of(a); got != tt.want || len(s.requests()) != tt.sends {
				t.Errorf("Call = %+v after %d requests, want %+v after %d", got, len(s.requests()), tt.want, tt.sends)
			}
			if !strings.Contains(a.Detail, tt.detail) || strings.Contains(a.Detail, "hunter22") {
				t.Errorf("Detail = %q, want %q in it", a.Detail, tt.detail)
			}
		})
	}
	t.Run("a read with a body stays", func(t *testing.T) {
		s := serveWire(t, redirect(307, "/x"))
		r := post(s.url, `{}`)
		r.Method = "GET"
		if got, want := of(c.Call(t.Context(), r)), (outcome{Sent: true, Status: 307}); got != want {
			t.Errorf("Call = %+v, want %+v", got, want)
		}
	})
}

func ExampleGuard() {
	_, err := NewGuard([]string{"169.254.169.254"})
	fmt.Println(err)
	// Output: "169.254.169.254" is not usable in --egress-allow: link-local and metadata addresses are always denied
}
