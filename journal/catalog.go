package journal

import (
	"context"
	"time"
)

// Definition is the kind of the documents that sagas are started from.
const Definition = "definition"

// Catalog stores published documents: definitions and actions. A version never changes.
type Catalog interface {
	// Publish adds a version and returns it. If the newest version has the same hash, Publish adds
	// nothing and returns that version with created=false. Errors: ErrMismatch, ErrUnknown.
	//
	// match is "" or a condition on the newest version, checked before anything else: its sha256,
	// "*" (there must be a version) or "-" (there must be none). Publishing an archived name makes
	// it available again, which is said in Document.Revived. A zero CreatedAt stands for the
	// store's time.
	Publish(ctx context.Context, d Document, match string) (v Document, created bool, err error)
	// Document returns one version; for version 0, the newest one. Errors: ErrNotFound. It returns
	// archived documents, too: see Document.Archived.
	Document(ctx context.Context, kind, name string, version int) (Document, error)
	// Documents lists the newest version of each name that is not archived, in the order of names,
	// after the given one.
	Documents(ctx context.Context, kind, after string, limit int) ([]Document, error)
	// Versions lists the versions of a name that are less than before (0: all), the newest first.
	// Errors: ErrNotFound.
	Versions(ctx context.Context, kind, name string, before, limit int) ([]Document, error)
	// Archive hides a name: no saga can be started from it; running sagas continue. Errors:
	// ErrNotFound, ErrUnknown.
	Archive(ctx context.Context, kind, name string) error
}

// Matches reports whether a name meets a condition of Catalog.Publish. sha256 is that of its newest
// version, if it has one.
func Matches(match string, exists bool, sha256 string) bool {
	switch match {
	case "":
		return true
	case "*":
		return exists
	case "-":
		return !exists
	}
	return exists && match == sha256
}

// Document is one version of a published document.
type Document struct {
	Kind      string // Definition or "action"
	Name      string
	Version   int    // 1, 2, 3 …
	SHA256    string // hex, of Source
	Source    []byte // the bytes that were published
	CreatedAt time.Time
	Archived  bool
	Revived   bool // by the Publish that returned it: the name was archived until then; not stored
}
