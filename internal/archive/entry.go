package archive

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Entry says where a saga is in the archive, and has what lists show of it.
type Entry struct {
	Saga       uuid.UUID         `json:"saga"`
	Object     string            `json:"object"` // the key of the object with its journal
	ArchivedAt time.Time         `json:"archived_at"`
	Records    int64             `json:"records"`
	Hash       string            `json:"hash"`            // of the last record, in hex
	Blobs      int               `json:"blobs,omitempty"` // how many the saga had when it was archived
	Definition string            `json:"definition"`
	Version    int               `json:"version"`
	SHA256     string            `json:"sha256"`
	Status     string            `json:"status"`
	Reason     string            `json:"reason,omitempty"`
	Labels     map[string]string `json:"labels,omitempty"`
	Summary    json.RawMessage   `json:"summary,omitempty"`
	Parent     uuid.UUID         `json:"parent,omitzero"`
	RetryOf    uuid.UUID         `json:"retry_of,omitzero"`
	ForkedFrom uuid.UUID         `json:"forked_from,omitzero"`
	UndoOf     uuid.UUID         `json:"undo_of,omitzero"`
	GoesOnFrom uuid.UUID         `json:"goes_on_from,omitzero"`
	CreatedAt  time.Time         `json:"created_at"`
	UpdatedAt  time.Time         `json:"updated_at"`
	EndedAt    time.Time         `json:"ended_at"`
}

// Head returns the saga's row, without the fields that an ended saga does not need: a client's key,
// and what belongs to leases.
func (e *Entry) Head() journal.Head {
	key := ""
	switch {
	case !e.UndoOf.IsNil():
		key = journal.UndoKey(e.UndoOf)
	case !e.GoesOnFrom.IsNil():
		key = journal.RetryKey(e.GoesOnFrom)
	}
	return journal.Head{ID: e.Saga,
		Start: journal.Start{Key: key, Definition: e.Definition, Version: e.Version, SHA256: e.SHA256, Parent: e.Parent, RetryOf: e.RetryOf, ForkedFrom: e.ForkedFrom, CreatedAt: e.CreatedAt},
		Row:   journal.Row{Status: e.Status, Reason: e.Reason, Labels: e.Labels, Summary: e.Summary, Seq: e.Records, UpdatedAt: e.UpdatedAt, EndedAt: e.EndedAt}}
}

func entryOf(h *journal.Head, last []byte, object string, at time.Time, blobs int) Entry {
	return Entry{Saga: h.ID, Object: object, ArchivedAt: at, Records: h.Seq, Hash: hex.EncodeToString(last), Blobs: blobs,
		Definition: h.Definition, Version: h.Version, SHA256: h.SHA256, Status: h.Status, Reason: h.Reason, Labels: h.Labels, Summary: h.Summary,
		Parent: h.Parent, RetryOf: h.RetryOf, ForkedFrom: h.ForkedFrom, UndoOf: h.UndoOf(), GoesOnFrom: h.GoesOnFrom(), CreatedAt: h.CreatedAt, UpdatedAt: h.UpdatedAt, EndedAt: h.EndedAt}
}

// packEntries makes an index object.
func packEntries(entries []Entry) ([]byte, error) {
	p, err := newPacker()
	if err != nil {
		return nil, err
	}
	for i := range entries {
		line, err := journal.Encode(&entries[i])
		if err == nil {
			err = p.line(line)
		}
		if err != nil {
			return nil, err
		}
	}
	return p.end()
}

func unpackEntries(object []byte) (list []Entry, err error) {
	err = eachLine(object, func(line []byte) error {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		list = append(list, e)
		return nil
	})
	return list, err
}
