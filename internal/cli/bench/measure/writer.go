package measure

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	_ "modernc.org/sqlite" // the driver
)

// hashed is as long as a record's hash.
var hashed = make([]byte, 32)

// columns are the columns of the engine's table of records.
const columns = `(saga_id, seq, at, kind, path, way, attempt, generation, key, class, node, data, hash)`

func openWriter(ctx context.Context, dsn string) (writer, error) {
	if strings.HasPrefix(dsn, "postgres") {
		return openPostgres(ctx, dsn)
	}
	return openSQLite(ctx, dsn)
}

type postgresWriter struct{ conn *pgx.Conn }

func openPostgres(ctx context.Context, dsn string) (*postgresWriter, error) {
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	_, err = conn.Exec(ctx, `CREATE TABLE floor (saga_id uuid NOT NULL, seq bigint NOT NULL, at bigint NOT NULL, kind text NOT NULL, path text NOT NULL,
		way text NOT NULL, attempt integer NOT NULL, generation integer NOT NULL, key text NOT NULL, class text NOT NULL, node text NOT NULL,
		data bytea NULL, hash bytea NOT NULL, PRIMARY KEY (saga_id, seq))`)
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	return &postgresWriter{conn}, nil
}

func (w *postgresWriter) write(batch []*entry) error {
	var (
		saga                               []pgtype.UUID
		seq, at                            []int64
		kind, path, way, key, class, wrote []string
		attempt, generation                []int32
		data, hash                         [][]byte
	)
	now := time.Now().UnixMilli()
	for _, e := range batch {
		for i, r := range e.rows {
			saga = append(saga, pgtype.UUID{Bytes: e.saga, Valid: true})
			seq, at = append(seq, e.after+int64(i)+1), append(at, now)
			kind, path, way = append(kind, r.Kind), append(path, r.Path), append(way, r.Way)
			attempt, generation = append(attempt, int32(r.Attempt)), append(generation, int32(r.Generation))
			key, class, wrote = append(key, r.Key), append(class, r.Class), append(wrote, r.Node)
			data, hash = append(data, r.Data), append(hash, hashed)
		}
	}
	_, err := w.conn.Exec(context.Background(), `INSERT INTO floor `+columns+`
		SELECT * FROM unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[], $7::int[], $8::int[],
			$9::text[], $10::text[], $11::text[], $12::bytea[], $13::bytea[])`,
		saga, seq, at, kind, path, way, attempt, generation, key, class, wrote, data, hash)
	return err
}

type sqliteWriter struct{ db *sql.DB }

func openSQLite(ctx context.Context, file string) (*sqliteWriter, error) {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_txlock=immediate")
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	db.SetMaxOpenConns(1)
	_, err = db.ExecContext(ctx, `CREATE TABLE floor (saga_id BLOB NOT NULL, seq INTEGER NOT NULL, at INTEGER NOT NULL, kind TEXT NOT NULL, path TEXT NOT NULL,
		way TEXT NOT NULL, attempt INTEGER NOT NULL, generation INTEGER NOT NULL, key TEXT NOT NULL, class TEXT NOT NULL, node TEXT NOT NULL,
		data BLOB, hash BLOB NOT NULL, PRIMARY KEY (saga_id, seq)) WITHOUT ROWID`)
	if err != nil {
		return nil, fmt.Errorf("floor: %w", err)
	}
	return &sqliteWriter{db}, nil
}

func (w *sqliteWriter) write(batch []*entry) error {
	tx, err := w.db.BeginTx(context.Background(), nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	insert, err := tx.PrepareContext(context.Background(), `INSERT INTO floor `+columns+` VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)`)
	if err != nil {
		return err
	}
	defer insert.Close()
	now := time.Now().UnixMilli()
	for _, e := range batch {
		for i, r := range e.rows {
			if _, err := insert.ExecContext(context.Background(), e.saga.Bytes(), e.after+int64(i)+1, now, r.Kind, r.Path, r.Way, r.Attempt, r.Generation, r.Key, r.Class, r.Node, []byte(r.Data), hashed); err != nil {
				return err
			}
		}
	}
	return tx.Commit()
}
