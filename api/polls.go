package api

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// polls are the claims that wait for tasks. Of the claims that wait for the same types, only the
// one that has waited longest polls the store, so the load does not grow with the number of
// workers.
type polls struct {
	mu    sync.Mutex
	count int
	types map[string]*queue
}

// queue is the claims that wait for the same types.
type queue struct {
	turn    chan struct{} // a token: the channel is full while a claim polls
	waiting int
}

// enter adds a claim that waits for these types, unless too many claims wait. Sending to turn
// acquires the right to poll, receiving from it passes the right on.
func (p *polls) enter(types []string, most int) (turn chan struct{}, leave func(), ok bool) {
	key := strings.Join(types, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.count >= most {
		return nil, nil, false
	}
	if p.types == nil {
		p.types = make(map[string]*queue)
	}
	q := p.types[key]
	if q == nil {
		q = &queue{turn: make(chan struct{}, 1)}
		p.types[key] = q
	}
	p.count++
	q.waiting++
	return q.turn, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.count--
		if q.waiting--; q.waiting == 0 {
			delete(p.types, key)
		}
	}, true
}

// jittered returns d ± 20 %.
func jittered(d time.Duration) time.Duration {
	return d - d/5 + rand.N(max(2*d/5, 1))
}
