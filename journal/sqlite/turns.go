package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// turns passes the writing connection from one transaction to the next: in the order in which they
// asked, but urgent ones before all others. Commits and lease renewals share the connection, and a
// lease could end while its renewal waits for large commits.
type turns struct {
	mu             sync.Mutex
	conn           *sql.Conn // nil while a caller has it
	urgent, others []chan *sql.Conn
	closed         bool
}

// take waits for the connection, which the caller must give back. Errors: the context's; errClosed.
func (t *turns) take(ctx context.Context, urgent bool) (*sql.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		return nil, errClosed
	}
	if conn := t.conn; conn != nil {
		t.conn = nil
		t.mu.Unlock()
		return conn, nil
	}
	line := &t.others
	if urgent {
		line = &t.urgent
	}
	turn := make(chan *sql.Conn, 1)
	*line = append(*line, turn)
	t.mu.Unlock()
	select {
	case conn := <-turn:
		if conn == nil {
			return nil, errClosed
		}
		return conn, nil
	case <-ctx.Done():
		t.leave(line, turn)
		return nil, ctx.Err()
	}
}

// leave removes a waiting caller from a line. If the connection arrives at the same moment, leave
// passes it on.
func (t *turns) leave(line *[]chan *sql.Conn, turn chan *sql.Conn) {
	t.mu.Lock()
	for i, c := range *line {
		if c == turn {
			*line = append((*line)[:i], (*line)[i+1:]...)
			t.mu.Unlock()
			return
		}
	}
	t.mu.Unlock()
	if conn := <-turn; conn != nil {
		t.give(conn)
	}
}

// give passes the connection to the next caller.
func (t *turns) give(conn *sql.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, line := range []*[]chan *sql.Conn{&t.urgent, &t.others} {
		if len(*line) > 0 {
			(*line)[0] <- conn
			*line = (*line)[1:]
			return
		}
	}
	t.conn = conn
}

// close waits for the connection and keeps it; it returns nil if turns is already closed. All
// callers that still wait get errClosed.
func (t *turns) close() *sql.Conn {
	conn, err := t.take(context.Background(), true)
	if err != nil {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for _, turn := range append(t.urgent, t.others...) {
		turn <- nil
	}
	t.urgent, t.others = nil, nil
	return conn
}
