package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gofrs/uuid/v5"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"recourse/journal"
)

// indexScan is an index that has sagas in the order of their ids: all sagas, or those with equal
// values in the index's other columns. The query sorts by all columns of the index. The planner
// assumes that matching sagas are evenly distributed; if the query sorted by id only, it would scan
// all sagas by id for a value that only old ones have.
type indexScan struct {
	table   string
	columns []string // the index's first columns, and the id
	values  []string // of all columns except the id
}

// indexScans are the indexes that together answer one part of a filter.
type indexScans struct {
	each []indexScan
	rest journal.Filter // the remaining conditions
	// owned is whether the indexes leave out the sagas that nodes own. A list reads all of these,
	// and they do not count as scanned: they are in the memory of nodes, and therefore few.
	owned bool
}

// scansFor returns the indexes for a part of a filter.
func scansFor(p *journal.Part) indexScans {
	w := indexScans{rest: p.Remaining}
	switch {
	case p.Label != "":
		w.each = []indexScan{{"saga_labels", []string{"name", "value", "saga_id"}, []string{clean(p.Label), clean(p.Value)}}}
	case p.Definition != "":
		w.each, w.owned = []indexScan{{"sagas", []string{"definition", "id"}, []string{p.Definition}}}, true
	case len(p.Status) > 0:
		w.owned = true
		for _, st := range p.Status {
			w.each = append(w.each, indexScan{"sagas", []string{"status", "id"}, []string{st}})
		}
	default:
		w.each = []indexScan{{"sagas", []string{"id"}, nil}}
	}
	return w
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
	c := &conditions{}
	query, err := best.list(c, &f)
	if err != nil {
		return out, err
	}
	rows, err := s.pool.Query(ctx, query, c.args...)
	if err != nil {
		return out, err
	}
	out.Heads, err = collect(rows, scanHead)
	if f.Limit <= 0 || len(out.Heads) < f.Limit {
		out.ScannedTo = until
	}
	return out, err
}

// farthest chooses the part of the filter whose indexes reach the oldest saga within MaxScanned
// sagas. until is that saga; Nil if they reach the end.
func (s *Store) farthest(ctx context.Context, f *journal.Filter) (best indexScans, until uuid.UUID, err error) {
	for i, p := range f.Parts() {
		w := scansFor(&p)
		var reached pgtype.UUID
		if f.MaxScanned > 0 && !f.Indexed() {
			c := &conditions{}
			if err := s.pool.QueryRow(ctx, w.reach(c, f), c.args...).Scan(&reached); err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return best, until, err
			}
		}
		if i == 0 || slices.Compare(reached.Bytes[:], until[:]) < 0 {
			best, until = w, reached.Bytes
		}
		if until.IsNil() {
			break
		}
	}
	return best, until, nil
}

