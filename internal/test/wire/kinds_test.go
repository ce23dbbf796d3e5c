package wire_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

// reading are the methods of a store that write nothing.
var reading = []string{"Records", "Begins", "Recipients", "Messages", "Owned", "Synchronous", "Saga", "SagaByKey", "Sagas", "Opened", "Inbox", "Stats", "Blobs", "Nodes", "Orphans", "Document", "Documents", "Versions",
	"Costs", "ListExpired", "BlobHashes", "FindStalls", "ListStalls", "Key", "ListKeys", "TaskStats", "OutboxStats", "Fired", "Ping", "Hints", "Close"}

// operations are all that write, in all the ways that take other statements.
var operations = append([]operation{
	{"Append", "a start", func(b *bench) attempt {
		a := start()
		return b.appending(journals(1, a.Saga), a)
	}},
	{"Append", "a start without a key", func(b *bench) attempt {
		a := start()
		a.Start.Key, a.Start.Definition = "", a.Saga.String()
		return b.appending(func(s journal.Store) (bool, error) {
			found, err := s.Sagas(context.Background(), journal.Filter{Definition: a.Start.Definition})
			if len(found.Heads) > 1 {
				return false, fmt.Errorf("%d sagas", len(found.Heads))
			}
			return len(found.Heads) == 1, err
		}, a)
	}},
	{"Append", "two starts, and records of a third saga", func(b *bench) attempt {
		x, y, z := start(), start(), b.begun()
		n := next(z)
		return b.appending(func(s journal.Store) (bool, error) {
			one, err := journals(1, x.Saga, y.Saga)(s)
			two, err2 := journals(2, z.Saga)(s)
			if one != two {
				return false, errors.New("a part of the batch is done")
			}
			return one, errors.Join(err, err2)
		}, x, y, n)
	}},
	{"Append", "records, one of which another writer has appended before", func(b *bench) attempt {
		old, z := b.begun(), b.begun()
		return b.appending(journals(2, z.Saga), old, next(z)) // old exists already: the batch is reconciled
	}},
	{"Append", "a unique value that the same batch sets free", func(b *bench) attempt {
		old, young := start(), start()
		old.Start.Unique, young.Start.Unique = "u"+old.Saga.String(), "u"+old.Saga.String()
		b.append(old)
		end := next(old)
		end.Row = &journal.Row{Status: "succeeded", EndedAt: time.UnixMilli(2)}
		end.Release = true
		done := journals(1, young.Saga) // the second one of two transactions
		return b.appending(done, end, young)
	}},
	{"Append", "a row with what waits for a person", func(b *bench) attempt {
		a := b.begun()
		n := next(a)
		n.Row = &journal.Row{Status: "stuck", Inbox: []journal.Entry{{ID: newID(), Saga: a.Saga, Kind: "stuck", Path: "p", Since: time.UnixMilli(2)}}}
		return b.appending(func(s journal.Store) (bool, error) {
			done, err := journals(2, a.Saga)(s)
			entries, err2 := s.Inbox(context.Background(), journal.InboxFilter{Saga: a.Saga})
			if done != (len(entries) == 1) {
				return false, fmt.Errorf("%d entries in the inbox, record written: %v", len(entries), done)
			}
			return done, errors.Join(err, err2)
		}, n)
	}},
	{"Append", "a release", func(b *bench) attempt {
		a := b.begun()
		n := next(a)
		n.Row, n.Release = &journal.Row{Status: "parked"}, true
		return b.appending(head(a.Saga, func(h journal.Head) (bool, error) { return h.Owner == "", nil }), n)
	}},
	{"Append", "a release without a word", func(b *bench) attempt {
		a := b.begun()
		return b.appending(head(a.Saga, func(h journal.Head) (bool, error) { return h.Owner == "", nil }), journal.Append{Saga: a.Saga, Release: true})
	}},
	{"Append", "mail folded in", func(b *bench) attempt {
		a := b.begun()
		m := b.posted(a.Saga)
		n := next(a)
		n.Applied = append(n.Applied, m.ID)
		return b.appending(func(journal.Store) (bool, error) {
			left, err := b.waiting(a.Saga)
			return left == 0, err
		}, n)
	}},
	{"Claim", "a parked saga", func(b *bench) attempt { return claiming(b, "Claim") }},
	{"ClaimLocal", "a command's parked saga", func(b *bench) attempt { return claiming(b, "ClaimLocal") }},
	{"Send", "a message", func(b *bench) attempt {
		a := b.begun()
		m := journal.Message{ID: newID(), Saga: a.Saga, Kind: "signal"}
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { return s.Send(ctx, m) },
			done: func(journal.Store) (bool, error) {
				n, err := b.waiting(a.Saga)
				if n > 1 {
					return false, fmt.Errorf("%d messages", n)
				}
				return n == 1, err
			},
		}
	}},
	{"Register", "a node", func(b *bench) attempt {
		node, tries := newID().String(), 0
		return attempt{
			do: func(ctx context.Context, s journal.Store) error {
				if tries++; tries > 1 {
					node = newID().String() // a fresh one each time, as the contract wants it
				}
				_, err := s.Register(ctx, node, ttl)
				return err
			},
			done: func(journal.Store) (bool, error) { return b.leases(node) },
		}
	}},
	{"Register", "a node that comes after a dead one", func(b *bench) attempt {
		dead, node, tries := newID().String(), newID().String(), 0
		_, err := b.Register(context.Background(), dead, ttl)
		must(err)
		a := start()
		out, err := b.Append(context.Background(), dead, []journal.Append{a})
		must(err)
		must(out[0].Err)
		return attempt{
			do: func(ctx context.Context, s journal.Store) error {
				if tries++; tries > 1 {
					node = newID().String()
				}
				_, err := s.Register(ctx, node, ttl, dead)
				return err
			},
			done: func(s journal.Store) (bool, error) {
				there, err := b.leases(node)
				left, err2 := b.leases(dead)
				h, err3 := s.Saga(context.Background(), a.Saga)
				if left == (h.Owner == "") {
					return false, fmt.Errorf("a dead node's row stands: %v, and its saga's owner is %q", left, h.Owner)
				}
				if there && left {
					return false, errors.New("the node is registered, and the dead one is as well")
				}
				return there, errors.Join(err, err2, err3)
			},
		}
	}},
	{"Renew", "a lease", func(b *bench) attempt {
		node := newID().String()
		_, err := b.Register(context.Background(), node, ttl/2)
		must(err)
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { _, err := s.Renew(ctx, node, ttl); return err },
			done: func(journal.Store) (bool, error) {
				infos, err := b.Nodes(context.Background())
				for _, n := range infos {
					if n.Node == node {
						return time.Until(n.ExpiresAt) > ttl*3/4, err
					}
				}
				return false, errors.Join(err, errors.New("the lease is gone"))
			},
		}
	}},
	{"Renew", "a lease, with a dead node to take over", func(b *bench) attempt {
		node := newID().String()
		_, err := b.Register(context.Background(), node, -time.Second) // it has ended
		must(err)
		a := start()
		out, err := b.Append(context.Background(), node, []journal.Append{a})
		must(err)
		must(out[0].Err)
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { _, err := s.Renew(ctx, b.node, ttl); return err },
			done: func(s journal.Store) (bool, error) {
				left, err := b.leases(node)
				h, err2 := s.Saga(context.Background(), a.Saga)
				if left == (h.Owner == "") {
					return false, fmt.Errorf("a dead node's row stands: %v, and its saga's owner is %q", left, h.Owner)
				}
				return !left, errors.Join(err, err2)
			},
		}
	}},
	{"Confirm", "what was read", func(b *bench) attempt {
		// Nothing else writes to the row of the node, so its version shows the commit.
		version := func() (v string, err error) {
			err = b.conn.QueryRow(context.Background(), `SELECT xmin::text FROM nodes WHERE id = $1`, b.node).Scan(&v)
			return v, err
		}
		before, err := version()
		must(err)
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { return s.Confirm(ctx, b.node) },
			done: func(journal.Store) (bool, error) {
				now, err := version()
				return now != before, err
			},
		}
	}},
	{"Release", "a lease", func(b *bench) attempt {
		node := newID().String()
		_, err := b.Register(context.Background(), node, ttl)
		must(err)
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { return s.Release(ctx, node) },
			done: func(journal.Store) (bool, error) {
				left, err := b.leases(node)
				return !left, err
			},
		}
	}},
	{"Delete", "a saga that has ended", func(b *bench) attempt {
		a := start()
		a.Row, a.Release = &journal.Row{Status: "succeeded", EndedAt: time.UnixMilli(1)}, true
		b.append(a)
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { return forgiven(s.Delete(ctx, a.Saga)) },
			done: func(s journal.Store) (bool, error) {
				_, err := s.Saga(context.Background(), a.Saga)
				return errors.Is(err, journal.ErrNotFound), forgiven(err)
			},
		}
	}},
	{"PutBlobs", "a content", func(b *bench) attempt {
		a := b.begun()
		blob := content()
		return attempt{
			do: func(ctx context.Context, s journal.Store) error {
				return s.PutBlobs(ctx, a.Saga, []journal.Blob{blob})
			},
			done: func(s journal.Store) (bool, error) { return stores(s, a.Saga, blob) },
		}
	}},
	{"EraseBlobs", "a content of a saga that has ended", func(b *bench) attempt {
		a, blob := start(), content()
		a.Row, a.Release = &journal.Row{Status: "succeeded", EndedAt: time.UnixMilli(1)}, true
		a.Blobs = []journal.Blob{blob}
		b.append(a)
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { _, err := s.EraseBlobs(ctx, a.Saga); return err },
			done: func(s journal.Store) (bool, error) {
				has, err := stores(s, a.Saga, blob)
				return !has, err
			},
		}
	}},
	{"DeleteExpired", "a saga whose time has come", func(b *bench) attempt {
		a := start()
		a.Row, a.Release = &journal.Row{Status: "succeeded", EndedAt: time.UnixMilli(1), DeleteAt: time.UnixMilli(2)}, true
		b.append(a)
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { _, err := s.DeleteExpired(ctx, 100); return err },
			done: func(s journal.Store) (bool, error) {
				_, err := s.Saga(context.Background(), a.Saga)
				return errors.Is(err, journal.ErrNotFound), forgiven(err)
			},
		}
	}},
	{"DeleteCopied", "a saga that is in the archive", func(b *bench) attempt {
		a, blob := start(), content()
		a.Row, a.Release = &journal.Row{Status: "succeeded", EndedAt: time.UnixMilli(1), DeleteAt: time.UnixMilli(2), Seq: 1}, true
		a.Blobs = []journal.Blob{blob}
		b.append(a)
		return attempt{
			do: func(ctx context.Context, s journal.Store) error {
				_, err := s.DeleteCopied(ctx, []journal.Copied{{Saga: a.Saga, Seq: 1, Blobs: 1}})
				return err
			},
			done: func(s journal.Store) (bool, error) {
				_, err := s.Saga(context.Background(), a.Saga)
				return errors.Is(err, journal.ErrNotFound), forgiven(err)
			},
		}
	}},
	{"Reclaim", "the partition of a day without sagas", func(b *bench) attempt {
		const partition = "journal_20010101"
		_, err := b.conn.Exec(context.Background(), `CREATE TABLE IF NOT EXISTS `+partition+` PARTITION OF journal
			FOR VALUES FROM ('00e3c7a7-3400-0000-0000-000000000000') TO ('00e3cccd-9000-0000-0000-000000000000')`)
		must(err)
		tried := false
		return attempt{
			do: func(ctx context.Context, s journal.Store) error {
				tried = true
				return s.Reclaim(ctx)
			},
			done: func(journal.Store) (gone bool, err error) {
				err = b.conn.QueryRow(context.Background(), `SELECT to_regclass('`+partition+`') IS NULL`).Scan(&gone)
				return gone && tried, err
			},
		}
	}},
	{"Publish", "a new name", func(b *bench) attempt { return publishing(b, newID().String(), 1) }},
	{"Publish", "a new version", func(b *bench) attempt {
		name := newID().String()
		b.publish(document(name, "first"))
		return publishing(b, name, 2)
	}},
	{"Archive", "a name", func(b *bench) attempt {
		name := newID().String()
		b.publish(document(name, "first"))
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { return s.Archive(ctx, "definition", name) },
			done: func(s journal.Store) (bool, error) {
				d, err := s.Document(context.Background(), "definition", name, 0)
				return d.Archived, err
			},
		}
	}},
	{"Begin", "a request", func(b *bench) attempt { return beginning(b, newID().String()) }},
	{"Begin", "a request whose key has lapsed", func(b *bench) attempt {
		key := newID().String()
		_, _, err := b.Begin(context.Background(), key, "before", 0)
		must(err)
		return beginning(b, key)
	}},
	{"Finish", "a request", func(b *bench) attempt {
		key := newID().String()
		_, _, err := b.Begin(context.Background(), key, "f", ttl)
		must(err)
		r := journal.Reply{Fingerprint: "f", Done: true, Status: 201, Body: []byte("{}")}
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { return s.Finish(ctx, key, r, ttl) },
			done: func(journal.Store) (bool, error) {
				got, free, err := b.reply(key)
				if free {
					err = errors.Join(err, errors.New("the reservation is gone"))
				}
				return got.Done && got.Status == 201, err
			},
		}
	}},
	{"Abandon", "a request", func(b *bench) attempt {
		key := newID().String()
		_, _, err := b.Begin(context.Background(), key, "f", ttl)
		must(err)
		return attempt{
			do:   func(ctx context.Context, s journal.Store) error { return s.Abandon(ctx, key) },
			done: func(journal.Store) (bool, error) { _, free, err := b.reply(key); return free, err },
		}
	}},
	{"Sweep", "what is past its time", func(b *bench) attempt {
		key := newID().String()
		_, _, err := b.Begin(context.Background(), key, "f", 0)
		must(err)
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { _, err := s.Sweep(ctx, 100_000); return err },
			done: func(journal.Store) (gone bool, err error) { // which only the table shows
				err = b.conn.QueryRow(context.Background(), `SELECT NOT EXISTS (SELECT 1 FROM requests WHERE key = $1)`, key).Scan(&gone)
				return gone, err
			},
		}
	}},
	{"AddKey", "a key", func(b *bench) attempt {
		k := journal.APIKey{ID: newID(), Name: "n", Role: "admin", CreatedAt: time.UnixMilli(1)}
		k.Hash = k.ID.String()
		tries := 0
		return attempt{
			do: func(ctx context.Context, s journal.Store) error {
				err := s.AddKey(ctx, k)
				if tries++; tries > 1 && err != nil && !errors.Is(err, journal.ErrUnknown) {
					return nil // the first try has made it: there is no other with this id
				}
				return err
			},
			done: func(s journal.Store) (bool, error) {
				_, err := s.Key(context.Background(), k.Hash)
				return err == nil, forgiven(err)
			},
		}
	}},
	{"RevokeKey", "a key", func(b *bench) attempt {
		k := journal.APIKey{ID: newID(), Name: "n", Role: "admin", CreatedAt: time.UnixMilli(1)}
		k.Hash = k.ID.String()
		must(b.AddKey(context.Background(), k))
		return attempt{
			do: func(ctx context.Context, s journal.Store) error { return forgiven(s.RevokeKey(ctx, k.ID)) },
			done: func(s journal.Store) (bool, error) {
				_, err := s.Key(context.Background(), k.Hash)
				return errors.Is(err, journal.ErrNotFound), forgiven(err)
			},
		}
	}},
}, taskOperations...)

