package evidence

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/notify"
	"recourse/journal"
)

// maxLine bounds a line of a file of anchors, in bytes. An event has at most about 64 KiB.
const maxLine = 1 << 20

// Problem is something that the anchors show to be wrong.
type Problem struct {
	Saga uuid.UUID // nil: it concerns the anchors themselves
	Seq  int64     // of the first record concerned; 0: none
	Text string
}

// Set has anchors, from a copy that is trusted to be complete as far as it goes. The zero value is
// not usable: see NewSet.
type Set struct {
	keys     map[string]ed25519.PublicKey
	chains   map[string]map[int64]signed
	journals map[uuid.UUID][]point
	seen     map[uuid.UUID]bool
	problems []Problem
	count    Count
}

// Count says how much was compared.
type Count struct {
	Anchors  int `json:"anchors"`
	Damaged  int `json:"damaged"`  // lines of the files that are no JSON
	Whole    int `json:"whole"`    // sagas that are anchored up to their last record
	Partly   int `json:"partly"`   // sagas that have records after the last anchor
	Unsigned int `json:"unsigned"` // sagas without an anchor
	Expired  int `json:"expired"`  // anchored sagas that are gone, as their retention has ended
}

// signed is an anchor with a valid signature.
type signed struct {
	Anchor
	text string
}

// point is what an anchor says of a journal.
type point struct {
	Head
	at string // when it was anchored
}

// NewSet returns an empty set. Only anchors by one of the keys count.
func NewSet(keys []ed25519.PublicKey) *Set {
	s := &Set{keys: make(map[string]ed25519.PublicKey), chains: make(map[string]map[int64]signed), journals: make(map[uuid.UUID][]point), seen: make(map[uuid.UUID]bool)}
	for _, key := range keys {
		s.keys[KeyID(key)] = key
	}
	return s
}

// Read adds the anchors of a file: a Line, or a CloudEvent with one, on each line. Events of other
// types are ignored, and lines that are no JSON. An anchor that is not valid is a problem, and its
// leaves do not count. The error means that the file cannot be read.
func (s *Set) Read(name string, file io.Reader) error {
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, maxLine)
	for n := 1; scanner.Scan(); n++ {
		if text := bytes.TrimSpace(scanner.Bytes()); len(text) > 0 {
			s.line(fmt.Sprintf("line %d of %s", n, name), text)
		}
	}
	if errors.Is(scanner.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("%s has a line of more than %d bytes, so it is not a file of anchors", name, maxLine)
	}
	return scanner.Err()
}

func (s *Set) line(where string, text []byte) {
	var event struct {
		Line
		Type string          `json:"type"`
		Data json.RawMessage `json:"data"`
	}
	if json.Unmarshal(text, &event) != nil {
		s.count.Damaged++ // a write that was cut; if an anchor is lost, its number is missing
		return
	}
	if event.Type != "" && event.Type != notify.AnchorEvent {
		return
	}
	if event.Type != "" && json.Unmarshal(event.Data, &event.Line) != nil || event.Anchor == "" {
		s.problem("%s is not an anchor: it was changed", where)
		return
	}
	s.Add(where, event.Line)
}

// Add adds an anchor. where names it in problems.
func (s *Set) Add(where string, l Line) {
	a, heads, err := l.open(s.keys)
	if err != nil {
		s.problem("%s (anchor %d of %s) is not valid: %s", where, a.Number, a.Chain, err)
		return
	}
	chain := s.chains[a.Chain]
	if chain == nil {
		chain = make(map[int64]signed)
		s.chains[a.Chain] = chain
	}
	if other, ok := chain[a.Number]; ok {
		if other.text != l.Anchor {
			s.problem("%s is a second anchor %d of %s: the key has signed both, so somebody else has it", where, a.Number, a.Chain)
		}
		return // a sink may get an event twice
	}
	chain[a.Number] = signed{a, l.Anchor}
	s.count.Anchors++
	for _, h := range heads {
		s.journals[h.Saga] = append(s.journals[h.Saga], point{h, a.At})
	}
}

func (s *Set) problem(format string, args ...any) {
	s.problems = append(s.problems, Problem{Text: fmt.Sprintf(format, args...)})
}

