package linearizability

import (
	"fmt"
	"strings"

	"recourse/journal"
)

// origin is the request that started a saga, or several that may have.
type origin struct{ key, body, mark string }

// origins checks that each saga was requested as it is, and started once: one
// for a key, and without a key one for a request.
func (c *checker) origins() {
	asked := map[origin]int{}
	for _, o := range c.ops {
		switch {
		case o.Do == Start:
			asked[origin{key: o.Key, body: o.Body}]++
		case o.Do == Command && o.Verb() == "retry":
			asked[origin{key: o.Key, body: o.Saga, mark: o.Command.Reason}]++
		}
	}
	for _, s := range c.truth.Sagas {
		_, key, _ := strings.Cut(s.Head.Key, ":")
		from := origin{key: key, body: s.body()}
		if s.Started.RetryOf != "" {
			from = origin{key: key, body: s.Started.RetryOf, mark: s.Started.Reason}
		}
		if asked[from]--; asked[from] < 0 {
			c.fail(fmt.Sprintf("nobody asked for saga %s (%s) under key %q", s.ID(), s.body(), key))
		}
		if last := s.Records[len(s.Records)-1]; s.End().Terminal() != (last.Kind == journal.Finished) {
			c.fail(fmt.Sprintf("saga %s ended as %s without a last record that says so", s.ID(), s.End()))
		}
	}
}
