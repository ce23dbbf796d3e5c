/*
Package journal defines the append-only record of every saga, and the ports through which the rest
of the program reads and writes it.

# Journals and records

A saga is its journal: a sequence of [Record] values with the seqs 1, 2, 3 … without gaps. The first
record is `started`; there is at most one `finished`, and it is the last record. A record never
changes once it is committed. Each record has a hash that covers the previous record's hash ([Seal]),
so [Verify] detects a changed, missing or moved record, unless the later ones were sealed again.

A record may refer to content by its hash; the content is a [Blob] of the saga, which can be erased
without a change of the journal.

Everything else that a store has about a saga is derived from its journal: its [Row], its inbox
entries, its tasks and events. The store writes derived data in the transaction of the records that
it is derived from. docs/format.md describes the records and the tables.

# Ports

Each port serves one kind of caller. Callers depend on the ports that they use, and on no store.

  - [Log]: leases, claims, appends and messages. The engine writes through it.
  - [Blobs]: content of sagas that their records refer to by its hash.
  - [Index]: rows, lists, the inbox, counts and deletion. The API reads through it.
  - [Retention]: expired sagas, for the service that archives them before it deletes them.
  - [Catalog]: published definitions.
  - [Requests] and [Keys]: responses kept for idempotency keys, and API keys.
  - [Tasks]: work for outside workers.
  - [Outbox]: events for sinks outside, until they are delivered.
  - [Schedules]: when each cron trigger last fired.
  - [Stalls]: sagas and steps that make no progress.

[Store] has all of them. The packages memory, sqlite and postgres implement it.

# Leases and fencing

A node is one process, under an id that is never used again. It calls [Log].Register once, then
[Log].Renew well before its [Lease] ends. A saga has at most one owner. A node becomes the owner by
starting the saga or by [Log].Claim, and stays the owner until it releases the saga or loses its
lease.

	lease, err := store.Register(ctx, node, ttl)
	claimed, err := store.Claim(ctx, node, 100)
	for _, c := range claimed {
		records, err := store.Records(ctx, c.Saga, 0, 1000)
		// Replay the records, decide, append.
	}

All times are the store's: a node's own clock never decides who owns a saga. When a lease has ended,
the next Renew of any other node deletes the node's row and makes its sagas claimable. Append, Claim
and Renew of the old node then fail with [ErrFenced]. No append of a node overlaps its takeover, so a
fenced node cannot write. Fencing does not stop requests to remote services: before each request a
node must check that its lease still holds.

# Appending

An [Append] has everything that one saga changes in one transaction: records, its row, blobs, tasks, events,
messages to other sagas, and the ids of the messages that it applied. [Log].Append writes a batch of
them, each for a different saga. One can fail while the others succeed.

	batch := []journal.Append{{Saga: saga, Records: records, Row: row}}
	results, err := store.Append(ctx, node, batch)

A node sends a request to a remote service only after the append with its intent has succeeded.

Append is idempotent: a record with the same hash at the same seq counts as written. A caller that
does not know the result therefore repeats the identical batch. It does not read back what was
written.

# Errors

Stores wrap the errors below; compare with [errors.Is]. An error of Append concerns the whole batch:

  - [ErrFenced]: the node has lost its lease, and this call wrote nothing. Drop all sagas from memory and
    register under a fresh id.
  - [ErrUnknown]: the batch may have been written. Repeat the identical batch until the result is
    known. Until then, a client's start has neither succeeded nor failed.
  - any other error: this call wrote nothing. Repeat the batch. Its starts need not be repeated: the
    caller may refuse them as unavailable, unless an earlier call with this batch returned ErrUnknown.

An error in a [Result] concerns one append, of which nothing was written. Repeating it does not help:

  - [ErrConflict]: the saga is not the node's, or the records do not continue its journal. Drop the
    saga from memory, and append a Release without records in case the node is still its owner.
  - [ErrStartKey]: the start is a repetition. Compare Start.Hash of the saga in the result: if it is
    equal, answer with that saga, otherwise refuse.
  - [ErrUnique]: refuse the start. The result has the id of the live saga: name it in the refusal.
  - [ErrNotNewest]: read the newest definition, validate the start again, and repeat it.
  - [ErrParentEnded]: refuse the start. It will never succeed.

After ErrUnknown from any other method, call the method again.

# Messages

Sagas do not share memory or call each other. A command, a signal, a worker's result or the end of a
child is a [Message] to the saga. [Log].Send stores it; any node may own the saga. The owner finds the
sagas that have messages with [Log].Recipients and reads them with [Log].Messages. It applies them
and appends the resulting records; Append.Applied lists their ids. A message is therefore applied
exactly once, however often it is sent. A saga without an owner becomes claimable when a message
arrives. [Store].Hints wakes a process early; a hint may be lost, so a node also polls.

# Sagas that make no progress

The store counts the claims of a saga since a record or the row of the saga was last written. A node
that cannot continue a saga releases it without writing its row, and the saga is claimable again after
[RetryDelay]. If its
node has died, it is claimable after [TakeoverDelay]. From [SuspectAfter] claims on, at most one such
saga is part of a claim. At [QuarantineAfter] claims it is quarantined: its status is [StatusStuck],
[Halted].Entry is its inbox entry, and only a message makes it claimable, for one claim.

# Writing a store

Implement [Store]. The package memory is the reference: each of its methods shows in a few
lines what must happen. Then run the conformance suite on the new store:

	func TestStore(t *testing.T) {
		journaltest.Run(t, journaltest.Options{Open: func(t *testing.T) journaltest.Subject {
			return journaltest.Subject{Store: open(t)}
		}})
	}

The differential test in journaltest applies random operations to all stores and compares the
results; add the new store to it. Three rules are easy to break:

  - Data is returned byte for byte as it was written, and times in whole milliseconds.
  - Append must stay idempotent under retries, also when a later batch was written in between.
  - If the response to a commit is lost, the store returns ErrUnknown. It never guesses.
*/
package journal
