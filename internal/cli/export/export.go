// Package export reads exported journals: what `recourse journal ID -o json` and the API print.
package export

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Journal is an exported journal.
type Journal struct {
	Saga    uuid.UUID // nil if the file does not name it
	Records []journal.Record
}

// maxExport is the maximum size of a file.
const maxExport = 1 << 30

// ErrFormat means that a file is not an exported journal.
var ErrFormat = errors.New("not an exported journal: give what `recourse journal ID -o json` or GET /v1/sagas/ID/journal prints")

// Read reads a file with the journal of one saga.
func Read(r io.Reader) (Journal, error) {
	list, err := ReadAll(r)
	switch {
	case err != nil:
		return Journal{}, err
	case len(list) > 1:
		return Journal{}, errors.New("the file has records of several sagas: export one at a time")
	}
	return list[0], nil
}

// ReadAll reads journals: an array of records, {"data": [record]}, or one record per line. A
// record may name its saga in a field `saga`; otherwise it belongs to the same saga as the record
// before.
func ReadAll(r io.Reader) ([]Journal, error) {
	raws, err := Values(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFormat, err)
	}
	var list exports
	for i, raw := range raws {
		if err := list.add(raw); err != nil {
			return nil, fmt.Errorf("record %d: %w", i+1, err)
		}
	}
	if len(list.all) == 0 {
		return nil, ErrFormat
	}
	return list.all, nil
}

// Values reads JSON documents one after another: each is a value, an array of values, or a page of
// the API with values. With an error it returns those before it.
func Values(r io.Reader) ([]json.RawMessage, error) {
	d := json.NewDecoder(io.LimitReader(r, maxExport))
	var all []json.RawMessage
	for {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return all, err
		}
		var list []json.RawMessage
		if raw[0] == '[' && json.Unmarshal(raw, &list) == nil {
			all = append(all, list...)
			continue
		}
		var p struct {
			Seq  *int64            `json:"seq"`
			Data []json.RawMessage `json:"data"`
		}
		if json.Unmarshal(raw, &p) == nil && p.Seq == nil && p.Data != nil {
			all = append(all, p.Data...)
			continue
		}
		all = append(all, raw)
	}
}

// exports collects the journals of a file.
type exports struct {
	all []Journal
	at  map[uuid.UUID]int
	now int // index of the journal of the last record
}

func (l *exports) add(raw json.RawMessage) error {
	var r journal.Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	var of struct {
		Saga string `json:"saga"`
	}
	id := uuid.Nil
	if json.Unmarshal(raw, &of) == nil && of.Saga != "" {
		var err error
		if id, err = uuid.FromString(of.Saga); err != nil {
			return fmt.Errorf("%w: saga %q is not an id", ErrFormat, of.Saga)
		}
	}
	l.turnTo(id)
	l.all[l.now].Records = append(l.all[l.now].Records, r)
	return nil
}

// turnTo selects the journal of a record that names id, or no saga.
func (l *exports) turnTo(id uuid.UUID) {
	switch at, ok := l.at[id]; {
	case len(l.all) == 0:
		l.all, l.at = []Journal{{Saga: id}}, map[uuid.UUID]int{id: 0}
	case id.IsNil():
	case ok:
		l.now = at
	case len(l.all) == 1 && l.all[0].Saga.IsNil():
		l.all[0].Saga, l.at[id] = id, 0
	default:
		l.now, l.at[id] = len(l.all), len(l.all)
		l.all = append(l.all, Journal{Saga: id})
	}
}
