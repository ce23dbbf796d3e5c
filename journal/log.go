package journal

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/gofrs/uuid/v5"
)

// Errors of a Log. Stores wrap them with the operation; callers use errors.Is.
var (
	// ErrFenced: the node's lease is gone, another node may own its sagas. The
	// caller drops everything it holds in memory and registers anew. Nothing of
	// the batch was written.
	ErrFenced = errors.New("node is fenced off: its lease was taken over")
	// ErrUnknown: it is not known whether the batch was written (a lost answer to
	// COMMIT, for one). The caller appends the very same batch again until the
	// answer is known: appending is idempotent.
	ErrUnknown = errors.New("commit outcome unknown")
	// ErrConflict, for one Append: another writer's record stands at that seq, the
	// records do not follow what is committed, or the saga is not the node's (any
	// more). Nothing of that Append was written. The caller forgets the saga.
	ErrConflict = errors.New("another record stands at this seq")
	// ErrStartKey, for one Append: the start's idempotency key belongs to another
	// saga, named in the result.
	ErrStartKey = errors.New("idempotency key belongs to another saga")
	// ErrUnique, for one Append: another live saga of the definition has the same
	// unique value; it is named in the result.
	ErrUnique = errors.New("a live saga has this unique value")
	// ErrNotNewest, for one Append: the start is of a definition's newest version, and that is
	// another by now, or the definition is archived.
	ErrNotNewest = errors.New("the definition has a newer version, or is archived")
	// ErrParentEnded, for one Append: the start's parent has ended, is not there, or has a Reason
	// and the start is not Final. None of it changes, so this saga never starts.
	ErrParentEnded = errors.New("the saga that starts this one has ended, or is being undone")
	// ErrNotFound: no such saga, definition, version or key.
	ErrNotFound = errors.New("not found")
	// ErrLive, at Delete: the saga has not ended.
	ErrLive = errors.New("the saga has not ended")
	// ErrParentLive, at Delete: the saga has ended, and its parent has not.
	ErrParentLive = errors.New("the saga that started this one has not ended")
	// ErrMismatch, at Publish: the newest version is not the expected one.
	ErrMismatch = errors.New("the newest version is not the expected one")
	// ErrInUse, at Register: another process has this database to itself.
	ErrInUse = errors.New("database is in use by another process")
	// ErrNotSynchronous, of Synchronous: what is acknowledged may be on one machine only.
	ErrNotSynchronous = errors.New("commits do not wait for a second machine")
)

