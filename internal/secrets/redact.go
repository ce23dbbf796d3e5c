package secrets

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// MinRedacted is the length, in bytes, of the shortest value that Redact replaces. Shorter values
// occur in innocent text.
const MinRedacted = 6

// Redact returns text with every value that Get ever returned replaced by ***, in the forms in
// which values appear in logs: as they are, percent-encoded, quoted, and inside JSON, also several
// times. Values shorter than MinRedacted are not replaced.
func (s *Source) Redact(text string) string { return s.given.redact(text) }

// Known returns every value that Get ever returned and that Redact looks for, in no order. The
// caller may keep and change the slice.
func (s *Source) Known() []string {
	s.given.mu.RLock()
	defer s.given.mu.RUnlock()
	return slices.Collect(maps.Keys(s.given.seen))
}

// redactor remembers values. Old values of a rotated secret stay, because logs may still contain
// them.
type redactor struct {
	mu       sync.RWMutex
	seen     map[string]bool
	replacer *strings.Replacer
}

func (r *redactor) add(value string) {
	if len(value) < MinRedacted {
		return
	}
	r.mu.RLock()
	known := r.seen[value]
	r.mu.RUnlock()
	if known {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.seen == nil {
		r.seen = map[string]bool{}
	}
	r.seen[value] = true
	r.replacer = newReplacer(r.seen)
}

func (r *redactor) redact(text string) string {
	r.mu.RLock()
	replacer := r.replacer
	r.mu.RUnlock()
	if replacer == nil {
		return text
	}
	return replacer.Replace(text)
}

// nested is how often a value may be quoted: in a JSON document, which is in an error's text, which
// is in another one, and so on.
const nested = 3

func newReplacer(values map[string]bool) *strings.Replacer {
	var forms []string
	for v := range values {
		level := []string{v, url.QueryEscape(v), url.PathEscape(v)}
		for range nested + 1 {
			slices.Sort(level)
			level = slices.Compact(level)
			forms = append(forms, level...)
			var next []string
			for _, f := range level {
				quoted := strconv.Quote(f) // as the lines of a log in text are written
				next = append(next, inJSON(f, true), inJSON(f, false), quoted[1:len(quoted)-1])
			}
			level = next
		}
	}
	// The replacer takes the first form that matches at a place. The longest must come first.
	// Otherwise, if one secret is the beginning of another, the rest of the longer one would
	// remain.
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	var pairs []string
	for _, f := range slices.Compact(forms) {
		pairs = append(pairs, f, "***")
	}
	return strings.NewReplacer(pairs...)
}

// inJSON returns the form inside JSON, with or without escapes for HTML.
func inJSON(v string, html bool) string {
	var quoted bytes.Buffer
	e := json.NewEncoder(&quoted)
	e.SetEscapeHTML(html)
	_ = e.Encode(v) // strings can always be encoded
	return strings.TrimSuffix(strings.TrimPrefix(quoted.String(), `"`), "\"\n")
}
