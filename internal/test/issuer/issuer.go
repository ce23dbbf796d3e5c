// Package issuer is an OAuth issuer for tests: it has keys, publishes them, and makes access
// tokens, also wrong ones.
package issuer

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Audience is what tokens have as aud unless claims say otherwise.
const Audience = "https://recourse.example/mcp"

// Issuer is a running issuer.
type Issuer struct {
	URL  string       // its name, and the address of its keys with /jwks
	Down atomic.Bool  // answer 503
	Sent atomic.Int64 // requests for the keys

	t  testing.TB
	mu sync.Mutex
	of map[string]crypto.Signer // by key id; guarded by mu
}

// Algorithms are those of the issuer's keys. The id of a key is its algorithm, and after Rotate
// it ends with a suffix.
var Algorithms = []string{"RS256", "ES256", "EdDSA"}

// New starts an issuer, which ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t, of: make(map[string]crypto.Signer)}
	i.Rotate("")
	s := httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(s.Close)
	i.URL = s.URL
	return i
}

// JWKS returns the address of the keys.
func (i *Issuer) JWKS() string { return i.URL + "/jwks" }

// Rotate replaces the keys by new ones, whose ids end with suffix.
func (i *Issuer) Rotate(suffix string) {
	i.t.Helper()
	of := make(map[string]crypto.Signer)
	for _, alg := range Algorithms {
		var key crypto.Signer
		var err error
		switch alg {
		case "RS256":
			key, err = rsa.GenerateKey(rand.Reader, 2048)
		case "ES256":
			key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		case "EdDSA":
			_, key, err = ed25519.GenerateKey(rand.Reader)
		}
		if err != nil {
			i.t.Fatal(err)
		}
		of[alg+suffix] = key
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.of = of
}

func (i *Issuer) serve(w http.ResponseWriter, r *http.Request) {
	if i.Sent.Add(1); i.Down.Load() || r.URL.Path != "/jwks" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	var list []map[string]any
	for _, id := range slices.Sorted(maps.Keys(i.of)) {
		list = append(list, jwk(id, i.of[id].Public()))
	}
	// Keys that a reader has to leave aside: of an unknown kind, and for encryption.
	list = append(list, map[string]any{"kty": "new", "kid": "new"}, map[string]any{"kty": "oct", "kid": "secret", "k": text([]byte("a secret key in public"))})
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"keys": list})
}

func text(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// jwk returns a public key as RFC 7517 and 8037 have it.
func jwk(id string, key crypto.PublicKey) map[string]any {
	m := map[string]any{"kid": id, "use": "sig", "alg": id[:5]}
	switch key := key.(type) {
	case *rsa.PublicKey:
		m["kty"], m["n"], m["e"] = "RSA", text(key.N.Bytes()), text(binary.BigEndian.AppendUint32(nil, uint32(key.E))[1:])
	case *ecdsa.PublicKey:
		point, err := key.Bytes()
		if err != nil {
			panic(err)
		}
		m["kty"], m["crv"], m["x"], m["y"] = "EC", "P-256", text(point[1:33]), text(point[33:])
	case ed25519.PublicKey:
		m["kty"], m["crv"], m["x"] = "OKP", "Ed25519", text(key)
	}
	return m
}

// Claims are those of a token, besides the ones that every token has. nil removes one.
type Claims map[string]any

// Token returns an access token for a subject with scopes, signed with ES256.
func (i *Issuer) Token(subject, scope string, more ...Claims) string {
	i.t.Helper()
	return i.Sign("ES256", "", subject, scope, more...)
}

// Sign returns a token that is signed with the key of an algorithm after the rotation that suffix
// names. Besides the Algorithms there are none, without a signature, and HS256, for which the
// public key of RS256 is the secret. A key that the issuer does not have is made for the token.
func (i *Issuer) Sign(alg, suffix, subject, scope string, more ...Claims) string {
	i.t.Helper()
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "aud": []string{"other", Audience}, "sub": subject, "scope": scope, "client_id": "app", "jti": rand.Text(), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	header := map[string]any{"alg": alg, "kid": alg + suffix, "typ": "at+jwt"}
	for _, m := range more {
		for name, value := range m {
			switch {
			case name == "typ" || name == "kid":
				header[name] = value
			case value == nil:
				delete(claims, name)
			default:
				claims[name] = value
			}
		}
	}
	encode := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			i.t.Fatal(err)
		}
		return text(b)
	}
	if alg == "HS256" {
		header["kid"] = "RS256" + suffix
	}
	signed := encode(header) + "." + encode(claims)
	return signed + "." + text(i.signature(alg, suffix, signed))
}

func (i *Issuer) signature(alg, suffix, signed string) []byte {
	i.t.Helper()
	i.mu.Lock()
	key := i.of[alg+suffix]
	public := i.of["RS256"+suffix]
	i.mu.Unlock()
	digest := sha256.Sum256([]byte(signed))
	var sum []byte
	var err error
	switch alg {
	case "none":
		return nil
	case "HS256":
		der, marshalled := x509.MarshalPKIXPublicKey(public.Public())
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		mac.Write([]byte(signed))
		sum, err = mac.Sum(nil), marshalled
	case "ES256":
		own, ok := key.(*ecdsa.PrivateKey)
		if !ok {
			own, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		}
		if err == nil {
			sum = make([]byte, 64)
			r, s, e := ecdsa.Sign(rand.Reader, own, digest[:])
			r.FillBytes(sum[:32])
			s.FillBytes(sum[32:])
			err = e
		}
	case "RS256":
		sum, err = key.Sign(rand.Reader, digest[:], crypto.SHA256)
	case "EdDSA":
		sum, err = key.Sign(rand.Reader, []byte(signed), crypto.Hash(0))
	default:
		err = fmt.Errorf("no algorithm %s", alg)
	}
	if err != nil {
		i.t.Fatal(err)
	}
	return sum
}

// Forge returns a token with other claims under the signature of a good one.
func Forge(token string, claims Claims) string {
	parts := strings.Split(token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
	var all map[string]any
	_ = json.Unmarshal(raw, &all)
	maps.Copy(all, claims)
	raw, _ = json.Marshal(all)
	return parts[0] + "." + text(raw) + "." + parts[2]
}
