package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/journal"
)

// addKey stores a key of a role and gives its secret.
func addKey(x *fixture, role string, expires time.Time) (journal.APIKey, string) {
	x.t.Helper()
	k, secret, err := NewKey("key of "+role, role)
	if err != nil {
		x.t.Fatal(err)
	}
	k.ExpiresAt = expires
	if err := x.store.AddKey(x.t.Context(), k); err != nil {
		x.t.Fatal(err)
	}
	return k, secret
}

func TestNewKey(t *testing.T) {
	k, secret, err := NewKey("ci", "client")
	if err != nil {
		t.Fatal(err)
	}
	if len(secret) != len(KeyPrefix)+43 || !strings.HasPrefix(secret, KeyPrefix) {
		t.Errorf("secret of %d characters", len(secret))
	}
	if k.Hash != HashKey(secret) || len(k.Hash) != 64 || strings.Contains(k.Hash, secret) || k.Name != "ci" || k.Role != "client" || k.ID.IsNil() {
		t.Errorf("key %+v", k)
	}
	if _, other, _ := NewKey("ci", "client"); other == secret {
		t.Error("two keys are the same")
	}
	if _, _, err := NewKey("ci", "root"); !errors.Is(err, ErrRole) {
		t.Errorf("error %v, want ErrRole", err)
	}
}

// Every role against every operation: what is not allowed is refused.
func TestRoles(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, admin := addKey(x, "admin", time.Time{})
	x.auth = "Bearer " + admin
	x.publish(sleepDef)
	id := x.do("POST", "/v1/sagas", `{"definition": "nap"}`).want(201).saga().ID
	want := map[string]string{
		"viewer": "read", "client": "read start cancel signal", "worker": "work", "approver": "read decide",
		"operator": "read start cancel signal decide operate work", "admin": "read start cancel signal decide operate work publish",
	}
	for _, role := range Roles {
		_, secret := addKey(x, role, time.Time{})
		x.auth = "Bearer " + secret
		var got []string
		for _, r := range []struct{ op, method, path, body string }{
			{"read", "GET", "/v1/sagas/" + id, ""},
			{"start", "POST", "/v1/sagas", `{"definition": "none"}`},
			{"cancel", "POST", "/v1/sagas/" + id + "/cancel", `{"mode": "none"}`},
			{"signal", "POST", "/v1/sagas/" + id + "/signals/none", `{}`},
			{"decide", "POST", "/v1/sagas/" + id + "/steps/none/approve", `{}`},
			{"operate", "POST", "/v1/sagas/" + id + "/resume", `{}`},
			{"work", "POST", "/v1/tasks/claim", `{"types": ["none"]}`},
			{"publish", "PUT", "/v1/definitions/nap", "saga: none\n"},
		} {
			a := x.do(r.method, r.path, r.body, outside)
			if a.Status == http.StatusForbidden {
				a.problem(403, "forbidden")
			} else {
				got = append(got, r.op)
			}
		}
		if d := cmp.Diff(want[role], strings.Join(got, " ")); d != "" {
			t.Errorf("%s: %s", role, d)
		}
	}
	// Every route but the open ones wants a key, whatever it does.
	x.auth = ""
	for _, r := range (&server{}).routes() {
		path := strings.NewReplacer(":id", id, ":name", "nap", ":version", "v1", ":path", "rest").Replace(r.path)
		a := x.do(r.method, path, "", outside)
		if open := a.Status != http.StatusUnauthorized; open != (r.op == opOpen) {
			t.Errorf("%s %s without a key: %d", r.method, path, a.Status)
		} else if !open && a.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("%s %s: no WWW-Authenticate", r.method, path)
		}
	}
}

