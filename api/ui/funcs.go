package ui

import (
	"encoding/json"
	"html/template"
	"net/url"
	"strings"
	"time"

	"recourse/api/ui/costs"
	"recourse/api/ui/format"
	"recourse/internal/costs/tally"
	"recourse/saga"
	"recourse/saga/history"
)

// funcs are the functions for templates.
var funcs = template.FuncMap{
	"mark":   format.Mark,
	"say":    format.Say,
	"money":  format.Money,
	"time":   timeOf,
	"short":  format.Short,
	"pretty": format.JSON,
	"cut":    format.Cut,
	"path":   url.PathEscape,
	"took":   format.Took,
	"plural": format.Plural,
	"join":   strings.Join,
	// visible is for texts of others within a line, where hidden characters could change the rest
	// of it.
	"visible":     saga.VisibleText,
	"requestJSON": func(r *saga.Request) json.RawMessage { return saga.Encode(r) },
	"sum":         func(a, b int) int { return a + b },
	"lasted":      lasted,

	"classMark": format.ClassMark,

	"kindMark":  func(kind string) string { return kindMarks[kind] },
	"kindTitle": func(kind string) string { return kindTitles[kind] },

	"rounded":  costs.Rounded,
	"percent":  costs.Percent,
	"brief":    tally.Brief,
	"plural64": func(n int64, one, many string) string { return format.Plural(int(n), one, many) },

	"navigation": navigation,
}

// lasted returns the duration of an attempt; "" while it is in flight.
func lasted(a history.Attempt) string {
	if a.EndedAt == nil {
		return ""
	}
	return format.Took(a.EndedAt.Sub(a.SentAt.Time))
}

// timeOf returns a time for <time>. It accepts time.Time, saga.Time and pointers to them, and
// returns the zero time if there is none.
func timeOf(at any) time.Time {
	switch at := at.(type) {
	case time.Time:
		return at
	case *time.Time:
		if at != nil {
			return *at
		}
	case saga.Time:
		return at.Time
	case *saga.Time:
		if at != nil {
			return at.Time
		}
	}
	return time.Time{}
}

// link is an entry of the navigation.
type link struct {
	To, Title, Go, Count string
	Here                 bool
}

// navigation returns an entry. under is the template of its page, or the prefix of the templates of
// its pages.
func navigation(f frame, under, to, title string) link {
	l := link{To: to, Title: title, Go: map[string]string{"sagas": "s", "inbox": "i", "definitions": "d", "costs": "c", "system": "y"}[under]}
	l.Here = strings.HasPrefix(f.Page, strings.TrimSuffix(under, "s"))
	if under == "inbox" {
		l.Count = f.Inbox
	}
	return l
}