// Log is the engine's side of a store: leases, appends, claims and mail.
//
// All times are the store's: a node never decides by its own clock who owns a
// saga. Every method may be called from several goroutines. An error that is
// none of the above means that nothing was written and that the call may be
// made again. ErrUnknown may come from any method that writes; each may be called
// again.
type Log interface {
	// Register announces a node, a process start, under a fresh id, for ttl. Where the
	// store knows that no other process can be alive (a file lock), it takes over
	// all sagas at once, as Renew does.
	//
	// dead are nodes that the caller knows to have ended. In the same transaction each of them is
	// taken over as Renew takes over a node whose lease has ended, although its lease may hold; an
	// append of it that is under way is waited for. A dead node that is not registered any longer
	// changes nothing: its sagas have been taken over already. A node that is named here and lives
	// is fenced off, but it may send until it notices: the caller has to be certain.
	Register(ctx context.Context, node string, ttl time.Duration, dead ...string) (Lease, error)

	// Renew extends the lease, or returns ErrFenced. It also takes over nodes whose lease has ended
	// by the store's clock: each one's row is deleted and its sagas made claimable after their
	// Respite, or quarantined, in one transaction that no append of that node overlaps. A node with
	// an append under way may be left for the next Renew. If only the taking over fails, the error
	// comes with the lease: the lease holds.
	Renew(ctx context.Context, node string, ttl time.Duration) (Lease, error)

	// Release ends a lease by choice, and makes the node's sagas claimable at once. It was no fault
	// of theirs: a claim without progress is not counted, it is as if it had not been. Releasing a
	// lease that is gone is not an error.
	Release(ctx context.Context, node string) error

	// Append writes a batch in one transaction that fails with ErrFenced if the node's row is gone.
	// Appends of a batch are of different sagas and stand or fall one by one: the result at i
	// belongs to batch[i]. A result's Err is nil, ErrConflict, ErrStartKey, ErrUnique, ErrNotNewest
	// or ErrParentEnded, in this order if several hold.
	//
	// A start with a Parent is written only if the parent's row is there, has no EndedAt and,
	// unless the start is Final, no Reason, in the same transaction: no append that ends the
	// parent, or gives its row a Reason, overlaps it. An earlier append of the same batch counts,
	// so a start after its parent's end is refused, and one before it is not. Whatever a parent
	// tells its children with its end therefore finds all of them. And if a parent looks for a
	// child after its row has a Reason, and does not find it, there never will be one.
	//
	// Fresh records, or a row, are progress: the saga's claims are 0 again. A saga given up without
	// a row keeps its claims. It is next claimable after its Rest, or it is quarantined: only a
	// message wakes it, its row's status is StatusStuck, and Halted.Entry is added to its inbox
	// entries, or takes the place of its like, whose Since stays. The next row replaces all of
	// that.
	//
	// Append is idempotent: records that stand there already with the same hash count as written,
	// and what came with them is not done a second time. Of records that stand in part the rest is
	// written, with all that came with it. Giving up, without records, a saga that is not the
	// node's any more is no error and does nothing. Nor does an append without records that
	// comes after fewer of them than the journal has (see Append.Overtaken): it comes late, after
	// what it was repeated for.
	Append(ctx context.Context, node string, batch []Append) ([]Result, error)

	// Claim makes the node the owner of up to limit sagas that nobody owns and whose WakeAt is due,
	// the longest due first, and returns them. Suspects come last, and at most one of them: none is
	// kept waiting for ever, and few are claimed together with the one that kills its node.
	// ErrFenced. After ErrUnknown the next Claim of the node returns the sagas that the lost one
	// may have taken.
	Claim(ctx context.Context, node string, limit int) ([]Claimed, error)

	// Records returns up to limit records of a saga with seq > after, in order.
	// ErrNotFound if there is no such saga.
	Records(ctx context.Context, saga uuid.UUID, after int64, limit int) ([]Record, error)

	// Begins returns up to limit of the first records of each of several sagas, in order; not of
	// one moment, as sagas go on. A saga that is not there, or has no records, is not in the map.
	// Nor are those that are left when the data of what was read is more than so many bytes: it
	// ends with the saga before. So the map may be empty although there are records.
	Begins(ctx context.Context, sagas []uuid.UUID, limit, bytes int) (map[uuid.UUID][]Record, error)

	// Post leaves a message for a saga, durably, wherever it is: owned by this or another node
	// (which finds it by Mailboxes) or by nobody (it becomes claimable at once). ErrNotFound if
	// there is no such saga. Posting the same id twice is the same as once, also when the message
	// was consumed in between.
	Send(ctx context.Context, m Message) error

	// Mailboxes returns up to limit of the sagas that the node owns and that messages wait for, in
	// the order of ids, those after the given one (Nil: from the first). Each page is of its own
	// moment.
	Recipients(ctx context.Context, node string, after uuid.UUID, limit int) ([]Recipient, error)

	// Mail returns the messages that wait for sagas, whoever owns them: those of one saga after the
	// other, in the order of the sagas' ids and then of the messages'. It stops at limit, and
	// before a message with which the data of all would be more than so many bytes; but the first
	// message is returned however large it is. Messages stay until an Append consumes them: a call
	// after that returns those that come next.
	Messages(ctx context.Context, sagas []uuid.UUID, limit, bytes int) ([]Message, error)

	// Synchronous returns nil if commits wait until a second machine has them, and
	// ErrNotSynchronous with what to set if they do not.
	Synchronous(ctx context.Context) error

	// Owned returns the ids of up to limit sagas that the node owns, in the order of ids,
	// those after the given one (Nil: from the first). Each page is of its own moment.
	Owned(ctx context.Context, node string, after uuid.UUID, limit int) ([]uuid.UUID, error)
}

// Lease is a node's right to write.
type Lease struct {
	Node string
	Now  time.Time     // the store's clock while it answered
	TTL  time.Duration // from Now on
	// Timeline counts the fail-overs of the database as of the registration; 0 where it is not
	// known, or there are none. After one that loses what was acknowledged, the node is fenced off,
	// and registers on a later timeline.
	Timeline int64
	// Rival says which other server takes writes as an earlier state of this database, and what to
	// do about it; nil if none is known. Nothing is written there by this store.
	Rival error
}

// Append is what one saga adds to the log in one transaction.
type Append struct {
	Saga    uuid.UUID
	Start   *Start      // on the saga's first append: its row is made
	Records []Record    // consecutive; the first one follows what is committed. May be empty
	Row     *Row        // when not nil, replaces the saga's row (but for what Start set)
	Release bool        // the node gives the saga up: Row.WakeAt says when it is next claimable; without a Row, after its Rest
	Applied []uuid.UUID // messages that these records have folded in, or that were turned down; deleted
	// Stranger comes with Release and without a Row: the node owns the saga but does not hold it.
	// The saga is next claimable after its Respite, as if its node had died, and not after its
	// Rest.
	Stranger bool
	// Seq comes with Stranger: the seq of the journal's last record when the node saw that it does
	// not hold the saga. If the journal has more, the append was repeated and comes late: the saga
	// is held again, and the append does nothing.
	Seq int64

	// The fields below come with records: an append without records that is repeated applies them
	// again. A task, and an event for a sink, that is there already stays as it is even then; one
	// that is gone by then is made anew. The saga of tasks and events is this one, whatever their
	// Saga says.
	Tasks    []Task      // work that can be claimed from then on
	Withdraw []uuid.UUID // of its tasks, these too, those that are not wanted any more: see TaskWithdrawn and TaskLease.Cancel. One that is gone is no error
	Events   []Event     // for the outbox
	// Post are messages to other sagas, as Log.Post leaves them; to one that is not there they are
	// dropped. They are posted behind all else of the batch: a saga that it starts is there.
	Messages []Message
}