// Keys that exist are required, whatever the server was told when it was made; and a server that has asked for keys goes on.
func TestKeysThatExistAreRequired(t *testing.T) {
	var refuses, hangs atomic.Bool
	often := func(c *Config) { c.Limits.KeyLook = 1; c.Store = awayStore{c.Store, &refuses, &hangs} }
	foreign := header{"Host", "recourse.example"}
	x := newFixture(t, often)
	open := func(required bool) {
		t.Helper()
		var who whoView
		x.do("GET", "/v1/whoami", "").want(200).into(&who)
		if who.Role != "admin" || who.KeysRequired != required {
			t.Errorf("%+v", who)
		}
	}
	open(false)
	x.do("GET", "/v1/sagas", "", foreign).problem(403, "forbidden_host")
	refuses.Store(true)
	open(false) // nobody can have made a key
	refuses.Store(false)
	k, _ := addKey(x, "viewer", time.Now().Add(-time.Minute)) // it has expired, and closes the door all the same
	x.do("GET", "/v1/sagas", "", foreign).problem(401, "key_required")
	x.do("GET", "/v1/whoami", "").problem(401, "key_required")
	x.do("GET", "/healthz", "").want(200)
	if err := x.store.RevokeKey(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	x.do("GET", "/v1/whoami", "").problem(401, "key_required")

	x = newFixture(t, often, func(c *Config) { c.NoAuth, c.RequireKeys = true, true })
	_, viewer := addKey(x, "viewer", time.Time{})
	open(false)
	x.do("POST", "/v1/sagas", `{"definition": "none"}`, header{"Authorization", "Bearer " + viewer}).problem(403, "forbidden")
}

func TestBadKeys(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		k, secret := addKey(x, "viewer", time.Time{})
		_, expired := addKey(x, "admin", time.Now().Add(-time.Minute))
		_, later := addKey(x, "viewer", time.Now().Add(time.Hour))
		x.do("GET", "/v1/sagas", "", header{"Authorization", "Bearer " + later}).want(200)
		x.do("GET", "/v1/sagas", "", header{"Authorization", "bearer " + secret}).want(200)
		// Keys are not required here, but a wrong one is never taken for none.
		for _, bad := range []string{"Bearer " + expired, "Bearer rk_x", "Bearer " + secret + "x", "Bearer", "Basic " + secret, secret, "Bearer " + k.Hash, "Bearer rk_" + strings.Repeat("x", 10_000)} {
			a := x.do("GET", "/v1/sagas", "", header{"Authorization", bad})
			a.problem(401, "key_invalid")
			if a.Header.Get("WWW-Authenticate") != "Bearer" || strings.Contains(string(a.Body), secret) {
				t.Errorf("%v %s", a.Header, a.Body)
			}
		}
		if err := x.store.RevokeKey(t.Context(), k.ID); err != nil {
			t.Fatal(err)
		}
		x.do("GET", "/v1/sagas", "", header{"Authorization", "Bearer " + secret}).problem(401, "key_invalid")
	})
}

// Two callers' idempotency keys are two keys; and journals name who ordered.
func TestKeyScopes(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, a := addKey(x, "admin", time.Time{})
	_, b := addKey(x, "operator", time.Time{})
	x.auth = "Bearer " + a
	x.publish(echoDef)
	key := header{"Idempotency-Key", "1"}
	one := x.do("POST", "/v1/sagas", `{"definition": "echo"}`, key).want(201).saga().ID
	x.auth = "Bearer " + b
	two := x.do("POST", "/v1/sagas", `{"definition": "echo"}`, key).want(201).saga().ID
	if one == two {
		t.Error("one caller got the other's saga")
	}
	if got := x.do("GET", "/v1/sagas/"+two+"/journal", "").want(200); !strings.Contains(string(got.Body), `"actor":"key of operator"`) {
		t.Errorf("%s", got.Body)
	}
}

func TestGuard(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.Hosts = []string{"recourse.internal"} })
	own := strings.TrimPrefix(x.url, "http://")
	for _, tt := range []struct {
		host, origin string
		code         code
	}{
		{"", "", ""},
		{"localhost:8080", "", ""},
		{"app.localhost", "", ""},
		{"[::1]:8080", "", ""},
		{"192.168.1.5:8080", "", ""},
		{"recourse.internal:8080", "", ""},
		{"evil.example", "", "forbidden_host"},
		{"localhost.evil.example", "", "forbidden_host"},
		{"127.0.0.1.nip.io:8080", "", "forbidden_host"},
		{"", "http://" + own, ""},
		{"", "https://evil.example", "forbidden_origin"},
		{"", "null", "forbidden_origin"},
		{"", "http://127.0.0.1:1", "forbidden_origin"},
	} {
		headers := []header{outside}
		if tt.host != "" {
			headers = append(headers, header{"Host", tt.host})
		}
		if tt.origin != "" {
			headers = append(headers, header{"Origin", tt.origin})
		}
		a := x.do("GET", "/v1/sagas", "", headers...)
		if tt.code == "" {
			a.want(200)
		} else {
			a.problem(403, tt.code)
		}
		if a.Header.Get("X-Content-Type-Options") != "nosniff" || a.Header.Get("Content-Security-Policy") == "" {
			t.Errorf("headers %v", a.Header)
		}
	}
	y := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, admin := addKey(y, "admin", time.Time{})
	y.do("GET", "/v1/sagas", "", header{"Host", "recourse.example"}, header{"Authorization", "Bearer " + admin}).want(200)
}

