package examples

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// played is a server that answers the requests in turn, and the last answer again. It notes when
// they come.
type played struct {
	answers []func(w http.ResponseWriter, r *http.Request)
	mu      sync.Mutex
	at      []time.Time // guarded by mu
	paths   []string    // guarded by mu
}

// ServeHTTP implements http.Handler.
func (p *played) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	answer := p.answers[min(len(p.at), len(p.answers)-1)]
	p.at, p.paths = append(p.at, time.Now()), append(p.paths, r.URL.Path)
	p.mu.Unlock()
	answer(w, r)
}

// answers is an answer with a status, a Retry-After and a body.
func answers(status int, retryAfter, body string) func(w http.ResponseWriter, r *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if retryAfter != "" {
			w.Header().Set("Retry-After", retryAfter)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestSDKsWatch has a server with which connections to a journal break off. The SDKs connect again
// after growing pauses, which are no shorter than Retry-After, and send no other requests.
func TestSDKsWatch(t *testing.T) {
	t.Parallel()
	scripts := map[string]func(*testing.T, http.Handler) string{
		"python": func(t *testing.T, s http.Handler) string {
			return pythonSDK(t, s, `
for record in client.watch("s"):
    print(record["seq"])
`)
		},
		"typescript": func(t *testing.T, s http.Handler) string {
			return typescriptSDK(t, s, `
for await (const record of client.watch('s')) console.log(record.seq)
`)
		},
	}
	for name, run := range scripts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &played{answers: []func(http.ResponseWriter, *http.Request){
				answers(429, "2", `{"type": "urn:recourse:problem:rate_limited"}`), answers(200, "", ""), answers(200, "", ""), answers(200, "", ""),
				answers(200, "", "data: {\"seq\": 1}\n\n"), answers(503, "", ""), answers(204, "", ""),
			}}
			if said := run(t, s); said != "1" {
				t.Errorf("it prints %q", said)
			}
			for _, path := range s.paths {
				if !strings.HasSuffix(path, "/journal") {
					t.Errorf("it requests %s", path)
				}
			}
			least := []int64{2000, 100, 200, 400, 50, 100} // ms; a pause is at least half as long as its bound
			if len(s.at) != len(least)+1 {
				t.Fatalf("%d requests, want %d", len(s.at), len(least)+1)
			}
			for i, d := range least {
				if got := s.at[i+1].Sub(s.at[i]).Milliseconds(); got < d {
					t.Errorf("pause %d: %d ms, want %d", i, got, d)
				}
			}
		})
	}
}

// TestSDKsRetryAfter has a server that asks for a pause longer than any that the SDKs make by
// themselves. A worker that is to stop does not wait for its end.
func TestSDKsRetryAfter(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T, http.Handler) string{
		"python": func(t *testing.T, s http.Handler) string {
			return pythonSDK(t, s, `
print(client.get("s")["id"])
stop = threading.Event()
threading.Timer(2, stop.set).start()
client.work(["work"], print, stop=stop)
try:
    recourse.Client(client.url, give_up=60).get("s")
except recourse.Problem as problem:
    print(problem.status)
`)
		},
		"typescript": func(t *testing.T, s http.Handler) string {
			return typescriptSDK(t, s, `
console.log((await client.get('s')).id)
await client.work(['work'], console.log, { stop: AbortSignal.timeout(2000) })
await new recourse.Client(client.url, '', 60000).get('s').catch(problem => console.log(problem.status))
`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &played{answers: []func(http.ResponseWriter, *http.Request){
				answers(503, "6", "{}"), answers(200, "", `{"id": "s"}`), answers(429, "3600", "{}"),
				answers(429, time.Now().Add(time.Hour).UTC().Format(http.TimeFormat), "{}"),
			}}
			if said := run(t, s); said != "s\n429" || len(s.at) != 4 {
				t.Fatalf("it prints %q after %d requests", said, len(s.at))
			}
			if pause := s.at[1].Sub(s.at[0]); pause < 6*time.Second {
				t.Errorf("it tries again after %v, want 6s", pause)
			}
		})
	}
}

