package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/journal"
)

// addKey stores a key of a role and returns its secret.
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

// TestRoles calls every operation of the contract with every role: it is allowed for the roles that
// the contract names, and for no other.
func TestRoles(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	doc, err := openapiJSON()
	if err != nil {
		t.Fatal(err)
	}
	var contract struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(doc, &contract); err != nil {
		t.Fatal(err)
	}
	auth := map[string]string{}
	for _, role := range Roles {
		_, secret := addKey(x, role, time.Time{})
		auth[role] = "Bearer " + secret
	}
	asked := 0
	for path, methods := range contract.Paths {
		at := strings.NewReplacer("{id}", uuid.Must(uuid.NewV7()).String(), "{name}", "none", "{version}", "v1", "{path}", "none").Replace(path)
		for method, raw := range methods {
			if method == "parameters" {
				continue
			}
			var operation struct {
				Roles []string `json:"x-recourse-roles"`
			}
			if err := json.Unmarshal(raw, &operation); err != nil {
				t.Fatal(err)
			}
			for _, role := range operation.Roles {
				if role != "anyone" && role != "session" && auth[role] == "" {
					t.Errorf("%s %s is for %q, which is no role", method, path, role)
				}
			}
			anyone := slices.Equal(operation.Roles, []string{"anyone"})
			method = strings.ToUpper(method)
			x.auth = ""
			if a := x.do(method, at, "", outside); (a.Status == http.StatusUnauthorized) == anyone {
				t.Errorf("%s %s without a key: %d", method, path, a.Status)
			} else if !anyone && a.Header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s %s: no WWW-Authenticate", method, path)
			}
			for _, role := range Roles {
				asked++
				x.auth = auth[role]
				a := x.do(method, at, "", outside)
				if may := anyone || slices.Contains(operation.Roles, role); (a.Status != http.StatusForbidden) != may || a.Status == http.StatusUnauthorized {
					t.Errorf("%s %s as %s: %d %s", method, path, role, a.Status, a.Body)
				}
			}
		}
	}
	if asked < 40*len(Roles) {
		t.Errorf("only %d questions were asked", asked)
	}
}

