package measure

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakePeer keeps its sagas in memory, which outlasts its processes.
type fakePeer struct {
	stub    string
	forgets bool // which steps had their response
	rekeys  bool // uses other keys after a crash
	loses   bool // does not continue sagas

	mu     sync.Mutex
	done   map[string]int // steps, by saga
	life   int
	server *httptest.Server
	kill   context.CancelFunc
	sagas  sync.WaitGroup
}

func (p *fakePeer) Name() string  { return "fake" }
func (p *fakePeer) Resumes() bool { return true }
func (p *fakePeer) Stop()         { p.Kill() }

func (p *fakePeer) Kill() {
	p.kill()
	p.server.CloseClientConnections()
	p.server.Close()
	p.sagas.Wait()
}

func (p *fakePeer) Start(context.Context) (Running, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.life++
	ctx, kill := context.WithCancel(context.Background())
	p.kill = kill
	for id, n := range p.done {
		if n < 3 && !p.loses {
			p.sagas.Go(func() { p.saga(ctx, id) })
		}
	}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Idempotency-Key")
		p.mu.Lock()
		p.done[id] = 0
		p.sagas.Add(1)
		p.mu.Unlock()
		if r.URL.Path == "/run" {
			defer p.sagas.Done()
			p.saga(ctx, id)
		} else {
			go func() {
				defer p.sagas.Done()
				p.saga(ctx, id)
			}()
		}
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(map[string]string{"id": id, "status": "succeeded"})
	}))
	return Running{Run: p.server.URL + "/run", Send: p.server.URL + "/send", Live: p.live}, nil
}

// saga makes the requests that are left, until one fails.
func (p *fakePeer) saga(ctx context.Context, id string) {
	p.mu.Lock()
	from, key := p.done[id], id
	if p.forgets {
		from = 0
	}
	if p.rekeys {
		key += fmt.Sprint(p.life)
	}
	p.mu.Unlock()
	for n := from; n < 3; n++ {
		name := []string{"flight", "hotel", "car"}[n]
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.stub+"/do/"+name, strings.NewReader("{}"))
		if err != nil {
			return
		}
		r.Header.Set("Idempotency-Key", key+name)
		if _, err := bodyOf(r); err != nil {
			return
		}
		p.mu.Lock()
		p.done[id] = n + 1
		p.mu.Unlock()
	}
}

func (p *fakePeer) live(context.Context) (n int, _ error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, done := range p.done {
		if done < 3 {
			n++
		}
	}
	return n, nil
}

// After a kill, requests that were sent again and effects that exist twice are counted, and sagas
// that never end are.
func TestPeerCrash(t *testing.T) {
	const sagas = 10
	for _, tt := range []struct {
		name               string
		peer               *fakePeer
		again, twice, left int
	}{
		{"remembers", &fakePeer{}, sagas, 0, 0},
		{"forgets", &fakePeer{forgets: true}, 2 * sagas, 0, 0},
		{"other keys", &fakePeer{rekeys: true}, 0, sagas, 0},
		{"forgets, other keys", &fakePeer{forgets: true, rekeys: true}, 0, 2 * sagas, 0},
		{"does not continue", &fakePeer{loses: true}, 0, -sagas, sagas},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stub := httptest.NewServer(NewStub(0, false))
			defer stub.Close()
			p := tt.peer
			p.stub, p.done = stub.URL, make(map[string]int)
			c := PeersConfig{Stub: Process{URL: stub.URL}, InFlight: sagas, Patience: 10 * time.Second}
			if tt.left > 0 {
				c.Patience = 100 * time.Millisecond
			}
			got, err := c.crash(t.Context(), p)
			if err != nil {
				t.Fatal(err)
			}
			if got.Again != tt.again || got.Twice != tt.twice || got.Left != tt.left || got.Ended == 0 != (tt.left > 0) {
				t.Errorf("got %+v, want %d again, %d twice, %d left", got, tt.again, tt.twice, tt.left)
			}
		})
	}
}

// A peer that fails is left out, and the reference is not.
func TestPeerFails(t *testing.T) {
	broken := errors.New("broken")
	r := PeersReport{Reference: "a", Failed: make(map[string]error)}
	if err := r.try(t.Context(), named{"a"}, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("the reference failed, and got %v", err)
	}
	tries := 0
	for range 2 {
		if err := r.try(t.Context(), named{"b"}, func() error { tries++; return broken }); err != nil {
			t.Errorf("a peer failed, and got %v", err)
		}
	}
	var out strings.Builder
	if err := r.Print(&out); err != nil || tries != 1 || !strings.Contains(out.String(), "b has no figures, or not all: broken.") {
		t.Errorf("tried %d times, %v, and printed %s", tries, err, &out)
	}
}

// named is a peer of which only the name counts.
type named struct{ name string }

func (n named) Name() string                         { return n.name }
func (named) Resumes() bool                          { return true }
func (named) Start(context.Context) (Running, error) { return Running{}, nil }
func (named) Stop()                                  {}
func (named) Kill()                                  {}
