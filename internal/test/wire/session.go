package wire

import (
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgproto3"
)

// session is one connection. One goroutine takes the client's messages in, up to each point where
// it waits for answers, and one brings the answers back.
type session struct {
	p              *Proxy
	client, server net.Conn
	back           *pgproto3.Backend  // of the client
	front          *pgproto3.Frontend // of the server

	sql, portals map[string]string // by the client's names: what they execute
	status       atomic.Uint32     // of the server's last ReadyForQuery: 'I', 'T' or 'E'
	open         atomic.Int32      // units that the server has yet to answer
	answered     chan struct{}     // gets a value when open goes down
	gone         chan struct{}     // closed when the server has gone
	struck       atomic.Pointer[unit]
	telling      sync.Mutex // of messages to the client
}

// unit is what a client sends before it waits.
type unit struct {
	raw    []byte   // as it was sent
	sql    []string // what it executes, in order
	parses int      // of its messages are Parse
	undone []byte   // raw, with ROLLBACK in place of COMMIT
	commit bool     // it makes a transaction durable
	single bool     // without a COMMIT: its statement is the transaction
	ends   bool     // it is the client's farewell
	fault  *Fault   // that strikes at it, with the server's help
	silent bool     // from here on the client gets no answer
}

func (s *session) close() {
	s.client.Close()
	s.server.Close()
}

// handshake lets client and server get to know each other. False: there is nothing more to come.
func (s *session) handshake() bool {
	first, err := s.startup()
	if err != nil {
		return false
	}
	if f := s.p.strikes(Connect, ""); f != nil {
		if f.Do == Refuse {
			_ = s.tell(refusal(f))
		}
		return false
	}
	s.front.Send(first)
	if s.front.Flush() != nil {
		return false
	}
	if _, cancels := first.(*pgproto3.CancelRequest); cancels {
		_, _ = s.server.Read(make([]byte, 1)) // the server closes it when it is done
		return false
	}
	for {
		m, err := s.front.Receive()
		if err != nil || s.tell(m) != nil {
			return false
		}
		switch m := m.(type) {
		case *pgproto3.ReadyForQuery:
			s.status.Store(uint32(m.TxStatus))
			return true
		case *pgproto3.AuthenticationCleartextPassword, *pgproto3.AuthenticationMD5Password, *pgproto3.AuthenticationSASL, *pgproto3.AuthenticationSASLContinue:
			if s.back.SetAuthType(s.front.GetAuthType()) != nil {
				return false
			}
			answer, err := s.back.Receive()
			if err != nil {
				return false
			}
			s.front.Send(answer)
			if s.front.Flush() != nil {
				return false
			}
		}
	}
}

// startup reads the client's first message. A request for encryption is declined.
func (s *session) startup() (pgproto3.FrontendMessage, error) {
	for {
		m, err := s.back.ReceiveStartupMessage()
		if err != nil {
			return nil, err
		}
		switch m.(type) {
		case *pgproto3.SSLRequest, *pgproto3.GSSEncRequest:
			if _, err := s.client.Write([]byte("N")); err != nil {
				return nil, err
			}
		default:
			return m, nil
		}
	}
}

func (s *session) tell(m ...pgproto3.BackendMessage) error {
	s.telling.Lock()
	defer s.telling.Unlock()
	for _, m := range m {
		s.back.Send(m)
	}
	return s.back.Flush()
}

// requests forwards what the client sends, until it goes or a fault ends it.
func (s *session) requests() {
	for {
		u, err := s.unit()
		if err != nil {
			return
		}
		f := s.strike(u)
		switch {
		case f == nil:
			err = s.forward(u, u.raw)
		case f.Do == Refuse && u.commit && !u.single && !f.After && !f.Fatal:
			u.fault = f
			s.settle()
			err = s.forward(u, u.undone)
		case f.Do == Refuse && !f.After:
			s.settle()
			if err = s.tell(refusal(f)); err == nil && !f.Fatal {
				err = s.tell(&pgproto3.ReadyForQuery{TxStatus: s.failed(u)})
			}
			if f.Fatal {
				s.close()
			}
		case f.After:
			u.fault = f
			s.settle()
			err = s.forward(u, u.raw)
		case f.Do == Close:
			s.close()
		default:
			s.hold(u, f)
			return
		}
		if err != nil || u.ends {
			s.close()
			return
		}
	}
}

func (s *session) strike(u *unit) *Fault {
	all := strings.Join(u.sql, ";")
	if u.commit {
		if f := s.p.strikes(Commit, all); f != nil {
			return f
		}
	}
	for _, q := range u.sql {
		if w := word(q); w != "BEGIN" && w != "COMMIT" && w != "ROLLBACK" {
			return s.p.strikes(Statement, all)
		}
	}
	return nil
}

// forward sends bytes to the server; u is what answers will be to, if it wants any.
func (s *session) forward(u *unit, raw []byte) error {
	if !u.ends {
		s.open.Add(1)
		if u.fault != nil {
			s.struck.Store(u)
		}
	}
	_, err := s.server.Write(raw)
	return err
}

// settle waits until nothing is unanswered, or never will be answered.
func (s *session) settle() {
	for s.open.Load() > 0 {
		select {
		case <-s.answered:
		case <-s.gone:
			return
		}
	}
}

// failed is the state of the transaction once the unit was refused.
func (s *session) failed(u *unit) byte {
	inside := byte(s.status.Load()) != 'I'
	for _, q := range u.sql {
		switch word(q) {
		case "BEGIN":
			inside = true
		case "COMMIT", "ROLLBACK":
			if len(u.sql) == 1 {
				inside = false
			}
		}
	}
	if inside {
		return 'E'
	}
	return 'I'
}

// hold keeps a unit back until its client has gone. A late one then reaches the server when it is
// let go.
func (s *session) hold(u *unit, f *Fault) {
	release := s.p.released()
	s.p.hold(1)
	defer s.p.hold(-1)
	for {
		m, err := s.back.Receive()
		if err != nil {
			break
		}
		if _, ends := m.(*pgproto3.Terminate); ends {
			break
		}
	}
	s.client.Close()
	if f.Do != Late {
		return
	}
	<-release
	if s.forward(u, u.raw) == nil {
		s.settle() // nobody reads the answers any longer
	}
}

func refusal(f *Fault) *pgproto3.ErrorResponse {
	severity := "ERROR"
	if f.Fatal || f.At == Connect {
		severity = "FATAL"
	}
	return &pgproto3.ErrorResponse{Severity: severity, SeverityUnlocalized: severity, Code: f.Code, Message: "injected"}
}
