package evidence

import (
	"context"
	"errors"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

const (
	// slack covers a lease, and the time until its end is noticed.
	slack = time.Minute
	// startedWithin bounds the search for what a dead node left: it finds only sagas that were
	// started that long before, because no index has the times at which sagas ended.
	startedWithin = time.Hour
	headsPage     = 500
	recordsPage   = 1000
)

// look anchors what other processes left that died: at first those before this one, and then those
// that have ended since the last call.
func (s *Signer) look(ctx context.Context) error {
	if err := s.begin(ctx); err != nil {
		return err
	}
	return s.watch(ctx)
}

// begin anchors what the processes before this one left, unless it has done so.
func (s *Signer) begin(ctx context.Context) error {
	if s.begun {
		return nil
	}
	fired, err := s.cfg.Store.Fired(ctx)
	if err != nil {
		return err
	}
	if at := fired[mark]; !at.IsZero() {
		if err := s.left(ctx, at.Add(-2*s.cfg.Every-slack)); err != nil {
			return err
		}
	}
	s.begun = true
	return nil
}

// watch anchors what a node left that has ended since the last call.
func (s *Signer) watch(ctx context.Context) error {
	list, err := s.cfg.Store.Nodes(ctx)
	if err != nil {
		return err
	}
	nodes := make(map[string]bool, len(list))
	for _, n := range list {
		nodes[n.Node] = true
	}
	for name := range s.nodes { // any order
		if !nodes[name] {
			if err := s.left(ctx, s.looked.Add(-2*s.cfg.Every-slack)); err != nil {
				return err
			}
			break
		}
	}
	s.nodes, s.looked = nodes, s.cfg.Now()
	return nil
}

// left collects the ends of the sagas that no node runs and that changed at since or later. A node
// anchors those that it runs. A journal that cannot be read keeps no other from being anchored.
func (s *Signer) left(ctx context.Context, since time.Time) error {
	f := journal.Filter{From: journal.FirstID(since.Add(-startedWithin)), Limit: headsPage}
	var broken int
	var last uuid.UUID
	var why error
	for {
		page, err := s.cfg.Store.Sagas(ctx, f)
		if err != nil {
			return err
		}
		for i := range page.Heads {
			h := &page.Heads[i]
			if h.Owner != "" || h.UpdatedAt.Before(since) {
				continue
			}
			err := s.end(ctx, h)
			if errors.Is(err, journal.ErrBroken) {
				broken, last, why = broken+1, h.ID, err
			} else if err != nil {
				return err
			}
		}
		if len(page.Heads) < headsPage {
			break
		}
		f.Before = page.Heads[len(page.Heads)-1].ID
	}
	if broken > 0 { // one line for all: a lost dictionary may concern many
		s.cfg.Log.Error("anchors leave out ends of journals that cannot be read: check the sagas with `recourse verify --database …`", "sagas", broken, "saga", last, "error", why)
	}
	return nil
}

// end collects the end of a saga's journal. Its row may be older than its last record.
func (s *Signer) end(ctx context.Context, h *journal.Head) error {
	head, ended := Head{Saga: h.ID, DeleteAt: h.DeleteAt}, false
	for after := max(h.Seq-1, 0); ; after = head.Seq {
		records, err := s.cfg.Store.Records(ctx, h.ID, after, recordsPage)
		if err != nil {
			if errors.Is(err, journal.ErrNotFound) {
				return nil // it was deleted in the meantime
			}
			return err
		}
		if n := len(records); n > 0 {
			head.Seq, head.Hash = records[n-1].Seq, records[n-1].Hash
			ended = records[n-1].Kind == journal.Finished
		}
		if len(records) < recordsPage {
			break
		}
	}
	if ended && head.Seq > h.Seq { // the row is of a time when the saga had not ended
		now, err := s.cfg.Store.Saga(ctx, h.ID)
		if errors.Is(err, journal.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		head.DeleteAt = now.DeleteAt
	}
	if head.Seq > 0 {
		s.add(head)
	}
	return nil
}
