package api

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds/ask"
)

// content returns a content of the session by its hash. Errors: ask.ErrErased, those of the store.
func (l *live) content(ctx context.Context, hash string) ([]byte, error) {
	return Content(ctx, l.s.cfg.Store, l.id, hash)
}

// Content returns a content of a session by its hash, in hex. The contents with which a fork begins
// stay those of its original. Errors: ask.ErrErased, those of the store.
func Content(ctx context.Context, store journal.Store, session uuid.UUID, hash string) ([]byte, error) {
	var sum [32]byte
	if n, err := hex.Decode(sum[:], []byte(hash)); err != nil || n != len(sum) {
		return nil, fmt.Errorf("%w: hash %q", saga.ErrUnreadable, hash)
	}
	blobs, err := store.Blobs(ctx, session, [][32]byte{sum})
	if err != nil {
		return nil, err
	}
	if len(blobs) > 0 {
		return ask.Unpack(blobs[0])
	}
	of, err := forkOf(ctx, store, session)
	switch {
	case err != nil:
		return nil, err
	case of.IsNil():
		return nil, ask.ErrErased
	}
	return Content(ctx, store, of, hash)
}

// forkOf returns the session that a session is a fork of; Nil: none, or it was deleted.
func forkOf(ctx context.Context, store journal.Store, session uuid.UUID) (uuid.UUID, error) {
	head, err := store.Saga(ctx, session)
	if errors.Is(err, journal.ErrNotFound) {
		return uuid.Nil, nil
	}
	return head.ForkedFrom, err
}

// mostLives is how many sessions have the requests of their last life remembered.
const mostLives = 10_000

// lifeMemory remembers what the last life of each session has asked for. It is kept in memory:
// after a restart, or on another node, a request gets the response to an earlier one again, and
// never has a second effect; and a call may wait for a person that would not have to.
type lifeMemory struct {
	mu       sync.Mutex
	sessions map[uuid.UUID]*lifeRequests // guarded by mu
}

type lifeRequests struct {
	life  int
	calls map[string]int     // calls whose ends the agent has got, by identity
	asks  map[string]ask.Use // by path
	paths map[string]bool    // of the calls and own steps that it has asked for
	ended map[string]bool    // of those whose ends the agent has got
	// recording counts the requests to models that are being recorded, by identity.
	recording map[string]int
}

func newLifeRequests(life int) *lifeRequests {
	return &lifeRequests{life: life, calls: make(map[string]int), asks: make(map[string]ask.Use), paths: make(map[string]bool), ended: make(map[string]bool), recording: make(map[string]int)}
}

// with passes what a life has asked for. A request of an earlier life, which may end late, finds
// nothing, and changes nothing.
func (a *lifeMemory) with(session uuid.UUID, life int, do func(*lifeRequests)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	l := a.sessions[session]
	if l != nil && l.life > life {
		do(newLifeRequests(life))
		return
	}
	if l == nil || l.life != life {
		if a.sessions == nil {
			a.sessions = make(map[uuid.UUID]*lifeRequests)
		}
		for other := range a.sessions { // any of them
			if len(a.sessions) < mostLives {
				break
			}
			delete(a.sessions, other)
		}
		l = newLifeRequests(life)
		a.sessions[session] = l
	}
	do(l)
}

// count returns how many calls with this identity the life has made.
func (a *lifeMemory) count(session uuid.UUID, life int, identity string) (n int) {
	a.with(session, life, func(l *lifeRequests) { n = l.calls[identity] })
	return n
}

// add counts a call that came after so many others. Two requests at once are one call.
func (a *lifeMemory) add(session uuid.UUID, life int, identity string, before int) {
	a.with(session, life, func(l *lifeRequests) { l.calls[identity] = max(l.calls[identity], before+1) })
}
