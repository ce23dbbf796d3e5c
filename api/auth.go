package api

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/internal/intake"
	"recourse/journal"
	"recourse/saga"
)

// ErrRole means that the role does not exist.
var ErrRole = errors.New("a role is one of " + strings.Join(Roles, ", "))

// Roles lists the roles of API keys.
var Roles = []string{"viewer", "client", "worker", "agent", "approver", "operator", "admin"}

// operation is the permission that a route requires.
type operation string

const (
	opOpen    operation = "open"    // everyone, without a key
	opKnown   operation = "known"   // everyone with a key
	opRead    operation = "read"    // read sagas, definitions, the inbox
	opStart   operation = "start"   // start and plan sagas
	opCancel  operation = "cancel"  // cancel sagas: see mayCommand
	opSignal  operation = "signal"  // send signals to sagas: see maySignal
	opEvents  operation = "events"  // post events, which start sagas and signal waiting ones
	opDecide  operation = "decide"  // approve and reject
	opOperate operation = "operate" // every other command
	opWork    operation = "work"    // claim tasks and report their outcomes
	opPublish operation = "publish" // publish and archive definitions
	opSession operation = "session" // open sessions, and attach to them
	opLife    operation = "life"    // act in a session, by the token of its life: see lifeOf
)

// allowed lists the operations of each role. Everything else is refused.
var allowed = map[string][]operation{
	"viewer":   {opRead},
	"client":   {opRead, opStart, opCancel, opSignal, opEvents},
	"worker":   {opWork},
	"agent":    {opSession},
	"approver": {opRead, opDecide},
	"operator": {opRead, opStart, opCancel, opSignal, opEvents, opDecide, opOperate, opWork, opSession},
	"admin":    {opRead, opStart, opCancel, opSignal, opEvents, opDecide, opOperate, opWork, opSession, opPublish},
}

// KeyPrefix begins every API key, so that scanners for leaked secrets recognize it.
const KeyPrefix = "rk_"

// maxKeyName is the maximum length of a key's name, in bytes.
const maxKeyName = 128

// ErrKeyName means that a key cannot have this name.
var ErrKeyName = fmt.Errorf("a key's name says whose it is: up to %d characters, and neither %q nor a role nor a URL, which names a subject of an OAuth issuer", maxKeyName, saga.Anonymous)

// ErrBinding means that a key cannot be bound this way.
var ErrBinding = errors.New("only a key of the role client is bound: to sources of events, and to patterns of the definitions whose sagas it signals, " +
	"such as order-* or, with the signal's name, order-*/payment.settled")

// Bind restricts a new key to events of these sources, and to signals that match one of these
// patterns: DEFINITION or DEFINITION/SIGNAL, where * stands for any text without a slash
// (path.Match). Error: ErrBinding.
func Bind(k *journal.APIKey, sources, signals []string) error {
	var b journal.KeyBinding
	for _, source := range sources {
		if source == "" {
			return fmt.Errorf("%w; a source is not empty", ErrBinding)
		}
		b.Sources = append(b.Sources, source)
	}
	for _, pattern := range signals {
		definition, signal, named := strings.Cut(pattern, "/")
		if !named {
			signal = "*"
		}
		full := definition + "/" + signal
		if _, err := path.Match(full, ""); err != nil || definition == "" || signal == "" || strings.Contains(signal, "/") {
			return fmt.Errorf("%w; not %.100q", ErrBinding, pattern)
		}
		b.Signals = append(b.Signals, full)
	}
	if b.Narrows() && k.Role != "client" {
		return fmt.Errorf("%w; this one has the role %s", ErrBinding, k.Role)
	}
	k.Binding = b
	return nil
}

// NewKey creates an API key of 256 random bits. The name is the name of a principal: all keys with
// one name are the same caller. An empty name is replaced by a generated one. The secret is
// returned once and stored nowhere. The key is ready for journal.Keys.AddKey; the caller may set an
// expiry before.
func NewKey(name, role string) (journal.APIKey, string, error) {
	if !slices.Contains(Roles, role) {
		return journal.APIKey{}, "", fmt.Errorf("%w, not %.40q", ErrRole, role)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return journal.APIKey{}, "", fmt.Errorf("key id: %w", err)
	}
	switch {
	case name == "":
		name = role + "-" + id.String()[28:]
	case name == saga.Anonymous || slices.Contains(Roles, name) || isSubjectName(name) || len(name) > maxKeyName || strings.ContainsFunc(name, unicode.IsControl):
		return journal.APIKey{}, "", ErrKeyName
	}
	secret := KeyPrefix + NewSecret()
	return journal.APIKey{ID: id, Name: name, Role: role, Hash: HashKey(secret), CreatedAt: time.Now().UTC().Truncate(time.Millisecond)}, secret, nil
}

