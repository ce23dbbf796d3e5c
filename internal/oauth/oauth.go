// Package oauth validates the access tokens of an OAuth issuer: JWTs (RFC 9068) whose signature one
// of the issuer's keys has made.
//
// recourse is a resource server: it sends nobody to a login, issues no tokens, and asks the issuer
// for nothing but its keys.
//
//	v := oauth.New(oauth.Config{Issuer: "https://id.example", Audience: "https://recourse.example/mcp", JWKS: "https://id.example/jwks"})
//	token, err := v.Verify(ctx, text)
//	if err == nil && slices.Contains(token.Actions(), "refund") { … }
package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"recourse/internal/egress"
)

// Errors of Verify.
var (
	// ErrToken means that a token is not accepted. Its text says why, and does not contain the
	// token.
	ErrToken = errors.New("the access token is not accepted")
	// ErrUnavailable means that the issuer's keys could not be fetched.
	ErrUnavailable = errors.New("the issuer's keys cannot be fetched")
)

// algorithms are the signatures that are accepted. Each needs a public key of the issuer, so a
// token without a signature, or with one that a public key has made as a secret, is refused.
var algorithms = []string{oidc.RS256, oidc.ES256, oidc.EdDSA}

// Config names an issuer.
type Config struct {
	Issuer   string // what tokens have as `iss`
	Audience string // what tokens have in `aud`
	JWKS     string // the URL of the issuer's keys (RFC 7517)

	// Egress sends the requests for the keys. The operator chose their address, so no guard of
	// steps applies.
	Egress egress.Config
	Now    func() time.Time // nil: time.Now
}

// maxIssuer bounds the length of an issuer, and maxSubject that of a subject (OpenID Connect Core,
// section 2): the names of subjects are stored with their sessions.
const (
	maxIssuer  = 200
	maxSubject = 255
	maxToken   = 16 << 10
)

// Check returns an error that says how to write the configuration.
func (c Config) Check() error {
	if c.Issuer == "" || c.Audience == "" || c.JWKS == "" {
		return errors.New("write all of issuer, audience and jwks_url; the issuer names its jwks_uri at /.well-known/openid-configuration or /.well-known/oauth-authorization-server")
	}
	if u, err := parse(c.Issuer); err != nil || u.RawQuery != "" || u.Fragment != "" || len(c.Issuer) > maxIssuer {
		return fmt.Errorf("issuer is the URL that tokens have as iss, letter by letter, such as https://id.example/, with https (http only on a loopback address) and at most %d characters", maxIssuer)
	}
	if _, err := parse(c.JWKS); err != nil {
		return errors.New("jwks_url is the URL of the issuer's keys, such as https://id.example/jwks, with https (http only on a loopback address)")
	}
	return nil
}

// parse parses a URL with https, or with http on a loopback address: nobody else can answer there.
func parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	if f := egress.CheckURL(u); f != nil {
		return nil, f
	}
	addr, err := netip.ParseAddr(u.Hostname())
	loopback := u.Hostname() == "localhost" || err == nil && addr.IsLoopback()
	if u.User != nil || u.Scheme != "https" && !loopback {
		return nil, errors.New("the URL needs https, and no password")
	}
	return u, nil
}

// Token is what recourse reads of a valid access token.
type Token struct {
	Subject string   // whom the issuer has given it to; never empty
	Scopes  []string // sorted, each once
}

// scopePrefix begins the scopes of actions.
const scopePrefix = "action:"

// Scope returns the scope that allows an action.
func Scope(action string) string { return scopePrefix + action }