// Problems returns what is wrong with the anchors themselves: those that are not valid, and those
// that are missing in a chain. Call it after all of them were added.
func (s *Set) Problems() []Problem {
	list := slices.Clone(s.problems)
	for _, name := range slices.Sorted(maps.Keys(s.chains)) {
		chain, next := s.chains[name], int64(1)
		for _, n := range slices.Sorted(maps.Keys(chain)) {
			switch a := chain[n]; {
			case n > next+1:
				list = append(list, Problem{Text: fmt.Sprintf("anchors %d to %d of %s are missing, so that what they covered is not checked: give all files of anchors", next, n-1, name)})
			case n > next:
				list = append(list, Problem{Text: fmt.Sprintf("anchor %d of %s is missing, so that what it covered is not checked: give all files of anchors", next, name)})
			case n > 1 && a.Previous != textHash(chain[n-1].text):
				list = append(list, Problem{Text: fmt.Sprintf("anchor %d of %s does not follow the anchor before it: one of them is not from that process", n, name)})
			}
			next = n + 1
		}
	}
	return list
}

// Anchored returns how many records of a journal are anchored.
func (s *Set) Anchored(saga uuid.UUID) (records int64) {
	for _, p := range s.journals[saga] {
		records = max(records, p.Seq)
	}
	return records
}

// See says that a saga exists, although its journal cannot be compared.
func (s *Set) See(saga uuid.UUID) { s.seen[saga] = true }

// Check compares a journal with its anchors. records is the whole journal, and its hash chain was
// checked.
func (s *Set) Check(saga uuid.UUID, records []journal.Record) []Problem {
	points := s.journals[saga]
	s.See(saga)
	slices.SortFunc(points, func(a, b point) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.at, b.at)) })
	same := int64(0) // as many records are as they were anchored
	for _, p := range points {
		if p.Seq > int64(len(records)) {
			return []Problem{{Saga: saga, Seq: int64(len(records)) + 1,
				Text: fmt.Sprintf("its records from %d on are missing: it had %d at %s, when it was anchored", len(records)+1, p.Seq, p.at)}}
		}
		if !bytes.Equal(records[p.Seq-1].Hash, p.Hash) {
			return []Problem{{Saga: saga, Seq: same + 1, Text: changed(same+1, p.Seq) + " changed after it was anchored at " + p.at}}
		}
		same = p.Seq
	}
	switch {
	case len(points) == 0:
		s.count.Unsigned++
	case same < int64(len(records)):
		s.count.Partly++
	default:
		s.count.Whole++
	}
	return nil
}

// changed says that one of the records was changed.
func changed(first, last int64) string {
	if first == last {
		return fmt.Sprintf("record %d was", first)
	}
	return fmt.Sprintf("one of the records %d to %d was", first, last)
}

// Missing returns the anchored sagas that were not checked, although all sagas were. Those whose
// retention has ended by now are only counted.
func (s *Set) Missing(now time.Time) (list []Problem) {
	for saga, points := range s.journals { // any order
		if s.seen[saga] {
			continue
		}
		// The same end may be anchored twice, at first without the time of deletion.
		last := slices.MaxFunc(points, func(a, b point) int { return cmp.Or(cmp.Compare(a.Seq, b.Seq), a.DeleteAt.Compare(b.DeleteAt)) })
		if !last.DeleteAt.IsZero() && !last.DeleteAt.After(now) {
			s.count.Expired++
			continue
		}
		why := "and no anchor says that retention may delete it"
		if !last.DeleteAt.IsZero() {
			why = "and is to be kept until " + last.DeleteAt.Format(journal.TimeFormat)
		}
		list = append(list, Problem{Saga: saga, Text: fmt.Sprintf("it is gone: it had %d records at %s, when it was anchored, %s", last.Seq, last.at, why)})
	}
	slices.SortFunc(list, func(a, b Problem) int { return journal.CompareID(a.Saga, b.Saga) })
	return list
}

// Count returns how much was compared so far.
func (s *Set) Count() Count { return s.count }

// Ends returns for each chain the last anchor, in the order of the chains' names.
func (s *Set) Ends() (list []Anchor) {
	for _, name := range slices.Sorted(maps.Keys(s.chains)) {
		chain := s.chains[name]
		list = append(list, chain[slices.Max(slices.Collect(maps.Keys(chain)))].Anchor)
	}
	return list
}
