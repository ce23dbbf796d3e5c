package client

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/egress"
	"recourse/internal/egress/egresstest"
	"recourse/internal/httptext"
	"recourse/saga"
	kind "recourse/saga/kinds/http"
)

// canary holds everything that could break out of a URL, a form or a JSON string.
const canary = `s3cr€t/"&=?#%+ \${secrets.OTHER}`

func vault(name string) (string, error) {
	switch name {
	case "CANARY":
		return canary, nil
	case "TOKEN":
		return "tok-1234567", nil
	case "PIN":
		return "1234", nil
	case "DIGITS":
		return "12345678", nil
	case "LINES":
		return "first\r\nX-Injected: 1", nil
	case "COLON":
		return "ada:lovelace", nil
	case "EMPTY":
		return "", nil
	case "BINARY":
		return "\xff\xfe", nil
	}
	return "", errors.New("it is not set: provide RECOURSE_SECRET_" + name)
}

func TestSecretsAreSent(t *testing.T) {
	c := newCaller(t, Config{Secret: vault})
	s := egresstest.Serve(t, egresstest.Say(egresstest.OK))
	encoded := httptext.PercentEncode(canary)
	tests := []struct {
		name       string
		req        saga.Request
		line, body string
		header     string
	}{
		{"in a query", saga.Request{Method: "GET", URL: "/x?key=${secrets.CANARY}&b=$${c}"}, "GET /x?key=" + encoded + "&b=${c}", "", ""},
		{"in a path", saga.Request{Method: "GET", URL: "/bot${secrets.CANARY}/me"}, "GET /bot" + encoded + "/me", "", ""},
		{"in a header", saga.Request{Method: "GET", URL: "/", Headers: map[string]string{"Authorization": "Bearer ${secrets.CANARY}"}}, "GET /", "", "Bearer " + canary},
		{"in basic credentials", saga.Request{Method: "GET", URL: "/", Headers: map[string]string{"Authorization": "Basic base64(ada:${secrets.CANARY})"}}, "GET /", "", "Basic " + base64.StdEncoding.EncodeToString([]byte("ada:"+canary))},
		{"in JSON", saga.Request{Method: "POST", URL: "/", Body: json.RawMessage(`{"k":"a${secrets.CANARY}b","d":"$${secrets.TOKEN}"}`)},
			"POST /", `{"k":"a` + httptext.EscapeJSON(canary) + `b","d":"${secrets.TOKEN}"}`, ""},
		{"in a form", saga.Request{Method: "POST", URL: "/", Headers: map[string]string{"Content-Type": "application/x-www-form-urlencoded"},
			Body: json.RawMessage(`"k=${secrets.CANARY}&b=1"`)}, "POST /", "k=" + encoded + "&b=1", ""},
		{"in text", saga.Request{Method: "POST", URL: "/", Headers: map[string]string{"Content-Type": "text/plain"},
			Body: json.RawMessage(`"k=${secrets.CANARY}"`)}, "POST /", "k=" + canary, ""},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.req.URL = s.URL + tt.req.URL
			if a := c.Call(t.Context(), tt.req); !of200(a) {
				t.Fatalf("Call = %+v", a)
			}
			got := s.Requests()[i]
			if diff := cmp.Diff([]string{tt.line, tt.body, tt.header}, []string{got.Line, got.Body, got.Header.Get("Authorization")}); diff != "" {
				t.Errorf("line, body, header (-want +got):\n%s", diff)
			}
		})
	}
	var doc map[string]string
	if err := json.Unmarshal([]byte(s.Requests()[4].Body), &doc); err != nil || doc["k"] != "a"+canary+"b" {
		t.Errorf("the JSON body says %q, %v", doc["k"], err)
	}
}