// A proxy of the environment does not get requests to this machine, with the key in them.
func TestSDKPythonProxy(t *testing.T) {
	t.Parallel()
	proxy := &played{answers: []func(http.ResponseWriter, *http.Request){answers(200, "", `{"id": "proxy"}`)}}
	srv := httptest.NewServer(proxy)
	defer srv.Close()
	s := &played{answers: []func(http.ResponseWriter, *http.Request){answers(200, "", `{"id": "server"}`)}}
	said := pythonSDK(t, s, `
for url in client.url, client.url.replace("127.0.0.1", "localhost"), "http://recourse.example":
    print(recourse.Client(url).get("s")["id"])
`, "http_proxy="+srv.URL, "HTTP_PROXY="+srv.URL, "no_proxy=", "NO_PROXY=")
	if want := "server\nserver\nproxy"; said != want || len(proxy.at) != 1 {
		t.Errorf("it prints %q, want %q; %d requests to the proxy", said, want, len(proxy.at))
	}
}

// A person has decided within the patience. What the service needs after that does not count.
func TestSDKsPatience(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T, http.Handler) string{
		"python": func(t *testing.T, s http.Handler) string {
			return pythonSDK(t, s, `
session = recourse.Session(client, "s", 1)
print(session.call("refund", patience=0.2)["output"])
try:
    session.call("refund", patience=0.2)
except recourse.Waits as waits:
    print(waits)
`)
		},
		"typescript": func(t *testing.T, s http.Handler) string {
			return typescriptSDK(t, s, `
const session = new recourse.Session(client, 's', 1)
console.log((await session.call('refund', null, { patience: 200 })).output)
await session.call('refund', null, { patience: 200 }).catch(waits => console.log(waits.message))
`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			waits := `{"path": "refund[0]", "replayed": false, "status": "waiting", "waits_for": "approval"}`
			s := &played{answers: []func(http.ResponseWriter, *http.Request){
				answers(200, "", waits),
				func(w http.ResponseWriter, r *http.Request) { // the service is slow
					<-time.After(300 * time.Millisecond)
					answers(200, "", `{"path": "refund[0]", "replayed": false, "status": "running"}`)(w, r)
				},
				answers(200, "", `{"path": "refund[0]", "replayed": false, "status": "succeeded", "output": 7}`),
				answers(200, "", waits),
			}}
			if said, want := run(t, s), "7\nrefund[0] waits for approval"; said != want {
				t.Errorf("it prints %q, want %q", said, want)
			}
		})
	}
}

// The event over comes at the end of the lease, which begins with the last heartbeat that had a
// response.
func TestSDKsOverAtTheEndOfTheLease(t *testing.T) {
	t.Parallel()
	for name, run := range map[string]func(*testing.T, http.Handler) string{
		"python": func(t *testing.T, s http.Handler) string {
			return pythonSDK(t, s, `
began = time.monotonic()
session = client.attach("0193a000-0000-7000-8000-000000000001")
print(session.over.wait(30), time.monotonic() - began > 8)
`)
		},
		"typescript": func(t *testing.T, s http.Handler) string {
			return typescriptSDK(t, s, `
const began = performance.now()
const session = await client.attach('0193a000-0000-7000-8000-000000000001')
const late = setTimeout(() => process.exit(1), 30000)
session.over.signal.addEventListener('abort', () => {
  console.log('True', performance.now() - began > 8000 ? 'True' : 'False')
  process.exit(0)
})
`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &played{answers: []func(http.ResponseWriter, *http.Request){
				// The first heartbeat comes after 2 s. On a busy machine the first request of a
				// client may take more than a second, and the lease counts from its beginning.
				answers(200, "", `{"life": 1, "lease_ms": 6000}`),
				answers(200, "", `{"stop": false}`),
				func(_ http.ResponseWriter, r *http.Request) {
					_, _ = io.Copy(io.Discard, r.Body) // only then does the server notice that the client has left
					<-r.Context().Done()
				},
			}}
			if said := run(t, s); said != "True True" {
				t.Errorf("it prints %q", said)
			}
		})
	}
}
