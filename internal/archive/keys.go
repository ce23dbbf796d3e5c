package archive

import (
	"fmt"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// Prefixes of keys.
const (
	sagasPrefix   = "sagas/"
	indexPrefix   = "index/"
	contentPrefix = "content/"
	suffix        = ".ndjson.zst"
)

const dayFormat = "2006-01-02"

func day(t time.Time) string { return t.UTC().Format(dayFormat) }

// partKey is the key of an object with journals.
func partKey(ended, definition string, id uuid.UUID) string {
	return sagasPrefix + ended + "/" + definition + "/" + id.String() + suffix
}

// Part is an object with journals, by its key.
type Part struct {
	Key        string
	Day        string // on which its sagas ended
	Definition string
	ID         uuid.UUID
}

// parsePart reads the key of an object with journals.
func parsePart(key string) (p Part, ok bool) {
	rest, ok := strings.CutPrefix(key, sagasPrefix)
	ended, rest, slash := strings.Cut(rest, "/")
	at := strings.LastIndexByte(rest, '/') // the name of a definition may have slashes
	if !ok || !slash || at < 0 {
		return p, false
	}
	id, err := uuid.FromString(strings.TrimSuffix(rest[at+1:], suffix))
	p = Part{Key: key, Day: ended, Definition: rest[:at], ID: id}
	return p, err == nil && partKey(p.Day, p.Definition, p.ID) == key
}

// indexKey is the key of the index of those sagas of a part that were started on a day. They are in
// the order of their ids.
func indexKey(part uuid.UUID, entries []Entry) string {
	first, last := entries[0].Saga, entries[len(entries)-1].Saga
	return fmt.Sprintf("%s%s/%s.%s.%s%s", indexPrefix, startDay(first), first, last, part, suffix)
}

// startDay is the day on which a saga was started.
func startDay(saga uuid.UUID) string { return day(journal.IDTime(saga)) }

// parseIndex reads the key of an index: the range of the ids in it, and its part.
func parseIndex(key string) (first, last, part uuid.UUID, ok bool) {
	name := strings.Split(strings.TrimSuffix(key[strings.LastIndexByte(key, '/')+1:], suffix), ".")
	if !strings.HasPrefix(key, indexPrefix) || len(name) != 3 {
		return first, last, part, false
	}
	var ids [3]uuid.UUID
	for i := range ids {
		id, err := uuid.FromString(name[i])
		if err != nil {
			return first, last, part, false
		}
		ids[i] = id
	}
	return ids[0], ids[1], ids[2], true
}

// contentOf is the prefix of the objects with a saga's content.
func contentOf(saga uuid.UUID) string {
	return contentPrefix + startDay(saga) + "/" + saga.String() + "/"
}

func contentKey(saga uuid.UUID, n int) string {
	return fmt.Sprintf("%s%04d%s", contentOf(saga), n, suffix)
}
