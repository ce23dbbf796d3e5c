package http_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
	"recourse/saga"
)

func TestJudge(t *testing.T) {
	const s, r, tr, d, h = journal.Succeeded, journal.Refused, journal.Transient, journal.InDoubt, journal.Held
	tests := []struct {
		name        string
		answer      saga.Answer
		write, read journal.Class
		code        string
	}{
		{"200", saga.Answer{Sent: true, Status: 200}, s, s, ""},
		{"204", saga.Answer{Sent: true, Status: 204}, s, s, ""},
		{"cut", saga.Answer{Sent: true, Status: 200, Code: "body_cut"}, d, tr, "body_cut"},
		{"too large", saga.Answer{Sent: true, Status: 200, Code: "body_too_large"}, d, r, "body_too_large"},
		{"invalid", saga.Answer{Sent: true, Status: 201, Code: "body_invalid"}, d, tr, "body_invalid"},
		{"slow body", saga.Answer{Sent: true, Status: 200, Code: "timeout"}, d, tr, "timeout"},
		{"300", saga.Answer{Sent: true, Status: 300}, r, r, "http_300"},
		{"301", saga.Answer{Sent: true, Status: 301}, d, r, "http_301"},
		{"302", saga.Answer{Sent: true, Status: 302}, d, r, "http_302"},
		{"303", saga.Answer{Sent: true, Status: 303}, d, r, "http_303"},
		{"304", saga.Answer{Sent: true, Status: 304}, r, r, "http_304"},
		{"307", saga.Answer{Sent: true, Status: 307}, r, r, "http_307"},
		{"308", saga.Answer{Sent: true, Status: 308, Code: "redirect"}, r, r, "http_308"},
		{"400", saga.Answer{Sent: true, Status: 400}, r, r, "http_400"},
		{"401", saga.Answer{Sent: true, Status: 401}, h, h, "http_401"},
		{"402", saga.Answer{Sent: true, Status: 402}, r, r, "http_402"},
		{"404", saga.Answer{Sent: true, Status: 404, Code: "body_cut"}, r, r, "http_404"},
		{"407", saga.Answer{Sent: true, Status: 407}, h, h, "http_407"},
		{"408", saga.Answer{Sent: true, Status: 408}, tr, tr, "http_408"},
		{"409", saga.Answer{Sent: true, Status: 409}, r, r, "http_409"},
		{"425", saga.Answer{Sent: true, Status: 425}, tr, tr, "http_425"},
		{"429", saga.Answer{Sent: true, Status: 429}, tr, tr, "http_429"},
		{"499", saga.Answer{Sent: true, Status: 499}, r, r, "http_499"},
		{"500", saga.Answer{Sent: true, Status: 500}, d, tr, "http_500"},
		{"503", saga.Answer{Sent: true, Status: 503}, d, tr, "http_503"},
		{"599", saga.Answer{Sent: true, Status: 599}, d, tr, "http_599"},
		{"timeout", saga.Answer{Sent: true, Code: "timeout"}, d, tr, "timeout"},
		{"reset", saga.Answer{Sent: true, Code: "connection"}, d, tr, "connection"},
		{"crash", saga.Answer{Sent: true, Code: "interrupted"}, d, tr, "interrupted"},
		{"nothing said", saga.Answer{Sent: true}, d, tr, "no_answer"},
		{"refused connection", saga.Answer{Code: "connection"}, tr, tr, "connection"},
		{"no such host", saga.Answer{Code: "dns"}, tr, tr, "dns"},
		{"TLS", saga.Answer{Code: "tls"}, tr, tr, "tls"},
		{"not sent", saga.Answer{Code: "not_sent"}, tr, tr, "not_sent"},
		{"denied", saga.Answer{Code: "egress_denied"}, r, r, "egress_denied"},
		{"no secret", saga.Answer{Code: "secret_missing"}, journal.Held, journal.Held, "secret_missing"},
		{"no URL", saga.Answer{Code: "url_invalid"}, r, r, "url_invalid"},
	}
	for _, tt := range tests {
		for method, want := range map[string]journal.Class{"POST": tt.write, "PUT": tt.write, "PATCH": tt.write, "DELETE": tt.write, "GET": tt.read, "HEAD": tt.read} {
			v := call(t, "http: "+method+" https://a.example/").Judge(saga.Request{}, tt.answer)
			code := ""
			if v.Error != nil {
				code = v.Error.Code
			}
			if v.Class != want || code != tt.code {
				t.Errorf("%s %s: %s %s, want %s %s", method, tt.name, v.Class, code, want, tt.code)
			}
		}
	}
}

