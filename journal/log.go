package journal

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Errors of a store. Stores wrap them with the operation; callers use errors.Is. The package
// comment says what a caller does with each of them.
var (
	// ErrFenced: the node has no lease, so another node may own its sagas. The call wrote nothing.
	ErrFenced = errors.New("node is fenced off: its lease was taken over")
	// ErrUnknown: it is not known whether the call wrote anything, for example because the response
	// to COMMIT was lost.
	ErrUnknown = errors.New("commit outcome unknown")
	// ErrConflict, for one Append: the journal has another record at one of the seqs, or the
	// records do not continue it, or the node does not own the saga. Nothing of that Append was
	// written.
	ErrConflict = errors.New("the journal has another record at this seq")
	// ErrStartKey, for one Append: another saga was started with the start's idempotency key. The
	// result names it.
	ErrStartKey = errors.New("idempotency key belongs to another saga")
	// ErrUnique, for one Append: another live saga of the definition has the same unique value. The
	// result names it.
	ErrUnique = errors.New("a live saga has this unique value")
	// ErrNotNewest, for one Append: the start asks for the newest version of its definition, and
	// its version is not the newest, or the definition is archived or not published.
	ErrNotNewest = errors.New("the definition has a newer version, or is archived")
	// ErrParentEnded, for one Append: the start's parent does not exist, or has ended, or has a
	// Reason although the start is not Final. None of these ever changes, so this saga never
	// starts.
	ErrParentEnded = errors.New("the parent saga has ended or is being undone")
	// ErrNotFound: there is no such saga, definition, version or key.
	ErrNotFound = errors.New("not found")
	// ErrLive, of Delete and EraseBlobs: the saga has not ended.
	ErrLive = errors.New("the saga has not ended")
	// ErrEnded, of PutBlobs: the saga has ended.
	ErrEnded = errors.New("the saga has ended")
	// ErrParentLive, of Delete: the saga has ended, and its parent has not.
	ErrParentLive = errors.New("the saga's parent has not ended")
	// ErrMismatch, of Publish: the newest version is not the expected one.
	ErrMismatch = errors.New("the newest version is not the expected one")
	// ErrInUse, of Register: another process has locked this database.
	ErrInUse = errors.New("database is in use by another process")
	// ErrNotSynchronous, of Synchronous: an acknowledged commit may be on one machine only.
	ErrNotSynchronous = errors.New("commits do not wait for a second machine")
)

