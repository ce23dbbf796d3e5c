package client

import (
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/egress/egresstest"
	"recourse/saga"
)

func redirect(status int, to string) func(int, *net.TCPConn) bool {
	return egresstest.Say(egresstest.Response(status, "Location: "+to, ""))
}

func TestWritesAreNotRedirected(t *testing.T) {
	c := newCaller(t, Config{})
	target := egresstest.Serve(t, egresstest.Say(egresstest.OK))
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			s := egresstest.Serve(t, redirect(status, target.URL))
			for _, body := range []string{`{}`, ""} {
				r := post(s.URL, body)
				r.Method = method
				a := c.Call(t.Context(), r)
				if got, want := of(a), (outcome{Sent: true, Status: status}); got != want || a.Headers["location"] != target.URL {
					t.Errorf("%s %d %q = %+v, want the redirect itself", method, status, body, a)
				}
			}
		}
	}
	if n := len(target.Requests()); n != 0 {
		t.Errorf("the target saw %d requests, want none", n)
	}
}

func TestReadsAreRedirected(t *testing.T) {
	c := newCaller(t, Config{Secret: vault})
	target := egresstest.Serve(t, egresstest.Say(egresstest.OK))
	for i, status := range []int{301, 302, 303, 307, 308} {
		s := egresstest.Serve(t, redirect(status, target.URL+"/there?x=1"))
		r := get(s.URL)
		r.Headers = map[string]string{"Authorization": "Bearer ${secrets.TOKEN}", "X-Api-Key": "literal", "Cookie": "a=b",
			"Accept": "application/json", "Idempotency-Key": "k"}
		if got, want := of(c.Call(t.Context(), r)), (outcome{true, 200, "", "{}"}); got != want {
			t.Errorf("%d = %+v, want %+v", status, got, want)
		}
		want := map[string][]string{"Accept": {"application/json"}, "Accept-Encoding": {"gzip"}, "User-Agent": {"recourse"}}
		got := target.Requests()[2*i]
		if diff := cmp.Diff(want, map[string][]string(got.Header)); diff != "" || got.Line != "GET /there?x=1" {
			t.Errorf("%d: another origin saw %q (-want +got):\n%s", status, got.Line, diff)
		}
		r.Headers = map[string]string{"User-Agent": "shop/1 ${secrets.TOKEN}", "Accept-Language": "de"}
		c.Call(t.Context(), r)
		if got := target.Requests(); got[len(got)-1].Header.Get("User-Agent") != "recourse" || got[len(got)-1].Header.Get("Accept-Language") != "de" {
			t.Errorf("%d: another origin saw %v", status, got[len(got)-1].Header)
		}
	}
}

func TestRedirectsWithinAnOriginKeepHeaders(t *testing.T) {
	c := newCaller(t, Config{Secret: vault})
	s := egresstest.Serve(t, func(n int, conn *net.TCPConn) bool {
		if n == 1 {
			return redirect(302, "../next")(n, conn)
		}
		return egresstest.Say(egresstest.OK)(n, conn)
	})
	a := c.Call(t.Context(), saga.Request{Method: "GET", URL: s.URL + "/a/b?k=${secrets.TOKEN}", Headers: map[string]string{"X-Key": "${secrets.TOKEN}"}})
	if got := s.Requests(); !of200(a) || len(got) != 2 || got[1].Line != "GET /next" || got[1].Header.Get("X-Key") != "tok-1234567" || got[1].Header.Get("Referer") != "" {
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
		{"to a closed port", redirect(302, "http://"+egresstest.RefusedAddr(t)), outcome{true, 0, "connection", ""}, 1, "refused"},
		{"without a Location", egresstest.Say(egresstest.Response(302, "", "gone")), outcome{true, 302, "", `"gone"`}, 1, ""},
		{"not modified", egresstest.Say("HTTP/1.1 304 X\r\nLocation: /x\r\n\r\n"), outcome{true, 304, "", ""}, 1, ""},
	}
	c := newCaller(t, Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := egresstest.Serve(t, tt.script)
			a := c.Call(t.Context(), get(s.URL))
			if got := of(a); got != tt.want || len(s.Requests()) != tt.sends {
				t.Errorf("Call = %+v after %d requests, want %+v after %d", got, len(s.Requests()), tt.want, tt.sends)
			}
			if !strings.Contains(a.Detail, tt.detail) || strings.Contains(a.Detail, "hunter22") {
				t.Errorf("Detail = %q, want %q in it", a.Detail, tt.detail)
			}
		})
	}
	t.Run("a read with a body stays", func(t *testing.T) {
		s := egresstest.Serve(t, redirect(307, "/x"))
		r := post(s.URL, `{}`)
		r.Method = "GET"
		if got, want := of(c.Call(t.Context(), r)), (outcome{Sent: true, Status: 307}); got != want {
			t.Errorf("Call = %+v, want %+v", got, want)
		}
	})
}
