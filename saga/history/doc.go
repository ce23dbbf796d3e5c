/*
Package history reads the journal of a saga. The story, the views of steps, metrics and
traces are made from it. The timeline of the page still decodes records itself.

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

The rules:

  - A record's data is decoded only when it is asked for, and an event keeps what Data decoded.
  - A reader keeps only what is in flight, so it stays small however long the journal becomes.
    [Steps] keeps all attempts, for those who show steps.
  - Nothing here judges a journal. Package machine decides whether a record is possible, and the
    readers of events show whatever was written. Data that cannot be read is an error of
    [Event.Data]; the other fields of the event are still valid.

Package machine decodes records itself, because it must not depend on how journals are shown. So
does internal/invariant, so that an error here cannot hide itself from the check.
*/
package history
