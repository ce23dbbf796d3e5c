package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"recourse/journal"
)

const documentColumns = `SELECT d.kind, d.name, d.version, d.sha256, d.source, d.created_at, n.archived
	FROM documents d JOIN document_names n ON n.kind = d.kind AND n.name = d.name`

func scanDocument(row pgx.CollectableRow) (journal.Document, error) {
	var d journal.Document
	var created int64
	err := row.Scan(&d.Kind, &d.Name, &d.Version, &d.SHA256, &d.Source, &created, &d.Archived)
	d.CreatedAt = toTime(created)
	return d, err
}

// Publish implements journal.Catalog. It locks the row of the name, which it creates if it does not
// exist, so that publications of one name wait for each other.
func (s *Store) Publish(ctx context.Context, d journal.Document, match string) (v journal.Document, created bool, err error) {
	err = s.rest.tx(ctx, func(t session) error {
		_, err := t.Exec(ctx, `INSERT INTO document_names (kind, name, newest, archived) VALUES ($1, $2, 0, false) ON CONFLICT DO NOTHING`, d.Kind, d.Name)
		if err != nil {
			return err
		}
		var newest int
		var archived bool
		if err := t.QueryRow(ctx, `SELECT newest, archived FROM document_names WHERE kind = $1 AND name = $2 FOR UPDATE`, d.Kind, d.Name).Scan(&newest, &archived); err != nil {
			return err
		}
		var sha string
		err = t.QueryRow(ctx, `SELECT sha256 FROM documents WHERE kind = $1 AND name = $2 AND version = $3`, d.Kind, d.Name, newest).Scan(&sha)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		if !journal.Matches(match, newest > 0, sha) {
			return journal.ErrMismatch
		}
		created = newest == 0 || sha != d.SHA256
		if created {
			newest++
			if err := addVersion(ctx, t, &d, newest); err != nil {
				return err
			}
		}
		if _, err := t.Exec(ctx, `UPDATE document_names SET newest = $3, archived = false WHERE kind = $1 AND name = $2`, d.Kind, d.Name, newest); err != nil {
			return err
		}
		rows, err := t.Query(ctx, documentColumns+` WHERE d.kind = $1 AND d.name = $2 AND d.version = $3`, d.Kind, d.Name, newest)
		if err != nil {
			return err
		}
		v, err = pgx.CollectExactlyOneRow(rows, scanDocument)
		v.Revived = archived
		return err
	})
	if err != nil {
		return journal.Document{}, false, fmt.Errorf("publish %s: %w", d.Name, err)
	}
	return v, created, nil
}

func addVersion(ctx context.Context, t session, d *journal.Document, version int) error {
	source := d.Source
	if source == nil {
		source = []byte{}
	}
	_, err := t.Exec(ctx, sql(`INSERT INTO documents (kind, name, version, sha256, source, created_at) VALUES ($1, $2, $3, $4, $5, coalesce($6, {now}))`),
		d.Kind, d.Name, version, d.SHA256, source, millis(d.CreatedAt))
	return err
}

// Document implements journal.Catalog.
func (s *Store) Document(ctx context.Context, kind, name string, version int) (journal.Document, error) {
	out, err := s.documents(ctx, ` WHERE d.kind = $1 AND d.name = $2 AND d.version = CASE $3::int WHEN 0 THEN n.newest ELSE $3 END`, kind, name, version)
	if err == nil && len(out) == 0 {
		err = journal.ErrNotFound
	}
	if err != nil {
		return journal.Document{}, fmt.Errorf("%s %s version %d: %w", kind, name, version, err)
	}
	return out[0], nil
}

// Documents implements journal.Catalog.
func (s *Store) Documents(ctx context.Context, kind, after string, limit int) ([]journal.Document, error) {
	out, err := s.documents(ctx, ` AND n.newest = d.version WHERE d.kind = $1 AND d.name COLLATE "C" > $2 AND NOT n.archived ORDER BY d.name COLLATE "C" LIMIT $3`,
		kind, after, limited(limit))
	if err != nil {
		return nil, fmt.Errorf("documents: %w", err)
	}
	return out, nil
}

// Versions implements journal.Catalog.
func (s *Store) Versions(ctx context.Context, kind, name string, before, limit int) ([]journal.Document, error) {
	out, err := s.documents(ctx, ` WHERE d.kind = $1 AND d.name = $2 AND ($3::int <= 0 OR d.version < $3) ORDER BY d.version DESC LIMIT $4`,
		kind, name, before, limited(limit))
	if err == nil && len(out) == 0 {
		_, err = s.Document(ctx, kind, name, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("versions of %s: %w", name, err)
	}
	return out, nil
}

// documents reads documents of a kind, by conditions with their name or the one before it. Clients
// may send any name.
func (s *Store) documents(ctx context.Context, rest, kind, name string, args ...any) ([]journal.Document, error) {
	rows, err := s.pool.Query(ctx, documentColumns+rest, append([]any{kind, clean(name)}, args...)...)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanDocument)
}

// Archive implements journal.Catalog.
func (s *Store) Archive(ctx context.Context, kind, name string) error {
	n, err := s.rest.exec(ctx, `UPDATE document_names SET archived = true WHERE kind = $1 AND name = $2`, kind, clean(name))
	if err == nil && n == 0 {
		err = journal.ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("archive %s %s: %w", kind, name, err)
	}
	return nil
}
