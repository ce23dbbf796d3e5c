package archive

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// lineOf is a record with its saga, as `recourse journal -o json` prints it.
func lineOf(saga uuid.UUID, r *journal.Record) ([]byte, error) {
	line, err := r.MarshalJSON()
	if err != nil {
		return nil, err
	}
	return fmt.Appendf(nil, "{\"saga\":%q,%s", saga.String(), bytes.TrimPrefix(line, []byte("{"))), nil
}

// Journal is the journal of a saga in an object.
type Journal struct {
	Saga    uuid.UUID
	Records []journal.Record
}

// Journals calls each for the journals of an object, in order. It checks nothing but that the
// object is whole and that its lines are records.
func Journals(object []byte, each func(Journal) error) error {
	var now Journal
	err := eachLine(object, func(line []byte) error {
		saga, r, err := parseLine(line)
		if err != nil {
			return err
		}
		if saga != now.Saga && len(now.Records) > 0 {
			if err := each(now); err != nil {
				return err
			}
			now.Records = nil
		}
		now.Saga, now.Records = saga, append(now.Records, r)
		return nil
	})
	if err != nil || len(now.Records) == 0 {
		return err
	}
	return each(now)
}

func parseLine(line []byte) (uuid.UUID, journal.Record, error) {
	const before, length = `{"saga":"`, 36
	var r journal.Record
	if len(line) < len(before)+length || !bytes.HasPrefix(line, []byte(before)) {
		return uuid.Nil, r, fmt.Errorf("%w: a line does not begin with its saga", ErrDamaged)
	}
	saga, err := uuid.FromString(string(line[len(before) : len(before)+length]))
	if err == nil {
		err = json.Unmarshal(line, &r)
	}
	if err != nil {
		return uuid.Nil, r, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return saga, r, nil
}

// sound checks that records are the whole journal of a saga with so many records.
func sound(saga uuid.UUID, records []journal.Record, want int64) error {
	if int64(len(records)) != want || want == 0 {
		return fmt.Errorf("%w: saga %s has %d records, and its row says %d", journal.ErrBroken, saga, len(records), want)
	}
	return journal.Verify(saga, nil, 1, records)
}