// reach returns the query for the oldest of f.MaxScanned sagas; it has no row if there are fewer.
// If there are several scans, they share that number.
func (w *indexScans) reach(c *conditions, f *journal.Filter) string {
	each := max(f.MaxScanned/len(w.each), 1)
	parts := make([]string, len(w.each))
	for i, y := range w.each {
		parts[i] = `(SELECT ` + y.id() + ` AS id FROM ` + y.table + y.between(c, f) + y.order() + ` LIMIT 1 OFFSET ` + strconv.Itoa(each-1) + `)`
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return `SELECT id FROM (` + strings.Join(parts, ` UNION ALL `) + `) s ORDER BY id DESC LIMIT 1`
}

// room is how many sagas may be added to the scanned range after it was measured.
const room = 1000

// list returns the query for the list. The other conditions of the filter are checked on the sagas
// that one index returns. The inner LIMIT or OFFSET prevents the planner from answering them with
// another index, which may have far more sagas than are scanned here; the LIMIT also keeps the
// order of the index.
func (w *indexScans) list(c *conditions, f *journal.Filter) (string, error) {
	if err := c.left(&w.rest); err != nil {
		return "", err
	}
	limit, fence := "", ` OFFSET 0`
	if f.MaxScanned > 0 && !f.Indexed() {
		fence = ` LIMIT ` + strconv.Itoa(f.MaxScanned+room)
	}
	if f.Limit > 0 {
		limit = ` LIMIT ` + strconv.Itoa(f.Limit)
		if len(c.where) == 0 {
			fence = limit
		}
	}
	parts := make([]string, 0, len(w.each)+1)
	for _, y := range w.each {
		between := y.between(c, f)
		query := ""
		switch {
		case y.table != "sagas":
			query = headColumns + ` FROM (SELECT * FROM ` + y.table + between + y.order() + fence + `) g
				CROSS JOIN LATERAL (SELECT * FROM sagas WHERE id = g.saga_id OFFSET 0) s` + c.String() + y.order() + limit
		case len(c.where) == 0:
			query = headColumns + ` FROM sagas` + between + y.order() + limit
		default:
			query = headColumns + ` FROM (SELECT * FROM sagas` + between + y.order() + fence + `) s` + c.String() + y.order() + limit
		}
		parts = append(parts, query)
	}
	if w.owned {
		query, err := ownedIn(c, f)
		if err != nil {
			return "", err
		}
		parts = append(parts, query+limit)
	}
	if len(parts) == 1 {
		return parts[0], nil
	}
	return `SELECT * FROM ((` + strings.Join(parts, `) UNION ALL (`) + `)) s ORDER BY id DESC` + limit, nil
}

// ownedSagas are the sagas that have an owner. Owners are nodes, because a node's row is deleted in
// the transaction that frees its sagas. The planner looks up each of them in the index of owners;
// how many sagas have any owner it could only know from statistics.
var ownedSagas = `(SELECT s.* FROM nodes n CROSS JOIN LATERAL (SELECT * FROM sagas WHERE ` + ownedBy("n.id") + ` OFFSET 0) s) s`

// ownedIn returns the query for those of the owned sagas that match the filter.
func ownedIn(c *conditions, f *journal.Filter) (string, error) {
	matching := &conditions{args: c.args}
	if !f.From.IsNil() {
		matching.and(`id >= ?`, id(f.From))
	}
	if !f.Before.IsNil() {
		matching.and(`id < ?`, id(f.Before))
	}
	err := matching.left(f)
	c.args = matching.args
	return headColumns + ` FROM ` + ownedSagas + matching.String() + ` ORDER BY id DESC`, err
}

func (y *indexScan) id() string { return y.columns[len(y.columns)-1] }

func (y *indexScan) order() string {
	return ` ORDER BY ` + strings.Join(y.columns, ` DESC, `) + ` DESC`
}

// between returns the conditions that limit a scan to its values and to the filter's range of ids.
func (y *indexScan) between(c *conditions, f *journal.Filter) string {
	values := make([]string, 0, len(y.columns))
	for _, v := range y.values {
		values = append(values, c.arg(v))
	}
	where := &conditions{}
	bound := func(than string, u uuid.UUID) {
		columns, values := y.columns, append(slices.Clip(values), c.arg(id(u)))
		where.where = append(where.where, `(`+strings.Join(columns, `, `)+`) `+than+` (`+strings.Join(values, `, `)+`)`)
	}
	bound(`>=`, f.From)
	switch {
	case !f.Before.IsNil():
		bound(`<`, f.Before)
	case len(values) > 0:
		n := len(values)
		where.where = append(where.where, `(`+strings.Join(y.columns[:n], `, `)+`) <= (`+strings.Join(values, `, `)+`)`)
	}
	if y.table == "sagas" && len(y.values) > 0 {
		where.where = append(where.where, `owner IS NULL`)
	}
	return where.String()
}

// left adds the remaining conditions of a filter.
func (c *conditions) left(f *journal.Filter) error {
	if f.Definition != "" {
		c.and(`definition = ?`, f.Definition)
	}
	if len(f.Status) > 0 {
		c.and(`status = ANY(?)`, f.Status)
	}
	if len(f.Labels) > 0 {
		l, err := labels(f.Labels)
		if err != nil {
			return err
		}
		c.and(`labels @> ?::text::jsonb`, l)
	}
	if f.Text != "" {
		c.and(`strpos(search_text, ?) > 0`, journal.SearchText(f.Text))
	}
	return nil
}