// HashKey returns the stored form of a key: the hex SHA-256 of the whole key. A key has 256 random
// bits, so a slow hash would not make it safer.
func HashKey(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// caller is the principal that makes a request. Callers with the same name are the same principal,
// whichever key they use: journals show the name, and idempotency keys belong to it.
type caller struct {
	name    string
	role    string
	binding journal.KeyBinding
}

// anonymous is every caller without a key, where none is required. Such callers are
// indistinguishable.
var anonymous = caller{name: saga.Anonymous, role: "admin"}

func (w caller) isAnonymous() bool { return w.name == saga.Anonymous }

// scope is the prefix of the caller's idempotency keys. It contains no colon, and is not one with
// which keys of events and child sagas begin.
func (w caller) scope() string {
	s := url.QueryEscape(w.name)
	if s+":" == journal.EventKeyPrefix || s+":" == journal.ChildKeyPrefix {
		return "/" + s
	}
	return s
}

// may returns the operations that the caller is allowed to perform.
func (w caller) may() []operation {
	if !w.binding.Narrows() {
		return allowed[w.role]
	}
	bound := []operation{}
	if len(w.binding.Signals) > 0 {
		bound = append(bound, opSignal)
	}
	if len(w.binding.Sources) > 0 {
		bound = append(bound, opEvents)
	}
	return bound
}

// can reports whether the caller may do op.
func (w caller) can(op operation) bool { return slices.Contains(w.may(), op) }

// mayPost returns a problem if the caller's key is bound to sources and this one is not among them.
func (w caller) mayPost(source string) error {
	if !w.binding.Narrows() || slices.Contains(w.binding.Sources, source) {
		return nil
	}
	return fail("forbidden", "the key %q may not post events of the source %.200q: use another key, or create one with `recourse keys create --source`", w.name, source)
}

// maySignal returns a problem unless the caller may send this signal to a saga of the definition
// that starter started: the caller's key is bound to the signal, the saga is the caller's own, or
// the role commands every saga.
func (w caller) maySignal(definition, starter, signal string) error {
	if w.binding.Narrows() {
		for _, pattern := range w.binding.Signals {
			if ok, _ := path.Match(pattern, definition+"/"+signal); ok {
				return nil
			}
		}
		return fail("forbidden", "the key %q is not bound to the signal %.130q of %s: `recourse keys create --signal '%s/…'` makes one that is", w.name, signal, definition, definition)
	}
	return w.mayCommand(starter, ", or one that is bound to the definition (`recourse keys create --role client --signal "+definition+"`)")
}

// mayCommand returns a problem unless the caller started the saga, or has a role that commands
// every saga. instead names another solution, besides using another key.
func (w caller) mayCommand(starter, instead string) error {
	if starter == w.name || w.commandsAll() {
		return nil
	}
	return fail("forbidden", "%q has started the saga, and the key %q has the role %s, which commands only its own: use a key of the role operator, or one named %q%s",
		starter, w.name, w.role, starter, instead)
}

// commandsAll reports whether the caller may command every saga, not only its own.
func (w caller) commandsAll() bool { return w.can(opOperate) }

func callerOf(c echo.Context) caller { return c.(*call).who }

// authorize identifies the caller, and returns a problem if the caller's role does not allow the
// operation of the route.
func (s *server) authorize(k *call) error {
	op := k.route.op
	switch op {
	case opOpen:
		return nil
	case opLife:
		if strings.HasPrefix(bearer(k), TokenPrefix) {
			return authorizeLife(k)
		}
		if op = k.route.orKey; op == "" {
			return s.refuseKey(k)
		}
	}
	who, err := s.identify(k)
	if err != nil {
		return err
	}
	intake.Known(k.Request().Context())
	if err := s.limited(k.Request().Context(), who); err != nil {
		return err
	}
	if op != opKnown && who.binding.Narrows() && !who.can(op) {
		return fail("forbidden", "the key %q is restricted: GET /v1/whoami lists what it may do", who.name)
	}
	if op != opKnown && !who.can(op) {
		return fail("forbidden", "the key %q has the role %s, which may not %s: use a key with another role", who.name, who.role, op)
	}
	k.who = who
	return nil
}

// whoView is the response of GET /v1/whoami: the caller and the allowed operations.
type whoView struct {
	Name         string      `json:"name"`
	Role         string      `json:"role"`
	May          []operation `json:"may"`
	Sources      []string    `json:"sources,omitempty"`
	Signals      []string    `json:"signals,omitempty"`
	KeysRequired bool        `json:"keys_required"`
}

// whoami serves GET /v1/whoami.
func (s *server) whoami(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	who := callerOf(c)
	return reply(c, http.StatusOK, whoView{Name: who.name, Role: who.role, May: who.may(), Sources: who.binding.Sources, Signals: who.binding.Signals, KeysRequired: s.lock.closed.Load()})
}

// identify finds the caller by the API key. A wrong key is refused even where none is required. If
// the server has an OAuth issuer, the MCP server takes its access tokens, too, and nothing without
// credentials, which would keep clients from asking for a token.
func (s *server) identify(call *call) (caller, error) {
	ctx := call.Request().Context()
	if holder, ok := ctx.Value(toolClient{}).(caller); ok {
		return holder, nil
	}
	byToken := s.cfg.OAuth != nil && call.route.path == mcpPath
	if call.Request().Header.Get(echo.HeaderAuthorization) == "" {
		if byToken {
			return caller{}, fail("key_required", "send `Authorization: Bearer …` with an access token of %s for %s, or with an API key", s.cfg.OAuth.Issuer(), s.publicURL(call)+mcpPath)
		}
		if s.keysRequired(ctx) {
			return caller{}, fail("key_required", "send `Authorization: Bearer rk_…`; `recourse keys create` makes a key")
		}
		return anonymous, nil
	}
	bad := fail("key_invalid", "the key is not one of this server's, or has expired or been revoked: `recourse keys create` makes another")
	secret := bearer(call)
	if !strings.HasPrefix(secret, KeyPrefix) || len(secret) > 200 {
		switch {
		case byToken && secret != "":
			return s.identifySubject(ctx, secret)
		case s.cfg.OAuth != nil && strings.Count(secret, ".") == 2:
			return caller{}, fail("key_invalid", "access tokens of an OAuth issuer are accepted at %s only: send an API key here", mcpPath)
		}
		return caller{}, bad
	}
	hash := HashKey(secret)
	k, err := s.key(call, hash)
	if errors.Is(err, journal.ErrNotFound) {
		return caller{}, bad
	}
	if err != nil {
		return caller{}, fmt.Errorf("api key: %w", err)
	}
	expired := !k.ExpiresAt.IsZero() && !s.cfg.Engine.Now().Before(k.ExpiresAt)
	if subtle.ConstantTimeCompare([]byte(k.Hash), []byte(hash)) != 1 || expired {
		return caller{}, bad
	}
	return caller{name: k.Name, role: k.Role, binding: k.Binding}, nil
}

// lapsed reports whether the caller of a long request would be refused now: its key has expired or
// been revoked, or the server requires one meanwhile. While the store does not respond, it is not.
func (s *server) lapsed(c echo.Context) bool {
	_, err := s.identify(c.(*call))
	p, ok := errors.AsType[*problem](err)
	return ok && p.Status == http.StatusUnauthorized
}

// keyLock says whether requests need an API key. Once closed it stays closed while the process
// lives, so that revoking the last key does not open the server to everyone.
type keyLock struct {
	closed  atomic.Bool
	mu      sync.Mutex // guards a check of the store; a request that finds it locked uses the last result
	checked time.Time  // end of the last check; guarded by mu
}

// keysRequired reports whether requests need an API key: they do from the moment the store has one,
// even an expired one. While the store does not respond, the last result counts.
func (s *server) keysRequired(ctx context.Context) bool {
	l := &s.lock
	if s.cfg.NoAuth || l.closed.Load() || !l.mu.TryLock() {
		return l.closed.Load()
	}
	defer l.mu.Unlock()
	if time.Since(l.checked) < s.cfg.Limits.KeyPoll {
		return l.closed.Load()
	}
	ctx, stop := context.WithTimeout(ctx, s.cfg.Limits.Key)
	defer stop()
	keys, err := s.cfg.Store.ListKeys(ctx)
	if err == nil && len(keys) > 0 {
		l.closed.Store(true)
		s.log.Info("the database has an API key now: requests without one are refused from now on")
	}
	l.checked = time.Now()
	return l.closed.Load()
}

// key looks an API key up in the store, with a timeout. For /metrics the last result counts while
// the store does not respond, so that the metrics can show that the store is down.
func (s *server) key(call *call, hash string) (journal.APIKey, error) {
	timeout := s.cfg.Limits.Key
	scrape := call.route.path == metricsPath
	if scrape {
		timeout /= 2 // scrapers usually wait 10 s, and the scrape itself needs the store, too
	}
	ctx, stop := context.WithTimeout(call.Request().Context(), timeout)
	defer stop()
	k, err := s.cfg.Store.Key(ctx, hash)
	if scrape {
		return s.scraped.recall(hash, k, err)
	}
	return k, err
}

// scrapers caches the API keys of requests for /metrics.
type scrapers struct {
	mu   sync.Mutex
	seen map[string]journal.APIKey // by hash
}

// mostScrapers is the maximum of cached keys.
const mostScrapers = 100

// recall caches the result of a lookup and returns it. If the store did not respond it returns the
// cached result.
func (r *scrapers) recall(hash string, k journal.APIKey, err error) (journal.APIKey, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch before, ok := r.seen[hash]; {
	case err == nil:
		if ok || len(r.seen) < mostScrapers {
			r.seen[hash] = k
		}
	case errors.Is(err, journal.ErrNotFound):
		delete(r.seen, hash)
	case ok:
		return before, nil
	}
	return k, err
}
