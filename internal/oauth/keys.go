package oauth

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/time/rate"

	"recourse/internal/egress"
)

const (
	// freshKeys is how long keys are used without asking the issuer again, and with it how long a
	// key is accepted that the issuer has withdrawn.
	freshKeys = 5 * time.Minute
	// staleKeys is how long they are used if the issuer does not answer.
	staleKeys = time.Hour
	// fetchEvery and fetchBurst limit the requests to the issuer: tokens with made-up key ids must
	// not become requests.
	fetchEvery = 10 * time.Second
	fetchBurst = 5

	fetchTime = 5 * time.Second
	maxJWKS   = 256 << 10 // bytes
	maxKeys   = 100
)

// keys are those of the issuer. They are fetched when a token needs them: the first time, when they
// are no longer fresh, and when a token names one that is unknown, because the issuer has a new
// one.
type keys struct {
	address *url.URL
	sender  *egress.Sender
	now     func() time.Time
	// fetching has room for one request to the issuer.
	fetching chan struct{}

	mu      sync.Mutex // guards what follows
	set     []jose.JSONWebKey
	fetched time.Time // when set was fetched; zero: never
	failed  error     // of the last request; nil: it succeeded
	bucket  *rate.Limiter
}

func newKeys(cfg Config) *keys {
	address, err := url.Parse(cfg.JWKS)
	if err != nil { // Check has refused it
		address = &url.URL{}
	}
	if cfg.Egress.Guard == nil {
		cfg.Egress.Guard = egress.AllowAll()
	}
	return &keys{address: address, sender: egress.New(cfg.Egress), now: cfg.Now, fetching: make(chan struct{}, 1), bucket: rate.NewLimiter(rate.Every(fetchEvery), fetchBurst)}
}

// find returns the keys that may have made a signature: those with this id, or all if the token
// names none. Error: ErrUnavailable.
func (k *keys) find(ctx context.Context, id, algorithm string) ([]jose.JSONWebKey, error) {
	if found, fresh := k.known(id, algorithm, freshKeys); fresh && len(found) > 0 {
		return found, nil
	}
	select {
	case k.fetching <- struct{}{}:
		defer func() { <-k.fetching }()
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	// Another request may have fetched them meanwhile.
	if found, fresh := k.known(id, algorithm, freshKeys); fresh && len(found) > 0 {
		return found, nil
	}
	if k.mayFetch() {
		// The result is for others, too, so it does not depend on this client.
		set, err := k.fetch(context.WithoutCancel(ctx))
		k.keep(set, err)
	}
	found, usable := k.known(id, algorithm, staleKeys)
	if err := k.failure(); err != nil && (!usable || len(found) == 0) {
		return nil, err
	}
	return found, nil
}

// known returns the keys in memory that fit, and whether they were fetched within this time.
func (k *keys) known(id, algorithm string, within time.Duration) (found []jose.JSONWebKey, recent bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fetched.IsZero() || k.now().Sub(k.fetched) > within {
		return nil, false
	}
	for _, key := range k.set {
		if (id == "" || key.KeyID == id) && (key.Algorithm == "" || key.Algorithm == algorithm) {
			found = append(found, key)
		}
	}
	return found, true
}

func (k *keys) mayFetch() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bucket.AllowN(k.now(), 1)
}

func (k *keys) keep(set []jose.JSONWebKey, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.failed = err; err == nil {
		k.set, k.fetched = set, k.now()
	}
}

func (k *keys) failure() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.failed
}

// fetch asks the issuer for its keys. Error: ErrUnavailable.
func (k *keys) fetch(ctx context.Context) ([]jose.JSONWebKey, error) {
	ctx, stop := context.WithTimeout(ctx, fetchTime)
	defer stop()
	bad := func(format string, args ...any) ([]jose.JSONWebKey, error) {
		return nil, fmt.Errorf("%w from %s: %s", ErrUnavailable, k.address.Redacted(), fmt.Sprintf(format, args...))
	}
	resp, f := k.sender.Send(ctx, egress.Request{Method: http.MethodGet, URL: k.address, Header: http.Header{"Accept": {"application/jwk-set+json, application/json"}}})
	if f != nil {
		return bad("%s", f.Why)
	}
	defer resp.Body.Close()
	body, f := egress.ReadBody(ctx, resp, maxJWKS)
	switch {
	case f != nil:
		return bad("%s", f.Why)
	case resp.StatusCode != http.StatusOK: // a redirect, too: nobody has named its target
		return bad("it answers with HTTP %d", resp.StatusCode)
	}
	var raw struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &raw); err != nil || len(raw.Keys) > maxKeys {
		return bad(`it answers with no JWK set: {"keys": […]} of at most %d keys`, maxKeys)
	}
	var set []jose.JSONWebKey
	for _, one := range raw.Keys {
		var key jose.JSONWebKey
		// An issuer may have keys of kinds that this program does not know.
		if json.Unmarshal(one, &key) == nil && key.Valid() && key.IsPublic() && (key.Use == "" || key.Use == "sig") {
			set = append(set, key)
		}
	}
	if len(set) == 0 {
		return bad("it has no public key for signatures")
	}
	return set, nil
}
