/*
Package history reads the journal of a saga. The story, the views of steps, the timeline of the web
UI, metrics and traces are made from it.

A [Reader] takes the records of one saga, one after another, and returns an [Event] for each: the
record with its track, its data, and the facts that depend on earlier records, such as the intent
that an outcome ends.

	var r history.Reader
	for i := range records {
		e := r.Read(&records[i])
		switch d, err := e.Data(); d := d.(type) {
		case *saga.IntentData:
			…
		}
	}

Without a Reader, [DataOf], [OutcomeOf] and [Started] read the data of one record.

The rules:

  - A record's data is decoded only when it is asked for, and an event keeps what Data decoded.
  - A reader keeps only what is in flight, so it stays small however long the journal becomes. If
    the data of intents is too large to be kept, [Reader.Drop] drops it. [Steps] keeps all attempts,
    for callers that show steps.
  - An event belongs to one goroutine. Records never change, so goroutines may share them.
  - Nothing here judges a journal. Package machine decides whether a record is possible, and the
    readers of events show whatever was written. Data that cannot be read is an error of
    [Event.Data]; the other fields of the event are still valid.
  - A fact that two readers need, and that takes a record's data or an earlier record, is found
    here.

No other package decodes records, except two: package machine, because recovery must not depend on
how journals are shown, and internal/invariant, so that an error here cannot hide itself from the
check. An architecture test checks this; docs/decisions/0017-one-reader-of-journals.md has the
reasons.
*/
package history
