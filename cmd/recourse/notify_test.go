package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"recourse/internal/cli"
	"recourse/internal/test/buffer"
	"recourse/internal/test/pgserver"
	"recourse/saga"
)

// pager receives notifications, checks their signatures, and records them.
type pager struct {
	*httptest.Server
	t    *testing.T
	mu   sync.Mutex
	came map[string]notification // by webhook-id
	all  int
}

type notification struct {
	ID, Source, Type, Subject string
	Data                      struct {
		Saga, Definition, Version, Path, Kind, Title, URL string
		Labels                                            map[string]string
		Reason                                            *saga.Reason
	}
}

func newPager(t *testing.T) *pager {
	p := &pager{t: t, came: make(map[string]notification)}
	p.Server = httptest.NewServer(p)
	t.Cleanup(p.Close)
	return p
}

// ServeHTTP implements http.Handler.
func (p *pager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		p.t.Error(err)
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(whsec, "RECOURSE_SECRET_HOOK=whsec_"))
	if err != nil {
		p.t.Error(err)
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(r.Header.Get("webhook-id") + "." + r.Header.Get("webhook-timestamp") + "." + string(body)))
	if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); r.Header.Get("webhook-signature") != want {
		p.t.Errorf("signed %s, want %s: %s", r.Header.Get("webhook-signature"), want, body)
	}
	var n notification
	if err := json.Unmarshal(body, &n); err != nil || n.ID != r.Header.Get("webhook-id") || r.Header.Get("Content-Type") != "application/cloudevents+json" {
		p.t.Errorf("%v: %s", err, body)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.came[n.ID] = n
	p.all++
}

// counts returns the number of notifications of each type, and whether one came twice.
func (p *pager) counts() (types map[string]int, twice bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	types = make(map[string]int)
	for _, n := range p.came {
		types[n.Type]++
	}
	return types, p.all != len(p.came)
}

func (p *pager) await(want map[string]int, log *buffer.Buffer) {
	p.t.Helper()
	deadline := time.After(time.Minute)
	for {
		types, twice := p.counts()
		if cmp.Equal(types, want) && !twice {
			return
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-deadline:
			p.t.Fatalf("(-want +got; one came twice: %v)\n%s\n%s", twice, cmp.Diff(want, types), log)
		}
	}
}

// Sinks with `notify` get notifications about sagas that wait, failed or stalled: signed, with
// links, each once, even after a restart of the server.
func TestNotifications(t *testing.T) {
	t.Parallel()
	for name, database := range map[string]func(t *testing.T) string{
		"sqlite":   func(t *testing.T) string { return filepath.Join(t.TempDir(), "a.db") },
		"postgres": func(t *testing.T) string { return pgserver.DSN(t) },
	} {
		t.Run(name, func(t *testing.T) {
			ops, audit := newPager(t), newPager(t)
			config := file(t, "c.yaml", "sinks:\n  - {name: ops, url: "+ops.URL+", secrets: [HOOK], notify: [approval, failed, compensated, stalled]}\n"+
				"  - {name: audit, url: "+audit.URL+", secrets: [HOOK], types: [com.shop.*]}\n")
			db := database(t)
			start := func() *serving {
				return serve(t, []string{whsec}, "--database", db, "--config", config, "--stalled-after", "1s", "--public-url", "https://sagas.example/ui/")
			}
			s := start()
			for _, src := range []string{
				"saga: asks\nsteps:\n  - {id: ok, approval: {title: Pay it?}}\n",
				"saga: fails\nsteps:\n  - {id: tell, emit: com.shop.x}\n  - {id: no, fail: so}\n",
				"saga: works\nsteps:\n  - {id: read, task: ocr}\n",
				"saga: fine\nsteps:\n  - {id: a, set: 1}\n",
			} {
				ok(t, s.env, "definitions", "apply", file(t, "d.yaml", src))
			}
			if r := run(t, s.env, "definitions", "apply", file(t, "d.yaml", "saga: w\nsteps:\n  - {id: a, emit: com.shop.x, to: ops}\n")); r.code != cli.Usage || !strings.Contains(r.errOut, "it has audit") {
				t.Errorf("an event to a sink that takes none: exit %d: %s", r.code, r.errOut)
			}
			ids := map[string]string{}
			for _, name := range []string{"asks", "fails", "works", "fine"} {
				ids[name] = strings.Fields(ok(t, s.env, "start", name, "--label", "team=a"))[0]
			}
			want := map[string]int{"recourse.inbox.approval": 1, "recourse.saga.compensated": 1, "recourse.step.stalled": 1}
			ops.await(want, s.log)
			audit.await(map[string]int{"com.shop.x": 1}, s.log)
			for _, n := range ops.came {
				of, link := n.Data.Definition, "https://sagas.example/ui/sagas/"+n.Subject
				if n.Data.Kind == "approval" {
					link = "https://sagas.example/ui/inbox#"
				}
				if n.Subject != ids[of] || n.Data.Saga != n.Subject || n.Source != "/recourse/"+of || !strings.HasPrefix(n.Data.URL, link) || n.Data.Labels["team"] != "a" || n.Data.Title == "" {
					t.Errorf("%+v", n)
				}
			}
			if out := ok(t, s.env, "stalled"); !strings.Contains(out, "no_worker") || !strings.Contains(out, ids["works"]) || !strings.Contains(out, `"ocr"`) {
				t.Errorf("stalled: %s", out)
			}
			if code := s.stop(); code != cli.OK {
				t.Fatalf("exit %d: %s", code, s.log)
			}

			s = start()
			if out := ok(t, s.env, "stalled", "-o", "json", "--kind", "no_worker"); !strings.Contains(out, ids["works"]) {
				t.Errorf("after a restart: %s", out)
			}
			// The next notification comes after any repeated one.
			ok(t, s.env, "cancel", ids["works"], "--reason", "enough")
			want["recourse.saga.compensated"] = 2
			ops.await(want, s.log)
			if out := ok(t, s.env, "stalled"); !strings.Contains(out, "Nothing is stalled") {
				t.Errorf("once it has ended: %s", out)
			}
			if code := s.stop(); code != cli.OK {
				t.Fatalf("exit %d: %s", code, s.log)
			}
			ops.await(want, s.log)
		})
	}
}

func TestBadAddresses(t *testing.T) {
	t.Parallel()
	for flag, bad := range map[string][]string{"--public-url": {"sagas.example", "ftp://a", "https://u:p@a", "https://a/?x=1", "https://a/#x"}, "--stalled-after": {"10ms", "x"}} {
		for _, value := range bad {
			r := run(t, nil, "serve", "--database", filepath.Join(t.TempDir(), "a.db"), flag, value)
			if r.code != cli.Usage || !strings.Contains(r.errOut, flag) {
				t.Errorf("%s %s: exit %d: %s", flag, value, r.code, r.errOut)
			}
		}
	}
}