func TestSecretsThatCannotBeSent(t *testing.T) {
	header := func(value string) saga.Request {
		return saga.Request{Method: "GET", URL: "http://127.0.0.1:1/", Headers: map[string]string{"X-Key": value}}
	}
	tests := []struct {
		name         string
		req          saga.Request
		code, detail string
	}{
		{"missing", header("${secrets.NOPE}"), "secret_missing", "RECOURSE_SECRET_NOPE"},
		{"missing in the body", saga.Request{Method: "POST", URL: "http://127.0.0.1:1/", Body: json.RawMessage(`"${secrets.NOPE}"`)}, "secret_missing", "RECOURSE_SECRET_NOPE"},
		{"empty", header("${secrets.EMPTY}"), "secret_missing", "--secret-dir"},
		{"two lines in a header", header("${secrets.LINES}"), "secret_missing", "X-Key"},
		{"two lines in basic credentials", header("Basic base64(a:${secrets.LINES})"), "secret_missing", "basic"},
		{"a colon in the user", header("Basic base64(${secrets.COLON}:x)"), "secret_missing", "colon"},
		{"not text", header("${secrets.BINARY}"), "secret_missing", "UTF-8"},
		{"in the host", get("http://${secrets.TOKEN}.example/"), kind.CodeURLInvalid, "host"},
		{"in the port", get("http://a.example:${secrets.PIN}/"), kind.CodeURLInvalid, "host"},
	}
	c := newCaller(t, Config{Secret: vault})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := c.Call(t.Context(), tt.req)
			if got, want := of(a), (outcome{Code: tt.code}); got != want {
				t.Errorf("Call = %+v, want %+v", got, want)
			}
			if !strings.Contains(a.Detail, tt.detail) || strings.Contains(a.Detail, "Injected") {
				t.Errorf("Detail = %q, want it to name %q and no value", a.Detail, tt.detail)
			}
		})
	}
	if a := newCaller(t, Config{}).Call(t.Context(), header("${secrets.TOKEN}")); a.Code != "secret_missing" || !strings.Contains(a.Detail, "--secret-dir") {
		t.Errorf("without secrets: %+v", a)
	}
}