// Of returns the seq of the record that an append without records comes after; 0: any.
func (a *Append) Of() int64 {
	switch {
	case len(a.Records) > 0 || a.Start != nil:
		return 0
	case a.Row != nil:
		return a.Row.Seq
	}
	return a.Seq
}

// Overtaken reports whether the append has no records and comes after fewer of them than the
// journal has, which ends at last: an earlier try of it went through, or it is not wanted any
// longer. Done now it would put the saga back, and give up one that its node runs.
func (a *Append) Overtaken(last int64) bool { return a.Of() > 0 && a.Of() < last }

// Size returns about how many bytes a store writes for the append: what can be large, and a flat
// rate for the rest.
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

// Due reports whether the append gives up a saga that somebody should take on at once.
func (a *Append) Due() bool {
	return a.Stranger || a.Release && a.Row != nil && a.Row.EndedAt.IsZero() && !a.Row.WakeAt.IsZero() && !a.Row.WakeAt.After(a.Row.UpdatedAt)
}

// Pause returns how long the saga is not claimed after an append that gives it up without a row.
func (a *Append) Pause() func(claims int) (rest time.Duration, ok bool) {
	if a.Stranger {
		return TakeoverDelay
	}
	return RetryDelay
}

// Wakes reports whether the append brings work to others than its node: tasks, or mail.
func (a *Append) Wakes() bool { return len(a.Tasks) > 0 || len(a.Messages) > 0 }

// TakesUnique reports whether the append starts a saga that has its unique value
// from then on: one that ends as it starts never has it.
func (a *Append) TakesUnique() bool {
	return a.Start != nil && a.Start.Unique != "" && (a.Row == nil || a.Row.EndedAt.IsZero())
}

// Start is what a saga's row is made of once and for all.
type Start struct {
	Definition string
	Version    int
	Newest     bool      // Version is to be the newest of a Definition that is not archived, when the row is made; else ErrNotNewest
	SHA256     string    // hex, of the definition
	Key        string    // the client's idempotency key, scoped by the caller; "" for none. Unique among all sagas
	Hash       string    // fingerprint of the start request, compared by the caller when Key is taken
	Unique     string    // the definition's unique value; "" for none. Unique among its live sagas
	Parent     uuid.UUID // the saga that starts this one; it is to be live when the row is made, else ErrParentEnded. Nil for none
	Final      bool      // a step of the parent's finally starts it: the parent may have a Reason. Not kept
	RetryOf    uuid.UUID
	ForkedFrom uuid.UUID
	CreatedAt  time.Time
}

// Row is the derived state of a saga: what lists show and what claims go by.
// It is written when the status changes, not at each step.
type Row struct {
	Status    string
	Reason    string // the code of why the saga will not reach its goal, "" for none. Once given, it stays
	Labels    map[string]string
	WakeAt    time.Time       // zero: only mail wakes it. Used while nobody owns it
	Summary   json.RawMessage // the rest of what a list shows: reason, cost, residual
	Text      string          // what Filter.Text is looked for in, as SearchText makes it. The writer bounds its length
	Inbox     []Entry         // what waits for a person, all of it; replaces what stood there
	Seq       int64           // the journal's length as of this row
	UpdatedAt time.Time
	EndedAt   time.Time // zero while live. The first one stands: a saga that has ended stays ended
	DeleteAt  time.Time // of one that has ended: when DeleteExpired may delete it; zero: never
}

// Result answers one Append.
type Result struct {
	Err  error
	Saga uuid.UUID // on ErrStartKey and ErrUnique: who has it
}

// Claimed is a saga that the node owns from now on.
type Claimed struct {
	Saga       uuid.UUID
	Definition string
	Version    int
	Claims     int       // since it last made progress, this one included
	Due        time.Time // since when it could have been claimed
	Messages   int       // that waited for it at the claim, see Log.Mail
}

// Recipient says how many messages wait for a saga.
type Recipient struct {
	Saga     uuid.UUID
	Messages int
}

// Message is a message to a saga: an operator's wish, a signal, a result.
type Message struct {
	ID   uuid.UUID // UUIDv7: ids order the mail
	Saga uuid.UUID
	Kind string
	Data json.RawMessage
}