// awayStore has a database that can go away: looks for keys then fail, or last for as long as they may.
type awayStore struct {
	journal.Store
	refuses, hangs *atomic.Bool
}

func (s awayStore) Key(ctx context.Context, hash string) (journal.APIKey, error) {
	switch {
	case s.refuses.Load():
		return journal.APIKey{}, errBroken
	case s.hangs.Load():
		if _, bounded := ctx.Deadline(); !bounded {
			panic("this look never ends")
		}
		return journal.APIKey{}, context.DeadlineExceeded
	}
	return s.Store.Key(ctx, hash)
}

func (s awayStore) ListKeys(ctx context.Context) ([]journal.APIKey, error) {
	if s.refuses.Load() || s.hangs.Load() {
		return nil, errBroken
	}
	return s.Store.ListKeys(ctx)
}

func (s awayStore) Stats(ctx context.Context) (journal.Stats, error) {
	if s.refuses.Load() || s.hangs.Load() {
		return journal.Stats{}, errBroken
	}
	return s.Store.Stats(ctx)
}

// Keys are in the database, and /metrics says that it is away: to whoever had a key that was good when it was last there.
func TestMetricsWithoutTheStore(t *testing.T) {
	var refuses, hangs atomic.Bool
	x := newFixture(t, func(c *Config) {
		c.RequireKeys, c.Store = true, awayStore{c.Store, &refuses, &hangs}
	})
	scraper, secret := addKey(x, "viewer", time.Time{})
	_, other := addKey(x, "viewer", time.Time{})
	_, worker := addKey(x, "worker", time.Time{})
	with := func(secret string) header { return header{"Authorization", "Bearer " + secret} }
	for _, away := range []*atomic.Bool{&refuses, &hangs} {
		x.do("GET", "/metrics", "", with(secret)).want(200)
		x.do("GET", "/metrics", "", with(worker)).problem(403, "forbidden")
		away.Store(true)
		if a := x.do("GET", "/metrics", "", with(secret)).want(200); !strings.Contains(string(a.Body), "recourse_store_up 0") {
			t.Error("the outage is not shown")
		}
		x.do("GET", "/metrics", "", with(worker)).problem(403, "forbidden")
		for path, secret := range map[string]string{"/metrics": other, "/v1/stats": secret} {
			if a := x.do("GET", path, "", with(secret)); a.Status < 500 {
				t.Errorf("GET %s with a key that nobody can look up: %d", path, a.Status)
			}
		}
		away.Store(false)
	}
	if err := x.store.RevokeKey(t.Context(), scraper.ID); err != nil {
		t.Fatal(err)
	}
	x.do("GET", "/metrics", "", with(secret)).problem(401, "key_invalid")
	refuses.Store(true)
	if a := x.do("GET", "/metrics", "", with(secret)); a.Status < 500 {
		t.Errorf("with a key that was revoked: %d", a.Status)
	}
}

// movable is a clock that can be put forward.
type movable struct {
	Engine
	ahead atomic.Int64
}

func (m *movable) Now() time.Time { return m.Engine.Now().Add(time.Duration(m.ahead.Load())) }

// A key that expires while the store is away is not good any more.
func TestMetricsAfterAKeysEnd(t *testing.T) {
	var refuses, hangs atomic.Bool
	var clock *movable
	x := newFixture(t, func(c *Config) {
		clock = &movable{Engine: c.Engine}
		c.RequireKeys, c.Store, c.Engine = true, awayStore{c.Store, &refuses, &hangs}, clock
	})
	_, secret := addKey(x, "viewer", time.Now().Add(time.Hour))
	auth := header{"Authorization", "Bearer " + secret}
	x.do("GET", "/metrics", "", auth).want(200)
	refuses.Store(true)
	x.do("GET", "/metrics", "", auth).want(200)
	clock.ahead.Store(int64(2 * time.Hour))
	x.do("GET", "/metrics", "", auth).problem(401, "key_invalid")
}
