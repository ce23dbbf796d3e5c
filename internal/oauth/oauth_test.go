package oauth

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"recourse/internal/test/issuer"
)

// clock is a time that tests move.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) move(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func newVerifier(t *testing.T, i *issuer.Issuer) (*Verifier, *clock) {
	t.Helper()
	c := &clock{at: time.Now()}
	cfg := Config{Issuer: i.URL, Audience: issuer.Audience, JWKS: i.JWKS(), Now: c.now}
	if err := cfg.Check(); err != nil {
		t.Fatal(err)
	}
	v := New(cfg)
	t.Cleanup(v.Close)
	return v, c
}

func TestVerify(t *testing.T) {
	i := issuer.New(t)
	v, _ := newVerifier(t, i)
	good := func(name, token string, want ...string) {
		t.Helper()
		got, err := v.Verify(t.Context(), token)
		if err != nil || got.Subject != "ann" || !slices.Equal(got.Actions(), want) {
			t.Errorf("%s: %+v %v, want %v", name, got, err, want)
		}
	}
	for _, alg := range issuer.Algorithms {
		good(alg, i.Sign(alg, "", "ann", "action:refund openid action:book action:"), "book", "refund")
	}
	good("a list", i.Token("ann", "", issuer.Claims{"scope": []string{"action:book"}}), "book")
	good("scp", i.Token("ann", "", issuer.Claims{"scope": nil, "scp": "action:book action:book"}), "book")
	good("one audience", i.Token("ann", "", issuer.Claims{"aud": issuer.Audience}))
	good("an older type", i.Token("ann", "", issuer.Claims{"typ": "JWT"}))
	good("no key id", i.Token("ann", "", issuer.Claims{"kid": ""}))
	good("the clocks differ", i.Token("ann", "", issuer.Claims{"nbf": time.Now().Add(time.Minute).Unix()}))
	if n := i.Sent.Load(); n != 1 {
		t.Errorf("the keys were fetched %d times", n)
	}

	other := issuer.New(t)
	token := i.Token("ann", "action:refund")
	for name, bad := range map[string]struct{ token, says string }{
		"wrong audience":    {i.Token("ann", "", issuer.Claims{"aud": "https://other.example"}), "audience"},
		"no audience":       {i.Token("ann", "", issuer.Claims{"aud": nil}), "audience"},
		"wrong issuer":      {i.Token("ann", "", issuer.Claims{"iss": "https://other.example"}), "different provider"},
		"other issuer":      {other.Token("ann", ""), "signature is wrong"},
		"other key":         {other.Token("ann", "", issuer.Claims{"iss": i.URL}), "signature is wrong"},
		"expired":           {i.Token("ann", "", issuer.Claims{"exp": time.Now().Add(-time.Second).Unix()}), "expired"},
		"never expires":     {i.Token("ann", "", issuer.Claims{"exp": nil}), "expired"},
		"not yet valid":     {i.Token("ann", "", issuer.Claims{"nbf": time.Now().Add(10 * time.Minute).Unix()}), "not before"},
		"unknown key":       {i.Sign("ES256", "-new", "ann", ""), "no key"},
		"alg none":          {i.Sign("none", "", "ann", ""), "algorithm"},
		"HS256":             {i.Sign("HS256", "", "ann", ""), "algorithm"},
		"key of another":    {i.Token("ann", "", issuer.Claims{"kid": "RS256"}), "no key"},
		"symmetric key":     {i.Token("ann", "", issuer.Claims{"kid": "secret"}), "no key"},
		"no subject":        {i.Token("", ""), "sub"},
		"long subject":      {i.Token(strings.Repeat("a", 256), ""), "sub"},
		"line break":        {i.Token("a\nb", ""), "sub"},
		"logout token":      {i.Token("ann", "", issuer.Claims{"typ": "logout+jwt"}), "not an access token"},
		"bound to a key":    {i.Token("ann", "", issuer.Claims{"cnf": map[string]string{"jkt": "x"}}), "bound"},
		"scope is a number": {i.Token("ann", "", issuer.Claims{"scope": 1}), "scope"},
		"other claims":      {issuer.Forge(token, issuer.Claims{"sub": "bob"}), "signature is wrong"},
		"cut":               {token[:len(token)-4], "signature"},
		"no JWT":            {"opaque", "malformed"},
		"JSON":              {`{"payload": "e30", "signatures": []}`, ""},
		"too long":          {token + strings.Repeat("a", maxToken), "bytes"},
	} {
		got, err := v.Verify(t.Context(), bad.token)
		if !errors.Is(err, ErrToken) || got.Subject != "" || !strings.Contains(err.Error(), bad.says) {
			t.Errorf("%s: %+v, %v, want %q", name, got, err, bad.says)
		} else if strings.Contains(err.Error(), bad.token) {
			t.Errorf("%s: the error has the token: %v", name, err)
		}
	}
}