// Actions lists the names of the actions that the scopes allow. Other scopes are not recourse's.
func (t Token) Actions() []string {
	var names []string
	for _, scope := range t.Scopes {
		if name, ok := strings.CutPrefix(scope, scopePrefix); ok && name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Verifier validates tokens. It is safe for concurrent use.
type Verifier struct {
	cfg  Config
	keys *keys
}

// New returns a Verifier for a configuration that Check accepts. It fetches nothing yet.
func New(cfg Config) *Verifier {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Verifier{cfg: cfg, keys: newKeys(cfg)}
}

// Close closes idle connections.
func (v *Verifier) Close() { v.keys.sender.Close() }

// Issuer returns the issuer as the configuration names it.
func (v *Verifier) Issuer() string { return v.cfg.Issuer }

// Fetch fetches the issuer's keys and returns how many of them can be used. Error: ErrUnavailable.
func (v *Verifier) Fetch(ctx context.Context) (int, error) {
	set, err := v.keys.fetch(ctx)
	return len(set), err
}

// claims are those that go-oidc does not read.
type claims struct {
	Scope scopes          `json:"scope"` // RFC 9068, section 2.2.3
	SCP   scopes          `json:"scp"`   // the same claim of some issuers
	CNF   json.RawMessage `json:"cnf"`
}

// scopes are written as one text with spaces, or as a list.
type scopes []string

// UnmarshalJSON implements json.Unmarshaler.
func (s *scopes) UnmarshalJSON(raw []byte) error {
	var list []string
	if json.Unmarshal(raw, &list) == nil {
		*s = list
		return nil
	}
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return err
	}
	*s = strings.Fields(text)
	return nil
}

// Verify validates a token: its algorithm, its signature, iss, aud, exp and nbf. Errors: ErrToken,
// ErrUnavailable.
func (v *Verifier) Verify(ctx context.Context, text string) (Token, error) {
	if len(text) > maxToken {
		return Token{}, fmt.Errorf("%w: it has more than %d bytes", ErrToken, maxToken)
	}
	signer := &signature{keys: v.keys}
	valid, err := oidc.NewVerifier(v.cfg.Issuer, signer, &oidc.Config{ClientID: v.cfg.Audience, SupportedSigningAlgs: algorithms, Now: v.cfg.Now}).Verify(ctx, text)
	switch {
	case signer.err != nil: // go-oidc does not wrap it
		return Token{}, signer.err
	case err != nil:
		return Token{}, fmt.Errorf("%w: %s", ErrToken, why(err))
	}
	var c claims
	if err := valid.Claims(&c); err != nil {
		return Token{}, fmt.Errorf("%w: its scope is no text and no list of texts", ErrToken)
	}
	switch {
	case c.CNF != nil && string(c.CNF) != "null":
		// Without the proof, a thief of the token could use it.
		return Token{}, fmt.Errorf("%w: it is bound to a key of the client (cnf), and this server checks no proof of that: have the issuer give out bearer tokens", ErrToken)
	case valid.Issuer != v.cfg.Issuer: // go-oidc lets one issuer write its name in two ways
		return Token{}, fmt.Errorf("%w: iss is %.200q", ErrToken, valid.Issuer)
	case valid.Subject == "" || len(valid.Subject) > maxSubject || strings.ContainsFunc(valid.Subject, unicode.IsControl):
		return Token{}, fmt.Errorf("%w: sub must be there, with at most %d bytes", ErrToken, maxSubject)
	}
	list := slices.Sorted(slices.Values(slices.Concat(c.Scope, c.SCP)))
	return Token{Subject: valid.Subject, Scopes: slices.Compact(list)}, nil
}

// maxWhy bounds the text of an error.
const maxWhy = 300

// why returns the text of an error of go-oidc, which was written for ID tokens.
func why(err error) string {
	if expired := new(oidc.TokenExpiredError); errors.As(err, &expired) {
		return "it has expired"
	}
	text := strings.NewReplacer("oidc: ", "", "go-jose/go-jose: ", "", "go-jose/go-jose/", "", "id token", "token").Replace(err.Error())
	return text[:min(len(text), maxWhy)]
}

// signature is the key set of one verification.
type signature struct {
	keys *keys
	err  error // ErrUnavailable, or ErrToken with the reason
}

// VerifySignature implements oidc.KeySet.
func (s *signature) VerifySignature(ctx context.Context, text string) ([]byte, error) {
	payload, err := s.verify(ctx, text)
	s.err = err
	return payload, err
}

// types are the values of the header typ with which tokens are accepted: that of RFC 9068, and the
// one that issuers wrote before. Others, such as logout+jwt, are no access tokens.
var types = []string{"", "JWT", "AT+JWT", "APPLICATION/AT+JWT"}

func (s *signature) verify(ctx context.Context, text string) ([]byte, error) {
	accepted := make([]jose.SignatureAlgorithm, 0, len(algorithms))
	for _, alg := range algorithms {
		accepted = append(accepted, jose.SignatureAlgorithm(alg))
	}
	jws, err := jose.ParseSignedCompact(text, accepted)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", ErrToken, why(err))
	}
	header := jws.Signatures[0].Protected
	typ, _ := header.ExtraHeaders[jose.HeaderType].(string)
	if !slices.Contains(types, strings.ToUpper(typ)) {
		return nil, fmt.Errorf("%w: it is of the type %.40q, and not an access token", ErrToken, typ)
	}
	candidates, err := s.keys.find(ctx, header.KeyID, header.Algorithm)
	if err != nil {
		return nil, err
	}
	for i := range candidates {
		if payload, err := jws.Verify(&candidates[i]); err == nil {
			return payload, nil
		}
	}
	if len(candidates) == 0 {
		return nil, fmt.Errorf("%w: the issuer has no key %.100q for %s", ErrToken, header.KeyID, header.Algorithm)
	}
	return nil, fmt.Errorf("%w: its signature is wrong", ErrToken)
}
