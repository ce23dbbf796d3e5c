package journal

import (
	"context"
	"time"
)

// Definition is the kind of document that sagas are started from.
const Definition = "definition"

// Catalog keeps published documents: definitions, and later actions. A version never changes.
type Catalog interface {
	// Publish adds a version, or returns the newest one with created=false if its hash is the same.
	// match, when not "", is the sha256 that the newest version must have ("*": any, but there must
	// be one; "-": there must be none), else ErrMismatch, also where nothing would change.
	// Publishing an archived name revives it. A zero CreatedAt is the store's time.
	Publish(ctx context.Context, d Document, match string) (v Document, created bool, err error)
	// Document returns one version, or the newest with version 0. ErrNotFound.
	// Archived documents are found by version, and with version 0 as well; see Archived.
	Document(ctx context.Context, kind, name string, version int) (Document, error)
	// Documents lists the newest version of each name that is not archived, by name, after the
	// given name.
	Documents(ctx context.Context, kind, after string, limit int) ([]Document, error)
	// Versions lists the versions of a name, newest first, those below before (0: all).
	// ErrNotFound.
	Versions(ctx context.Context, kind, name string, before, limit int) ([]Document, error)
	// Archive hides a name: no new sagas, running ones go on. ErrNotFound.
	Archive(ctx context.Context, kind, name string) error
}

// Document is a version of something published.
type Document struct {
	Kind      string // Definition or "action"
	Name      string
	Version   int    // 1, 2, 3 …
	SHA256    string // hex, of Source
	Source    []byte // as published
	CreatedAt time.Time
	Archived  bool
}
