// Package journaltest is the conformance suite of journal.Store.
//
// The test of a store calls Run. Stores differ only in the fields of Options and Subject; no test
// depends on which store it runs on.
package journaltest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"recourse/journal"
)

// Options describe how to test a store.
type Options struct {
	// Open returns a new, empty store. The suite closes it.
	Open func(t *testing.T) Subject
	// Exclusive means that only one process can use the store, and that Register fences the earlier
	// node.
	Exclusive bool
}

// Subject is a store under test.
type Subject struct {
	Store journal.Store
	// Again opens the same database as another process would; nil if that is not possible. The
	// suite closes it.
	Again func(t *testing.T) journal.Store
	// Advance moves the store's clock. If it is nil the clock is real, and the suite waits.
	Advance func(time.Duration)
}

// patience limits every wait for a real clock.
const patience = 20 * time.Second

// Run runs the whole suite.
func Run(t *testing.T, o Options) {
	groups := []struct {
		name  string
		tests []test
	}{
		{"append", appendTests}, {"lease", leaseTests}, {"claim", claimTests}, {"quarantine", quarantineTests}, {"messages", messageTests},
		{"blob", blobTests},
		{"index", indexTests}, {"retention", retentionTests}, {"list", listTests}, {"costs", costTests}, {"catalog", catalogTests}, {"requests", requestTests},
		{"task", taskTests}, {"outbox", outboxTests}, {"stall", stallTests}, {"schedule", scheduleTests},
	}
	for _, g := range groups {
		t.Run(g.name, func(t *testing.T) {
			for _, tt := range g.tests {
				t.Run(tt.name, func(t *testing.T) {
					t.Parallel() // each has a store of its own, and many wait for the store's clock
					tt.run(newBench(t, o))
				})
			}
		})
	}
}

type test struct {
	name string
	run  func(*bench)
}

// bench is the store of one test, with helpers that fail the test.
type bench struct {
	*testing.T
	journal.Store
	subject   Subject
	ctx       context.Context
	exclusive bool
	node      string // the registered node
	released  bool   // whether the saga that made has created last was released
}

const ttl = time.Hour

