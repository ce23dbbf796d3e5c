/*
Package engine runs sagas: it claims them from the store, sends the requests that their machines
decide on, and commits the outcomes.

The logic is [Lane], an event handler without goroutines, clocks or IO. [Engine] is the shell around
it: goroutines that perform requests and commits, the node's lease, and the polls of the store. The
simulator (package sim) drives the same lanes from one goroutine, with simulated time and faults.

# Lanes

An engine has one or more lanes. Each saga belongs to the lane that its id selects, and only that
lane changes it, so a lane needs no locks. A lane keeps the [machine.Machine] of each of its sagas in
memory. [Lane.Handle] takes one [Event] and the time, and returns the [Effect] values that the shell
must carry out:

	events in                                effects out
	StartSaga, Loaded, Received              Commit, Perform
	Answered, Waits, Committed               Replied, Advanced, Acquired, Dropped
	Leased, LeaseLost, Tick, Watch, Drain    Reload, Fenced, Freed
	Owned, Unheld                            FoundUnheld, Stalled, Delayed

The same events at the same times have the same effects, except for the jitter that
LaneConfig.Random provides.

A lane has at most one commit in flight. The records that its sagas write meanwhile form the next
batch. This is group commit without a timer: the slower the store, the larger the batch. The machines
in memory run before the journal, but nothing leaves the process before the records that it depends
on are durable: no request, no reply to a caller, no call of an observer. The only exceptions are
reads without cost in a definition whose checkpoint allows it: such a read may be sent early.

# The life of a saga on a node

A new saga arrives as StartSaga. The lane writes its started record and its first intent as one
[journal.Append], and emits a Commit. After Committed it emits Replied for the caller, Advanced for
observers, and Perform for the request.

The shell sends the request and returns the response as Answered. The lane records the outcome and
the next step's intent in one append, commits them, and so on: N steps in a row take N + 1 commits.

A saga that waits longer than LaneConfig.ParkAfter is parked: its append releases its row, with the
time at which it is due, and the lane drops it after the commit. Any node can claim it when it is
due, or when a message for it arrives.

A claimed saga arrives as Loaded, with its whole journal. The lane replays it. An attempt that has an
intent and no outcome was in flight on an earlier node: the lane records it as interrupted, and the
definition says how to resolve the doubt. Tasks and child sagas continue without their node, so the
lane keeps waiting for them. A crash needs no other recovery than this.

Commands of people, results of tasks, and what parent and child sagas send each other are messages in
the store. They arrive as Received, or with Loaded. The append that applies a message also deletes it.

When a saga ends, its last append releases its row. The lane emits Advanced with Final set, and then
Dropped.

If a saga cannot be read, its logic panics, or the store does not take its append for minutes in
which it takes others, the lane gives the saga up: it releases the row without writing a record, so
that another node, or a later version of the program, can continue the saga. The other sagas of the
lane are not affected.

# Duties of a driver

A driver is the code that calls Handle: Engine, or the simulator.

Events: Handle is called by one goroutine at a time, and all events of a saga go to the same lane.
The times of a call are the store's clock as [Lease.Now] and [Lease.Latest] compute it. The first is
never later than the store's clock, so no timer fires early; the second is never earlier, so no wait
is too short.

Commit: the driver appends the batch as node Commit.Node, after Commit.After has passed, and returns
exactly one Committed with the same number. If it cannot know whether the batch was written, the error
wraps [journal.ErrUnknown], and the lane emits the same appends again, because appending is
idempotent. After [journal.ErrFenced] the lane drops its sagas and emits Fenced. The driver then
registers a new node. After any other error the lane makes the batch smaller, until an append fails
by itself. It refuses a start that surely was not written. Any other append is deferred: the lane
commits the other sagas, and tries this append again now and then (Commit.Deferred).

Perform: the driver sends the request at most once, and returns one Answered, whatever happened.
Immediately before it sends, the node's lease must be valid, its id must be Perform.Node, and the
[Permit], which the lane revokes when it gives up the saga, must be valid. If the id has changed or
the permit was revoked, the driver drops the request without an Answered: another node may own the
saga. While a request waits to be sent, or its response is still arriving or is being read (see
[machine.Send.Read]), the driver reports it with Waits, or the lane takes it for lost.

Lease: the lane writes only between Leased and LeaseLost. The driver claims sagas only after every
lane has received Leased, and Loaded.Node is the node that claimed the saga. When the lease is lost,
every lane gets LeaseLost before the driver registers again.

Memory: an event may carry a value that stands for reserved memory. The lane returns it once, with
Freed. Responses and messages are therefore bounded until their outcome is durable.

Time: the driver sends Tick when [Lane.Alarm] is due. An additional Tick has no effect. It sends
Watch at a regular interval of some seconds: a saga that twelve Watches in a row find stalled is read
again from its journal, so a lost event cannot stop a saga forever. It sends Owned now and then, to
find unheld sagas: those that the store lists as this node's and that the lane does not run. For each
FoundUnheld, it reads the saga's row, and sends Unheld if the row still names this node.

Shutdown: after Drain the lane starts nothing, and releases each saga when its attempts have ended.
The driver may stop when [Lane.Len] is 0.

# Example

This is the loop around a lane, reduced to its essentials. The file loop.go has the complete one.

	lane := engine.NewLane(engine.LaneConfig{
		ParkAfter: 3 * time.Second, MaxBatch: 512, MaxRecords: 256, Random: rand.Uint64,
	})
	timer, watch := time.NewTimer(time.Hour), time.NewTicker(5*time.Second)
	for {
		var ev engine.Event
		select {
		case ev = <-events: // from the API, the scanner, commits and requests
		case <-timer.C:
			ev = engine.Tick{}
		case <-watch.C:
			ev = engine.Watch{}
		}
		now, latest := lease.Now(time.Now()), lease.Latest(time.Now())
		for _, effect := range lane.Handle(now, latest, ev) {
			switch effect := effect.(type) {
			case engine.Commit:
				go func() {
					time.Sleep(effect.After)
					results, err := store.Append(ctx, effect.Node, effect.Batch)
					events <- engine.Committed{Number: effect.Number, Results: results, Err: err}
				}()
			case engine.Perform:
				go func() {
					if !lease.Valid(time.Now()) || lease.Node() != effect.Node || !effect.Permit.Valid() {
						return // Engine waits for a lease that is renewed late
					}
					s := effect.Send
					answer := s.Read(callers[s.Kind].Call(ctx, s.Request))
					events <- engine.Answered{ID: effect.ID, Path: s.Path, Way: s.Way,
						Attempt: s.Attempt, Answer: answer, At: lease.Latest(time.Now())}
				}()
			case engine.Replied:
				effect.Reply.(chan engine.Replied) <- effect
			}
		}
		if at := lane.Alarm(); !at.IsZero() {
			timer.Reset(at.Sub(now))
		}
	}
*/
package engine
