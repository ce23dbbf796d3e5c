package journal

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"
)

// A saga's claims are those since it last made progress: a record, or a row
// that its node wrote. A saga whose claims grow stops or kills its nodes.
const (
	// SuspectAfter is how many claims make a saga a suspect: it is claimed apart from others,
	// so that few of them suffer if it kills its node.
	SuspectAfter = 2
	// QuarantineAfter is how many claims put a saga into quarantine: nobody claims it
	// until a message is posted to it, and then once.
	QuarantineAfter = 8
	// StatusStuck is the status that a row gets in quarantine.
	StatusStuck = "stuck"
	// KindStuck is the kind of a quarantined saga's inbox entry.
	KindStuck = "stuck"
)

// FirstRetryDelay is how long a saga rests that its node gave up, for the first time, without
// saying why in its row: the node could not go on with it.
const FirstRetryDelay = time.Minute

const maxRetryDelay = time.Hour

// RetryDelay is how long a saga rests that was given up without a row: FirstRetryDelay, twice as
// long each further time, an hour at most. ok is false when it is to be quarantined instead.
func RetryDelay(claims int) (rest time.Duration, ok bool) {
	if claims >= QuarantineAfter {
		return 0, false
	}
	return min(FirstRetryDelay<<max(claims-1, 0), maxRetryDelay), true
}

// TakeoverDelay is how long a saga rests whose node died: not at all at first, since most have no
// part in it, then 1 s, 4 s, 16 s and 64 s. ok is false when it is to be quarantined instead.
func TakeoverDelay(claims int) (rest time.Duration, ok bool) {
	switch {
	case claims >= QuarantineAfter:
		return 0, false
	case claims < QuarantineAfter/2:
		return 0, true
	}
	return time.Second << (2 * (claims - QuarantineAfter/2)), true
}

// Halted is a saga that is being quarantined.
type Halted struct {
	Saga       uuid.UUID
	Definition string
	Claims     int
	Seq        int64     // of its last record
	Last       time.Time // when that was written
	Now        time.Time // the store's clock
}

// Entry is what a quarantined saga has in the inbox. Its id stays the same until the saga
// makes progress, however often it is tried meanwhile.
func (h Halted) Entry() Entry {
	data, err := Encode(shown{
		Title: "The saga makes no progress",
		Detail: fmt.Sprintf("Nodes took it on %d times and gave it up, or died, without writing a record; the last record is of %s. It is not tried any more. "+
			"Look at the nodes' logs for its id. If a newer release wrote its journal or its definition, upgrade. Then order `resume` "+
			"(POST /v1/sagas/%s/resume): it is tried once more.", h.Claims, h.Last.UTC().Format(TimeFormat), h.Saga),
		Actions: []string{"resume"},
		ETag:    strconv.FormatInt(h.Seq, 10),
	})
	if err != nil {
		panic(err) // of texts
	}
	return Entry{
		ID:   uuid.NewV5(h.Saga, "inbox:::"+strconv.FormatInt(h.Seq, 10)),
		Saga: h.Saga, Definition: h.Definition, Kind: KindStuck, Since: h.Now, Data: data,
	}
}

// shown is an entry's data, as the inbox shows it.
type shown struct {
	Way     Way      `json:"way"`
	Title   string   `json:"title"`
	Detail  string   `json:"detail"`
	Actions []string `json:"actions"`
	ETag    string   `json:"etag"`
}
