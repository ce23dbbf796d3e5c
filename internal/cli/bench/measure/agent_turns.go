package measure

import (
	"context"
	"database/sql"
	"fmt"
	"time"
)

// An agent that is compared: how long its model takes, and the sizes of a turn. Every second turn
// makes a call.
const (
	turnModel   = 300 * time.Millisecond
	turnTokens  = 256     // of an answer
	turnBytes   = 3 << 10 // of a tool's result
	callOfTurns = 2
)

// turns measures an agent whose conversation grows: on both sides, in turns.
func (c *agents) turns(ctx context.Context) error {
	var ratios []float64
	for i := range c.Rounds {
		var took [2]time.Duration
		for turn := range 2 {
			side := (i + turn) % 2
			a, err := c.open(ctx, 1)
			if err != nil {
				return err
			}
			began := time.Now()
			if _, err := c.converse(ctx, a[0], c.Turns, model{prose, turnModel}, side == 1); err != nil {
				return err
			}
			took[side] = time.Since(began)
			if err := c.commit(ctx, a); err != nil {
				return err
			}
		}
		ratios = append(ratios, float64(took[1])/float64(took[0]))
	}
	c.target(fmt.Sprintf("%d turns with %d calls, a model that takes %s: ratio to direct", c.Turns, c.Turns/callOfTurns, turnModel), median(ratios), 1.03, "")
	return nil
}

// converse has a conversation of so many turns, and returns how many different bytes it has: each
// message once, and what the answers have besides their texts.
func (c *agents) converse(ctx context.Context, a *agent, turns int, m model, through bool) (distinct int, err error) {
	list := []message{{"system", m.texts.text(c.random, turnBytes)}, {"user", m.texts.text(c.random, turnBytes)}}
	add := func(m message) {
		list = append(list, m)
		distinct += len(m.Content)
	}
	distinct = 2 * turnBytes
	for i := range turns {
		got, err := c.ask(ctx, a, asked(list, turnTokens, m, false), through)
		if err != nil {
			return 0, err
		}
		text, err := got.text()
		if err != nil {
			return 0, err
		}
		distinct += len(got.body) - len(text)
		add(message{"assistant", text})
		if i%callOfTurns == callOfTurns-1 && m.takes > 0 {
			if _, err := c.book(ctx, a, fmt.Appendf(nil, `{"trip":%q}`, randomLetters(c.random, 20)), through); err != nil {
				return 0, err
			}
		}
		add(message{"user", m.texts.text(c.random, turnBytes)})
	}
	last := list[len(list)-1] // which was not sent
	return distinct - len(last.Content), nil
}

// turnsStored is how many times as many turns the session has whose storage is measured.
const turnsStored = 10

// storage measures how many bytes a long conversation takes.
func (c *agents) storage(ctx context.Context) error {
	n := turnsStored * c.Turns
	for _, kind := range []texts{prose, letters} {
		a, err := c.open(ctx, 1)
		if err != nil {
			return err
		}
		distinct, err := c.converse(ctx, a[0], n, model{texts: kind}, true)
		if err != nil {
			return err
		}
		stored, err := c.stored(ctx, a[0])
		if err != nil {
			return err
		}
		c.target(fmt.Sprintf("storage of %d turns of random %s, relative to their different bytes", n, kind), float64(stored)/float64(distinct), 1.3, "")
		if err := c.commit(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

// stored returns how many bytes the records and contents of a session take in the database.
func (c *agents) stored(ctx context.Context, a *agent) (n int64, err error) {
	if c.postgres() {
		err = c.db.conn.QueryRow(ctx, `SELECT (SELECT sum(pg_column_size(j.*)) FROM journal j WHERE saga_id = $1) + (SELECT sum(pg_column_size(b.*)) FROM blobs b WHERE saga_id = $1)`, a.id).Scan(&n)
		return n, err
	}
	db, err := sql.Open("sqlite", "file:"+c.Database+"?mode=ro")
	if err != nil {
		return 0, err
	}
	defer db.Close()
	const size = `SELECT (SELECT sum(16 + 4 + 4 + 8 + length(data)) FROM journal WHERE saga_id = ?1) +
		(SELECT sum(16 + length(hash) + length(data)) FROM blobs WHERE saga_id = ?1)`
	err = db.QueryRowContext(ctx, size, a.id.Bytes()).Scan(&n)
	return n, err
}
