package egress

import (
	"net/url"
	"strings"
	"testing"
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
		if got := tt.hosts.Allow(tt.secret, u) == nil; got != tt.allowed {
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
