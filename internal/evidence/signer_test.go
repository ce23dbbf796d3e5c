package evidence

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/google/go-cmp/cmp"

	"recourse/engine"
	"recourse/internal/notify"
	"recourse/journal"
	"recourse/journal/memory"
)

// rig is a Signer with a store whose clock the test sets.
type rig struct {
	*testing.T
	store *memory.Store
	fault *faulty
	now   time.Time
	file  string
}

// faulty is a store that can refuse events, and reads of schedules and of a journal.
type faulty struct {
	*memory.Store
	err   error
	fired error
	bad   uuid.UUID // the journal of this saga is broken
}

func (f *faulty) Records(ctx context.Context, id uuid.UUID, after int64, limit int) ([]journal.Record, error) {
	if id == f.bad {
		return nil, journal.ErrBroken
	}
	return f.Store.Records(ctx, id, after, limit)
}

func (f *faulty) Fired(ctx context.Context) (map[string]time.Time, error) {
	if f.fired != nil {
		return nil, f.fired
	}
	return f.Store.Fired(ctx)
}

func (f *faulty) PutEvents(ctx context.Context, events []journal.Event) error {
	if f.err != nil {
		return f.err
	}
	return f.Store.PutEvents(ctx, events)
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, now: time.Now().UTC().Truncate(time.Millisecond), file: filepath.Join(t.TempDir(), "anchors.ndjson")}
	r.store = memory.New(memory.Config{Now: func() time.Time { return r.now }})
	r.fault = &faulty{Store: r.store}
	return r
}

func (r *rig) signer() *Signer {
	return NewSigner(Config{Options: Options{Key: key(1), File: r.file, Sinks: []string{"one", "two"}}, Store: r.fault,
		Node: func() string { return "n" }, Now: func() time.Time { return r.now }})
}

func (r *rig) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// set reads the file of anchors.
func (r *rig) set() *Set {
	r.Helper()
	f, err := os.Open(r.file)
	r.must(err)
	defer func() { _ = f.Close() }()
	s := NewSet([]ed25519.PublicKey{public(1)})
	r.must(s.Read("a", f))
	return s
}

// grown is what an engine reports: a saga has n records now.
func grown(id uuid.UUID, n int) engine.Growth {
	return engine.Growth{Saga: id, Records: written(id, n, "10.50")[n-1:], DeleteAt: noon}
}

func TestSigner(t *testing.T) {
	r := newRig(t)
	s := r.signer()
	s.Appended(grown(saga(1), 2))
	s.Appended(grown(saga(1), 3))
	s.Appended(grown(saga(2), 1))
	r.must(s.Once(t.Context()))
	r.must(s.Once(t.Context())) // nothing has happened
	s.Appended(grown(saga(1), 5))
	s.Run(cancelled())
	s.Close()
	set := r.set()
	found := append(set.Problems(), set.Check(saga(1), written(saga(1), 5, "10.50"))...)
	found = append(found, set.Check(saga(2), written(saga(2), 1, "10.50"))...)
	if d := cmp.Diff(Count{Anchors: 3, Whole: 2}, set.Count()); d != "" || len(found) > 0 {
		t.Errorf("problems %v, count (-want +got) %s", found, d)
	}
	if ends := set.Ends(); len(ends) != 1 || !ends[0].Last || ends[0].Node != "n" {
		t.Errorf("the chains end with %+v", ends)
	}
	list, err := r.store.ClaimEvents(t.Context(), []string{"one", "two"}, 100, time.Minute)
	r.must(err)
	of := map[string]*Set{"one": NewSet([]ed25519.PublicKey{public(1)}), "two": NewSet([]ed25519.PublicKey{public(1)})}
	for _, d := range list {
		var head struct {
			Type, Subject, ID string
			Data              json.RawMessage
		}
		r.must(json.Unmarshal(d.Data, &head))
		if head.Type != notify.AnchorEvent || head.ID != d.ID.String() || head.Subject != s.chain.name {
			t.Errorf("event %s", d.Data)
		}
		r.must(of[d.Sink].Read(d.Sink, strings.NewReader(string(d.Data))))
	}
	for sink, set := range of {
		if set.Count().Anchors != 3 || len(set.Problems()) > 0 {
			t.Errorf("%s has %+v, %v", sink, set.Count(), set.Problems())
		}
	}
	if info, err := os.Stat(r.file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file of anchors: %v %v", info.Mode(), err)
	}
}

