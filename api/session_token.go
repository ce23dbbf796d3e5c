package api

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/internal/intake"
	"recourse/saga"
)

// TokenPrefix begins every session token, so that scanners for leaked secrets recognize it. The
// session's id follows, as 32 hex digits, then an underscore and the secret of the process.
const TokenPrefix = "rst_"

// secretLength is the length of a process's secret: 32 bytes in base64url.
const secretLength = 43

// NewSecret returns the secret of a process, of 256 random bits.
func NewSecret() string {
	var bits [32]byte
	rand.Read(bits[:]) // never fails: see crypto/rand
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// Token returns the token of a process that has attached to a session.
func Token(session uuid.UUID, secret string) string {
	return TokenPrefix + hex.EncodeToString(session.Bytes()) + "_" + secret
}

// hashSecret returns what the journal knows of a secret; "" for none.
func hashSecret(secret string) string {
	if secret == "" {
		return ""
	}
	return HashKey(secret)
}

// bearer returns the credentials in the Authorization header; "" if there are none.
func bearer(c echo.Context) string {
	scheme, secret, _ := strings.Cut(c.Request().Header.Get(echo.HeaderAuthorization), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

// tokenOf returns the parts of the request's session token. ok is false if the request has none.
func tokenOf(c echo.Context) (session uuid.UUID, hash string, ok bool, err error) {
	session, secret, ok, err := splitToken(bearer(c))
	return session, hashFor(c.Request().Context(), secret), ok, err
}

// parseToken returns the parts of a session token. ok is false if the credentials are none.
func parseToken(credentials string) (session uuid.UUID, hash string, ok bool, err error) {
	session, secret, ok, err := splitToken(credentials)
	return session, hashSecret(secret), ok, err
}

// splitToken is parseToken with the secret instead of its hash.
func splitToken(credentials string) (session uuid.UUID, secret string, ok bool, err error) {
	rest, ok := strings.CutPrefix(credentials, TokenPrefix)
	if !ok {
		return uuid.Nil, "", false, nil
	}
	id, secret, _ := strings.Cut(rest, "_")
	b, err := hex.DecodeString(id)
	if err != nil || len(b) != uuid.Size || len(secret) != secretLength {
		return uuid.Nil, "", true, unknownToken()
	}
	return uuid.UUID(b), secret, true, nil
}

func unknownToken() *problem {
	return fail("unknown_token", "a session token is rst_, the session's id without dashes, _ and the secret with which the process has attached")
}

// agentCaller is the caller of a request with a session token.
var agentCaller = caller{name: "agent"}

// authorizeLife lets a request with a session token pass. The handlers check the token: see lifeOf.
func authorizeLife(k *call) error {
	if _, _, _, err := tokenOf(k); err != nil {
		return err
	}
	k.who = agentCaller
	return nil
}

// refuseKey returns the problem of a request without a session token on a route that needs one.
func (s *server) refuseKey(k *call) error {
	if k.Request().Header.Get(echo.HeaderAuthorization) == "" {
		return fail("token_required", "send `Authorization: Bearer rst_…`: the token of the process that has attached to the session")
	}
	if who, err := s.identify(k); err != nil {
		return err
	} else if err := s.limited(k.Request().Context(), who); err != nil {
		return err
	}
	return fail("forbidden", "only the process that has attached to the session does this: send its session token instead of an API key")
}

func leaseEnded(id uuid.UUID) *problem {
	return fail("superseded", "the lease of this process has ended, because it sent no heartbeat: attach with the same secret to continue").of(id)
}

// life is the life of a session in whose name a request is made.
type life struct {
	*live
	number int
}

// lifeOf returns the session in the request's path, and the life that its token belongs to. The
// token must be that of the last life, and its lease must not have ended. Errors: token_required,
// unknown_token, superseded.
func (s *server) lifeOf(c echo.Context) (*life, error) {
	id, err := sagaID(c)
	if err != nil {
		return nil, err
	}
	session, hash, given, err := tokenOf(c)
	switch {
	case err != nil:
		return nil, err
	case !given:
		return nil, fail("token_required", "send `Authorization: Bearer rst_…`: the token of the process that has attached to the session").of(id)
	case session != id:
		return nil, fail("unknown_token", "the token is that of another session").of(id)
	}
	l, err := s.session(c, id)
	if err != nil {
		return nil, err
	}
	return l.life(c.Request().Context(), hash)
}

// life returns the life of a token's hash.
func (l *live) life(ctx context.Context, hash string) (*life, error) {
	number, token, ongoing := l.m.Life()
	switch {
	case token != "" && subtle.ConstantTimeCompare([]byte(token), []byte(hash)) == 1:
		if who, ok := ctx.Value(toolClient{}).(caller); ok {
			// The key or the access token may allow less than the one with which the life began.
			if err := who.mayAttach(l.id, l.def.Session.Data, l.m.Starter()); err != nil {
				return nil, err
			}
		}
		if err := l.checkOpener(ctx); err != nil {
			return nil, err
		}
		if !ongoing && !l.m.Closed() {
			return nil, leaseEnded(l.id)
		}
		intake.Known(ctx)
		// The rate is that of the key that has opened the session, so that sessions cannot be used
		// to get more.
		if err := l.s.limited(ctx, caller{name: l.m.Starter()}); err != nil {
			return nil, err
		}
		return &life{live: l, number: number}, nil
	case l.m.Superseded(hash):
		return nil, fail("superseded", "another process of the agent has attached to the session: stop this one").of(l.id)
	}
	return nil, unknownToken().of(l.id)
}

// checkOpener returns a problem if a key of the role agent opened the session, and there is no
// valid key of that name and role. Without it, revoking a key would not stop the agent that has it.
func (l *live) checkOpener(ctx context.Context) error {
	if l.opener == "" || isSubjectName(l.opener) { // a subject's tokens come from its issuer
		return nil
	}
	valid, err := l.s.agents.valid(ctx, l.s, l.opener)
	if err != nil || valid {
		return err
	}
	return fail("key_invalid", "the key %q, which opened the session, has expired or been revoked: a person decides what becomes of the session", l.opener).of(l.id)
}

// agentKeys remembers for a moment which keys of the role agent are valid.
type agentKeys struct {
	mu   sync.Mutex
	read time.Time            // when the keys were read; guarded by mu
	ends map[string]time.Time // by name: when the last key of this name expires; zero: never. Guarded by mu
}

// valid reports whether there is a valid key of the role agent with this name. A key that was
// revoked counts for Limits.KeyPoll; a new key counts at once. While the store does not respond,
// the last result counts.
func (a *agentKeys) valid(ctx context.Context, s *server, name string) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	known := func() bool {
		end, ok := a.ends[name]
		return ok && (end.IsZero() || s.cfg.Engine.Now().Before(end))
	}
	if known() && time.Since(a.read) < s.cfg.Limits.KeyPoll {
		return true, nil
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.Limits.Key)
	defer stop()
	keys, err := s.cfg.Store.ListKeys(ctx)
	if err != nil {
		if known() {
			return true, nil
		}
		return false, fmt.Errorf("the keys of agents: %w", err)
	}
	a.read, a.ends = time.Now(), make(map[string]time.Time)
	for i := range keys {
		k := &keys[i]
		if k.Role != "agent" {
			continue
		}
		if end, ok := a.ends[k.Name]; !ok || !end.IsZero() && (k.ExpiresAt.IsZero() || k.ExpiresAt.After(end)) {
			a.ends[k.Name] = k.ExpiresAt
		}
	}
	return known(), nil
}

// agentName returns the name under which a session's agent appears in journals.
func agentName(d *saga.SessionData) string { return "agent:" + d.Name }