// Log is the engine's port: leases, appends, claims and messages.
//
// All times are the store's: a node's own clock never decides who owns a saga. All methods may be
// called concurrently. Every method that writes may return ErrUnknown, and may then be called
// again. Any error that is not listed at a method means that the call wrote nothing and may be
// repeated.
type Log interface {
	Durable

	// Register gives a node a lease of ttl. The node is one process, and its id is never used
	// again: registering it twice is an error. Errors: ErrInUse.
	//
	// A store that knows that no other process is alive, because it has locked a file, takes over
	// all other nodes at once.
	//
	// dead names nodes that the caller knows to have ended. In the same transaction each of them is
	// taken over as if its lease had ended; appends of it that are in flight are waited for. A name
	// that is not registered is ignored, because its sagas have been taken over already. If a named
	// node is alive it is fenced, but may send requests until it notices: the caller must be
	// certain.
	Register(ctx context.Context, node string, ttl time.Duration, dead ...string) (Lease, error)

	// Renew extends the lease of a node to ttl from now. Errors: ErrFenced. A lease that has ended
	// can be renewed until another node has taken its node over.
	//
	// Renew also takes over the nodes whose lease has ended. In one transaction, which no append of
	// such a node overlaps, it deletes the node's row and makes each of its sagas claimable after
	// its TakeoverDelay, or quarantines it. A node that has an append in flight may be left for a
	// later Renew. If only the takeover fails, Renew returns the error with the new lease.
	Renew(ctx context.Context, node string, ttl time.Duration) (Lease, error)

	// Release ends a node's lease and makes its sagas claimable at once. Their last claim no longer
	// counts, because the saga did not cause the release. Releasing a node that is not registered
	// does nothing.
	Release(ctx context.Context, node string) error

	// Append writes a batch in one transaction. Errors: ErrFenced, ErrUnknown. The appends of a
	// batch are for different sagas, and each is written completely or not at all. The result at i
	// belongs to batch[i]; its Err is nil, ErrConflict, ErrStartKey, ErrUnique, ErrNotNewest or
	// ErrParentEnded, the first of these that applies.
	//
	// Idempotency: records that the journal has already, with the same hash, count as written. If
	// all of them are there, the append does nothing and succeeds. If only the first are there, the
	// rest is written with all else that the append contains. An append without records that
	// releases a saga which the node does not own does nothing and succeeds. So does one that comes
	// too late, see Append.Stale.
	//
	// Children: a start with a Parent is written only if the parent's row exists, has no EndedAt
	// and, unless the start is Final, no Reason. No append that ends the parent, or gives it a
	// Reason, overlaps that check. Appends of a batch are checked in order, each after the earlier
	// ones. Therefore the messages that a parent sends to its children with its end reach all of
	// them; and if a parent with a Reason does not find a child, that child will never start.
	//
	// Progress: new records, or a row, reset the saga's claims to 0. A saga that is released
	// without a row keeps its claims. It is claimable after its ReleaseDelay, or is quarantined:
	// its WakeAt is zero, so that only a message wakes it, its status is StatusStuck, and
	// Halted.Entry is added to its inbox entries. If they have an entry with that id, it keeps its
	// Since. The saga's next row replaces all of that.
	Append(ctx context.Context, node string, batch []Append) ([]Result, error)

	// Claim makes the node the owner of up to limit sagas that have no owner and whose WakeAt has
	// passed, and returns them. Errors: ErrFenced, ErrUnknown. The saga that has been due for
	// longest comes first. Sagas with SuspectAfter claims or more come last, and at most one of
	// them: so each is claimed eventually, and few others are claimed together with a saga that
	// kills its node. After ErrUnknown, the node's next Claim also returns the sagas that the
	// unknown one took.
	Claim(ctx context.Context, node string, limit int) ([]Claimed, error)

	// Records returns up to limit records of a saga with seq > after, in order. Errors:
	// ErrNotFound.
	Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]Record, error)

	// Begins returns up to limit of the first records of each of several sagas, in order. The sagas
	// may be read at different moments. The map lacks sagas that do not exist or have no records.
	// It ends before the first saga with which the data of all records would be more than bytes, so
	// it may be empty although there are records.
	Begins(ctx context.Context, sagas []uuid.UUID, limit, bytes int) (map[uuid.UUID][]Record, error)

	// Send stores a message for a saga. Errors: ErrNotFound, ErrUnknown. It does not matter whether
	// this node, another node or no node owns the saga: an owner finds the message by Recipients; a
	// saga without one becomes claimable at once. Sending a message with the same id again does
	// nothing, also after the message was applied.
	Send(ctx context.Context, m Message) error

	// Recipients returns up to limit sagas that the node owns and that have messages, in the order
	// of their ids, after the given id (Nil: from the first). Pages may be read at different
	// moments.
	Recipients(ctx context.Context, node string, after uuid.UUID, limit int) ([]Recipient, error)

	// Messages returns the messages of sagas that are not applied yet, whichever nodes own the
	// sagas, in the order of the sagas' ids and then of the messages'. It returns at most limit
	// messages, and stops before a message with which the data of all would be more than bytes; but
	// it returns the first message however large it is. A message stays until an Append lists it as
	// Applied.
	Messages(ctx context.Context, sagas []uuid.UUID, limit, bytes int) ([]Message, error)

	// Owned returns the ids of up to limit sagas that the node owns, in the order of ids, after the
	// given id (Nil: from the first). Pages may be read at different moments.
	Owned(ctx context.Context, node string, after uuid.UUID, limit int) ([]uuid.UUID, error)
}

// Durable is the part of Log about a second machine that has what was committed.
type Durable interface {
	// Synchronous returns nil if commits wait until a second machine has them. Otherwise it returns
	// ErrNotSynchronous, wrapped with the setting that is missing.
	Synchronous(ctx context.Context) error

	// Confirm makes sure of what was read before: when it returns nil, the commits that this
	// process has seen are as durable as an acknowledged Append. A commit that waits in vain for a
	// second machine can be read, but may be lost with the first. Errors: ErrFenced, ErrUnknown.
	Confirm(ctx context.Context, node string) error
}

// Local is the port of commands that run sagas in their own process.
type Local interface {
	// ClaimLocal is Log.Claim for sagas with Start.Local.
	ClaimLocal(ctx context.Context, node string, limit int) ([]Claimed, error)
}

// Lease is a node's right to write.
type Lease struct {
	Node string
	Now  time.Time     // the store's clock when it answered
	TTL  time.Duration // the lease ends at Now + TTL
	// Timeline counts the failovers of the database up to the registration; 0 if it is not known,
	// or if the store has none. If a failover loses acknowledged commits, the node is fenced and
	// must register again, on a later timeline.
	Timeline int64
	// Rival is not nil if another server accepts writes as an earlier state of this database. It
	// names the server and says what to do. This store does not write to that server.
	Rival error
}