// A new key of the issuer is fetched when a token names it, a withdrawn one is refused after a
// while, and made-up ids do not become requests.
func TestKeysRotate(t *testing.T) {
	i := issuer.New(t)
	v, c := newVerifier(t, i)
	accepted := func(token string) bool {
		t.Helper()
		_, err := v.Verify(t.Context(), token)
		if err != nil && !errors.Is(err, ErrToken) {
			t.Fatal(err)
		}
		return err == nil
	}
	old := i.Token("ann", "")
	if !accepted(old) {
		t.Fatal("the first key")
	}
	i.Rotate("-2")
	if !accepted(i.Sign("ES256", "-2", "ann", "")) || i.Sent.Load() != 2 {
		t.Errorf("the new key was not fetched: %d requests", i.Sent.Load())
	}
	if accepted(old) {
		t.Error("a withdrawn key is accepted after new ones were fetched")
	}
	for range 20 {
		accepted(i.Sign("ES256", "-made-up", "ann", ""))
	}
	if n := i.Sent.Load(); n != fetchBurst {
		t.Errorf("%d requests, want %d", n, fetchBurst)
	}
	second := i.Sign("ES256", "-2", "ann", "")
	i.Rotate("-3")
	c.move(freshKeys - time.Second)
	if !accepted(second) {
		t.Error("fresh keys were forgotten")
	}
	c.move(2 * time.Second)
	if accepted(second) {
		t.Error("a withdrawn key is accepted forever")
	}
}

// Without the issuer, its keys are used for a while; then, and for unknown keys, nobody can say
// whether a token is good.
func TestIssuerDown(t *testing.T) {
	i := issuer.New(t)
	v, c := newVerifier(t, i)
	i.Down.Store(true)
	token := i.Token("ann", "", issuer.Claims{"exp": time.Now().Add(24 * time.Hour).Unix()})
	verify := func(token string) error {
		_, err := v.Verify(t.Context(), token)
		return err
	}
	if err := verify(token); !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), i.JWKS()) || !strings.Contains(err.Error(), "503") {
		t.Errorf("before the first keys: %v", err)
	}
	i.Down.Store(false)
	if err := verify(token); err != nil {
		t.Fatal(err)
	}
	i.Down.Store(true)
	c.move(freshKeys + time.Second)
	if err := verify(token); err != nil {
		t.Errorf("shortly after: %v", err)
	}
	if err := verify(i.Sign("ES256", "-2", "ann", "")); !errors.Is(err, ErrUnavailable) {
		t.Errorf("an unknown key: %v", err)
	}
	c.move(staleKeys)
	if err := verify(token); !errors.Is(err, ErrUnavailable) {
		t.Errorf("long after: %v", err)
	}
	i.Down.Store(false)
	c.move(fetchEvery)
	if err := verify(token); err != nil {
		t.Errorf("the issuer is back: %v", err)
	}
}

// A client that leaves does not keep the keys from others.
func TestClientLeaves(t *testing.T) {
	i := issuer.New(t)
	v, _ := newVerifier(t, i)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if _, err := v.Verify(ctx, i.Token("ann", "")); err != nil && !errors.Is(err, ErrUnavailable) {
		t.Errorf("left: %v", err)
	}
	if _, err := v.Verify(t.Context(), i.Token("ann", "")); err != nil {
		t.Errorf("another client: %v", err)
	}
}

// An answer that is no set of keys is refused: it is read up to a limit, and redirects lead
// nowhere.
func TestBadKeySets(t *testing.T) {
	i := issuer.New(t)
	for name, h := range map[string]http.HandlerFunc{
		"endless":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), maxJWKS+1)) },
		"text":     func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("hello")) },
		"empty":    func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys": []}`)) },
		"redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, i.JWKS(), http.StatusFound) },
		"many": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys": [` + strings.Repeat(`{"kty": "x"},`, maxKeys) + `{}]}`))
		},
	} {
		s := httptest.NewServer(h)
		v := New(Config{Issuer: i.URL, Audience: issuer.Audience, JWKS: s.URL})
		if _, err := v.Verify(t.Context(), i.Token("ann", "")); !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: %v", name, err)
		}
		v.Close()
		s.Close()
	}
	if n := i.Sent.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

func TestCheck(t *testing.T) {
	good := Config{Issuer: "https://id.example/t/", Audience: "https://recourse.example/mcp", JWKS: "https://id.example/jwks?v=1"}
	if err := good.Check(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"no issuer":        func(c *Config) { c.Issuer = "" },
		"no audience":      func(c *Config) { c.Audience = "" },
		"no keys":          func(c *Config) { c.JWKS = "" },
		"http":             func(c *Config) { c.Issuer = "http://id.example" },
		"keys over http":   func(c *Config) { c.JWKS = "http://id.example/jwks" },
		"no URL":           func(c *Config) { c.Issuer = "id.example" },
		"with a fragment":  func(c *Config) { c.Issuer = "https://id.example#a" },
		"with a query":     func(c *Config) { c.Issuer = "https://id.example?a" },
		"with a password":  func(c *Config) { c.JWKS = "https://a:b@id.example/jwks" },
		"a very long name": func(c *Config) { c.Issuer = "https://id.example/" + strings.Repeat("a", maxIssuer) },
	} {
		c := good
		change(&c)
		if c.Check() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
