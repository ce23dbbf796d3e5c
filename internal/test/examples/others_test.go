package examples

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"recourse/api/client"
)

// sink receives events.
type sink struct {
	authority, addr string // of events.example

	mu  sync.Mutex
	got map[string]event // by id
}

// event is a CloudEvent.
type event struct {
	ID, Type, Subject string
	Data              json.RawMessage
}

func newSink(t *testing.T) *sink {
	k := &sink{got: make(map[string]event)}
	k.authority, k.addr = serveTLS(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var e event
		if err := json.NewDecoder(r.Body).Decode(&e); err != nil {
			t.Errorf("an event: %v", err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.got[e.ID] = e
	}), "events.example")
	return k
}

// types waits until there are as many events as types, and compares their types.
func (k *sink) types(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		got = nil
		k.mu.Lock()
		for _, e := range k.got {
			got = append(got, e.Type)
		}
		k.mu.Unlock()
		if len(got) >= len(want) {
			break
		}
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("events %v, want %v", got, want)
	}
}

// fetcher is the worker of the research saga. It records the keys under which it was asked to fetch
// each page.
type fetcher struct {
	mu   sync.Mutex
	keys map[string]map[string]int // by URL and key: how often
}

// fetch runs the worker until the test ends. fail, if not nil, returns the error of the n-th fetch
// of a page.
func (s *scene) fetch(fail func(url string, n int) error) *fetcher {
	f := &fetcher{keys: make(map[string]map[string]int)}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() {
		ended <- client.Worker{Client: s.client, Types: []string{"fetch-page"}, Concurrency: 5, Log: slog.New(slog.DiscardHandler), Drain: time.Second,
			Handle: func(_ context.Context, task client.Task) (any, error) {
				var in struct{ URL string }
				if err := json.Unmarshal(task.Input, &in); err != nil {
					return nil, err
				}
				if n := f.note(in.URL, task.Key); fail != nil {
					if err := fail(in.URL, n); err != nil {
						return nil, err
					}
				}
				return map[string]string{"text": "The page at " + in.URL + " says that tea was 19.10 a pound."}, nil
			}}.Run(ctx)
	}()
	s.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			s.t.Errorf("the worker: %v", err)
		}
	})
	return f
}

func (f *fetcher) note(url, key string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys[url] == nil {
		f.keys[url] = make(map[string]int)
	}
	f.keys[url][key]++
	for _, times := range f.keys[url] {
		n += times
	}
	return n
}

// pages counts the fetched pages and the repeated fetches. Each page must have one key.
func (f *fetcher) pages(t *testing.T) (pages, again int) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for url, keys := range f.keys {
		if len(keys) != 1 {
			t.Errorf("%s was fetched under %d keys", url, len(keys))
		}
		for _, times := range keys {
			again += times - 1
		}
	}
	return len(f.keys), again
}

// entry is an inbox entry.
type entry struct {
	Kind, Saga, Path, ETag string
	ShownHash              string `json:"shown_hash"`
	Shown                  json.RawMessage
}

// asked waits until the inbox has an entry of the kind.
func (s *scene) asked(kind string) entry {
	s.t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(20 * time.Millisecond) {
		if e, ok := s.inbox(kind); ok {
			return e
		}
	}
	s.t.Fatalf("the inbox has no entry of kind %s", kind)
	return entry{}
}

// inbox returns an entry of the kind; ok is false if there is none or the server does not respond.
func (s *scene) inbox(kind string) (e entry, ok bool) {
	s.t.Helper()
	status, _, b := s.call("GET", "/v1/inbox?kind="+kind, "")
	if status != http.StatusOK {
		return e, false
	}
	var list struct{ Data []entry }
	if err := json.Unmarshal(b, &list); err != nil {
		s.t.Fatal(err)
	}
	if len(list.Data) == 0 {
		return e, false
	}
	return list.Data[0], true
}

// decide approves or rejects an entry.
func (s *scene) decide(e entry, how string) (status int, answer []byte) {
	s.t.Helper()
	status, _, answer = s.call("POST", "/v1/sagas/"+e.Saga+"/steps/"+e.Path+"/"+how, fmt.Sprintf(`{"shown": %q}`, e.ShownHash))
	return status, answer
}
