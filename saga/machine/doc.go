/*
Package machine decides what a saga does: which record comes next, which request may be sent, what an
answer means, and what is undone after a failure. It has no clock, no random numbers and no IO. Times
come from records and from the caller, and so do random numbers. Package engine does the IO. Package
saga has the types that a machine works on.

# Definition, journal, machine

A [saga.Definition] is a compiled YAML document: steps, their retry policies, their compensations. It is
immutable. Package dsl compiles it, package expr evaluates its ${…} expressions, and the packages
below kinds implement the kinds of steps (http, task, switch, …).

A journal is the list of everything that has happened to one saga: [journal.Record] values with
consecutive numbers. Everything else about the saga, such as its status, its inbox entries and its
costs, is derived from it.

A [Machine] is the state that a journal describes. [New] returns the machine of an empty journal,
and [Machine.Apply] applies the journal's next record to it. [Replay] does both. Recovery after a crash is a
replay: there is no other way to restore a saga, so there is no second code path that could be
wrong.

# Driving a machine

A machine decides, and its caller acts. [Machine.Decide] returns what to do next, as a list of
[Decision] values. It does not change the machine, and it gives the same answer to the same records.

  - A [Dispatch] is a record and a request: append the record, an intent, and commit it; then send
    the request, once.
  - A [Write] is a record to append. Nothing is sent.
  - A [WakeAt] is a time, and the record to append when it has come. If it has come already, append
    it before anything else: it may say that a request which is decided, too, must not leave yet.
  - An [Escalate] is an inbox entry: a person has to act, for example to resolve a doubt.

Records in decisions are drafts. [Machine.Append] gives a [Draft] its number, its time and its hash,
and applies it. The caller appends the record to the store, and calls Decide again. If the caller
knows the time only to a span, it appends records with the earliest time, and tells the machine the
latest with [Machine.Clock], so that no wait is too short.

Two methods turn events from outside into records. Both only return a draft; the caller appends
it, as above.

  - [Machine.RecordOutcome] turns the answer to a request into an outcome. The outcome also says what
    follows: another attempt and when, a status check, the inbox, or the end of the step. A replay
    therefore needs no retry policy and no random numbers.
  - [Machine.Validate] turns a [saga.Command] of a person, such as cancel or approve, into its record. If
    the command does not fit the saga's current state it returns a [Refusal], and [Machine.Reject]
    returns the record that says so. The record keeps the id of the command's message, and
    [Machine.Applied] finds it, so that a message that is delivered twice is applied once.

In its shortest form, a caller is a loop. Its function commit appends a draft to the machine and the
record to the store:

	for more := true; more; {
		more = false
		for _, decision := range m.Decide() {
			switch d := decision.(type) {
			case machine.Write:
				commit(d.Record, d.Events)
				more = true
			case machine.Dispatch:
				commit(d.Intent)       // the intent first …
				answer := send(d.Send) // … then the request
				outcome, err := m.RecordOutcome(d.Send.Path, d.Send.Way, d.Send.Attempt, answer, time.Now(), rand.Uint64())
				if err == nil { // otherwise the attempt is no longer in flight
					commit(outcome)
				}
				more = true
			case machine.WakeAt:
				timers.Set(d.At, d.Woke)
			case machine.Escalate:
				inbox.Show(d.Entry)
			}
		}
	}

When the loop ends, the saga has finished, or it waits for a timer, an answer or a command.
The package's example is a complete program of this form. The engine does not wait for an answer
before it decides again, so several attempts may be in flight, one in each parallel branch.

# Steps and tracks

A step has up to three kinds of calls: its forward call, the status check of `in_doubt: verify`, and
its compensation. Each of them is a track with a state of its own. The table transitions, in track.go, is the
complete life of a track: a row is a state, a column is an event, and Apply refuses a record whose
event has no entry (see [ErrImpossible]). Some of its rows:

	ready                intent → in_flight, sleep → sleeping, enter → entered, skip → skipped, …
	in_flight            done, fail, in_doubt, retry → backoff, verify → checking, block → blocked, …
	backoff              woke → ready
	checking             the status check runs; done, fail, retry → backoff, …
	awaiting_resolution  the inbox: again → ready, resolve → done, give_up → failed, skip
	done, failed, doubted, skipped: the step has ended

A new state or event is added to this table first.

Kinds own the [saga.Body] of a step. The machine knows no kinds, only the shapes of their bodies: [saga.Value]
computes, [saga.Wait] waits for a time, [saga.Await] waits for a message, [saga.Call] sends a request, [saga.Announce]
publishes an event, and [saga.Block] contains steps. Rendering a request and judging its answer are part of
the body, and pure.

# Intents before requests

No request is sent before its intent is durable. The intent contains the request as it will be sent
(secrets as references), its idempotency key and the reserved cost. A process that reads a journal
whose last record for a track is an intent therefore knows that the request may have been sent, and
exactly which one. [Machine.InFlight] lists these attempts; recovery gives each of them
[saga.InterruptedAnswer].

The key is derived from the saga, the step and the step's generation. Every attempt of a generation
has the same key. The generation rises when a person asks for a retry with a new key, when a step
sends another request instead, such as one to another model, and when a step is read or run again. A
definition may let reads that cost nothing be sent earlier: see [saga.Checkpoint].

# Doubt

An answer has one of these classes: it succeeded; it was refused and certainly had no effect; it
failed without effect and may be retried (transient); the credentials were rejected (held); or it is
in doubt, because nobody knows whether the request took effect. A timeout, a lost connection and a
crash are doubts, unless the request only reads.

Doubt is sticky. If an earlier attempt is in doubt, a later refusal does not resolve it, because the
earlier request may still have taken effect. Only success, a conclusive status check or a person
resolves it. The step's policy ([saga.InDoubt]) says what to do until then: send the same request with the
same key again, as long as the remote service remembers the key; ask the remote service with a status
check; ask a person; or end the step in doubt. The cost of an attempt in doubt stays reserved until
the doubt is resolved.

A step may be the pivot: after it has succeeded, the saga is not undone. A later step that fails
waits for a person instead.

# Fresh answers

An answer that was read long ago may no longer be true. Before a request that depends on it leaves, a step with fresh_for is
read again: its track goes back from done to ready. The comment in fresh.go explains what follows if the answer has changed.

# Undoing

A saga fails because a step failed, its timeout passed, its budget is exhausted, or a person cancelled
it. It then waits until no attempt is in flight, and until every doubt is resolved that a compensation
depends on. The record compensating then fixes the plan: the paths of the steps to undo, in the
reverse order of their first records, with the exceptions that definitions declare ([saga.Order]). Steps
that had or may have had an effect and are not in the plan are listed as residual, with the reason.

Compensations run one after another, in the order of the plan. A compensation is retried until it is
acknowledged; a refused one waits for a person. The steps of finally run last. The record finished ends
the journal: succeeded, compensated, or failed if effects remain.

# Child sagas

A saga that another saga has started does not end when it has reached its goal. It first waits for
its parent, because it may still have to be undone. The comment in child.go explains the protocol.
*/
package machine
