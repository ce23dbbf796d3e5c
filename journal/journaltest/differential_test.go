package journaltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"recourse/internal/test/pgserver"
	"recourse/journal"
	"recourse/journal/memory"
	"recourse/journal/postgres"
	"recourse/journal/sqlite"
)

// TestSameResults runs random operations on all stores and compares the results. Times that a store
// takes from its clock are reduced to whether they are set. Claims are compared as sets, because
// sagas may be due at the same moment.
func TestSameResults(t *testing.T) {
	open := stores(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, open)
		for range rapid.IntRange(1, 40).Draw(t, "operations") {
			w.step()
		}
		w.finalState()
	})
}

type named struct {
	name string
	journal.Store
}

// stores opens one store of each kind. Each run uses ids of its own in them.
func stores(t *testing.T) []named {
	t.Helper()
	lite, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "d.db"), sqlite.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	dsn := pgserver.DSN(t)
	pg, err := postgres.Open(t.Context(), dsn, postgres.Options{Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	out := []named{{"memory", memory.New(memory.Config{})}, {"sqlite", lite}, {"postgres", pg}}
	t.Cleanup(func() {
		for _, s := range out {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	return out
}

// world is one run: a few sagas, keys and names, which operations use at the same time.
type world struct {
	*rapid.T
	ctx      context.Context
	stores   []named
	prefix   string // of texts that are unique among all sagas
	node     string
	sagas    []uuid.UUID
	messages []uuid.UUID
	chains   map[uuid.UUID][]journal.Record // two chains of each saga, which differ from the third record on
	forks    map[uuid.UUID][]journal.Record
	failed   map[uuid.UUID]bool // sagas of which a row with a reason was appended
}

var runs struct {
	sync.Mutex
	n int
}

func newWorld(t *rapid.T, open []named) *world {
	runs.Lock()
	runs.n++
	w := &world{T: t, ctx: context.Background(), stores: open, prefix: fmt.Sprintf("run%d-", runs.n),
		chains: map[uuid.UUID][]journal.Record{}, forks: map[uuid.UUID][]journal.Record{}, failed: map[uuid.UUID]bool{}}
	runs.Unlock()
	w.node = w.prefix + "node"
	for range 4 {
		saga := uuid.Must(uuid.NewV7())
		w.sagas = append(w.sagas, saga)
		w.messages = append(w.messages, uuid.Must(uuid.NewV7()))
		w.chains[saga], w.forks[saga] = chains(saga)
	}
	w.all("register", func(s journal.Store) (any, error) {
		// The nodes of earlier runs are removed, so that in every store no saga has an owner when
		// the run starts.
		infos, err := s.Nodes(w.ctx)
		for _, n := range infos {
			err = errors.Join(err, s.Release(w.ctx, n.Node))
		}
		_, registered := s.Register(w.ctx, w.node, time.Hour)
		return nil, errors.Join(err, registered, w.clear(s))
	})
	return w
}

// clear ends the sagas of earlier runs, so that later runs need not claim them again. It wakes all
// of them; otherwise delayed ones would become due during a later run, at different moments in each
// store.
func (w *world) clear(s journal.Store) error {
	list, err := s.Sagas(w.ctx, journal.Filter{Limit: 1 << 20})
	live := 0
	for _, h := range list.Heads {
		if h.EndedAt.IsZero() {
			live++
			err = errors.Join(err, s.Send(w.ctx, journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: h.ID, Kind: "wake"}))
		}
	}
	if err != nil {
		return err
	}
	// A clock that is set back lets a saga that was woken become due only a little later.
	for deadline := time.Now().Add(time.Minute); live > 0; {
		left, err := s.Claim(w.ctx, w.node, 1<<20)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			if time.Now().After(deadline) {
				return fmt.Errorf("%d sagas of earlier runs are not due", live)
			}
			<-time.After(time.Millisecond)
			continue
		}
		live -= len(left)
		var batch []journal.Append
		for _, c := range left {
			a := journal.Append{Saga: c.Saga, Row: &journal.Row{Status: "left", EndedAt: time.UnixMilli(1)}, Release: true}
			messages, err := s.Messages(w.ctx, []uuid.UUID{c.Saga}, 1<<20, 1<<30)
			if err != nil {
				return err
			}
			for _, m := range messages {
				a.Applied = append(a.Applied, m.ID)
			}
			batch = append(batch, a)
		}
		if _, err := s.Append(w.ctx, w.node, batch); err != nil {
			return err
		}
	}
	return nil
}

func chains(saga uuid.UUID) (main, fork []journal.Record) {
	var prev []byte
	for seq := int64(1); seq <= 6; seq++ {
		r := journal.Record{Seq: seq, At: time.UnixMilli(1_700_000_000_000 + seq).UTC(), Kind: journal.Intent, Path: "s", Way: journal.Do,
			Attempt: 1, Node: "w", Data: []byte(fmt.Sprintf(`{"seq":%d}`, seq))}
		journal.Seal(saga, prev, &r)
		prev = r.Hash
		main = append(main, r)
	}
	fork = slices.Clone(main[:2])
	prev = main[1].Hash
	for _, r := range main[2:] {
		r.Data = []byte(`"fork"`)
		journal.Seal(saga, prev, &r)
		prev = r.Hash
		fork = append(fork, r)
	}
	return main, fork
}

// all runs f on every store and compares the results.
func (w *world) all(what string, f func(journal.Store) (any, error)) {
	var want string
	for i, s := range w.stores {
		v, err := f(s.Store)
		got := fmt.Sprintf("error: %s\n%s", sentinel(err), show(v))
		if i == 0 {
			want = got
		} else if got != want {
			w.Fatalf("%s: %s returns a different result than %s:\n%s", what, s.name, w.stores[0].name, cmp.Diff(want, got))
		}
	}
	w.Logf("%s: %s", what, want)
}

// show formats all of v, so that equal values have equal texts.
func show(v any) string {
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}

func sentinel(err error) string {
	for _, s := range []error{journal.ErrFenced, journal.ErrUnknown, journal.ErrConflict, journal.ErrStartKey, journal.ErrUnique, journal.ErrParentEnded, journal.ErrNotFound,
		journal.ErrLive, journal.ErrEnded, journal.ErrMismatch, journal.ErrInUse, journal.ErrTaskLost} {
		if errors.Is(err, s) {
			return s.Error()
		}
	}
	return fmt.Sprint(err)
}

func (w *world) step() {
	switch rapid.SampledFrom([]string{"append", "append", "append", "append", "claim", "send", "send", "messages", "delete", "expire", "copied", "publish", "archive",
		"begin", "finish", "abandon", "release", "give up", "die", "more", "more", "more", "task", "task", "task", "event", "event", "schedule", "blob", "blob"}).Draw(w.T, "op") {
	case "append":
		batch := w.batch()
		w.all(fmt.Sprintf("append %s", show(batch)), func(s journal.Store) (any, error) {
			out, err := s.Append(w.ctx, w.node, batch)
			return results(out), err
		})
	case "claim":
		w.all("claim", func(s journal.Store) (any, error) { return w.claim(s) })
	case "send":
		m := w.message()
		w.all("send", func(s journal.Store) (any, error) { return nil, s.Send(w.ctx, m) })
	case "messages":
		w.all("messages", func(s journal.Store) (any, error) { return w.waiting(s) })
	case "delete":
		saga := w.pick(w.sagas, "saga")
		w.all("delete", func(s journal.Store) (any, error) { return nil, s.Delete(w.ctx, saga) })
	case "expire":
		w.all("delete expired", func(s journal.Store) (any, error) { return s.DeleteExpired(w.ctx, 1<<20) })
	case "copied":
		w.copiedStep()
	case "release":
		w.all("release", func(s journal.Store) (any, error) {
			err := s.Release(w.ctx, w.node)
			_, registered := s.Register(w.ctx, w.node, time.Hour)
			return nil, errors.Join(err, registered)
		})
	case "give up":
		saga := w.pick(w.sagas, "saga")
		for range rapid.IntRange(1, journal.QuarantineAfter+2).Draw(w.T, "times") {
			m := journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: saga, Kind: "signal"}
			w.all("wake", func(s journal.Store) (any, error) { return nil, s.Send(w.ctx, m) })
			w.all("claim", func(s journal.Store) (any, error) { return w.claim(s) })
			w.all("give up", func(s journal.Store) (any, error) {
				out, err := s.Append(w.ctx, w.node, []journal.Append{{Saga: saga, Release: true}})
				return results(out), err
			})
		}
	case "more":
		a := journal.Append{Saga: w.pick(w.sagas, "saga")}
		w.more(&a)
		w.all("append "+show(a), func(s journal.Store) (any, error) {
			out, err := s.Append(w.ctx, w.node, []journal.Append{a})
			return results(out), err
		})
	case "task":
		w.taskStep()
	case "event":
		w.eventStep()
	case "schedule":
		w.scheduleStep()
	case "blob":
		w.blobStep()
	case "die":
		for range rapid.IntRange(1, 3).Draw(w.T, "times") {
			w.die()
			w.all("claim", func(s journal.Store) (any, error) { return w.claim(s) })
		}
	default:
		w.catalogOrRequest()
	}
}

// die ends the node, and another takes over: because the lease has ended, or because it knows that
// the node is dead.
func (w *world) die() {
	dead := w.node
	w.node += "+"
	if rapid.Bool().Draw(w.T, "known") {
		w.all("come after", func(s journal.Store) (any, error) {
			_, err := s.Register(w.ctx, w.node, time.Hour, dead)
			return nil, err
		})
	} else {
		w.all("short lease", func(s journal.Store) (any, error) {
			_, err := s.Renew(w.ctx, dead, time.Millisecond)
			return nil, err
		})
		<-time.After(4 * time.Millisecond) // by the clocks of all stores
		w.all("take over", func(s journal.Store) (any, error) {
			_, err := s.Register(w.ctx, w.node, time.Hour)
			_, renewed := s.Renew(w.ctx, w.node, time.Hour)
			return nil, errors.Join(err, renewed)
		})
	}
	w.heads()
	for _, saga := range w.sagas { // no saga may become due between the calls to two stores
		m := journal.Message{ID: uuid.Must(uuid.NewV7()), Saga: saga, Kind: "signal"}
		w.all("wake", func(s journal.Store) (any, error) { return nil, s.Send(w.ctx, m) })
	}
}

func (w *world) catalogOrRequest() {
	name := w.prefix + rapid.SampledFrom([]string{"a", "b"}).Draw(w.T, "name")
	source := rapid.SampledFrom([]string{"1", "2"}).Draw(w.T, "source")
	switch rapid.SampledFrom([]string{"publish", "archive", "begin", "finish", "abandon"}).Draw(w.T, "what") {
	case "publish":
		match := rapid.SampledFrom([]string{"", "*", "-", "1", "2"}).Draw(w.T, "match")
		d := journal.Document{Kind: "definition", Name: name, SHA256: source, Source: []byte(source), CreatedAt: time.UnixMilli(1)}
		w.all("publish "+match, func(s journal.Store) (any, error) {
			v, created, err := s.Publish(w.ctx, d, match)
			return []any{v, created}, err
		})
	case "archive":
		w.all("archive", func(s journal.Store) (any, error) { return nil, s.Archive(w.ctx, "definition", name) })
	case "begin":
		w.all("begin", func(s journal.Store) (any, error) {
			r, fresh, err := s.Begin(w.ctx, name, source, time.Hour)
			return []any{r, fresh}, err
		})
	case "finish":
		w.all("finish", func(s journal.Store) (any, error) {
			return nil, s.Finish(w.ctx, name, journal.Reply{Fingerprint: source, Status: 200, Body: []byte(source)}, time.Hour)
		})
	case "abandon":
		w.all("abandon", func(s journal.Store) (any, error) { return nil, s.Abandon(w.ctx, name) })
	}
}

func (w *world) pick(from []uuid.UUID, label string) uuid.UUID {
	return rapid.SampledFrom(from).Draw(w.T, label)
}

// batch returns random appends of different sagas: new, continued, repeated, overlapping,
// truncated, with gaps.
func (w *world) batch() []journal.Append {
	var out []journal.Append
	for _, saga := range rapid.Permutation(w.sagas).Draw(w.T, "sagas")[:rapid.IntRange(1, len(w.sagas)).Draw(w.T, "size")] {
		a := journal.Append{Saga: saga, Release: rapid.Bool().Draw(w.T, "release")}
		records := w.chains[saga]
		if rapid.IntRange(0, 9).Draw(w.T, "fork") == 0 {
			records = w.forks[saga]
		}
		from := rapid.IntRange(0, len(records)).Draw(w.T, "from")
		if rapid.Bool().Draw(w.T, "start") {
			a.Start, from = w.start(), 0
			if rapid.IntRange(0, 3).Draw(w.T, "child") == 0 {
				a.Start.Parent, a.Start.Final = w.pick(w.sagas, "parent"), rapid.Bool().Draw(w.T, "final")
			}
		}
		a.Records = records[from:rapid.IntRange(from, len(records)).Draw(w.T, "to")]
		if i := rapid.IntRange(0, 2).Draw(w.T, "alike"); i > 0 {
			a.Alike = &journal.Alike{Name: strconv.Itoa(i), Records: func() []journal.Record { return records[:min(i, len(records))] }}
		}
		if rapid.Bool().Draw(w.T, "row") {
			a.Row = w.row(saga)
		}
		if rapid.Bool().Draw(w.T, "apply") {
			a.Applied = []uuid.UUID{w.pick(w.messages, "message")}
		}
		w.more(&a)
		out = append(out, a)
	}
	return out
}

func (w *world) start() *journal.Start {
	st := &journal.Start{Definition: w.prefix + "d", Version: 1, SHA256: "ab", CreatedAt: time.UnixMilli(5)}
	if k := rapid.SampledFrom([]string{"", "k1", "k2"}).Draw(w.T, "key"); k != "" {
		st.Key = w.prefix + k
	}
	st.Opener = rapid.SampledFrom([]string{"", w.prefix + "bot"}).Draw(w.T, "opener")
	st.Unique = rapid.SampledFrom([]string{"", "u"}).Draw(w.T, "unique")
	return st
}

func (w *world) row(saga uuid.UUID) *journal.Row {
	r := &journal.Row{Status: rapid.SampledFrom([]string{"running", "waiting"}).Draw(w.T, "status"), Seq: 1, UpdatedAt: time.UnixMilli(7),
		Labels: map[string]string{"l": rapid.SampledFrom([]string{"x", "y"}).Draw(w.T, "label")}}
	switch rapid.IntRange(0, 3).Draw(w.T, "wake") {
	case 0:
		r.WakeAt = time.UnixMilli(9)
	case 1:
		r.WakeAt = time.UnixMilli(1 << 42)
	}
	if rapid.Bool().Draw(w.T, "inbox") {
		r.Inbox = []journal.Entry{{ID: saga, Kind: "approval", Path: "s", Since: time.UnixMilli(11)}}
	}
	// A saga that has a reason keeps it: otherwise a start that is refused because of its parent
	// could be possible later.
	if w.failed[saga] = rapid.IntRange(0, 3).Draw(w.T, "fails") == 0 || w.failed[saga]; w.failed[saga] {
		r.Reason = "step_failed"
	}
	if rapid.IntRange(0, 3).Draw(w.T, "ends") == 0 {
		r.EndedAt = time.UnixMilli(8)
	}
	switch rapid.IntRange(0, 5).Draw(w.T, "expires") {
	case 0:
		r.DeleteAt = time.UnixMilli(10)
	case 1:
		r.DeleteAt = time.UnixMilli(1 << 42)
	}
	return r
}

func results(in []journal.Result) (out []string) {
	for _, r := range in {
		out = append(out, sentinel(r.Err)+" "+r.Saga.String())
	}
	return out
}

// claim claims all sagas, which may be more than those of this run.
func (w *world) claim(s journal.Store) (any, error) {
	var got []journal.Claimed
	for { // a claim returns at most one suspect
		more, err := s.Claim(w.ctx, w.node, 1<<20)
		if err != nil || len(more) == 0 {
			return w.own(got), err
		}
		got = append(got, more...)
	}
}

// waiting returns the messages of this run's sagas that the node owns.
func (w *world) waiting(s journal.Store) (any, error) {
	boxes, err := s.Recipients(w.ctx, w.node, uuid.Nil, 1<<20)
	boxes = slices.DeleteFunc(boxes, func(b journal.Recipient) bool { return !slices.Contains(w.sagas, b.Saga) })
	sagas := make([]uuid.UUID, len(boxes))
	for i := range boxes {
		sagas[i] = boxes[i].Saga
	}
	all, err2 := s.Messages(w.ctx, sagas, 1<<20, 1<<30)
	some, err3 := s.Messages(w.ctx, sagas, 3, 2)
	return [][]journal.Message{append([]journal.Message(nil), all...), append([]journal.Message(nil), some...)}, errors.Join(err, err2, err3)
}

// own returns the claims of this run's sagas, in order.
func (w *world) own(got []journal.Claimed) []journal.Claimed {
	got = slices.DeleteFunc(got, func(c journal.Claimed) bool { return !slices.Contains(w.sagas, c.Saga) })
	for i := range got {
		got[i].Due = sameNow(got[i].Due)
	}
	slices.SortFunc(got, func(a, b journal.Claimed) int { return slices.Compare(a.Saga[:], b.Saga[:]) })
	return append([]journal.Claimed(nil), got...)
}

// finalState compares everything that can be read about the run's sagas.
func (w *world) finalState() {
	for _, saga := range w.sagas {
		w.all("records", func(s journal.Store) (any, error) { return s.Records(w.ctx, saga, 0, 100) })
		w.blobs(saga)
		w.all("inbox", func(s journal.Store) (any, error) {
			list, err := s.Inbox(w.ctx, journal.InboxFilter{Saga: saga})
			for i := range list {
				list[i].Since = sameNow(list[i].Since)
			}
			slices.SortFunc(list, func(a, b journal.Entry) int { return slices.Compare(a.ID[:], b.ID[:]) })
			return list, err
		})
	}
	w.all("messages", func(s journal.Store) (any, error) { return w.waiting(s) })
	w.heads()
	w.forOthers()
	w.all("claim", func(s journal.Store) (any, error) { return w.claim(s) })
	w.all("versions", func(s journal.Store) (any, error) { return s.Versions(w.ctx, "definition", w.prefix+"a", 0, 0) })
}

func (w *world) heads() {
	w.all("sagas", func(s journal.Store) (any, error) {
		list, err := s.Sagas(w.ctx, journal.Filter{Definition: w.prefix + "d"})
		heads := list.Heads
		for i := range heads {
			heads[i].Inbox = nil
			heads[i].WakeAt, heads[i].UpdatedAt = sameNow(heads[i].WakeAt), sameNow(heads[i].UpdatedAt)
		}
		return heads, err
	})
}

// sameNow reduces a time of a store's clock to its distance from now in minutes.
func sameNow(t time.Time) time.Time {
	from := time.Until(t)
	if from < -time.Hour || from > 2*time.Hour {
		return t
	}
	return time.UnixMilli(1).UTC().Add(from.Round(time.Minute))
}

// copiedStep lists expired sagas and deletes some of them as copied, with the right and with wrong
// numbers of records and blobs.
func (w *world) copiedStep() {
	limit := rapid.IntRange(0, 3).Draw(w.T, "limit")
	w.all("list expired", func(s journal.Store) (any, error) {
		heads, err := s.ListExpired(w.ctx, journal.Head{}, limit)
		var got []uuid.UUID
		for _, h := range heads {
			got = append(got, h.ID)
		}
		return got, err
	})
	saga := w.pick(w.sagas, "saga")
	w.all("blob hashes", func(s journal.Store) (any, error) { return s.BlobHashes(w.ctx, saga) })
	c := journal.Copied{Saga: saga, Seq: int64(rapid.IntRange(1, 3).Draw(w.T, "seq")), Blobs: rapid.IntRange(0, 2).Draw(w.T, "blobs")}
	w.all("delete copied "+show(c), func(s journal.Store) (any, error) { return s.DeleteCopied(w.ctx, []journal.Copied{c}) })
}
