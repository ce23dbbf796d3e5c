package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"recourse/journal"
)

const documentColumns = `d.kind, d.name, d.version, d.sha256, d.source, d.created_at, n.archived
	FROM documents d JOIN document_names n ON n.kind = d.kind AND n.name = d.name`

func scanDocument(scan func(...any) error) (journal.Document, error) {
	var d journal.Document
	var created int64
	err := scan(&d.Kind, &d.Name, &d.Version, &d.SHA256, &d.Source, &created, &d.Archived)
	d.CreatedAt = toTime(created)
	if errors.Is(err, sql.ErrNoRows) {
		err = journal.ErrNotFound
	}
	return d, err
}

type version struct {
	definition string
	version    int
}

// newest returns ErrNotNewest unless a start names the newest version of a definition that is not
// archived. A transaction that starts sagas changes no document, so it reads each definition once.
func (t *tx) newest(st *journal.Start) error {
	v := version{st.Definition, st.Version}
	if t.found[v] {
		return nil
	}
	var one int
	err := t.row(`SELECT 1 FROM document_names WHERE kind = ? AND name = ? AND newest = ? AND NOT archived`,
		[]any{journal.Definition, st.Definition, st.Version}, &one)
	if errors.Is(err, sql.ErrNoRows) {
		return journal.ErrNotNewest
	}
	if err == nil {
		t.found[v] = true
	}
	return err
}

// Publish implements journal.Catalog.
func (s *Store) Publish(ctx context.Context, d journal.Document, match string) (v journal.Document, created bool, err error) {
	err = s.w.do(ctx, func(t *tx) error {
		var newest int
		var sha string
		var archived bool
		err := t.row(`SELECT n.newest, n.archived, d.sha256 FROM document_names n JOIN documents d ON d.kind = n.kind AND d.name = n.name AND d.version = n.newest
			WHERE n.kind = ? AND n.name = ?`, []any{d.Kind, d.Name}, &newest, &archived, &sha)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if !journal.Matches(match, newest > 0, sha) {
			return journal.ErrMismatch
		}
		created = newest == 0 || sha != d.SHA256
		if created {
			newest++
			if err := t.addVersion(&d, newest, s.clock()); err != nil {
				return err
			}
		}
		_, err = t.exec(`INSERT INTO document_names (kind, name, newest, archived) VALUES (?, ?, ?, 0)
			ON CONFLICT (kind, name) DO UPDATE SET newest = excluded.newest, archived = 0`, d.Kind, d.Name, newest)
		if err != nil {
			return err
		}
		v, err = scanDocument(func(dest ...any) error {
			return t.row(`SELECT `+documentColumns+` WHERE d.kind = ? AND d.name = ? AND d.version = ?`, []any{d.Kind, d.Name, newest}, dest...)
		})
		v.Revived = archived
		return err
	})
	if err != nil {
		return journal.Document{}, false, fmt.Errorf("publish %s: %w", d.Name, err)
	}
	return v, created, nil
}

func (t *tx) addVersion(d *journal.Document, version int, now int64) error {
	if !d.CreatedAt.IsZero() {
		now = d.CreatedAt.UnixMilli()
	}
	source := d.Source
	if source == nil {
		source = []byte{}
	}
	_, err := t.exec(`INSERT INTO documents (kind, name, version, sha256, source, created_at) VALUES (?, ?, ?, ?, ?, ?)`,
		d.Kind, d.Name, version, d.SHA256, source, now)
	return err
}

// Document implements journal.Catalog.
func (s *Store) Document(ctx context.Context, kind, name string, version int) (journal.Document, error) {
	d, err := scanDocument(s.row(ctx, `SELECT `+documentColumns+` WHERE d.kind = ? AND d.name = ? AND d.version = CASE ? WHEN 0 THEN n.newest ELSE ? END`,
		kind, name, version, version))
	if err != nil {
		return journal.Document{}, fmt.Errorf("%s %s version %d: %w", kind, name, version, err)
	}
	return d, nil
}

// Documents implements journal.Catalog.
func (s *Store) Documents(ctx context.Context, kind, after string, limit int) ([]journal.Document, error) {
	out, err := s.documents(ctx, `SELECT `+documentColumns+` AND n.newest = d.version WHERE d.kind = ? AND d.name > ? AND NOT n.archived ORDER BY d.name LIMIT ?`,
		kind, after, all(limit))
	if err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	return out, nil
}

// Versions implements journal.Catalog.
func (s *Store) Versions(ctx context.Context, kind, name string, before, limit int) ([]journal.Document, error) {
	out, err := s.documents(ctx, `SELECT `+documentColumns+` WHERE d.kind = ? AND d.name = ? AND (? <= 0 OR d.version < ?) ORDER BY d.version DESC LIMIT ?`,
		kind, name, before, before, all(limit))
	if err == nil && len(out) == 0 {
		_, err = s.Document(ctx, kind, name, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("versions of %s: %w", name, err)
	}
	return out, nil
}

func (s *Store) documents(ctx context.Context, query string, args ...any) ([]journal.Document, error) {
	rows, err := s.r.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	var out []journal.Document
	err = walk(rows, func(scan func(...any) error) error {
		d, err := scanDocument(scan)
		out = append(out, d)
		return err
	})
	return out, err
}

// Archive implements journal.Catalog.
func (s *Store) Archive(ctx context.Context, kind, name string) error {
	err := s.w.do(ctx, func(t *tx) error {
		n, err := t.exec(`UPDATE document_names SET archived = 1 WHERE kind = ? AND name = ?`, kind, name)
		if err == nil && n == 0 {
			return journal.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("archive %s %s: %w", kind, name, err)
	}
	return nil
}
