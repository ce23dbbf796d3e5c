package history

import (
	"iter"
	"maps"
	"time"

	"recourse/journal"
)

// Reader makes events of the records of one saga, which must be read in their order. The zero value
// has read nothing. It is not safe for concurrent use.
type Reader struct {
	began    time.Time
	node     string
	inFlight map[Track]Begun
}

// Read returns the event of the journal's next record. The event refers to the record, and so does
// the reader while the attempt is in flight.
func (r *Reader) Read(rec *journal.Record) Event {
	if rec.Seq == 1 {
		r.began, r.node = rec.At, rec.Node
	}
	e := Event{Record: rec, Since: rec.At.Sub(r.began), TakeOver: r.node != "" && r.node != rec.Node}
	r.node = rec.Node
	if rec.Path == "" {
		return e
	}
	e.Track = TrackOf(rec)
	if rec.Attempt == 0 { // not an attempt, but a wait, or a step that sends nothing
		return e
	}
	switch rec.Kind {
	case journal.Intent:
		if r.inFlight == nil {
			r.inFlight = make(map[Track]Begun)
		}
		r.inFlight[e.Track] = Begun{At: rec.At, Record: rec, attempt: rec.Attempt}
	case journal.Outcome:
		if b := r.inFlight[e.Track]; b.attempt == rec.Attempt {
			e.Begun = b
			delete(r.inFlight, e.Track)
		}
	}
	return e
}

// Began returns when the saga started; the zero time if its start was not read.
func (r *Reader) Began() time.Time { return r.began }

// Drop makes the reader forget the record of a track's attempt in flight, whose data may be large.
// The reader still knows the attempt and its time.
func (r *Reader) Drop(t Track) {
	if b, ok := r.inFlight[t]; ok {
		b.Record = nil
		r.inFlight[t] = b
	}
}

// InFlight returns the attempts in flight, in any order.
func (r *Reader) InFlight() iter.Seq2[Track, Begun] { return maps.All(r.inFlight) }
