package ui

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"recourse/api/rest"
	"recourse/saga"
	"recourse/saga/machine"
)

// sagasView is the list of sagas.
type sagasView struct {
	Filter  sagasFilter
	Counts  []statusCount
	Sagas   []machine.View
	Asks    map[string]string // titles of inbox entries, by saga
	Next    string            // URL of the next page, "" for none
	First   string            // URL of the first page, "" on the first page
	Scanned saga.Time         // start time of the oldest scanned saga, if the scan is incomplete
	Names   []string
	Periods []period
}

// sagasFilter holds the fields of the list's form.
type sagasFilter struct {
	Status     string
	Definition string
	Label      string // k=v
	Text       string
	Within     string // maximum time since the start: "", 1h, 24h, 168h
	Any        bool   // a filter is set
}

// statusCount is a link above the list.
type statusCount struct {
	Status saga.Status // "" for all
	Count  int64
	Link   string
	Here   bool
}

type period struct{ Value, Title string }

var periods = []period{{"", "any time"}, {"1h", "the last hour"}, {"24h", "the last day"}, {"168h", "the last week"}, {"720h", "the last 30 days"}}

// order is the order of the statuses in the links.
var order = []saga.Status{saga.Running, saga.Waiting, saga.PausedStatus, saga.Undoing, saga.Stuck, saga.Succeeded, saga.Compensated, saga.Failed}

// maxScans is the maximum of API requests for one page that finds nothing.
const maxScans = 5

// showSagas serves GET /.
func showSagas(v *request) error {
	q := v.r.URL.Query()
	f := sagasFilter{Status: q.Get("status"), Definition: q.Get("definition"), Label: strings.TrimSpace(q.Get("label")), Text: strings.TrimSpace(q.Get("q")), Within: q.Get("within")}
	ask := url.Values{}
	set := func(name, value string) {
		if value != "" {
			ask.Set(name, value)
			f.Any = true
		}
	}
	set("status", f.Status)
	set("definition", f.Definition)
	set("q", f.Text)
	if name, value, ok := strings.Cut(f.Label, "="); ok {
		set("label."+strings.TrimSpace(name), strings.TrimSpace(value))
	} else if f.Label != "" {
		return &rest.Problem{Status: 400, Title: "A label is name=value", Detail: "write it as order=1017"}
	}
	if d, err := time.ParseDuration(f.Within); err == nil && d > 0 {
		// Whole minutes, so that the URL of the next page stands for the same list.
		set("started_after", v.cfg.Now().Add(-d).UTC().Truncate(time.Minute).Format(time.RFC3339))
	}
	cursor := q.Get("cursor")
	if cursor != "" {
		ask.Set("cursor", cursor)
		v.still = true
	}
	var list struct {
		Data    []machine.View `json:"data"`
		Next    string         `json:"next_cursor"`
		Scanned saga.Time      `json:"looked_back_to"`
	}
	for scans := 1; ; scans++ {
		list.Next, list.Scanned = "", saga.Time{}
		if _, err := v.api.Get("/v1/sagas?"+ask.Encode(), &list); err != nil {
			return err
		}
		if len(list.Data) > 0 || list.Scanned.IsZero() || scans == maxScans {
			break
		}
		v.still = true // an unsuccessful search is not repeated
		ask.Set("cursor", list.Next)
	}
	page := sagasView{Filter: f, Sagas: list.Data, Periods: periods, Scanned: list.Scanned}
	own := url.Values{}
	for _, name := range []string{"status", "definition", "label", "q", "within"} {
		if q.Get(name) != "" {
			own.Set(name, q.Get(name))
		}
	}
	if cursor != "" {
		page.First = "/?" + own.Encode()
	}
	if list.Next != "" {
		next := maps.Clone(own)
		next.Set("cursor", list.Next)
		page.Next = "/?" + next.Encode()
	}
	var err error
	if page.Counts, err = v.counts(f, own); err != nil {
		return err
	}
	page.Names, page.Asks = v.names(), v.asks(list.Data)
	return v.render("sagas", "Sagas", page)
}

// maxAsks is the maximum of inbox entries that a list reads.
const maxAsks = 200

// asks returns the titles of the inbox entries of listed sagas. If they cannot be read, the list
// omits them.
func (v *request) asks(list []machine.View) map[string]string {
	if !slices.ContainsFunc(list, func(s machine.View) bool { return s.Status == saga.Waiting || s.Status == saga.Stuck }) {
		return nil
	}
	var inbox struct {
		Data []entry `json:"data"`
	}
	if _, err := v.api.Get("/v1/inbox?limit="+strconv.Itoa(maxAsks), &inbox); err != nil {
		return nil
	}
	asks := map[string]string{}
	for _, e := range inbox.Data {
		if asks[e.Saga] == "" {
			asks[e.Saga] = e.Title
		}
	}
	return asks
}

// counts returns the links to each status, which keep the rest of the filter.
func (v *request) counts(f sagasFilter, own url.Values) ([]statusCount, error) {
	var stats struct {
		Sagas map[string]int64 `json:"sagas"`
	}
	if _, err := v.api.Get("/v1/stats", &stats); err != nil {
		return nil, err
	}
	all := statusCount{Here: f.Status == ""}
	for _, n := range stats.Sagas {
		all.Count += n
	}
	list := []statusCount{all}
	for _, s := range order {
		list = append(list, statusCount{Status: s, Count: stats.Sagas[string(s)], Here: f.Status == string(s)})
	}
	for i := range list {
		q := maps.Clone(own)
		q.Set("status", string(list[i].Status))
		if list[i].Status == "" {
			q.Del("status")
		}
		list[i].Link = "/?" + q.Encode()
	}
	return list, nil
}

// names lists the definitions for the form.
func (v *request) names() []string {
	var list struct {
		Data []struct {
			Name string `json:"name"`
		} `json:"data"`
	}
	if _, err := v.api.Get("/v1/definitions?limit=200", &list); err != nil {
		return nil
	}
	var names []string
	for _, d := range list.Data {
		names = append(names, d.Name)
	}
	slices.Sort(names)
	return names
}
