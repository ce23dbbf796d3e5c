package crash

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	answerSize  = 4<<20 - 64       // per response: as large as an http step accepts
	memoryLimit = 600 << 20        // of the process, with its database's cache
	largeWithin = 15 * time.Minute // on a busy machine
)

// Many requests get responses of 4 MiB at the same time: 64, or as many as
// RECOURSE_LARGE_ANSWERS says, which is 256 in `make prove`. The node reads what it has memory
// for, and the others wait with open connections and suspended timeouts: no request is
// sent twice, no commit fails, and the lease is renewed all the time.
func TestManyLargeAnswers(t *testing.T) {
	largeSagas, err := strconv.Atoi(cmp.Or(os.Getenv("RECOURSE_LARGE_ANSWERS"), "64"))
	if err != nil || largeSagas < 1 {
		t.Fatalf("RECOURSE_LARGE_ANSWERS is %q, not a number from 1", os.Getenv("RECOURSE_LARGE_ANSWERS"))
	}
	for name, db := range map[string]func(*testing.T) database{"postgres": onPostgres, "sqlite": onSQLite} {
		t.Run(name, func(t *testing.T) {
			remote := newLargeService(t, largeSagas)
			f := startFleet(t, fleetConfig{program: shipped(t), db: db(t), world: remote.url, nodes: 1})
			c := newClients(f)
			c.http.Timeout = largeWithin // the machine is busy
			status, body := c.request("PUT", "/v1/definitions/large", []byte(`saga: large
input: {n: integer}
steps:
  - {id: fetch, http: "POST ${vars.things}", body: {n: "${input.n}"}}
`), "Content-Type", "application/yaml")
			if status != http.StatusCreated {
				t.Fatalf("publish: %d %s", status, body)
			}
			var starts sync.WaitGroup
			for i := range largeSagas {
				starts.Go(func() { c.start(t.Context(), "large", fmt.Sprint("large-", i), i) })
			}
			starts.Wait()
			began := remote.wait(t)
			c.succeeded(largeSagas, largeWithin)
			took, peak := time.Since(began), peakMemory(t, f.node().pid())
			t.Logf("%d answers of %d MiB: all sagas have succeeded after %v, peak %d MiB", largeSagas, answerSize>>20+1, took.Round(time.Millisecond), peak>>20)
			if peak > memoryLimit {
				t.Errorf("the process took %d MiB at its peak, want at most %d", peak>>20, memoryLimit>>20)
			}
			asked := remote.asked()
			if len(asked) != largeSagas {
				t.Errorf("%d requests were sent, want %d", len(asked), largeSagas)
			}
			for key, n := range asked {
				if n != 1 {
					t.Errorf("the request with the key %s was sent %d times, want once", key, n)
				}
			}
			for _, metric := range []string{"recourse_engine_lease_renewals_failed_total", "recourse_engine_commits_failed_total"} {
				if got := c.metric(metric); got != 0 {
					t.Errorf("%s is %v, want 0", metric, got)
				}
			}
		})
	}
}

// largeService responds only when it has as many requests as it waits for, and then to each with
// answerSize bytes.
type largeService struct {
	url  string
	want int
	full chan struct{} // closed when all have arrived

	mu   sync.Mutex
	keys map[string]int // how often each idempotency key was sent
}

func newLargeService(t *testing.T, want int) *largeService {
	s := &largeService{want: want, full: make(chan struct{}), keys: make(map[string]int)}
	answer := append(append([]byte(`{"blob":"`), bytes.Repeat([]byte("x"), answerSize-11)...), `"}`...)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.came(r.Header.Get("Idempotency-Key"))
		select {
		case <-s.full:
		case <-r.Context().Done():
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if n%2 == 0 { // the others are chunked, so their length is not announced
			w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
		}
		_, _ = w.Write(answer) // if the client is gone, its saga shows it
	}))
	t.Cleanup(server.Close)
	s.url = server.URL
	return s
}

// came counts a request, and returns how many keys have arrived.
func (s *largeService) came(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys[key]++; len(s.keys) == s.want && s.keys[key] == 1 {
		close(s.full)
	}
	return len(s.keys)
}

// wait waits for all requests, and returns when they had arrived.
func (s *largeService) wait(t *testing.T) time.Time {
	t.Helper()
	select {
	case <-s.full:
	case <-time.After(largeWithin):
		t.Fatalf("%d requests have come, want %d", len(s.asked()), s.want)
	}
	return time.Now()
}

func (s *largeService) asked() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.keys)
}

// succeeded waits until so many sagas have ended, all of them successfully.
func (c *clients) succeeded(want int, within time.Duration) {
	c.t.Helper()
	type counts struct{ Sagas map[string]int }
	var stats counts
	for deadline := time.Now().Add(within); time.Now().Before(deadline); <-time.After(200 * time.Millisecond) {
		if status, body := c.request("GET", "/v1/stats", nil); status == http.StatusOK {
			stats = counts{}
			if err := json.Unmarshal(body, &stats); err != nil {
				c.t.Fatal(err)
			}
		}
		if stats.Sagas["running"]+stats.Sagas["waiting"] == 0 && stats.Sagas["succeeded"] > 0 {
			break
		}
	}
	if got := map[string]int{"succeeded": want}; !maps.Equal(stats.Sagas, got) {
		_, live := c.request("GET", "/v1/sagas?status=running", nil)
		c.t.Errorf("after %v there are %v, want %v; these run: %s", within, stats.Sagas, got, live)
	}
}

// metric reads a metric without labels.
func (c *clients) metric(name string) float64 {
	c.t.Helper()
	_, body := c.request("GET", "/metrics", nil)
	found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(body)
	if found == nil {
		c.t.Fatalf("no metric %s in\n%s", name, body)
	}
	v, err := strconv.ParseFloat(string(found[1]), 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

// peakMemory returns the peak memory of a process, in bytes.
func peakMemory(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kB, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return kB << 10
		}
	}
	t.Fatal("the kernel does not say how much memory the process took")
	return 0
}