// cancelled returns a context that is done, with which Run only begins.
func cancelled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// With more journals than fit into one anchor there are several at once.
func TestManyHeads(t *testing.T) {
	r := newRig(t)
	s := r.signer()
	const sagas = 2*MaxLeaves + 1
	var ids []uuid.UUID
	for range sagas {
		ids = append(ids, uuid.Must(uuid.NewV7()))
		s.Appended(grown(ids[len(ids)-1], 1))
	}
	s.ran = true
	s.Close()
	set := r.set()
	for _, id := range ids {
		if found := set.Check(id, written(id, 1, "")); len(found) > 0 {
			t.Fatal(found)
		}
	}
	if n := set.Count(); n.Anchors != 3 || n.Whole != sagas || len(set.Problems()) > 0 {
		t.Errorf("%+v, %v", n, set.Problems())
	}
	for _, d := range mustClaim(t, r.store) {
		if len(d.Data) > 64<<10 {
			t.Errorf("an event has %d bytes", len(d.Data))
		}
	}
	last := 0
	for _, a := range set.chains[s.chain.name] {
		if a.Last {
			last++
		}
	}
	if last != 1 || !set.Ends()[0].Last {
		t.Errorf("%d anchors say that they are the last", last)
	}
}

func mustClaim(t *testing.T, s *memory.Store) []journal.Delivery {
	t.Helper()
	list, err := s.ClaimEvents(t.Context(), []string{"one", "two"}, 1000, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// While an anchor cannot be stored, heads wait, and no anchor is lost or in a file twice.
func TestOutage(t *testing.T) {
	r := newRig(t)
	s := r.signer()
	s.Appended(grown(saga(1), 2))
	r.fault.err = errors.New("no connection")
	for range 3 {
		if err := s.Once(t.Context()); !errors.Is(err, r.fault.err) {
			t.Errorf("it says %v", err)
		}
		s.Appended(grown(saga(1), 3))
	}
	r.fault.err = nil
	r.must(s.Once(t.Context()))
	set := r.set()
	if found := append(set.Problems(), set.Check(saga(1), written(saga(1), 3, "10.50"))...); len(found) > 0 || set.Count().Anchors != 2 || set.Count().Whole != 1 {
		t.Errorf("problems %v, %+v", found, set.Count())
	}
	if n := len(mustClaim(t, r.store)); n != 4 {
		t.Errorf("%d events for two sinks, want 4", n)
	}
	r.file = filepath.Join(t.TempDir(), "none", "anchors.ndjson")
	if err := r.signer().Once(t.Context()); err == nil || !strings.Contains(err.Error(), "the file of anchors") {
		t.Errorf("without a directory it says %v", err)
	}
}

// A line that a crash has cut stays on a line of its own.
func TestCutLine(t *testing.T) {
	r := newRig(t)
	r.must(os.WriteFile(r.file, []byte(`{"anchor":"{\"reco`), 0o600))
	r.must(r.signer().Once(t.Context()))
	r.must(r.signer().Once(t.Context()))
	if n := r.set().Count(); n.Anchors != 2 || n.Damaged != 1 {
		t.Errorf("%+v", n)
	}
}

// ended appends a saga that has ended, and whose node was killed before it anchored it.
func (r *rig) ended(node string) uuid.UUID {
	r.Helper()
	id := uuid.Must(uuid.NewV7AtTime(r.now))
	results, err := r.store.Append(r.Context(), node, []journal.Append{{Saga: id, Start: &journal.Start{Definition: "d", Version: 1, CreatedAt: r.now},
		Records: written(id, 3, "10.50"), Row: &journal.Row{Status: "succeeded", Seq: 3, UpdatedAt: r.now, EndedAt: r.now, DeleteAt: r.now.Add(time.Hour)}, Release: true}})
	r.must(err)
	r.must(results[0].Err)
	return id
}

// What a node has left that was killed is anchored when the next one begins, or by one that
// notices it. A journal that cannot be read is left out, which is logged once.
func TestLeftBehind(t *testing.T) {
	for _, noticed := range []bool{false, true} {
		r := newRig(t)
		old := r.now
		for _, node := range []string{"dead", "other"} {
			_, err := r.store.Register(t.Context(), node, time.Second)
			r.must(err)
		}
		first := r.signer()
		r.must(first.begin(t.Context()))
		r.must(first.Once(t.Context()))
		r.now = r.now.Add(50 * time.Second)
		id := r.ended("dead")
		r.now = r.now.Add(time.Second)
		r.fault.bad = r.ended("dead")
		r.now = r.now.Add(9 * time.Second)
		_, err := r.store.Renew(t.Context(), "other", time.Second) // it takes over
		r.must(err)
		var logged bytes.Buffer
		s := first
		if !noticed {
			s = r.signer()
		}
		s.cfg.Log = slog.New(slog.NewTextHandler(&logged, nil))
		for range 2 {
			r.must(s.Once(t.Context()))
		}
		if n := strings.Count(logged.String(), "saga="+r.fault.bad.String()); n != 1 {
			t.Errorf("noticed %v: it is logged %d times: %s", noticed, n, &logged)
		}
		set := r.set()
		if found := set.Check(id, written(id, 3, "10.50")); len(found) > 0 || set.Count().Whole != 1 || len(set.Problems()) > 0 {
			t.Errorf("noticed %v: %v %v %+v", noticed, found, set.Problems(), set.Count())
		}
		if gone := set.Missing(old.Add(2 * time.Hour)); len(gone) > 0 {
			t.Errorf("%v", gone)
		}
		if i := slices.IndexFunc(set.journals[id], func(p point) bool { return p.DeleteAt.IsZero() }); i >= 0 {
			t.Error("the anchor does not say when the saga may be deleted")
		}
	}
}

// If a saga ends between the list of sagas and the read of its journal, its anchor says when it may
// be deleted.
func TestLeftBehindThatHasJustEnded(t *testing.T) {
	r := newRig(t)
	_, err := r.store.Register(t.Context(), "dead", time.Hour)
	r.must(err)
	id := uuid.Must(uuid.NewV7AtTime(r.now))
	records := written(id, 2, "10.50")
	end := journal.Record{Seq: 3, At: noon, Kind: journal.Finished, Node: "n", Data: []byte(`{"status":"succeeded"}`)}
	journal.Seal(id, records[1].Hash, &end)
	for _, a := range []journal.Append{
		{Saga: id, Start: &journal.Start{Definition: "d", Version: 1, CreatedAt: r.now}, Records: records, Row: &journal.Row{Status: "running", Seq: 2, UpdatedAt: r.now}},
		{Saga: id, Records: []journal.Record{end}, Row: &journal.Row{Status: "succeeded", Seq: 3, UpdatedAt: r.now, EndedAt: r.now, DeleteAt: r.now.Add(time.Hour)}, Release: true},
	} {
		before, err := r.store.Saga(t.Context(), id)
		if a.Start == nil {
			r.must(err)
		}
		results, err := r.store.Append(t.Context(), "dead", []journal.Append{a})
		r.must(err)
		r.must(results[0].Err)
		if a.Start != nil {
			continue
		}
		s := r.signer()
		r.must(s.end(t.Context(), &before))
		if got := s.heads.Take(); len(got) != 1 || got[0].Seq != 3 || !got[0].DeleteAt.Equal(r.now.Add(time.Hour)) {
			t.Errorf("anchored: %+v", got)
		}
	}
}

// What a node has left is also anchored if its successor cannot look for it at first.
func TestLeftBehindFoundLater(t *testing.T) {
	r := newRig(t)
	_, err := r.store.Register(t.Context(), "dead", time.Second)
	r.must(err)
	first := r.signer()
	first.Run(cancelled())
	r.must(first.Once(t.Context()))
	r.now = r.now.Add(50 * time.Second)
	id := r.ended("dead")
	r.now = r.now.Add(10 * time.Second)
	_, err = r.store.Register(t.Context(), "next", time.Hour, "dead")
	r.must(err)
	s := r.signer()
	r.now = r.now.Add(time.Hour)
	r.fault.fired = errors.New("the connection broke")
	s.Run(cancelled())
	if err := s.Once(t.Context()); !errors.Is(err, r.fault.fired) {
		t.Errorf("Once = %v", err)
	}
	r.fault.fired = nil
	r.must(s.Once(t.Context()))
	set := r.set()
	if found := set.Check(id, written(id, 3, "10.50")); len(found) > 0 || set.Count().Whole != 1 {
		t.Errorf("%v %+v", found, set.Count())
	}
}

// While anchors cannot be stored, a limited number of heads wait. It is logged once that others are
// left out, and then how many.
func TestHeadsAreBounded(t *testing.T) {
	r := newRig(t)
	var logged bytes.Buffer
	s := r.signer()
	s.cfg.Log, s.heads.most = slog.New(slog.NewTextHandler(&logged, nil)), 4
	r.fault.err = errors.New("no connection")
	for n := range byte(6) {
		s.report(t.Context(), s.Once(t.Context()))
		s.Appended(grown(saga(n), 1))
	}
	s.Appended(grown(saga(1), 2))
	s.report(t.Context(), s.Once(t.Context()))
	r.fault.err = nil
	for range 2 {
		s.report(t.Context(), s.Once(t.Context()))
	}
	set := r.set()
	for n := range byte(6) {
		records := 1
		if n == 1 {
			records = 2
		}
		if found := set.Check(saga(n), written(saga(n), records, "")); len(found) > 0 {
			t.Error(found)
		}
	}
	if c := set.Count(); c.Whole != 4 || c.Unsigned != 2 {
		t.Errorf("%+v", c)
	}
	for text, times := range map[string]int{"no more ends": 1, "leave out": 1, "ends=2": 1} {
		if strings.Count(logged.String(), text) != times {
			t.Errorf("not logged %d times: %s\n%s", times, text, &logged)
		}
	}
}

// Heads do not wait for the next anchor if there are many.
func TestManyHeadsAreAnchoredEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		s := r.signer()
		s.heads.most = 4
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.Run(ctx)
		s.Appended(grown(saga(1), 1))
		s.Appended(grown(saga(2), 1))
		synctest.Wait()
		if n := r.set().Count().Anchors; n != 1 {
			t.Errorf("%d anchors", n)
		}
	})
}