// forgiven returns err, or nil if it says that something is not there.
func forgiven(err error) error {
	if errors.Is(err, journal.ErrNotFound) {
		return nil
	}
	return err
}

// claiming wants the saga handed out to the node, whatever became of the claims before.
func claiming(b *bench, method string) attempt {
	saga := b.parked()
	m := b.posted(saga)
	handed := false
	return attempt{
		do: func(ctx context.Context, s journal.Store) error {
			claim := s.Claim
			if method == "ClaimLocal" {
				claim = s.ClaimLocal
			}
			for {
				list, err := claim(ctx, b.node, 100)
				for _, c := range list {
					if c.Saga != saga {
						continue
					}
					if unread, err := b.Messages(context.Background(), []uuid.UUID{saga}, 10, 1<<20); err != nil || c.Messages != 1 || len(unread) != 1 || unread[0].ID != m.ID {
						return fmt.Errorf("claimed with %d messages: %v, %v", c.Messages, unread, err)
					}
					handed = true
				}
				if err != nil || handed || len(list) == 0 {
					return err
				}
			}
		},
		done: func(s journal.Store) (bool, error) {
			h, err := s.Saga(context.Background(), saga)
			return h.Owner == b.node, err
		},
		right: func() error {
			if !handed {
				return errors.New("the saga is the node's, which got no response")
			}
			return nil
		},
	}
}

func publishing(b *bench, name string, version int) attempt {
	d := document(name, "source")
	return attempt{
		do:   func(ctx context.Context, s journal.Store) error { _, _, err := s.Publish(ctx, d, ""); return err },
		done: func(journal.Store) (bool, error) { return b.document(name, version) },
	}
}

// beginning wants the key reserved. A client that did not get the answer finds it taken by itself.
func beginning(b *bench, key string) attempt {
	return attempt{
		do: func(ctx context.Context, s journal.Store) error {
			r, fresh, err := s.Begin(ctx, key, "f", ttl)
			if err == nil && !fresh && r.Fingerprint != "f" {
				err = fmt.Errorf("the key is taken by %q", r.Fingerprint)
			}
			return err
		},
		done: func(journal.Store) (bool, error) {
			r, free, err := b.reply(key)
			return !free && r.Fingerprint == "f", err
		},
	}
}
