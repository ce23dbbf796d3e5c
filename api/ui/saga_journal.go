package ui

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"recourse/api/rest"
	"recourse/api/ui/format"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
	"recourse/saga/machine"
)

// journalPage is the number of records on a page.
const journalPage = 200

// maxScanned is the maximum of records that one search reads; the next page continues after them.
const maxScanned = 20_000

// journalView is a page of a journal.
type journalView struct {
	ID      string
	Saga    machine.View
	Text    string // the searched text
	Records []journalRow
	Next    string // URL of the next page; "" for none
	First   string // URL of the first page; "" on the first page
	Scanned int64  // the seq at which a search stopped; 0 if it read everything
}

// journalRow is a record on the page.
type journalRow struct {
	journal.Record
	Says  string // a person's command, or the saga's end, in a word or two
	Raw   json.RawMessage
	Large bool
}

// maxRecord is the maximum size of a record on a page, in bytes.
const maxRecord = 20_000

// showJournal serves GET /sagas/{id}/journal.
func showJournal(v *request) error {
	v.still = true
	id, q := v.r.PathValue("id"), v.r.URL.Query()
	page := journalView{ID: id, Text: strings.TrimSpace(q.Get("q"))}
	if _, err := v.api.Get(rest.Path("v1", "sagas", id), &page.Saga); err != nil && !unreadable(err) {
		return err
	}
	after, err := strconv.ParseInt("0"+q.Get("after"), 10, 64)
	if err != nil {
		return &rest.Problem{Status: 400, Title: "No such page", Detail: "after must be the number of a record"}
	}
	here := rest.Path("sagas", id, "journal")
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
	for scanned := 0; ; {
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
				return v.render("saga-journal", "Journal of "+format.Short(id), page)
			}
			page.Records = append(page.Records, rowOf(r))
			after = r.Seq
		}
		if scanned += len(list); len(list) < size {
			break
		}
		if scanned >= maxScanned {
			page.Scanned = after
			next(after)
			break
		}
	}
	return v.render("saga-journal", "Journal of "+format.Short(id), page)
}

// matches reports whether a record's kind, path, class, key or data contain a text.
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

// summary describes a record of a command or of the end; "" for others, whose kind says enough.
func summary(r journal.Record) string {
	switch r.Kind {
	case journal.Operator:
		d, ok := history.DataOf[saga.CommandData](&r)
		if !ok {
			return ""
		}
		text := format.Say(d.Kind)
		if d.Outcome != "" {
			text += " as " + format.Say(d.Outcome)
		}
		if d.Actor != "" {
			text += ", by " + d.Actor
		}
		return text
	case journal.Finished:
		d, _ := history.DataOf[saga.FinishedData](&r)
		return format.Say(d.Status)
	}
	return ""
}

// downloadJournal serves GET /sagas/{id}/journal.ndjson: the export that `recourse verify` checks.
func downloadJournal(v *request) error {
	return v.pass(rest.Path("v1", "sagas", v.r.PathValue("id"), "journal"), "application/x-ndjson", v.r.PathValue("id")+".ndjson")
}

// rawSaga serves GET /sagas/{id}/saga.json, the API's response.
func rawSaga(v *request) error {
	return v.pass(rest.Path("v1", "sagas", v.r.PathValue("id")), "application/json", "")
}

// rawSummary serves GET /sagas/{id}/summary.txt, which the agent of a session reads.
func rawSummary(v *request) error {
	return v.pass(rest.Path("v1", "sessions", v.r.PathValue("id"), "summary"), "text/plain", "")
}

// rawStep serves GET /sagas/{id}/steps/{path}/step.json.
func rawStep(v *request) error {
	return v.pass(rest.Path("v1", "sagas", v.r.PathValue("id"), "steps", v.r.PathValue("path")), "application/json", "")
}

// pass streams a response of the API to a browser, which has a cookie but no key. name is the file
// to save it in; "" shows it.
func (v *request) pass(at, accept, name string) error {
	if pictureOf(v.r) != nil { // a live stream cannot show it, since it is not a page
		return &rest.Problem{Status: http.StatusNotFound, Title: "This is not an HTML page", Detail: "open it by itself"}
	}
	req, err := v.api.Request(v.r.Context(), http.MethodGet, at, nil, http.Header{"Accept": {accept}})
	if err != nil {
		return err
	}
	if name != "" {
		v.w.Header().Set("Content-Disposition", `attachment; filename="`+strings.Map(plain, name)+`"`)
	}
	v.cfg.API.ServeHTTP(v.w, req)
	return nil
}

// plain removes from a file's name all characters that ids do not have.
func plain(c rune) rune {
	if c < 128 && (c == '-' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z') {
		return c
	}
	return -1
}
