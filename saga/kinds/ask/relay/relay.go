// Package relay passes responses of language models on, from the requests that a node sends
// (package saga/kinds/ask/client) to the agents that wait for them (package api), while they
// arrive. A response that no agent waits for is read to its end all the same.
package relay

import (
	"context"
	"io"
	"sync"

	"recourse/saga/kinds/ask"
)

// Relay has the responses that arrive at one node. It is safe for concurrent use.
type Relay struct {
	mu     sync.Mutex
	all    map[string]*Stream   // by the key of the ask. Guarded by mu
	bodies map[string]*keptBody // by hash. Guarded by mu
}

type keptBody struct {
	content []byte
	users   int
}

// New returns a Relay.
func New() *Relay {
	return &Relay{all: make(map[string]*Stream), bodies: make(map[string]*keptBody)}
}

// Offer keeps the body of a request, by its hash, until release is called, so that this node sends
// it without reading it from the store.
func (r *Relay) Offer(hash string, body []byte) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.bodies[hash]
	if k == nil {
		k = &keptBody{content: body}
		r.bodies[hash] = k
	}
	k.users++
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if k.users--; k.users == 0 {
			delete(r.bodies, hash)
		}
	}
}

// Body returns an offered body; ok is false if there is none.
func (r *Relay) Body(hash string) (_ []byte, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if k := r.bodies[hash]; k != nil {
		return k.content, true
	}
	return nil, false
}

// Join returns the response to an ask, which may not have begun, and never does if another node
// sends the request. Leave must follow.
func (r *Relay) Join(key string) *Stream {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.all[key]
	if t == nil {
		t = &Stream{changed: make(chan struct{})}
		r.all[key] = t
	}
	t.users++
	return t
}

// Leave ends what Join began.
func (r *Relay) Leave(key string, t *Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.users--; t.users == 0 && r.all[key] == t {
		delete(r.all, key)
	}
}

// Stream is the part of a response that agents may have before it is in the journal.
type Stream struct {
	users int // guarded by Relay.mu

	mu      sync.Mutex
	kind    string        // Content-Type; "": nothing may leave yet. Guarded by mu
	free    []byte        // what may leave. Guarded by mu
	changed chan struct{} // closed when that grows. Guarded by mu
}

// Pass lets a part of the response leave.
func (t *Stream) Pass(kind string, part []byte) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kind, t.free = kind, append(t.free, part...)
	close(t.changed)
	t.changed = make(chan struct{})
}

// Copy reads the events of a response while they arrive, and passes on those that an agent may have
// before the response is in the journal. keep gets each event as it came, and whether the agent
// must not get it at all. It returns the event as the agent gets it, and false to read no further.
// Errors: those of [ask.Events].
func (t *Stream) Copy(in io.Reader, kind string, meaning *ask.Reading, keep func(raw []byte, drop bool) (event []byte, more bool)) error {
	return ask.Events(in, func(raw, data []byte) bool {
		hold, drop, done := meaning.Event(data)
		event, more := keep(raw, drop)
		if more && !drop && !hold {
			t.Pass(kind, event)
		}
		return more && !done
	})
}

// Next waits until more than from bytes of the response may leave, and returns the others and its
// Content-Type; ok is false if ctx is done first.
func (t *Stream) Next(ctx context.Context, from int) (part []byte, kind string, ok bool) {
	for {
		t.mu.Lock()
		part, kind, changed := t.free[min(from, len(t.free)):], t.kind, t.changed
		t.mu.Unlock()
		if len(part) > 0 {
			return part, kind, true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, "", false
		}
	}
}
