package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// export is a journal that was exported.
type export struct {
	saga    uuid.UUID // nil if the file does not say
	records []journal.Record
}

const maxExport = 1 << 30

var errExport = errors.New("not an exported journal: give what `recourse journal ID -o json` or GET /v1/sagas/ID/journal prints")

// readExport reads a journal: an array of records, {"data": [record]}, or a record
// a line. Each record may name its saga in a field `saga`.
func readExport(r io.Reader) (export, error) {
	in := bufio.NewReader(io.LimitReader(r, maxExport))
	first, err := firstByte(in)
	if err != nil {
		return export{}, errExport
	}
	d := json.NewDecoder(in)
	var raws []json.RawMessage
	if first == '[' {
		err = d.Decode(&raws)
	} else {
		raws, err = documents(d)
	}
	if err != nil {
		return export{}, fmt.Errorf("%w: %w", errExport, err)
	}
	var ex export
	for i, raw := range raws {
		if err := ex.add(raw); err != nil {
			return export{}, fmt.Errorf("record %d: %w", i+1, err)
		}
	}
	if len(ex.records) == 0 {
		return export{}, errExport
	}
	return ex, nil
}

func firstByte(in *bufio.Reader) (byte, error) {
	for {
		b, err := in.ReadByte()
		if err != nil {
			return 0, err
		}
		if !bytes.ContainsRune([]byte(" \t\r\n"), rune(b)) {
			return b, in.UnreadByte()
		}
	}
}

// documents reads JSON documents one after another: records, or pages of them.
func documents(d *json.Decoder) ([]json.RawMessage, error) {
	var all []json.RawMessage
	for {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, err
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

func (ex *export) add(raw json.RawMessage) error {
	var r journal.Record
	if err := json.Unmarshal(raw, &r); err != nil {
		return fmt.Errorf("%w: %w", errExport, err)
	}
	var of struct {
		Saga string `json:"saga"`
	}
	if json.Unmarshal(raw, &of) == nil && of.Saga != "" {
		id, err := uuid.FromString(of.Saga)
		if err != nil {
			return fmt.Errorf("%w: saga %q is not an id", errExport, of.Saga)
		}
		if !ex.saga.IsNil() && ex.saga != id {
			return errors.New("the file has records of several sagas: export one at a time")
		}
		ex.saga = id
	}
	ex.records = append(ex.records, r)
	return nil
}
