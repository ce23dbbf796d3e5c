package measure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	"github.com/gofrs/uuid/v5"
)

// uiRows is how many rows a page of the list in the web UI has.
const uiRows = 50

// uiPages are the lists that are also requested from the web UI, by name, with the query of
// that page.
var uiPages = []struct{ list, query string }{
	{"first page", ""},
	{"status", "?status=compensated"},
	{"definition", "?definition=nap-fr"},
	{"label, 1 in 50", "?label=tier%3Dgold"},
	{"text, 1 in 50", "?q=gold"},
	{"text, none", "?q=zebra"},
	{"text, status: none", "?q=zebra&status=waiting"},
}

// uiRow matches a row of the list in the page.
var uiRow = regexp.MustCompile(`<tr id="saga-([0-9a-f-]{36})"`)

// pages requests the pages of lists, and of a saga. A list must have the right rows.
func (c *ListConfig) pages(ctx context.Context, engine Process, all []list, newest []int, ids []uuid.UUID) (runs []ListRun, err error) {
	for _, p := range uiPages {
		var want []uuid.UUID
		for _, l := range all {
			if l.name == p.list {
				want = l.rows(newest, ids)
			}
		}
		run, err := c.timed(ListRun{List: "page: " + p.list, Query: "/" + p.query}, func() (int, int, error) {
			body, err := html(ctx, engine.URL+"/"+p.query)
			if err != nil {
				return 0, 1, err
			}
			rows := uiRow.FindAllStringSubmatch(body, -1)
			return len(rows), 1, inPage(body, rows, want)
		})
		if err != nil {
			return nil, fmt.Errorf("the page of the list by %s: %w", p.list, err)
		}
		runs = append(runs, run)
	}
	path := "/sagas/" + ids[newest[0]].String()
	run, err := c.timed(ListRun{List: "page: a saga", Query: path}, func() (int, int, error) {
		body, err := html(ctx, engine.URL+path)
		if err == nil && !strings.Contains(body, `id="story"`) {
			err = errors.New("the page has no story")
		}
		return 1, 1, err
	})
	return append(runs, run), err
}

// inPage returns an error unless the rows are the first ones that the list must have. There may be
// fewer only if the page has a link to older ones.
func inPage(body string, rows [][]string, want []uuid.UUID) error {
	for i, r := range rows {
		if i >= len(want) || r[1] != want[i].String() {
			return fmt.Errorf("row %d is saga %s, want another saga or none", i, r[1])
		}
	}
	if least := min(uiRows, len(want)); len(rows) < least && !strings.Contains(body, `rel="next"`) {
		return fmt.Errorf("it has %d rows, want %d, and no link to older ones", len(rows), least)
	}
	return nil
}

// html requests a page as a browser does.
func html(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	r.Header.Set("Accept", "text/html")
	b, err := bodyOf(r)
	return string(b), err
}
