package measure

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Script has the appends and requests of a saga, from the journal of one that the engine ran. The
// floor repeats them, in a format of its own: how the engine writes a record does not change it.
type Script struct {
	Ends   string  `json:"ends"`
	Stages []Stage `json:"stages"`
}

// Stage is one durable append, and the request that is sent after it.
type Stage struct {
	Send *Send `json:"send,omitempty"` // nil: none
}

// Send is a request. An undo's Path ends before the effect's id.
type Send struct {
	Step   string          `json:"step"`
	Undo   bool            `json:"undo,omitempty"`
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Body   json.RawMessage `json:"body,omitempty"`
}

// copied is what a script needs of a record.
type copied struct {
	Kind, Path, Way string
	Data            json.RawMessage
}

// script makes a Script from a journal.
func script(journal []copied, ends string) (Script, error) {
	sc := Script{Ends: ends}
	open := false // there are records since the last stage
	for _, r := range journal {
		open = true
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
		send := &Send{Step: r.Path, Undo: r.Way == "undo", Method: d.Request.Method, Path: u.Path, Body: d.Request.Body}
		if send.Undo {
			send.Path = u.Path[:strings.LastIndexByte(u.Path, '/')+1]
		}
		sc.Stages, open = append(sc.Stages, Stage{send}), false
	}
	if !open {
		return Script{}, errors.New("the journal to copy has no end")
	}
	sc.Stages = append(sc.Stages, Stage{})
	return sc, nil
}
