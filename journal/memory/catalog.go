package memory

import (
	"context"
	"fmt"
	"slices"

	"recourse/journal"
)

type docName struct{ kind, name string }

// docs are the versions of a published name.
type docs struct {
	versions []journal.Document // version n is at n-1
	archived bool
}

// Publish implements journal.Catalog.
func (s *Store) Publish(ctx context.Context, d journal.Document, match string) (journal.Document, bool, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return journal.Document{}, false, fmt.Errorf("publish: %w", err)
	}
	defer unlock()
	at := docName{d.Kind, d.Name}
	have := s.names[at]
	if have == nil {
		if !journal.Matches(match, false, "") {
			return journal.Document{}, false, fmt.Errorf("publish %s: %w", d.Name, journal.ErrMismatch)
		}
		have = &docs{}
		s.names[at] = have
		return have.add(d, s), true, nil
	}
	newest := have.versions[len(have.versions)-1]
	if !journal.Matches(match, true, newest.SHA256) {
		return journal.Document{}, false, fmt.Errorf("publish %s: %w", d.Name, journal.ErrMismatch)
	}
	revived := have.archived
	have.archived = false
	created := newest.SHA256 != d.SHA256
	v := have.get(newest.Version)
	if created {
		v = have.add(d, s)
	}
	v.Revived = revived
	return v, created, nil
}

func (n *docs) add(d journal.Document, s *Store) journal.Document {
	if d.CreatedAt.IsZero() {
		d.CreatedAt = s.clock()
	}
	d.CreatedAt = milli(d.CreatedAt)
	d.Version = len(n.versions) + 1
	d.Source = slices.Clone(d.Source)
	n.versions = append(n.versions, d)
	return n.get(d.Version)
}

func (n *docs) get(version int) journal.Document {
	d := n.versions[version-1]
	d.Source = slices.Clone(d.Source)
	d.Archived = n.archived
	return d
}

// newest reports whether a start names the newest version of a definition that is not archived.
func (s *Store) newest(st *journal.Start) bool {
	have := s.names[docName{journal.Definition, st.Definition}]
	return have != nil && !have.archived && len(have.versions) == st.Version
}

// Document implements journal.Catalog.
func (s *Store) Document(ctx context.Context, kind, name string, version int) (journal.Document, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return journal.Document{}, fmt.Errorf("document: %w", err)
	}
	defer unlock()
	have := s.names[docName{kind, name}]
	if have == nil || version < 0 || version > len(have.versions) {
		return journal.Document{}, fmt.Errorf("%s %s version %d: %w", kind, name, version, journal.ErrNotFound)
	}
	if version == 0 {
		version = len(have.versions)
	}
	return have.get(version), nil
}

// Documents implements journal.Catalog.
func (s *Store) Documents(ctx context.Context, kind, after string, limit int) ([]journal.Document, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	defer unlock()
	var names []string
	for at, have := range s.names {
		if at.kind == kind && at.name > after && !have.archived {
			names = append(names, at.name)
		}
	}
	slices.Sort(names)
	var out []journal.Document
	for _, name := range page(names, limit) {
		have := s.names[docName{kind, name}]
		out = append(out, have.get(len(have.versions)))
	}
	return out, nil
}

// Versions implements journal.Catalog.
func (s *Store) Versions(ctx context.Context, kind, name string, before, limit int) ([]journal.Document, error) {
	unlock, err := s.enter(ctx)
	if err != nil {
		return nil, fmt.Errorf("versions: %w", err)
	}
	defer unlock()
	have := s.names[docName{kind, name}]
	if have == nil {
		return nil, fmt.Errorf("%s %s: %w", kind, name, journal.ErrNotFound)
	}
	var out []journal.Document
	for v := len(have.versions); v >= 1; v-- {
		if before <= 0 || v < before {
			out = append(out, have.get(v))
		}
	}
	return page(out, limit), nil
}

// Archive implements journal.Catalog.
func (s *Store) Archive(ctx context.Context, kind, name string) error {
	unlock, err := s.enter(ctx)
	if err != nil {
		return fmt.Errorf("archive: %w", err)
	}
	defer unlock()
	have := s.names[docName{kind, name}]
	if have == nil {
		return fmt.Errorf("archive %s %s: %w", kind, name, journal.ErrNotFound)
	}
	have.archived = true
	return nil
}
