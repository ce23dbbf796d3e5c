package measure

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // the driver
)

// event is what the floor stores of a saga: the least that a program would need that goes on after
// a crash. It has no index: a program would read all events once when it starts.
type event struct {
	step int16
	kind int16
	body []byte // a response, or the input of a start; nil: none
}

// The kinds of events.
const (
	eventStarted int16 = iota
	eventIntent
	eventOutcome
	eventEnded
)

// writer writes entries in one durable transaction.
type writer interface{ write(batch []*entry) error }

func openWriter(ctx context.Context, dsn string) (writer, error) {
	if strings.HasPrefix(dsn, "postgres") {
		return openPostgres(ctx, dsn)
	}
	return openSQLite(ctx, dsn)
}

// postgresWriter sends a batch as one INSERT, in one message with binary arrays. It reuses them.
type postgresWriter struct {
	conn  *pgx.Conn
	sagas [][16]byte
	steps []int16
	kinds []int16
	texts [][]byte
}

func openPostgres(ctx context.Context, dsn string) (*postgresWriter, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	if _, err := conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS floor (saga uuid NOT NULL, step smallint NOT NULL, kind smallint NOT NULL, body bytea NULL)`); err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	return &postgresWriter{conn: conn}, nil
}

func (w *postgresWriter) write(batch []*entry) error {
	w.sagas, w.steps, w.kinds, w.texts = w.sagas[:0], w.steps[:0], w.kinds[:0], w.texts[:0]
	for _, e := range batch {
		for _, ev := range e.events {
			w.sagas, w.steps, w.kinds, w.texts = append(w.sagas, e.saga), append(w.steps, ev.step), append(w.kinds, ev.kind), append(w.texts, ev.body)
		}
	}
	_, err := w.conn.Exec(context.Background(), `INSERT INTO floor SELECT * FROM unnest($1::uuid[], $2::smallint[], $3::smallint[], $4::bytea[])`, w.sagas, w.steps, w.kinds, w.texts)
	return err
}

type sqliteWriter struct {
	db     *sql.DB
	insert *sql.Stmt
}

func openSQLite(ctx context.Context, file string) (*sqliteWriter, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, `CREATE TABLE floor (saga BLOB NOT NULL, step INTEGER NOT NULL, kind INTEGER NOT NULL, body BLOB)`); err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	insert, err := db.PrepareContext(ctx, `INSERT INTO floor VALUES (?, ?, ?, ?)`)
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	return &sqliteWriter{db, insert}, nil
}

func (w *sqliteWriter) write(batch []*entry) error {
	tx, err := w.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	insert := tx.StmtContext(context.Background(), w.insert)
	defer insert.Close()
	for _, e := range batch {
		for _, ev := range e.events {
			if _, err := insert.ExecContext(context.Background(), e.saga.Bytes(), ev.step, ev.kind, ev.body); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}

// entry is what one saga appends.
type entry struct {
	saga   uuid.UUID
	events []event
	done   chan error
}
