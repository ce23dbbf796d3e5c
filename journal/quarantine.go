package journal

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"
)

// A store counts the claims of a saga since its node last wrote a record or a row of it. A saga
// with many claims stops or kills its nodes.
const (
	// SuspectAfter is the number of claims from which on a saga is a suspect: a claim has at most
	// one suspect, so that few other sagas are affected if it kills its node.
	SuspectAfter = 2
	// QuarantineAfter is the number of claims at which a saga is quarantined: no node claims it
	// until it receives a message, and then one node claims it once.
	QuarantineAfter = 8
	// StatusStuck is the status of a quarantined saga.
	StatusStuck = "stuck"
	// KindStuck is the kind of a quarantined saga's inbox entry.
	KindStuck = "stuck"
)

// FirstRetryDelay is the first RetryDelay.
const FirstRetryDelay = time.Minute

const maxRetryDelay = time.Hour

// RetryDelay returns how long a saga is not claimable after its node released it without a row,
// that is, because the node could not continue it: FirstRetryDelay, doubled with each further
// claim, at most an hour. If ok is false the saga is quarantined instead.
func RetryDelay(claims int) (delay time.Duration, ok bool) {
	if claims >= QuarantineAfter {
		return 0, false
	}
	return min(FirstRetryDelay<<max(claims-1, 0), maxRetryDelay), true
}

// TakeoverDelay returns how long a saga is not claimable after its node died: at first 0, because
// most sagas of a dead node did not cause its death, then 1 s, 4 s, 16 s and 64 s. If ok is false
// the saga is quarantined instead.
func TakeoverDelay(claims int) (delay time.Duration, ok bool) {
	switch {
	case claims >= QuarantineAfter:
		return 0, false
	case claims < QuarantineAfter/2:
		return 0, true
	}
	return time.Second << (2 * (claims - QuarantineAfter/2)), true
}

// Halted describes a saga that is being quarantined.
type Halted struct {
	Saga       uuid.UUID
	Definition string
	Claims     int
	Seq        int64     // seq of its last record
	Last       time.Time // when that record was written
	Now        time.Time // the store's clock
}

// Entry returns the inbox entry of a quarantined saga. Its id stays the same until the saga makes
// progress, also if nodes claim the saga again.
func (h Halted) Entry() Entry {
	data, err := Encode(shown{
		Title: "The saga makes no progress",
		Detail: fmt.Sprintf("Nodes have claimed the saga %d times, and each released it or died without writing a record. The last record was written at %s. "+
			"Nodes no longer claim the saga. Search their logs for its id. If a newer version wrote its journal or its definition, upgrade. "+
			"Then resume the saga (POST /v1/sagas/%s/resume): one node tries it once more.", h.Claims, h.Last.UTC().Format(TimeFormat), h.Saga),
		Actions: []string{"resume"},
		ETag:    strconv.FormatInt(h.Seq, 10),
	})
	if err != nil {
		panic(err) // strings always encode
	}
	return Entry{
		ID:   uuid.NewV5(h.Saga, "inbox:::"+strconv.FormatInt(h.Seq, 10)),
		Saga: h.Saga, Definition: h.Definition, Kind: KindStuck, Since: h.Now, Data: data,
	}
}

// shown is the data of an entry, as the inbox shows it.
type shown struct {
	Way     Way      `json:"way"`
	Title   string   `json:"title"`
	Detail  string   `json:"detail"`
	Actions []string `json:"actions"`
	ETag    string   `json:"etag"`
}