func newBench(t *testing.T, o Options) *bench {
	t.Helper()
	s := o.Open(t)
	t.Cleanup(func() {
		if err := s.Store.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	b := &bench{T: t, Store: s.Store, subject: s, ctx: t.Context(), exclusive: o.Exclusive}
	b.node = b.register(ttl)
	return b
}

func (b *bench) register(ttl time.Duration, dead ...string) string {
	b.Helper()
	node := "node-" + newID().String()
	lease, err := b.Store.Register(b.ctx, node, ttl, dead...)
	b.must(err)
	if lease.Node != node || lease.TTL != ttl || lease.Now.IsZero() {
		b.Fatalf("Register = %+v, want the lease of %s for %v", lease, node, ttl)
	}
	return node
}

func (b *bench) again() journal.Store {
	b.Helper()
	s := b.subject.Again(b.T)
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// eventually advances the clock in steps, or waits for the real one, until done.
func (b *bench) eventually(what string, done func() bool) {
	b.Helper()
	deadline := time.Now().Add(patience)
	for step := time.NewTicker(5 * time.Millisecond); !done(); <-step.C {
		if b.subject.Advance != nil {
			b.subject.Advance(100 * time.Millisecond)
		}
		if time.Now().After(deadline) {
			b.Fatalf("still not after %v: %s", patience, what)
		}
	}
}

// now returns the store's clock.
func (b *bench) now() time.Time {
	b.Helper()
	lease, err := b.Renew(b.ctx, b.node, ttl)
	b.must(err)
	return lease.Now
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) wantErr(got, want error) {
	b.Helper()
	if !errors.Is(got, want) {
		b.Fatalf("error = %v, want %v", got, want)
	}
}

// long compares long data by bytes.Equal: cmp searches for the shortest difference, even if there
// is none.
var long = cmp.FilterValues(func(a, b json.RawMessage) bool { return len(a) > 1000 && len(b) > 1000 },
	cmp.Comparer(func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }))

func diff[T any](b *bench, what string, got, want T, opts ...cmp.Option) {
	b.Helper()
	if d := cmp.Diff(want, got, append(opts, cmpopts.EquateEmpty(), long)...); d != "" {
		b.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

// append appends as the bench's node and returns the results.
func (b *bench) append(batch ...journal.Append) []journal.Result {
	b.Helper()
	out, err := b.Store.Append(b.ctx, b.node, batch)
	b.must(err)
	if len(out) != len(batch) {
		b.Fatalf("Append of %d gave %d results", len(batch), len(out))
	}
	return out
}

// ok appends, and fails unless everything is written.
func (b *bench) ok(batch ...journal.Append) {
	b.Helper()
	for i, r := range b.append(batch...) {
		if r.Err != nil {
			b.Fatalf("append %d: %v", i, r.Err)
		}
	}
}

func (b *bench) records(saga uuid.UUID) []journal.Record {
	b.Helper()
	out, err := b.Records(b.ctx, saga, 0, 1<<20)
	b.must(err)
	return out
}

func (b *bench) head(saga uuid.UUID) journal.Head {
	b.Helper()
	h, err := b.Saga(b.ctx, saga)
	b.must(err)
	return h
}

func (b *bench) claim(node string, limit int) []uuid.UUID {
	b.Helper()
	out, err := b.Claim(b.ctx, node, limit)
	b.must(err)
	var ids []uuid.UUID
	for _, c := range out {
		ids = append(ids, c.Saga)
	}
	return ids
}

func (b *bench) send(saga uuid.UUID) journal.Message {
	b.Helper()
	m := journal.Message{ID: newID(), Saga: saga, Kind: "signal", Data: []byte(`{"n":9007199254740993}`)}
	b.must(b.Send(b.ctx, m))
	return m
}

// messages returns the messages of a node's sagas, in the order of their ids.
func (b *bench) messages(node string) []journal.Message {
	b.Helper()
	recipients, err := b.Recipients(b.ctx, node, uuid.Nil, 1000)
	b.must(err)
	var sagas []uuid.UUID
	counted := 0
	for _, r := range recipients {
		sagas, counted = append(sagas, r.Saga), counted+r.Messages
	}
	out := b.messagesOf(sagas...)
	if len(out) != counted {
		b.Errorf("%d messages, but the recipients' counts add up to %d", len(out), counted)
	}
	return out
}

// messagesOf returns the messages of sagas, in the order of their ids.
func (b *bench) messagesOf(sagas ...uuid.UUID) []journal.Message {
	b.Helper()
	out, err := b.Messages(b.ctx, sagas, 1000, 1<<30)
	b.must(err)
	slices.SortFunc(out, func(x, y journal.Message) int { return journal.CompareID(x.ID, y.ID) })
	return out
}

// drain receives the hints of earlier calls.
func (b *bench) drain() {
	for {
		select {
		case <-b.Hints():
		default:
			return
		}
	}
}

func (b *bench) hinted(what string) {
	b.Helper()
	select {
	case <-b.Hints():
	case <-time.After(patience):
		b.Errorf("no hint of %s", what)
	}
}

func newID() uuid.UUID { return uuid.Must(uuid.NewV7()) }

// epoch is the time of all records of the suite.
var epoch = time.UnixMilli(1_700_000_000_123).UTC()

// chain returns n sealed records from seq on.
func chain(saga uuid.UUID, prev []byte, seq int64, n int) []journal.Record {
	var out []journal.Record
	for i := range n {
		r := journal.Record{Seq: seq + int64(i), At: epoch, Kind: journal.Intent, Path: "step", Way: journal.Do, Attempt: 1,
			Node: "writer", Data: []byte(fmt.Sprintf(`{"i":%d}`, seq+int64(i)))}
		journal.Seal(saga, prev, &r)
		prev = r.Hash
		out = append(out, r)
	}
	return out
}

func start() *journal.Start {
	return &journal.Start{Definition: "trip", Version: 3, SHA256: sha("trip"), CreatedAt: epoch}
}

func row(status string) *journal.Row { return rowOf(status, 1) }

// rowOf returns the row of a journal with this number of records.
func rowOf(status string, seq int64) *journal.Row {
	return &journal.Row{Status: status, Seq: seq, UpdatedAt: epoch}
}

func ended() *journal.Row {
	r := row("succeeded")
	r.EndedAt = epoch
	return r
}

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// begin returns the append that starts a saga with one record.
func begin(saga uuid.UUID) journal.Append {
	return journal.Append{Saga: saga, Start: start(), Records: chain(saga, nil, 1, 1), Row: row("running")}
}

// started starts a saga that the bench's node owns, and returns it and the hash of its record.
func (b *bench) started() (uuid.UUID, []byte) {
	b.Helper()
	saga := newID()
	a := begin(saga)
	b.ok(a)
	return saga, a.Records[0].Hash
}

// parked creates a saga without an owner that is due at wake.
func (b *bench) parked(wake time.Time) uuid.UUID {
	b.Helper()
	saga := newID()
	a := begin(saga)
	a.Row.WakeAt, a.Release = wake, true
	b.ok(a)
	return saga
}
