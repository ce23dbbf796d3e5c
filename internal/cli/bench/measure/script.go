package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Script has the appends and requests of a saga, from the journal of one that the
// engine ran. The floor repeats them, with the same number of bytes.
type Script struct {
	Ends   string  `json:"ends"`
	Stages []Stage `json:"stages"`
}

// Stage is one durable append, and the requests that are sent after it.
type Stage struct {
	Records []Row `json:"records"`
	Send    *Send `json:"send,omitempty"`
}

// Row is a record as it is stored.
type Row struct {
	Kind       string          `json:"kind"`
	Path       string          `json:"path,omitempty"`
	Way        string          `json:"way,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Generation int             `json:"generation,omitempty"`
	Key        string          `json:"key,omitempty"`
	Class      string          `json:"class,omitempty"`
	Node       string          `json:"node,omitempty"`
	Data       json.RawMessage `json:"data,omitempty"`
}

// Send is a request. An undo's Path ends before the effect's id.
type Send struct {
	Step   string          `json:"step"`
	Undo   bool            `json:"undo,omitempty"`
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"`
}

// script makes a Script from a journal.
func script(journal []Row, ends string) (Script, error) {
	sc := Script{Ends: ends}
	var stage Stage
	for _, r := range journal {
		stage.Records = append(stage.Records, r)
		if r.Kind != "intent" {
			continue
		}
		var d struct {
			Request struct {
				Method, URL string
				Body        json.RawMessage
			}
		}
		if err := json.Unmarshal(r.Data, &d); err != nil {
			return Script{}, fmt.Errorf("the intent to copy: %w", err)
		}
		if d.Request.URL == "" {
			continue // a wait
		}
		u, err := url.Parse(d.Request.URL)
		if err != nil {
			return Script{}, err
		}
		stage.Send = &Send{Step: r.Path, Undo: r.Way == "undo", Method: d.Request.Method, Path: u.Path, Body: d.Request.Body}
		if stage.Send.Undo {
			stage.Send.Path = u.Path[:strings.LastIndexByte(u.Path, '/')+1]
		}
		sc.Stages = append(sc.Stages, stage)
		stage = Stage{}
	}
	if len(stage.Records) == 0 {
		return Script{}, errors.New("the journal to copy has no end")
	}
	sc.Stages = append(sc.Stages, stage)
	return sc, nil
}
