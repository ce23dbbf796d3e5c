package http

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"recourse/saga"
)

func TestSecretHosts(t *testing.T) {
	bound, err := NewSecretHosts(map[string][]string{
		"PAY": {"pay.example", "*.pay.example:8443", "10.0.0.1:9000", "2001:DB8::1"}, "NONE": {}, "BELOW": {"*.pay.example"},
	})
	if err != nil {
		t.Fatal(err)
	}
	all, err := NewSecretHosts(map[string][]string{"PAY": {"pay.example"}, "*": {"own.example"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		hosts   *SecretHosts
		secret  string
		url     string
		allowed bool
	}{
		{nil, "PAY", "https://evil.example/", true},
		{bound, "OTHER", "https://evil.example/", true},
		{bound, "PAY", "https://pay.example/a", true},
		{bound, "PAY", "http://PAY.example.:81/", true},
		{bound, "PAY", "https://evil.example/?pay.example", false},
		{bound, "PAY", "https://pay.example.evil.example/", false},
		{bound, "PAY", "https://evilpay.example/", false},
		{bound, "PAY", "https://eu.pay.example/", false},
		{bound, "PAY", "https://eu.pay.example:8443/", true},
		{bound, "PAY", "https://a.eu.pay.example:8443/", true},
		{bound, "PAY", "https://.pay.example:443/", false},
		{bound, "PAY", "https://evilpay.example:8443/", false},
		{bound, "BELOW", "https://eu.pay.example:81/", true},
		{bound, "BELOW", "https://pay.example/", false},
		{bound, "BELOW", "https://evilpay.example/", false},
		{bound, "BELOW", "https://eu.pay.example.evil.example/", false},
		{bound, "PAY", "http://10.0.0.1:9000/", true},
		{bound, "PAY", "http://10.0.0.1/", false},
		{bound, "PAY", "http://[2001:db8:0::1]/", true},
		{bound, "PAY", "http://[2001:db8::2]/", false},
		{bound, "NONE", "https://pay.example/", false},
		{all, "PAY", "https://own.example/", false},
		{all, "OTHER", "https://own.example/", true},
		{all, "OTHER", "https://pay.example/", false},
	} {
		u, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := tt.hosts.allow(tt.secret, u) == nil; got != tt.allowed {
			t.Errorf("%s to %s: allowed %v, want %v", tt.secret, tt.url, got, tt.allowed)
		}
	}
}

func TestBadSecretHosts(t *testing.T) {
	for _, entry := range []string{"", "*", "https://pay.example", "pay.example/x", "a*.example", "*.*.example", "10.0.0.0/8", "pay.example:0", "pay.example:x", "bücher.example", "a b"} {
		_, err := NewSecretHosts(map[string][]string{"PAY": {entry}})
		if err == nil || !strings.Contains(err.Error(), "PAY: ") {
			t.Errorf("%q: %v", entry, err)
		}
	}
}

// A secret leaves for the hosts that it is bound to, wherever in the request it stands, and for no
// other.
func TestSecretsAreBound(t *testing.T) {
	s := serveWire(t, say(ok200))
	u, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{u.Host, "pay.example"} {
		hosts, err := NewSecretHosts(map[string][]string{"TOKEN": {to}})
		if err != nil {
			t.Fatal(err)
		}
		c := newCaller(t, CallerConfig{Secret: vault, SecretHosts: hosts})
		for where, r := range map[string]saga.Request{
			"header": {Method: "GET", URL: s.url + "/", Headers: map[string]string{"Authorization": "Bearer ${secrets.TOKEN}"}},
			"query":  {Method: "GET", URL: s.url + "/?k=${secrets.TOKEN}"},
			"body":   {Method: "POST", URL: s.url + "/", Body: json.RawMessage(`{"k": "${secrets.TOKEN}"}`)},
			"both":   {Method: "GET", URL: s.url + "/?k=${secrets.PIN}", Headers: map[string]string{"X-Key": "${secrets.TOKEN}"}},
		} {
			before := len(s.requests())
			a := c.Call(t.Context(), r)
			if to == u.Host {
				if !of200(a) {
					t.Errorf("in the %s, to its host: %+v", where, a)
				}
				continue
			}
			if a.Sent || a.Code != codeSecretMissing || !strings.Contains(a.Detail, "TOKEN does not go to "+u.Host+": secret-hosts") || len(s.requests()) != before {
				t.Errorf("in the %s, to another: %+v", where, a)
			}
		}
		if a := c.Call(t.Context(), get(s.url+"/")); !of200(a) {
			t.Errorf("without a secret: %+v", a)
		}
	}
}
