package api

import (
	"math/rand/v2"
	"strings"
	"sync"
	"time"
)

// polls are the claims that wait for tasks. Of those that wait for the same types one at a time
// looks into the store, the one that has waited longest: what looking costs does not grow with the
// number of workers.
type polls struct {
	mu    sync.Mutex
	open  int
	types map[string]*queue
}

// queue is those who wait for the same types.
type queue struct {
	turn    chan struct{} // holds a value while somebody looks
	waiting int
}

// enter joins those who wait for these types, unless too many wait. Sending to turn gets the turn
// to look, receiving from it gives it on.
func (p *polls) enter(types []string, most int) (turn chan struct{}, leave func(), ok bool) {
	key := strings.Join(types, " ")
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open >= most {
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
	p.open++
	q.waiting++
	return q.turn, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.open--
		if q.waiting--; q.waiting == 0 {
			delete(p.types, key)
		}
	}, true
}

// jittered is d, give or take a fifth.
func jittered(d time.Duration) time.Duration {
	return d - d/5 + rand.N(max(2*d/5, 1))
}