// Append is the change that one saga makes in one transaction.
type Append struct {
	Saga    uuid.UUID
	Start   *Start   // only in the saga's first append: creates its row
	Records []Record // consecutive; they continue the journal. May be empty
	// Prev is the hash of the record before Records, nil at the start of the journal. A store that
	// has it need not store the hash of each of the Records. It is optional, and not compared with
	// the journal.
	Prev  []byte
	Alike *Alike // records that these are like, for a store that compresses them; nil: none
	Row   *Row   // not nil: replaces the saga's row, except for the fields of Start
	// Release means that the node no longer owns the saga. It is claimable at Row.WakeAt or,
	// without a Row, after its ReleaseDelay.
	Release bool
	Applied []uuid.UUID // messages that these records apply or reject; their data is deleted
	// Unheld is set only with Release and without a Row. The node owns the saga but does not have
	// it in memory. The saga is claimable after its TakeoverDelay, as if its node had died, instead
	// of its RetryDelay.
	Unheld bool
	// Seq is set only with Unheld: the last seq of the journal when the node found that it does
	// not have the saga in memory. If the journal has more records, the append is late: the node
	// has the saga in memory again, and the append does nothing.
	Seq int64

	// The fields below are set only with records: a repeated append without records would apply
	// them again. A task, an event for a sink, or a blob that exists already stays as it is; one
	// that was deleted is created again. Tasks and events belong to this saga, whatever their Saga
	// field says.
	Blobs []Blob // content of this saga, to which its records refer
	Tasks []Task // can be claimed after this append
	// Withdraw are tasks of this saga, possibly of this append, that it no longer needs: see
	// TaskWithdrawn and TaskLease.Cancel. Unknown ids are ignored.
	Withdraw []uuid.UUID
	Events   []Event // for the outbox
	// Messages are sent to other sagas as Log.Send does, after everything else of the batch: a saga
	// that the batch starts receives its messages. Messages to a saga that does not exist are
	// dropped.
	Messages []Message
}

// PrevOf returns the hash of the record before rest, which is the end of Records; nil if it is not
// known, or if there is none.
func (a *Append) PrevOf(rest []Record) []byte {
	if before := len(a.Records) - len(rest); before > 0 {
		return a.Records[before-1].Hash
	}
	return a.Prev
}

// Alike describes the records of many sagas, so that a store can compress them together. It has
// nothing of any of these sagas, because it stays when they are deleted.
type Alike struct {
	Name string // of what the sagas have in common: two with one name are equal, in this process
	// Records returns records that are like those of each of these sagas. A store keeps what it
	// needs of them, so it calls this rarely.
	Records func() []Record `json:"-"`
}

// AfterSeq returns the last seq of the journal that an append without records was made for, or 0 if
// it does not matter.
func (a *Append) AfterSeq() int64 {
	switch {
	case len(a.Records) > 0 || a.Start != nil:
		return 0
	case a.Row != nil:
		return a.Row.Seq
	}
	return a.Seq
}

// Stale reports whether the append has no records and was made for a shorter journal than the one
// that now ends at seq last. Such an append is a late repetition: it would restore an old row, or
// release a saga that its node runs.
func (a *Append) Stale(last int64) bool { return a.AfterSeq() > 0 && a.AfterSeq() < last }

// Size estimates how many bytes a store writes for the append: the data, and a flat rate for the
// rest of each row.
func (a *Append) Size() int {
	n := 512
	if a.Row != nil {
		n += 512 + len(a.Row.Summary)
		for i := range a.Row.Inbox {
			n += 256 + len(a.Row.Inbox[i].Data)
		}
	}
	for i := range a.Records {
		n += 256 + len(a.Records[i].Data)
	}
	for i := range a.Blobs {
		n += 128 + len(a.Blobs[i].Data)
	}
	for i := range a.Tasks {
		n += 256 + len(a.Tasks[i].Input)
	}
	for i := range a.Events {
		n += 128 + len(a.Events[i].Data)
	}
	for i := range a.Messages {
		n += 128 + len(a.Messages[i].Data)
	}
	return n
}

// ClaimableNow reports whether the append releases a saga that any node may claim at once.
func (a *Append) ClaimableNow() bool {
	return a.Unheld || a.Release && a.Row != nil && a.Row.EndedAt.IsZero() && !a.Row.WakeAt.IsZero() && !a.Row.WakeAt.After(a.Row.UpdatedAt)
}

// ReleaseDelay returns the function that says how long the saga is not claimable after an append
// that releases it without a row.
func (a *Append) ReleaseDelay() func(claims int) (delay time.Duration, ok bool) {
	if a.Unheld {
		return TakeoverDelay
	}
	return RetryDelay
}

// HasOthersWork reports whether the append has tasks or messages, which others than its node wait
// for.
func (a *Append) HasOthersWork() bool { return len(a.Tasks) > 0 || len(a.Messages) > 0 }