// A bound key can do only what it is bound to. A client without a binding signals only its own
// sagas.
func TestBoundKeys(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		bearer := func(name, role string, sources, signals []string) header {
			k, secret, err := NewKey(name, role)
			if err == nil {
				err = Bind(&k, sources, signals)
			}
			if err == nil {
				err = x.store.AddKey(t.Context(), k)
			}
			if err != nil {
				t.Fatal(err)
			}
			return header{"Authorization", "Bearer " + secret}
		}
		ann, ann2, bob := bearer("ann", "client", nil, nil), bearer("ann", "client", nil, nil), bearer("bob", "client", nil, nil)
		desk := bearer("desk", "operator", nil, nil)
		crm := bearer("crm", "client", []string{"/crm", "crm"}, []string{"order-*"})
		bank := bearer("bank", "client", nil, []string{"*/paid"})
		_, admin := addKey(x, "admin", time.Time{})
		x.auth = "Bearer " + admin
		x.publish("saga: order-a\nsteps: [{id: n, signal: never}, {id: p, signal: paid}, {id: s, signal: sent}]\n")
		x.publish("saga: other\ntriggers: [{event: go}]\nsteps: [{id: n, signal: never}, {id: p, signal: paid}, {id: s, signal: sent}]\n")
		start := func(name string) string {
			return x.do("POST", "/v1/sagas", `{"definition": "`+name+`"}`, ann).want(201).saga().ID
		}
		order, other := start("order-a"), start("other")
		event := func(source, kind, subject string) string {
			return fmt.Sprintf(`{"specversion":"1.0","id":"%s","source":%q,"type":%q,"subject":%q,"data":1}`, uuid.Must(uuid.NewV4()), source, kind, subject)
		}
		for _, tt := range []struct {
			who         header
			saga, name  string
			status      int
			asEventFrom string // "": not sent as an event
			event       int
		}{
			{ann, order, "paid", 202, "/x", 202},
			{ann2, order, "paid", 202, "/x", 202},
			{bob, order, "paid", 403, "/x", 403},
			{desk, order, "paid", 202, "/x", 202},
			{crm, order, "sent", 202, "/crm", 202},
			{crm, order, "sent", 202, "/crm/", 403},
			{crm, other, "paid", 403, "crm", 403},
			{bank, order, "paid", 202, "/crm", 403},
			{bank, other, "paid", 202, "", 0},
			{bank, order, "sent", 403, "", 0},
		} {
			a := x.do("POST", "/v1/sagas/"+tt.saga+"/signals/"+tt.name, `1`, tt.who)
			if a.Status != tt.status {
				t.Errorf("%v signals %s: %d %s, want %d", tt.who, tt.name, a.Status, a.Body, tt.status)
			}
			if tt.asEventFrom == "" {
				continue
			}
			a = x.do("POST", "/v1/events", event(tt.asEventFrom, tt.name, tt.saga), tt.who, header{"Content-Type", typeEvent})
			if a.Status != tt.event {
				t.Errorf("%v sends the event %s: %d %s, want %d", tt.who, tt.name, a.Status, a.Body, tt.event)
			}
		}
		// If one event of a batch is forbidden, no event is processed.
		before := len(x.dump())
		x.do("POST", "/v1/events", "["+event("crm", "go", "none")+","+event("mine", "go", "none")+"]", crm, header{"Content-Type", typeEvents}).problem(403, "forbidden")
		if after := len(x.dump()); after != before {
			t.Errorf("%d things before, %d after", before, after)
		}
		x.do("POST", "/v1/events", event("crm", "go", "none"), crm, header{"Content-Type", typeEvent}).want(202)
		for _, r := range []struct{ method, path, body string }{{"GET", "/v1/sagas", ""}, {"POST", "/v1/sagas", `{"definition": "other"}`}, {"POST", "/v1/sagas/" + order + "/cancel", `{}`}} {
			if p := x.do(r.method, r.path, r.body, crm).problem(403, "forbidden"); !strings.Contains(p.Detail, "restricted") {
				t.Errorf("detail %q", p.Detail)
			}
		}
		for _, tt := range []struct {
			who header
			may []operation
		}{{bank, []operation{opSignal}}, {bearer("desk's crm", "client", []string{"crm"}, nil), []operation{opEvents}}} {
			var who whoView
			x.do("GET", "/v1/whoami", "", tt.who).want(200).into(&who)
			if d := cmp.Diff(tt.may, who.May); d != "" {
				t.Error(d)
			}
		}
		var who whoView
		x.do("GET", "/v1/whoami", "", crm).want(200).into(&who)
		if d := cmp.Diff(who.May, []operation{opSignal, opEvents}); d != "" || len(who.Sources) != 2 || who.Signals[0] != "order-*/*" {
			t.Errorf("%+v", who)
		}
	})
}

// A client cancels only its own sagas; only operators cancel others.
func TestClientsCancelTheirOwn(t *testing.T) {
	eachStore(t, func(t *testing.T, x *fixture) {
		_, admin := addKey(x, "admin", time.Time{})
		x.auth = "Bearer " + admin
		x.publish("saga: waits\nsteps: [{id: n, signal: never}]\n")
		ann, again, bob, desk := keyOf(x, "ann", "client"), keyOf(x, "ann", "client"), keyOf(x, "bob", "client"), keyOf(x, "desk", "operator")
		for _, tt := range []struct {
			who    header
			body   string
			status int
		}{
			{bob, `{}`, 403},
			{bob, `{"mode": "stop"}`, 403},
			{ann, `{}`, 202},
			{again, `{}`, 202},
			{desk, `{}`, 202},
		} {
			id := x.do("POST", "/v1/sagas", `{"definition": "waits"}`, ann).want(201).saga().ID
			a := x.do("POST", "/v1/sagas/"+id+"/cancel", tt.body, tt.who)
			if a.Status != tt.status {
				t.Errorf("%v cancels: %d %s, want %d", tt.who, a.Status, a.Body, tt.status)
			}
			if tt.status == 403 {
				a.problem(403, "forbidden")
				if v := x.do("GET", "/v1/sagas/"+id, "", ann).saga(); v.Status.Terminal() || v.Reason != nil {
					t.Errorf("it was refused, and the saga is %s", v.Status)
				}
			}
		}
		x.do("POST", "/v1/sagas/"+uuid.Must(uuid.NewV7()).String()+"/cancel", `{}`, bob).problem(404, "saga_not_found")
	})
}

