package wire

import (
	"strings"

	"github.com/jackc/pgx/v5/pgproto3"
)

// unit reads the client's next one.
func (s *session) unit() (*unit, error) {
	u := &unit{single: true}
	for {
		m, err := s.back.Receive()
		if err != nil {
			return nil, err
		}
		raw, err := m.Encode(nil)
		if err != nil {
			return nil, err
		}
		undone := raw
		done := false
		switch m := m.(type) {
		case *pgproto3.Parse:
			u.parses++
			s.sql[m.Name] = m.Query
			if word(m.Query) == "COMMIT" && m.Name == "" {
				undone, err = (&pgproto3.Parse{Query: "ROLLBACK"}).Encode(nil)
			}
		case *pgproto3.Bind:
			query := s.sql[m.PreparedStatement]
			s.portals[m.DestinationPortal] = query
			if word(query) == "COMMIT" && m.PreparedStatement != "" {
				// The server prepares it just for this, and says so; see relay.
				if undone, err = (&pgproto3.Parse{Query: "ROLLBACK"}).Encode(nil); err == nil {
					undone, err = (&pgproto3.Bind{DestinationPortal: m.DestinationPortal}).Encode(undone)
				}
			}
		case *pgproto3.Execute:
			u.sql = append(u.sql, s.portals[m.Portal])
		case *pgproto3.Query:
			done = true
			u.sql = append(u.sql, m.String)
			if word(m.String) == "COMMIT" {
				undone, err = (&pgproto3.Query{String: "ROLLBACK"}).Encode(nil)
			}
		case *pgproto3.Sync:
			done = true
		case *pgproto3.Terminate:
			u.ends, done = true, true
		}
		if err != nil {
			return nil, err
		}
		u.raw, u.undone = append(u.raw, raw...), append(u.undone, undone...)
		if done {
			u.judge(byte(s.status.Load()) == 'I')
			return u, nil
		}
	}
}

// judge sees whether the unit, begun outside of a transaction or within one, makes something
// durable.
func (u *unit) judge(outside bool) {
	for _, q := range u.sql {
		switch w := word(q); {
		case w == "BEGIN":
			outside = false
		case w == "COMMIT":
			u.commit, u.single = true, false
		case outside && writes(w, q):
			u.commit = true
		}
	}
}

// word is the first word of a query, in capitals.
func word(query string) string {
	query = strings.TrimLeft(query, " \t\r\n(")
	end := strings.IndexFunc(query, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
	if end < 0 {
		end = len(query)
	}
	return strings.ToUpper(query[:end])
}

// writes tells a statement that has a lasting effect, by its first word.
func writes(word, query string) bool {
	switch word {
	case "INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "CREATE", "ALTER", "DROP":
		return true
	case "WITH":
		return strings.Contains(query, "INSERT INTO ") || strings.Contains(query, "UPDATE ") || strings.Contains(query, "DELETE FROM ")
	}
	return false
}

// answers brings the server's messages to the client.
func (s *session) answers() {
	defer s.client.Close()
	for {
		m, err := s.front.Receive()
		if err != nil {
			close(s.gone)
			return
		}
		u := s.struck.Load()
		ready, isReady := m.(*pgproto3.ReadyForQuery)
		if isReady {
			s.status.Store(uint32(ready.TxStatus))
			s.struck.Store(nil)
		}
		if u != nil {
			s.relay(u, m)
		} else {
			_ = s.tell(m) // if the client has gone, the other goroutine says so
		}
		if isReady {
			s.open.Add(-1)
			select {
			case s.answered <- struct{}{}:
			default:
			}
		}
	}
}

// relay brings an answer to a unit that a fault strikes, or what the fault makes of it.
func (s *session) relay(u *unit, m pgproto3.BackendMessage) {
	done, complete := m.(*pgproto3.CommandComplete)
	_, prepared := m.(*pgproto3.ParseComplete)
	_, ready := m.(*pgproto3.ReadyForQuery)
	f := u.fault
	switch {
	case u.silent && ready && f.Do == Close:
		s.close()
	case u.silent:
	case prepared && u.parses == 0:
	case complete && f.After && (u.single || string(done.CommandTag) == "COMMIT"):
		u.silent = true
		if f.Do == Refuse {
			_ = s.tell(refusal(f))
			s.close()
		}
	case complete && !f.After && string(done.CommandTag) == "ROLLBACK":
		_ = s.tell(refusal(f))
	case ready && f.After:
		s.p.missed()
		_ = s.tell(m)
	default:
		_ = s.tell(m)
	}
}
