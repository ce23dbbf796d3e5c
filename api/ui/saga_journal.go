package ui

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"recourse/journal"
	"recourse/saga"
)

// journalPage is how many records a page shows.
const journalPage = 200

// maxLooked is how many records one search looks at: the next page goes on behind them.
const maxLooked = 20_000

// journalView is what a journal's page shows.
type journalView struct {
	ID      string
	Saga    saga.View
	Text    string // what is searched for
	Records []journalRow
	Next    string // the address of the next page; "" for none
	First   string // of the first; "" when this is it
	Looked  int64  // the seq that a search without an end in sight has reached; 0: all was looked at
}

// journalRow is a record on the page.
type journalRow struct {
	journal.Record
	Says  string // in a word or two, what a person ordered, or how the saga ended
	Raw   json.RawMessage
	Large bool
}

// maxRecord is how much of one record a page shows.
const maxRecord = 20_000

// showJournal serves GET /sagas/{id}/journal.
func showJournal(v *request) error {
	v.still = true
	id, q := v.r.PathValue("id"), v.r.URL.Query()
	page := journalView{ID: id, Text: strings.TrimSpace(q.Get("q"))}
	if _, err := v.api.get(path("v1", "sagas", id), &page.Saga); err != nil && !unreadable(err) {
		return err
	}
	after, err := strconv.ParseInt("0"+q.Get("after"), 10, 64)
	if err != nil {
		return &problem{Status: 400, Title: "No such page", Detail: "after must be the number of a record"}
	}
	here := path("sagas", id, "journal")
	own := url.Values{}
	if page.Text != "" {
		own.Set("q", page.Text)
	}
	if after > 0 {
		page.First = here + "?" + own.Encode()
	}
	next := func(seq int64) {
		own.Set("after", strconv.FormatInt(seq, 10))
		page.Next = here + "?" + own.Encode()
	}
	for looked := 0; ; {
		size := journalPage + 1
		if page.Text != "" {
			size = recordsPage
		}
		list, err := v.records(id, after, size)
		if err != nil {
			return err
		}
		for _, r := range list {
			if page.Text != "" && !matches(r, page.Text) {
				after = r.Seq
				continue
			}
			if len(page.Records) == journalPage {
				next(after)
				return v.render("saga-journal", "Journal of "+short(id), page)
			}
			page.Records = append(page.Records, rowOf(r))
			after = r.Seq
		}
		if looked += len(list); len(list) < size {
			break
		}
		if looked >= maxLooked {
			page.Looked = after
			next(after)
			break
		}
	}
	return v.render("saga-journal", "Journal of "+short(id), page)
}

// matches reports whether a record's kind, path, class, key or data have a text in them.
func matches(r journal.Record, text string) bool {
	if r.Key == text || strings.Contains(string(r.Kind), text) || strings.Contains(r.Path, text) || string(r.Class) == text {
		return true
	}
	return bytes.Contains(bytes.ToLower(r.Data), bytes.ToLower([]byte(text)))
}

func rowOf(r journal.Record) journalRow {
	row := journalRow{Record: r, Says: summary(r)}
	raw, err := r.MarshalJSON()
	if err != nil || len(raw) > maxRecord {
		row.Large = true
		return row
	}
	row.Raw = raw
	return row
}

// summary is what a record of an order or of the end comes to; "" of others, which say it by their
// kind.
func summary(r journal.Record) string {
	var d struct {
		saga.CommandData
		Status string `json:"status"`
	}
	if json.Unmarshal(r.Data, &d) != nil {
		return ""
	}
	switch r.Kind {
	case journal.Operator:
		text := say(d.Kind)
		if d.Outcome != "" {
			text += " as " + say(d.Outcome)
		}
		if d.Actor != "" {
			text += ", by " + d.Actor
		}
		return text
	case journal.Finished:
		return say(d.Status)
	}
	return ""
}

// downloadJournal serves GET /sagas/{id}/journal.ndjson: the export that `recourse verify` checks.
func downloadJournal(v *request) error {
	return v.pass(path("v1", "sagas", v.r.PathValue("id"), "journal"), "application/x-ndjson", v.r.PathValue("id")+".ndjson")
}

// rawSaga serves GET /sagas/{id}/saga.json: what the API answers.
func rawSaga(v *request) error {
	return v.pass(path("v1", "sagas", v.r.PathValue("id")), "application/json", "")
}

// rawStep serves GET /sagas/{id}/steps/{path}/step.json.
func rawStep(v *request) error {
	return v.pass(path("v1", "sagas", v.r.PathValue("id"), "steps", v.r.PathValue("path")), "application/json", "")
}

// pass hands an answer of the API on as it comes, for a browser that has a cookie and no key; name
// is the file to save it in, "" to show it.
func (v *request) pass(at, accept, name string) error {
	if pictureOf(v.r) != nil { // of a live stream: this is no page
		return &problem{Status: http.StatusNotFound, Title: "This is not an HTML page", Detail: "open it by itself"}
	}
	req, err := v.api.request(v.r.Context(), http.MethodGet, at, nil, http.Header{"Accept": {accept}})
	if err != nil {
		return err
	}
	if name != "" {
		v.w.Header().Set("Content-Disposition", `attachment; filename="`+strings.Map(plain, name)+`"`)
	}
	v.cfg.API.ServeHTTP(v.w, req)
	return nil
}

// plain leaves out of a file's name what is not in ids.
func plain(c rune) rune {
	if c < 128 && (c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z') {
		return c
	}
	return -1
}
