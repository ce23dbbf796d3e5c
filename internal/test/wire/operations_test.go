package wire_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"

	"recourse/journal"
)

// ttl is longer than any test.
const ttl = time.Hour

// operation is a call that writes, with all the transactions it takes.
type operation struct {
	method string // of journal.Store
	name   string
	// make prepares a fresh one, by way of a store whose wire is whole.
	make func(b *bench) attempt
}

// attempt is an operation with its names chosen.
type attempt struct {
	do func(ctx context.Context, s journal.Store) error // again after any failure
	// This reports whether the operation is done, and returns an error if it is done wrongly, or
	// twice.
	done  func(s journal.Store) (bool, error)
	right func() error // once it has succeeded; nil: there is no more to it
}

// bench makes what operations need.
type bench struct {
	journal.Store        // whose wire is whole
	node          string // registered
	conn          *pgx.Conn
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

func must(err error) {
	if err != nil {
		panic(err)
	}
}

// record seals the next record of a saga.
func record(saga uuid.UUID, seq int64, prev []byte) journal.Record {
	kind := journal.Started
	if seq > 1 {
		kind = journal.Woke
	}
	r := journal.Record{Seq: seq, At: time.UnixMilli(seq), Kind: kind, Node: "n"}
	journal.Seal(saga, prev, &r)
	return r
}

// start is the first append of a new saga.
func start() journal.Append {
	saga := newID()
	return journal.Append{Saga: saga, Start: &journal.Start{Definition: "d", Version: 1, Key: saga.String()}, Records: []journal.Record{record(saga, 1, nil)},
		Row: &journal.Row{Status: "running"}}
}

// begun makes a saga that is the bench's node's, and returns its first append.
func (b *bench) begun() journal.Append {
	a := start()
	b.append(a)
	return a
}

func (b *bench) append(a journal.Append) {
	out, err := b.Append(context.Background(), b.node, []journal.Append{a})
	must(err)
	must(out[0].Err)
}

// next is an append that adds a second record.
func next(a journal.Append) journal.Append {
	return journal.Append{Saga: a.Saga, Records: []journal.Record{record(a.Saga, 2, a.Records[0].Hash)}}
}

func (b *bench) posted(saga uuid.UUID) journal.Message {
	m := journal.Message{ID: newID(), Saga: saga, Kind: "signal", Data: json.RawMessage(`{}`)}
	must(b.Send(context.Background(), m))
	return m
}

// parked makes a saga that anyone may claim.
func (b *bench) parked() uuid.UUID {
	a := start()
	a.Start.Local, a.Row, a.Release = true, &journal.Row{Status: "parked", WakeAt: time.UnixMilli(1)}, true
	b.append(a)
	return a.Saga
}

// appending appends as one batch, and wants each of them answered with nil.
func (b *bench) appending(done func(journal.Store) (bool, error), batch ...journal.Append) attempt {
	return attempt{done: done, do: func(ctx context.Context, s journal.Store) error {
		out, err := s.Append(ctx, b.node, batch)
		for i := range out {
			if out[i].Err != nil {
				return fmt.Errorf("append %d: %w", i, out[i].Err)
			}
		}
		return err
	}}
}

// journals wants so many records in each of the sagas once they are done, and none or fewer before,
// all alike.
func journals(want int, sagas ...uuid.UUID) func(journal.Store) (bool, error) {
	return func(s journal.Store) (bool, error) {
		done := 0
		for _, saga := range sagas {
			records, err := s.Records(context.Background(), saga, 0, 10)
			if err != nil && !errors.Is(err, journal.ErrNotFound) {
				return false, err
			}
			if len(records) > want {
				return false, fmt.Errorf("%d records, want %d", len(records), want)
			}
			if err := journal.Verify(saga, nil, 1, records); err != nil {
				return false, err
			}
			if len(records) == want {
				done++
			}
		}
		if done != 0 && done != len(sagas) {
			return false, fmt.Errorf("%d of %d appends of a batch are done", done, len(sagas))
		}
		return done > 0, nil
	}
}

// head looks at a saga's row.
func head(saga uuid.UUID, done func(journal.Head) (bool, error)) func(journal.Store) (bool, error) {
	return func(s journal.Store) (bool, error) {
		h, err := s.Saga(context.Background(), saga)
		if errors.Is(err, journal.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		return done(h)
	}
}

// waiting counts the unread messages for a saga of the bench's node.
func (b *bench) waiting(saga uuid.UUID) (int, error) {
	unread, err := b.Messages(context.Background(), []uuid.UUID{saga}, 10_000, 1<<30)
	return len(unread), err
}

func (b *bench) leases(node string) (bool, error) {
	infos, err := b.Nodes(context.Background())
	for _, n := range infos {
		if n.Node == node {
			return true, err
		}
	}
	return false, err
}

func (b *bench) document(name string, version int) (bool, error) {
	d, err := b.Document(context.Background(), "definition", name, 0)
	if errors.Is(err, journal.ErrNotFound) {
		return false, nil
	}
	if err == nil && d.Version > version {
		err = fmt.Errorf("version %d, want %d", d.Version, version)
	}
	return d.Version == version, err
}

func document(name, source string) journal.Document {
	return journal.Document{Kind: "definition", Name: name, SHA256: source, Source: []byte(source)}
}

func (b *bench) publish(d journal.Document) {
	_, _, err := b.Publish(context.Background(), d, "")
	must(err)
}

// reply is what stands under a request's key, without reserving it for long if it is free.
func (b *bench) reply(key string) (r journal.Reply, free bool, err error) {
	r, free, err = b.Begin(context.Background(), key, "looking", 0)
	return r, free, err
}

// content returns a blob.
func content() journal.Blob {
	id := newID()
	return journal.Blob{Hash: sha256.Sum256(id.Bytes()), Data: id.Bytes()}
}

// stores reports whether a saga has a blob, as it was put.
func stores(s journal.Store, saga uuid.UUID, blob journal.Blob) (bool, error) {
	found, err := s.Blobs(context.Background(), saga, [][sha256.Size]byte{blob.Hash})
	if err != nil || len(found) == 0 {
		return false, err
	}
	if !bytes.Equal(found[0].Data, blob.Data) {
		return false, fmt.Errorf("content %x", found[0].Data)
	}
	return true, nil
}
