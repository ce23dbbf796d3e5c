package api

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

// statuses are the values of the status filter.
var statuses = []string{
	string(saga.Running), string(saga.Waiting), string(saga.PausedStatus), string(saga.Undoing), string(saga.Stuck),
	string(saga.Succeeded), string(saga.Compensated), string(saga.Failed),
}

// Stages of a cursor of GET /v1/sagas. The list begins with the sagas whose ids begin with q; then
// it continues with all sagas that match the filter.
const (
	stageNamed = "named"
	stageAll   = "all"
)

// sagaPage is a page of GET /v1/sagas.
type sagaPage struct {
	page[machine.View]
	// LookedBackTo is the time at which the scan limit ended the page. Older sagas were not
	// scanned.
	LookedBackTo *saga.Time `json:"looked_back_to,omitempty"`
}

// listSagas serves GET /v1/sagas.
func (s *server) listSagas(c echo.Context) error {
	q, err := readQuery(c, "definition", "*status", "label.", "started_after", "started_before", "q", "limit", "cursor")
	if err != nil {
		return err
	}
	f := q.filter()
	stage, before := q.stage(f.Text)
	if err := q.err(); err != nil {
		return err
	}
	ctx := c.Request().Context()
	if stage == stageNamed {
		named := f
		named.Text = ""
		named.Named(f.Text)
		named.Older(before)
		p, err := s.sagaPage(ctx, named, stageNamed)
		if err != nil {
			return err
		}
		if p.Next == "" {
			p.Next = pack("sagas", stageAll, "")
		}
		if len(p.Data) > 0 || p.LookedBackTo != nil {
			return reply(c, http.StatusOK, p)
		}
		before = uuid.Nil
	}
	f.Older(before)
	p, err := s.sagaPage(ctx, f, stageAll)
	if err != nil {
		return err
	}
	if isName(f.Text) { // the first stage has listed them
		p.Data = slices.DeleteFunc(p.Data, func(v machine.View) bool { return strings.HasPrefix(v.ID, strings.ToLower(f.Text)) })
	}
	return reply(c, http.StatusOK, p)
}

// sagaPage lists up to f.Limit sagas.
func (s *server) sagaPage(ctx context.Context, f journal.Filter, stage string) (p sagaPage, err error) {
	limit := f.Limit
	f.Limit, f.MaxScanned = limit+1, s.cfg.Limits.Listed
	list, err := s.cfg.Store.Sagas(ctx, f)
	if err != nil {
		return p, err
	}
	views := make([]machine.View, len(list.Heads))
	for i, h := range list.Heads {
		if views[i], err = headView(h); err != nil {
			return p, err
		}
	}
	p.page = cut(views, limit, func(last machine.View) string { return pack("sagas", stage, last.ID) })
	if !list.ScannedTo.IsNil() {
		p.Next, p.LookedBackTo = pack("sagas", stage, list.ScannedTo.String()), instant(journal.IDTime(list.ScannedTo))
	}
	return p, nil
}

func (q *query) filter() journal.Filter {
	f := journal.Filter{Definition: q.Get("definition"), Text: q.Get("q"), Limit: q.limit()}
	if utf8.RuneCountInString(f.Text) > maxLabelValue {
		q.bad("q", "too_long", "q has at most %d characters: no searched text is longer", maxLabelValue)
	}
	for _, list := range q.Values["status"] {
		for word := range strings.SplitSeq(list, ",") {
			if !slices.Contains(statuses, word) {
				q.bad("status", "bad_status", "there is no status %.30q; there are %s", word, strings.Join(statuses, ", "))
			}
			if !slices.Contains(f.Status, word) {
				f.Status = append(f.Status, word)
			}
		}
	}
	for _, name := range sortedKeys(q.Values) {
		if label, ok := strings.CutPrefix(name, "label."); ok {
			if f.Labels == nil {
				f.Labels = map[string]string{}
			}
			f.Labels[label] = q.Get(name)
		}
	}
	if len(f.Labels) > maxLabels {
		q.bad("label.", "too_many", "a saga has at most %d labels", maxLabels)
	}
	f.Started(q.time("started_after"), q.time("started_before"))
	return f
}

// time returns a parameter that is a time; zero if it is absent.
func (q *query) time(name string) time.Time { return q.moment(name, time.Time{}) }

// stage reads the stage of a search from the cursor, and the saga before which the page begins.
func (q *query) stage(text string) (stage string, before uuid.UUID) {
	parts := q.cursor("sagas", 2)
	switch {
	case parts == nil && isName(text):
		return stageNamed, uuid.Nil
	case parts == nil, parts[0] == stageAll && parts[1] == "":
		return stageAll, uuid.Nil
	}
	before, err := uuid.FromString(parts[1])
	if err != nil || parts[0] != stageAll && (parts[0] != stageNamed || !isName(text)) {
		q.bad("cursor", "bad_cursor", "send next_cursor unchanged, with the same filter")
	}
	return parts[0], before
}