// TakesUnique reports whether the append starts a saga that occupies its unique value. A saga that
// ends in its first append never does.
func (a *Append) TakesUnique() bool {
	return a.Start != nil && a.Start.Unique != "" && (a.Row == nil || a.Row.EndedAt.IsZero())
}

// Start is the part of a saga's row that never changes.
type Start struct {
	Definition string
	Version    int
	// Newest makes the append fail with ErrNotNewest unless Version is the newest of the Definition
	// and the definition is not archived. Not stored.
	Newest bool
	SHA256 string // hex, of the definition
	Key    string // the client's idempotency key, scoped by the caller; "" for none. Unique among all sagas
	Hash   string // fingerprint of the start request; the caller compares it when Key is taken
	Unique string // the definition's unique value; "" for none. Unique among its live sagas
	Opener string // who has opened it, for Index.Opened; "" for none
	// Local says that a command started the saga and runs it in its own process. Such a process has
	// not the configuration of a server, so it calls ClaimLocal and leaves other sagas to servers.
	Local  bool
	Parent uuid.UUID // the saga that starts this one, which must be live, else ErrParentEnded. Nil for none
	// Final means that a step of the parent's `finally` starts this saga, so the parent may have a
	// Reason. Not stored.
	Final      bool
	RetryOf    uuid.UUID
	ForkedFrom uuid.UUID
	CreatedAt  time.Time
}

// UndoKeyPrefix begins the Key of a saga that undoes another one; that one's id follows. So no saga
// is undone twice. No caller's name, as keys begin with it, has a slash.
const UndoKeyPrefix = "/undo:"

// UndoKey returns the Key of the saga that undoes another one.
func UndoKey(of uuid.UUID) string { return UndoKeyPrefix + of.String() }

// RetryKeyPrefix begins the Key of a saga that goes on from a step of another one, as UndoKeyPrefix
// that of one that undoes it. So no saga's effects are taken over twice.
const RetryKeyPrefix = "/retry:"

// RetryKey returns the Key of the saga that goes on from a step of another one.
func RetryKey(of uuid.UUID) string { return RetryKeyPrefix + of.String() }

// EventKeyPrefix and ChildKeyPrefix begin the Keys of sagas that events start, and of child sagas.
// A caller may have such a name: package api puts a slash before it, so that its keys are others.
const (
	EventKeyPrefix = "event:"
	ChildKeyPrefix = "run:"
)

// UndoOf returns the saga that this one undoes; Nil: none.
func (s Start) UndoOf() uuid.UUID { return s.keyOf(UndoKeyPrefix) }

// GoesOnFrom returns the saga from a step of which this one goes on; Nil: none.
func (s Start) GoesOnFrom() uuid.UUID { return s.keyOf(RetryKeyPrefix) }

func (s Start) keyOf(prefix string) uuid.UUID {
	text, ok := strings.CutPrefix(s.Key, prefix)
	if !ok {
		return uuid.Nil
	}
	return uuid.FromStringOrNil(text)
}

// Row is the derived state of a saga, which lists and claims read. It is written when the status
// changes, not at each step.
type Row struct {
	Status    string
	Reason    string // the code that says why the saga will not reach its goal; "" for none. Once set, it stays
	Labels    map[string]string
	WakeAt    time.Time       // when a saga without an owner can be claimed; zero: only a message wakes it
	Summary   json.RawMessage // the other fields that lists show: reason, cost, residual
	Text      string          // the text that Filter.Text searches, made by SearchText. The writer limits its length
	Inbox     []Entry         // all items of the saga that need a person; replaces the earlier ones
	Seq       int64           // the last seq of the journal that the row is derived from
	UpdatedAt time.Time
	EndedAt   time.Time // zero while the saga is live. The first value stays: an ended saga stays ended
	DeleteAt  time.Time // of an ended saga: when DeleteExpired may delete it; zero: never
}

// Result is the result of one Append.
type Result struct {
	Err  error
	Saga uuid.UUID // with ErrStartKey and ErrUnique: the saga that has the key or the value
}

// Claimed is a saga that the node owns from now on.
type Claimed struct {
	Saga       uuid.UUID
	Definition string
	Version    int
	Claims     int       // claims since it last made progress, including this one
	Due        time.Time // the time since which it could have been claimed
	Messages   int       // messages that it had at the claim, see Log.Messages
}

// Recipient is a saga that has messages.
type Recipient struct {
	Saga     uuid.UUID
	Messages int
}

// Message is a message to a saga: a command, a signal, a worker's result, the end of a child.
type Message struct {
	ID   uuid.UUID // UUIDv7; messages are applied in the order of their ids
	Saga uuid.UUID
	Kind string
	Data json.RawMessage
}
