package secrets

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// MinRedacted is the shortest value that Redact looks for, in bytes: a shorter
// one is found in innocent text everywhere.
const MinRedacted = 6

// Redact returns text with every value that Get ever returned replaced by ***,
// in the forms in which values appear in logs: as they are, inside JSON, and
// percent-encoded. Values under MinRedacted bytes are left.
func (s *Source) Redact(text string) string { return s.given.redact(text) }

// Known returns every value that Get ever returned and that Redact looks for, in no order. The
// caller may keep and change the slice.
func (s *Source) Known() []string {
	s.given.mu.RLock()
	defer s.given.mu.RUnlock()
	return slices.Collect(maps.Keys(s.given.seen))
}

// redactor remembers values. Old ones of a rotated secret stay: logs may still
// show them.
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

func newReplacer(values map[string]bool) *strings.Replacer {
	var forms []string
	for v := range values {
		forms = append(forms, v, inJSON(v), url.QueryEscape(v), url.PathEscape(v))
	}
	// The replacer takes the first that matches at a place: the longest must win,
	// or a secret that begins with another would leave its rest.
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

func inJSON(v string) string {
	quoted, err := json.Marshal(v)
	if err != nil || len(quoted) < 2 {
		return v
	}
	return string(quoted[1 : len(quoted)-1])
}
