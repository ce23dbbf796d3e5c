package api

import (
	"errors"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga/history"
	"recourse/saga/kinds/ask"
)

// Bounds of the sessions in memory.
const (
	mostShared   = 10_000
	sharedMemory = 128 << 20   // of all of them, about
	sharedFor    = time.Minute // after the last request
	sharedBytes  = 4 << 20     // of a session's records; a larger one is read again by each request
	sweepsShared = 10 * time.Second
	mostWaiting  = 32 // requests of a session that wait; others, such as heartbeats, are always served
)

// sameSize says that a request has not changed the size of an entry.
const sameSize = -1

// sharedSessions keeps the sessions in memory whose agents are at work, so that a request reads
// only the records that are new. One request at a time uses a session, except while it waits.
type sharedSessions struct {
	mu    sync.Mutex
	all   map[uuid.UUID]*sharedSession // guarded by mu
	bytes int                          // that they take, about. Guarded by mu
	swept time.Time                    // guarded by mu
}

type sharedSession struct {
	turn    chan struct{} // full while a request uses the session
	l       *live         // nil: not read yet. Only for the request whose turn it is
	waiting int           // requests that wait. Only for the request whose turn it is

	users int       // guarded by sharedSessions.mu
	used  time.Time // guarded by sharedSessions.mu
	bytes int       // guarded by sharedSessions.mu
}

// size returns about how many bytes a session takes: its records, what was decoded of them, and its
// machine.
func (l *live) size() int { return 8<<10 + 3*l.bytes }

// enter returns the entry of a session.
func (a *sharedSessions) enter(id uuid.UUID) *sharedSession {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = make(map[uuid.UUID]*sharedSession)
	}
	e := a.all[id]
	if e == nil {
		e = &sharedSession{turn: make(chan struct{}, 1)}
		a.all[id] = e
	}
	e.users++
	return e
}

// leave ends the use of an entry, which takes so many bytes now; sameSize: as many as before.
// Entries that nobody uses are dropped after a while, or at once if all of them are too many or too
// large.
func (a *sharedSessions) leave(e *sharedSession, bytes int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := time.Now()
	e.users--
	e.used = now
	if bytes != sameSize {
		a.bytes += bytes - e.bytes
		e.bytes = bytes
	}
	sweep := now.Sub(a.swept) >= sweepsShared
	if sweep {
		a.swept = now
	}
	for id, other := range a.all { // any order
		tooMany := len(a.all) > mostShared || a.bytes > sharedMemory
		if !sweep && !tooMany {
			return
		}
		if other.users == 0 && (tooMany || now.Sub(other.used) > sharedFor) {
			delete(a.all, id)
			a.bytes -= other.bytes
		}
	}
}

// session returns a session. The request has it for itself, except while it waits, until serve
// releases it or letGo does. It must neither read a body nor write a response meanwhile: those
// depend on the client. Errors: session_not_found, and those of load.
func (s *server) session(c echo.Context, id uuid.UUID) (*live, error) {
	k := c.(*call)
	ctx := c.Request().Context()
	e := s.sessions.enter(id)
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		s.sessions.leave(e, sameSize)
		return nil, ctx.Err()
	}
	feed := s.cfg.Engine.Follow(id)
	k.feed = feed
	k.release = func() {
		feed.Stop()
		bytes := 0
		if e.l != nil && e.l.bytes > sharedBytes {
			e.l = nil
		} else if e.l != nil {
			bytes = e.l.size()
		}
		<-e.turn
		s.sessions.leave(e, bytes)
	}
	if e.l != nil {
		if seq, ok := s.cfg.Engine.LastSeq(id); ok && seq == e.l.m.Seq() {
			return e.l, nil
		}
		err := e.l.more(ctx)
		if err == nil {
			return e.l, nil
		}
		e.l = nil // it may be inconsistent, or deleted
		if ctx.Err() != nil {
			return nil, err
		}
	}
	l, err := s.load(ctx, id)
	if err != nil {
		return nil, err
	}
	if l.def.Session == nil {
		return nil, fail("session_not_found", "saga %s is not a session: GET /v1/sagas/%s shows it", id, id).of(id)
	}
	if s.cfg.Replay == nil { // a replay has no API keys
		head, err := s.cfg.Store.Saga(ctx, id)
		if err != nil {
			return nil, sagaError(id, err)
		}
		l.opener = head.Opener
	}
	l.log, l.models, l.shared = new(history.Steps), ask.NewIndex(), e
	for i := range l.records {
		if err := l.index(&l.records[i]); err != nil {
			return nil, err
		}
	}
	e.l = l
	return l, nil
}

// admit refuses a request that may wait if too many of the session wait already.
func (l *live) admit() error {
	if l.shared.waiting < mostWaiting {
		return nil
	}
	return fail("rate_limited", "%d requests of the session wait already, and nothing was done: repeat the request when one of them has ended, or send a shorter `wait`", mostWaiting).of(l.id).after(1)
}

// index adds a record of a session to what its requests read.
func (l *live) index(r *journal.Record) error {
	return errors.Join(l.log.Add(r), l.models.Add(r))
}