func TestEchoedSecretsAreRedacted(t *testing.T) {
	c := newCaller(t, Config{Secret: vault})
	tests := []struct {
		name, contentType, echo, want string
	}{
		{"JSON", "application/json", `{"tok-1234567":["a tok-1234567","\u0074ok-1234567"],"d":"12345678","n":12345678,"same":"\u00e9"}`,
			`{"***":["a ***","***"],"d":"***","n":12345678,"same":"\u00e9"}`},
		{"text", "text/plain", "you sent tok-1234567 and 1234", `"you sent *** and 1234"`},
		{"bytes", "x/y", "\xff\xfetok-1234567", `{"base64":"//4qKio="}`},
		{"percent-encoded", "text/plain", httptext.PercentEncode(canary), `"***"`},
		{"JSON that does not say so", "text/html", `{"a":"` + httptext.EscapeJSON(canary) + `"}`, `"{\"a\":\"***\"}"`},
		{"and as PHP writes it", "text/html", `{"a":"` + strings.ReplaceAll(httptext.EscapeJSON(canary), "/", `\/`) + `"}`, `"{\"a\":\"***\"}"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := egresstest.Serve(t, egresstest.Say(egresstest.Response(200, "Content-Type: "+tt.contentType+"\r\nX-Echo: Bearer tok-1234567", tt.echo)))
			r := get(s.URL + "?a=${secrets.TOKEN}&b=${secrets.DIGITS}&c=${secrets.PIN}&d=${secrets.CANARY}")
			a := c.Call(t.Context(), r)
			if got := string(a.Body); got != tt.want || a.Headers["x-echo"] != "Bearer ***" {
				t.Errorf("Body = %s, X-Echo = %q; want %s", got, a.Headers["x-echo"], tt.want)
			}
		})
	}
	t.Run("in errors", func(t *testing.T) {
		s := egresstest.Serve(t, func(_ int, conn *net.TCPConn) bool {
			io.WriteString(conn, "HTTP/1.1 tok-1234567 tok-1234567\r\n\r\n")
			return false
		})
		a := c.Call(t.Context(), saga.Request{Method: "POST", URL: s.URL + "/bot${secrets.TOKEN}", Body: json.RawMessage(`1`)})
		if a.Code != "connection" || strings.Contains(a.Detail, "tok-") || !strings.Contains(a.Detail, "/bot${secrets.TOKEN}") {
			t.Errorf("answer = %+v", a)
		}
	})
}

// What is shortened is redacted first, so that no beginning of a secret stays.
func TestSecretsThatAreCut(t *testing.T) {
	long := strings.Repeat("s3cr3t-", 60)
	c := newCaller(t, Config{MaxBody: 80 << 10, Secret: func(string) (string, error) { return long, nil }})
	for name, answer := range map[string]string{
		"a broken head":         "HTTP/1.1 200 OK\r\nAuthorization " + long + "\r\n\r\n",
		"a broken status":       "HTTP/1.1 " + long + "\r\n\r\n",
		"an unknown encoding":   egresstest.Response(200, "Content-Encoding: "+long, "x"),
		"an error's large body": egresstest.Response(500, "Content-Type: text/plain", strings.Repeat("x", maxErrorBody-20)+long+strings.Repeat("x", 32<<10)),
		"a redirect":            egresstest.Response(302, "Location: https://127.0.0.1:1/"+strings.Repeat("x", 150)+long, ""),
	} {
		t.Run(name, func(t *testing.T) {
			s := egresstest.Serve(t, egresstest.Say(answer))
			a := c.Call(t.Context(), saga.Request{Method: "GET", URL: s.URL + "/", Headers: map[string]string{"Authorization": "${secrets.LONG}"}})
			if text := a.Detail + string(a.Body); !a.Sent || strings.Contains(text, "s3cr3t") {
				t.Errorf("answer = %+v", a)
			}
			if len(a.Detail) > 500 {
				t.Errorf("%d bytes of detail", len(a.Detail))
			}
		})
	}
}

// Of a body that breaks off within a secret, no part of the secret stays.
func TestSecretsThatBreakOff(t *testing.T) {
	s := egresstest.Serve(t, func(_ int, conn *net.TCPConn) bool {
		_, _ = io.WriteString(conn, "HTTP/1.1 500 No\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nyou sent tok-123")
		return false
	})
	a := newCaller(t, Config{Secret: vault}).Call(t.Context(), saga.Request{Method: "GET", URL: s.URL, Headers: map[string]string{"X-Key": "${secrets.TOKEN}"}})
	if got, want := string(a.Body), `"you sent ***"`; got != want {
		t.Errorf("body %s, want %s", got, want)
	}
}

// A secret that another request's answer tells does not get into a journal either.
func TestKnownSecretsAreRedacted(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Told", "canary-s3cr3t")
		_, _ = w.Write([]byte(`{"token":"canary-s3cr3t","n":1}`))
	}))
	defer srv.Close()
	c := newCaller(t, Config{Known: func() []string { return []string{"canary-s3cr3t"} }})
	a := c.Call(t.Context(), saga.Request{Method: "GET", URL: srv.URL})
	if got, want := string(a.Body), `{"token":"***","n":1}`; got != want {
		t.Errorf("body %s, want %s", got, want)
	}
	if got := a.Headers["x-told"]; got != "***" {
		t.Errorf("header %q, want ***", got)
	}
}

// TestBasicCredentialsAreRedacted: an answer that brings the header back does not put it into the
// journal, in neither form.
func TestBasicCredentialsAreRedacted(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte("ada:tok-1234567"))
	s := egresstest.Serve(t, egresstest.Say(egresstest.Response(200, "Content-Type: application/json\r\nX-Echo: Basic "+encoded, `{"you":"Basic `+encoded+`","key":"tok-1234567"}`)))
	a := newCaller(t, Config{Secret: vault}).Call(t.Context(), saga.Request{Method: "GET", URL: s.URL, Headers: map[string]string{"Authorization": "Basic base64(ada:${secrets.TOKEN})"}})
	if got := s.Requests()[0].Header.Get("Authorization"); got != "Basic "+encoded {
		t.Errorf("sent %q", got)
	}
	if string(a.Body) != `{"you":"Basic ***","key":"***"}` || a.Headers["x-echo"] != "Basic ***" {
		t.Errorf("the answer shows %s, %v", a.Body, a.Headers)
	}
}

// A secret leaves for the hosts that it is bound to, wherever in the request it stands, and for no
// other.
func TestSecretsAreBound(t *testing.T) {
	s := egresstest.Serve(t, egresstest.Say(egresstest.OK))
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{u.Host, "pay.example"} {
		hosts, err := egress.NewSecretHosts(map[string][]string{"TOKEN": {to}})
		if err != nil {
			t.Fatal(err)
		}
		c := newCaller(t, Config{Secret: vault, SecretHosts: hosts})
		for where, r := range map[string]saga.Request{
			"header": {Method: "GET", URL: s.URL + "/", Headers: map[string]string{"Authorization": "Bearer ${secrets.TOKEN}"}},
			"query":  {Method: "GET", URL: s.URL + "/?k=${secrets.TOKEN}"},
			"body":   {Method: "POST", URL: s.URL + "/", Body: json.RawMessage(`{"k": "${secrets.TOKEN}"}`)},
			"both":   {Method: "GET", URL: s.URL + "/?k=${secrets.PIN}", Headers: map[string]string{"X-Key": "${secrets.TOKEN}"}},
		} {
			before := len(s.Requests())
			a := c.Call(t.Context(), r)
			if to == u.Host {
				if !of200(a) {
					t.Errorf("in the %s, to its host: %+v", where, a)
				}
				continue
			}
			if a.Sent || a.Code != saga.CodeSecretMissing || !strings.Contains(a.Detail, "TOKEN does not go to "+u.Host+": secret-hosts") || len(s.Requests()) != before {
				t.Errorf("in the %s, to another: %+v", where, a)
			}
		}
		if a := c.Call(t.Context(), get(s.URL+"/")); !of200(a) {
			t.Errorf("without a secret: %+v", a)
		}
	}
}
