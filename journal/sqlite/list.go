package sqlite

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// way is an index that has sagas in the order of their ids: all sagas, or those with an equal
// definition, label or status.
type way struct {
	from  string // FROM, if only the id is needed
	join  string // FROM with the saga's row
	id    string // the column of the id
	where string
	args  []any
}

// ways are the indexes that together answer one part of a filter, and the remaining conditions. The
// remaining conditions are checked on each row and never searched in another index, which may have
// far more sagas.
type ways struct {
	each []way
	left conditions
	// owned is whether the indexes leave out the sagas that nodes own. A list reads all of these,
	// and they do not count as scanned: they are in the memory of nodes, and therefore few.
	owned bool
}

// Sagas implements journal.Index.
func (s *Store) Sagas(ctx context.Context, f journal.Filter) (journal.Listed, error) {
	out, err := s.sagas(ctx, f)
	if err != nil {
		return journal.Listed{}, fmt.Errorf("sagas: %w", err)
	}
	return out, nil
}

func (s *Store) sagas(ctx context.Context, f journal.Filter) (out journal.Listed, err error) {
	best, until, err := s.farthest(ctx, &f)
	if err != nil {
		return out, err
	}
	if !until.IsNil() {
		f.From = until
	}
	query, args, err := best.list(&f)
	if err != nil {
		return out, err
	}
	rows, err := s.r.QueryContext(ctx, query, args...)
	if err != nil {
		return out, err
	}
	err = walk(rows, func(scan func(...any) error) error {
		h, err := scanHead(scan)
		out.Heads = append(out.Heads, h)
		return err
	})
	if f.Limit <= 0 || len(out.Heads) < f.Limit {
		out.ScannedTo = until
	}
	return out, err
}

// farthest chooses the part of the filter whose indexes reach the oldest saga within MaxScanned
// sagas. until is that saga; Nil if they reach the end.
func (s *Store) farthest(ctx context.Context, f *journal.Filter) (best ways, until uuid.UUID, err error) {
	for i, p := range f.Parts() {
		w, err := waysTo(&p)
		if err != nil {
			return best, until, err
		}
		var reached uuid.UUID
		if f.MaxScanned > 0 && !f.Indexed() {
			query, args := w.reach(f)
			if err := s.r.QueryRowContext(ctx, query, args...).Scan(idInto{&reached}); err != nil {
				return best, until, err
			}
		}
		if i == 0 || slices.Compare(reached[:], until[:]) < 0 {
			best, until = w, reached
		}
		if until.IsNil() {
			break
		}
	}
	return best, until, nil
}

// reach returns the query for the oldest of f.MaxScanned sagas; its result is NULL if there are
// fewer. If there are several ways, they share that number.
func (w *ways) reach(f *journal.Filter) (string, []any) {
	each := max(f.MaxScanned/len(w.each), 1)
	var parts []string
	var args []any
	for _, y := range w.each {
		c := y.between(f)
		parts = append(parts, `SELECT * FROM (SELECT `+y.id+` AS id FROM `+y.from+c.String()+` ORDER BY `+y.id+` DESC LIMIT 1 OFFSET ?)`)
		args = append(append(args, c.args...), each-1)
	}
	return `SELECT max(id) FROM (` + strings.Join(parts, ` UNION ALL `) + `)`, args
}

// list returns the query for the list.
func (w *ways) list(f *journal.Filter) (query string, args []any, err error) {
	var parts []string
	for _, y := range w.each {
		c := y.between(f)
		c.where, c.args = append(c.where, w.left.where...), append(c.args, w.left.args...)
		parts = append(parts, `SELECT `+headColumns+` FROM `+y.from+y.join+c.String()+` ORDER BY `+y.id+` DESC LIMIT ?`)
		args = append(append(args, c.args...), all(f.Limit))
	}
	if w.owned {
		c, err := conditionsOf(f)
		if err != nil {
			return "", nil, err
		}
		bounds := (&way{id: `+id`}).between(f)
		c.where, c.args = append(c.where, bounds.where...), append(c.args, bounds.args...)
		parts = append(parts, `SELECT `+headColumns+` FROM `+ownedSagas+c.String()+` ORDER BY id DESC LIMIT ?`)
		args = append(append(args, c.args...), all(f.Limit))
	}
	if len(parts) == 1 {
		return parts[0], args, nil
	}
	return `SELECT * FROM (SELECT * FROM (` + strings.Join(parts, `) UNION ALL SELECT * FROM (`) + `)) ORDER BY 1 DESC LIMIT ?`, append(args, all(f.Limit)), nil
}

// ownedSagas are the sagas that have an owner.
const ownedSagas = `(SELECT * FROM sagas INDEXED BY sagas_owner WHERE owner IS NOT NULL)`

// between returns the conditions that limit a way to the filter's range of ids.
func (y *way) between(f *journal.Filter) *conditions {
	c := &conditions{}
	if y.where != "" {
		c.and(y.where, y.args...)
	}
	if !f.From.IsNil() {
		c.and(y.id+` >= ?`, f.From.Bytes())
	}
	if !f.Before.IsNil() {
		c.and(y.id+` < ?`, f.Before.Bytes())
	}
	return c
}

// waysTo returns the indexes for a part of a filter.
func waysTo(p *journal.Part) (w ways, err error) {
	switch {
	case p.Label != "":
		w.each = []way{{from: `saga_labels g`, join: ` CROSS JOIN sagas ON sagas.id = g.saga_id`, id: `g.saga_id`, where: `g.name = ? AND g.value = ?`, args: []any{p.Label, p.Value}}}
	case p.Definition != "":
		w.each, w.owned = []way{{from: `sagas`, id: `id`, where: `owner IS NULL AND definition = ?`, args: []any{p.Definition}}}, true
	case len(p.Status) > 0:
		w.owned = true
		for _, st := range p.Status {
			w.each = append(w.each, way{from: `sagas`, id: `id`, where: `owner IS NULL AND status = ?`, args: []any{st}})
		}
	default:
		w.each = []way{{from: `sagas`, id: `id`}}
	}
	w.left, err = conditionsOf(&p.Remaining)
	return w, err
}

// conditionsOf returns the conditions of a filter. The + before each column prevents the use of an
// index.
func conditionsOf(f *journal.Filter) (c conditions, err error) {
	if f.Definition != "" {
		c.and(`+definition = ?`, f.Definition)
	}
	if len(f.Status) > 0 {
		args := make([]any, len(f.Status))
		for i, st := range f.Status {
			args[i] = st
		}
		c.and(`+status IN (`+strings.Repeat(", ?", len(args))[2:]+`)`, args...)
	}
	for _, k := range slices.Sorted(maps.Keys(f.Labels)) {
		l, err := labels(map[string]string{k: f.Labels[k]})
		if err != nil {
			return c, err
		}
		// The first condition is fast, but may match inside another label whose name has quotes.
		c.and(`instr(labels, ?) AND EXISTS (SELECT 1 FROM json_each(labels) l WHERE l.key = ? AND l.value = ?)`, l[1:len(l)-1], k, f.Labels[k])
	}
	if f.Text != "" {
		c.and(`instr(search_text, ?) > 0`, journal.SearchText(f.Text))
	}
	return c, nil
}