func TestBind(t *testing.T) {
	for _, tt := range []struct {
		role             string
		sources, signals []string
		ok               bool
	}{
		{"client", []string{"crm"}, []string{"order-*", "a/b"}, true},
		{"operator", nil, nil, true},
		{"operator", []string{"crm"}, nil, false},
		{"client", []string{""}, nil, false},
		{"client", nil, []string{"/paid"}, false},
		{"client", nil, []string{"a/"}, false},
		{"client", nil, []string{"a/b/c"}, false},
		{"client", nil, []string{"[a"}, false},
	} {
		k := journal.APIKey{Role: tt.role}
		if err := Bind(&k, tt.sources, tt.signals); (err == nil) != tt.ok || err != nil && !errors.Is(err, ErrBinding) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	for _, name := range []string{"anonymous", "operator", "a\nb", strings.Repeat("x", 129)} {
		if _, _, err := NewKey(name, "client"); !errors.Is(err, ErrKeyName) {
			t.Errorf("a key called %.20q: %v", name, err)
		}
	}
	if _, _, err := NewKey(strings.Repeat("x", 128), "client"); err != nil {
		t.Errorf("a key with the longest name: %v", err)
	}
	one, _, _ := NewKey("", "client")
	if two, _, _ := NewKey("", "client"); one.Name == two.Name || !strings.HasPrefix(one.Name, "client-") {
		t.Errorf("keys without names are %s and %s", one.Name, two.Name)
	}
}

// Keys are required as soon as one exists, even if the server was started without, and stay
// required.
func TestKeysThatExistAreRequired(t *testing.T) {
	var refuses, hangs atomic.Bool
	often := func(c *Config) { c.Limits.KeyPoll = 1; c.Store = awayStore{c.Store, &refuses, &hangs} }
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
	p := x.do("GET", "/v1/sagas", "", foreign).problem(403, "forbidden_host")
	if want := "use a loopback name or an IP address, or create an API key"; !strings.Contains(p.Detail, want) || strings.Contains(p.Detail, "server's hosts") {
		t.Errorf("got %q, which must say %q, and name no setting that no flag sets", p.Detail, want)
	}
	refuses.Store(true)
	open(false) // without a new check there is no key
	refuses.Store(false)
	k, _ := addKey(x, "viewer", time.Now().Add(-time.Minute)) // an expired key counts, too
	x.do("GET", "/v1/sagas", "", foreign).problem(401, "key_required")
	x.do("GET", "/v1/whoami", "").problem(401, "key_required")
	x.do("GET", "/healthz", "").want(200)
	if err := x.store.RevokeKey(t.Context(), k.ID); err != nil {
		t.Fatal(err)
	}
	x.do("GET", "/v1/whoami", "").problem(401, "key_required")

	// The first request after a key was created is refused, too.
	x = newFixture(t, often)
	addKey(x, "viewer", time.Time{})
	x.do("GET", "/v1/sagas", "").problem(401, "key_required")

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
		// Keys are not required here, but a wrong key is refused.
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

// Idempotency keys belong to a principal's name: another API key with the name shares them, another
// name does not. Journals name the caller.
func TestKeyScopes(t *testing.T) {
	x := newFixture(t, func(c *Config) { c.RequireKeys = true })
	_, a := addKey(x, "admin", time.Time{})
	_, rotated := addKey(x, "admin", time.Time{})
	_, b := addKey(x, "operator", time.Time{})
	x.auth = "Bearer " + a
	x.publish(sleepDef)
	key := header{"Idempotency-Key", "1"}
	one := x.do("POST", "/v1/sagas", `{"definition": "nap"}`, key).want(201).saga().ID
	x.do("POST", "/v1/sagas/"+one+"/pause", `{}`, key).want(202)
	x.auth = "Bearer " + rotated
	if again := x.do("POST", "/v1/sagas", `{"definition": "nap"}`, key).want(200).saga().ID; again != one {
		t.Errorf("a rotated key started %s besides %s", again, one)
	}
	if again := x.do("POST", "/v1/sagas/"+one+"/pause", `{}`, key).want(202); again.Header.Get(replayHeader) != "true" {
		t.Error("a rotated key paused the saga a second time")
	}
	x.auth = "Bearer " + b
	two := x.do("POST", "/v1/sagas", `{"definition": "nap"}`, key).want(201).saga().ID
	if one == two {
		t.Error("one caller got the other's saga")
	}
	if got := x.do("GET", "/v1/sagas/"+two+"/journal", "").want(200); !strings.Contains(string(got.Body), `"actor":"key of operator"`) {
		t.Errorf("%s", got.Body)
	}
	// A name and a key cannot be combined so that they equal another name's key.
	for _, pair := range [][2]caller{{{name: "a"}, {name: "a:1"}}, {{name: "a b"}, {name: "a+b"}}, {anonymous, {name: "anonymous:"}}, {{name: "event"}, {name: "/event"}}} {
		if pair[0].scope() == pair[1].scope() || strings.Contains(pair[1].scope(), ":") {
			t.Errorf("%v share the scope %s", pair, pair[0].scope())
		}
	}
	for _, prefix := range []string{journal.EventKeyPrefix, journal.ChildKeyPrefix} {
		if (caller{name: strings.TrimSuffix(prefix, ":")}).scope()+":" == prefix {
			t.Errorf("a caller's keys can be those of sagas that the engine starts: %s", prefix)
		}
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
		{"", "http://%zz", "forbidden_origin"},
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

// awayStore is a store whose lookups of keys can fail or hang.
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

// While the store is down, /metrics says so to callers whose keys were valid before.
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

// timedStore is a store that notes how long lookups of keys may take.
type timedStore struct {
	journal.Store
	left atomic.Int64
}

func (s *timedStore) Key(ctx context.Context, hash string) (journal.APIKey, error) {
	if end, bounded := ctx.Deadline(); bounded {
		s.left.Store(int64(time.Until(end)))
	}
	return s.Store.Key(ctx, hash)
}

// The lookup of a key for /metrics leaves half of the time for the scrape.
func TestMetricsKeyTimeout(t *testing.T) {
	var store *timedStore
	x := newFixture(t, func(c *Config) {
		store = &timedStore{Store: c.Store}
		c.Store, c.Limits.Key = store, time.Hour
	})
	_, secret := addKey(x, "viewer", time.Time{})
	for path, want := range map[string]time.Duration{"/metrics": time.Hour / 2, "/v1/sagas": time.Hour} {
		x.do("GET", path, "", header{"Authorization", "Bearer " + secret}).want(200)
		if got := time.Duration(store.left.Load()); got > want || got < want-10*time.Minute {
			t.Errorf("GET %s: a lookup of the key may take %v, want %v", path, got, want)
		}
	}
}

// A full cache of keys takes no other key, and still follows those that it has.
func TestScrapersAreBounded(t *testing.T) {
	r := scrapers{seen: map[string]journal.APIKey{}}
	for i := range mostScrapers + 1 {
		_, _ = r.recall(fmt.Sprint(i), journal.APIKey{Role: "viewer"}, nil)
	}
	_, _ = r.recall("0", journal.APIKey{Role: "admin"}, nil)
	if k, err := r.recall("0", journal.APIKey{}, errBroken); err != nil || k.Role != "admin" {
		t.Errorf("the first key has the role %q: %v", k.Role, err)
	}
	if _, err := r.recall(fmt.Sprint(mostScrapers-1), journal.APIKey{}, errBroken); err != nil {
		t.Errorf("the last key that has a place: %v", err)
	}
	if _, err := r.recall(fmt.Sprint(mostScrapers), journal.APIKey{}, errBroken); err == nil {
		t.Errorf("%d keys are cached, want %d", len(r.seen), mostScrapers)
	}
}

// movable is a clock that the test advances.
type movable struct {
	Engine
	ahead atomic.Int64
}

func (m *movable) Now() time.Time { return m.Engine.Now().Add(time.Duration(m.ahead.Load())) }

// A key that expires while the store is down is refused.
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
