package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"recourse/internal/costs/tally"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/history"
)

// funcs are the functions for templates.
var funcs = template.FuncMap{
	"mark":   mark,
	"say":    say,
	"money":  money,
	"time":   timeOf,
	"short":  short,
	"pretty": pretty,
	"cut":    cut,
	"path":   url.PathEscape,
	"took":   took,
	"plural": plural,
	"join":   strings.Join,
	"sum":    func(a, b int) int { return a + b },
	"lasted": lasted,

	"classMark": classMark,

	"kindMark":  func(kind string) string { return kindMarks[kind] },
	"kindTitle": func(kind string) string { return kindTitles[kind] },

	"rounded":  rounded,
	"percent":  percent,
	"brief":    tally.Brief,
	"plural64": func(n int64, one, many string) string { return plural(int(n), one, many) },

	"navigation": navigation,
}

// marks are the symbols of statuses, of sagas and of steps, because not everyone can tell colours
// apart.
var marks = map[string]string{
	"running": "▶", "waiting": "…", "paused": "‖", "compensating": "←", "stuck": "!", "succeeded": "✓", "compensated": "↺", "failed": "✗",
	"pending": "·", notReached: "–", "skipped": "–", "in_doubt": "?", "held": "!", "undoing": "←", "undone": "↺", "undo_failed": "✗",
}

func mark(status any) string { return marks[fmt.Sprint(status)] }

// classMark returns the symbol of an attempt's class.
func classMark(class journal.Class) string {
	switch class {
	case journal.Refused:
		return "✗"
	case journal.Transient:
		return "~"
	}
	return mark(class)
}

// lasted returns the duration of an attempt; "" while it is in flight.
func lasted(a history.Attempt) string {
	if a.EndedAt == nil {
		return ""
	}
	return took(a.EndedAt.Sub(a.SentAt.Time))
}

// say formats a status, a kind or a code as words.
func say(word any) string { return strings.ReplaceAll(fmt.Sprint(word), "_", " ") }

// money formats an amount with its currency; "" for none.
func money(amount, currency string) string {
	if strings.Trim(amount, "0.") == "" {
		return ""
	}
	return strings.TrimSpace(amount + " " + currency)
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

// short returns the end of a saga's id, which differs between sagas that started together.
func short(id string) string {
	if len(id) != 36 {
		return id
	}
	return id[:8] + "…" + id[len(id)-6:]
}

// pretty indents JSON; its numbers keep their digits. A deeply nested document that would grow too
// much stays as it is: each value has the indents of everything around it, so a response of 4 MB
// could become a page of gigabytes.
func pretty(raw json.RawMessage) string {
	var b bytes.Buffer
	if indents(raw) > 4*len(raw)+16<<10 || json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// indents returns the maximum of bytes of line breaks and indents that json.Indent adds to a
// document.
func indents(raw json.RawMessage) (n int) {
	depth := 0
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '"':
			for i++; i < len(raw) && raw[i] != '"'; i++ {
				if raw[i] == '\\' {
					i++
				}
			}
		case '[', '{':
			depth++
			n += 1 + 2*depth
		case ']', '}':
			depth--
			n += 1 + 2*depth
		case ',':
			n += 1 + 2*depth
		case ':':
			n++
		}
	}
	return n
}

// cut shortens a text to n characters.
func cut(n int, text any) string {
	s := fmt.Sprint(text)
	if raw, ok := text.(json.RawMessage); ok {
		s = string(raw)
	}
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// took formats a duration.
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "0 ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute && d%time.Second == 0:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < time.Minute:
		return fmt.Sprintf("%d.%d s", d/time.Second, d%time.Second/(100*time.Millisecond))
	case d < time.Hour:
		return parts(d, "min", time.Minute, "s", time.Second)
	case d < 48*time.Hour:
		return parts(d, "h", time.Hour, "min", time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

// parts formats a duration in two units, in one if the second is zero.
func parts(d time.Duration, large string, one time.Duration, small string, other time.Duration) string {
	text := fmt.Sprintf("%d %s", d/one, large)
	if rest := d % one / other; rest > 0 {
		text += fmt.Sprintf(" %d %s", rest, small)
	}
	return text
}

// plural returns "1 saga", "2 sagas".
func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
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