func TestOutputIsTheBody(t *testing.T) {
	v := call(t, post).Judge(saga.Request{}, saga.Answer{Sent: true, Status: 201, Body: json.RawMessage(`{"n":19.10}`)})
	if string(v.Output) != `{"n":19.10}` {
		t.Errorf("output %s", v.Output)
	}
}

func TestFailureWords(t *testing.T) {
	long := strings.Repeat("x", 600)
	for _, tt := range []struct {
		url    string
		answer saga.Answer
		want   saga.Failure
	}{
		{"https://pay.example:8443/c/${input.id}?k=1", saga.Answer{Sent: true, Status: 402}, saga.Failure{Code: "http_402", Title: "HTTP 402 Payment Required from pay.example:8443"}},
		{"${vars.pay}/c", saga.Answer{Sent: true, Status: 599}, saga.Failure{Code: "http_599", Title: "HTTP 599 from ${vars.pay}"}},
		{"https://a.example", saga.Answer{Sent: true, Status: 400, Body: json.RawMessage(`{"type":"x","title":"T","detail":"no\nfunds"}`)}, saga.Failure{Code: "http_400", Title: "HTTP 400 Bad Request from a.example", Detail: "no?funds"}},
		{"https://a.example", saga.Answer{Sent: true, Status: 400, Body: json.RawMessage(`{"title":"T"}`)}, saga.Failure{Code: "http_400", Title: "HTTP 400 Bad Request from a.example", Detail: "T"}},
		{"https://a.example", saga.Answer{Sent: true, Status: 400, Body: json.RawMessage(`{"error":{"message":"M"}}`)}, saga.Failure{Code: "http_400", Title: "HTTP 400 Bad Request from a.example", Detail: "M"}},
		{"https://a.example", saga.Answer{Sent: true, Status: 400, Body: json.RawMessage(`{"error":"E"}`)}, saga.Failure{Code: "http_400", Title: "HTTP 400 Bad Request from a.example", Detail: "E"}},
		{"https://a.example", saga.Answer{Sent: true, Status: 400, Detail: "D", Body: json.RawMessage(`[1]`)}, saga.Failure{Code: "http_400", Title: "HTTP 400 Bad Request from a.example", Detail: "D"}},
		{"https://a.example", saga.Answer{Sent: true, Status: 400, Body: json.RawMessage(`{"message":"` + long + `"}`)}, saga.Failure{Code: "http_400", Title: "HTTP 400 Bad Request from a.example", Detail: long[:500] + "…"}},
		{"https://a.example/x", saga.Answer{Sent: true, Code: "timeout", Detail: "after 30s"}, saga.Failure{Code: "timeout", Title: "no response in time (POST a.example)", Detail: "after 30s"}},
	} {
		v := call(t, "http: POST "+tt.url).Judge(saga.Request{}, tt.answer)
		if diff := cmp.Diff(&tt.want, v.Error); diff != "" {
			t.Errorf("%s, status %d (-want +got):\n%s", tt.url, tt.answer.Status, diff)
		}
	}
}

func TestReadOnly(t *testing.T) {
	for method, want := range map[string]bool{"GET": true, "HEAD": true, "POST": false, "PUT": false, "PATCH": false, "DELETE": false} {
		if got := call(t, "http: "+method+" https://a.example/").ReadOnly(); got != want {
			t.Errorf("%s: ReadOnly %v", method, got)
		}
	}
}
