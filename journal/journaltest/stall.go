package journaltest

import (
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
)

var stallTests = []test{
	{"due, and not claimed", stallUnclaimed},
	{"claimed repeatedly, and nothing written", stallNoProgress},
	{"claimed repeatedly: the oldest record first", stallNoProgressOrder},
	{"in quarantine: the oldest first", stallQuarantinedOrder},
	{"tasks that nobody claims", stallNoWorker},
	{"tasks of paused sagas hide no others", stallNoWorkerBehindPaused},
	{"noted, listed, and reported once", noteStalls},
	{"forgotten with their saga", stallsForgotten},
	{"noted by several nodes at once", noteStallsConcurrently},
}

// found returns the stalls that began longer than after ago, without the order of kinds.
func (b *bench) found(after time.Duration, limit int) (out []journal.Stall) {
	b.Helper()
	out, err := b.FindStalls(b.ctx, after, limit)
	b.must(err)
	for _, f := range out {
		if f.Why == "" || f.Definition == "" || f.Version == 0 || f.ID != journal.StallID(f.Saga, f.Kind, f.Path, f.Since) {
			b.Errorf("a stall lacks fields: %+v", f)
		}
	}
	return out
}

func kinds(list []journal.Stall) (out []string) {
	for _, f := range list {
		out = append(out, f.Kind)
	}
	return out
}

func stalledSagas(list []journal.Stall) (out []uuid.UUID) {
	for _, f := range list {
		out = append(out, f.Saga)
	}
	return out
}

func stallUnclaimed(b *bench) {
	now := b.now()
	first, second := b.parked(now.Add(-2*time.Hour)), b.parked(now.Add(-time.Hour))
	b.parked(now.Add(time.Hour)) // not due
	b.parked(time.Time{})        // waits for a message
	b.started()                  // a node owns it
	gone := newID()
	a := begin(gone)
	a.Row, a.Release = ended(), true
	b.ok(a)
	diff(b, "for a day", b.found(24*time.Hour, 10), nil)
	diff(b, "for 90 minutes", stalledSagas(b.found(90*time.Minute, 10)), []uuid.UUID{first})
	got := b.found(time.Minute, 10)
	diff(b, "for a minute", stalledSagas(got), []uuid.UUID{first, second})
	diff(b, "kinds", kinds(got), []string{journal.StallUnclaimed, journal.StallUnclaimed})
	if want := now.Add(-2 * time.Hour); !got[0].Since.Equal(want) {
		b.Errorf("since %v, want %v, when it was due", got[0].Since, want)
	}
	diff(b, "the oldest", stalledSagas(b.found(time.Minute, 1)), []uuid.UUID{first})
	diff(b, "no more than none", b.found(time.Minute, 0), nil)
}

func stallNoProgress(b *bench) {
	saga := b.parked(b.now())
	b.releaseAgain(saga, 1)
	diff(b, "claimed once", b.found(time.Minute, 10), nil)
	b.releaseAgain(saga, 1)
	got := b.found(time.Minute, 10)
	diff(b, "claimed twice", kinds(got), []string{journal.StallNoProgress})
	if !got[0].Since.Equal(b.records(saga)[0].At) || !strings.Contains(got[0].Why, "2 times") {
		b.Errorf("%+v, want it since its last record", got[0])
	}
	b.releaseAgain(saga, journal.QuarantineAfter-2)
	got = b.found(time.Minute, 10)
	diff(b, "in quarantine", kinds(got), []string{journal.StallQuarantined})
	if e := b.entries(saga); len(e) != 1 || got[0].Entry != e[0].ID || !got[0].Since.Equal(e[0].Since) {
		b.Errorf("%+v, want Entry of %+v", got[0], e)
	}
}

// The saga whose last record is the oldest comes first, although another is due earlier.
func stallNoProgressOrder(b *bench) {
	var sagas []uuid.UUID
	for _, at := range []time.Time{epoch, epoch.Add(-time.Hour)} {
		a := begin(newID())
		a.Records[0].At = at
		journal.Seal(a.Saga, nil, &a.Records[0])
		a.Release = true
		b.ok(a)
		b.releaseAgain(a.Saga, journal.SuspectAfter)
		sagas = append(sagas, a.Saga)
		b.tick()
	}
	diff(b, "the oldest", stalledSagas(b.found(time.Minute, 1)), sagas[1:])
	diff(b, "all", stalledSagas(b.found(time.Minute, 10)), []uuid.UUID{sagas[1], sagas[0]})
}

// A saga in quarantine has only this stall, also when it has received a message and when it is
// claimed.
func stallQuarantinedOrder(b *bench) {
	var sagas []uuid.UUID
	for _, definition := range []string{"b", "a"} {
		a := begin(newID())
		a.Start.Definition, a.Release = definition, true
		b.ok(a)
		b.releaseAgain(a.Saga, journal.QuarantineAfter)
		sagas = append(sagas, a.Saga)
		b.tick()
	}
	check := func(when string) {
		b.Helper()
		diff(b, "the oldest "+when, stalledSagas(b.found(0, 1)), sagas[:1])
		got := b.found(0, 10)
		diff(b, "all "+when, stalledSagas(got), sagas)
		diff(b, "kinds "+when, kinds(got), []string{journal.StallQuarantined, journal.StallQuarantined})
	}
	check("at first")
	b.send(sagas[0])
	check("after a message")
	b.claimed(sagas[0])
	check("once one is claimed")
}

func stallNoWorker(b *bench) {
	one, two := newTask("ocr"), newTask("mail")
	two.Path = "pages[3].send"
	saga := newID()
	a := begin(saga)
	a.Tasks = []journal.Task{one, two}
	b.ok(a)
	claimed, withdrawn := newTask("mine"), newTask("w")
	other := newID()
	a = begin(other)
	a.Tasks, a.Withdraw = []journal.Task{claimed, withdrawn}, []uuid.UUID{withdrawn.ID}
	b.ok(a)
	b.claimTasks("mine", 1, 1)
	paused := begin(newID())
	paused.Row, paused.Tasks = row("paused"), []journal.Task{newTask("p")}
	b.ok(paused)
	diff(b, "for an hour", b.found(time.Hour, 10), nil)
	b.tick()
	got := b.found(0, 10)
	slices.SortFunc(got, func(x, y journal.Stall) int { return strings.Compare(x.Path, y.Path) })
	diff(b, "sagas", stalledSagas(got), []uuid.UUID{saga, saga})
	diff(b, "kinds", kinds(got), []string{journal.StallNoWorker, journal.StallNoWorker})
	if got[0].Path != two.Path || got[1].Path != one.Path || !strings.Contains(got[0].Why, `"mail"`) || !strings.Contains(got[1].Why, `"ocr"`) {
		b.Errorf("found %+v", got)
	}
}

// The limit counts only tasks that are found, however many older ones belong to paused sagas.
func stallNoWorkerBehindPaused(b *bench) {
	add := func(status string, tasks ...journal.Task) uuid.UUID {
		a := begin(newID())
		a.Row, a.Tasks = row(status), tasks
		b.ok(a)
		b.tick()
		return a.Saga
	}
	add("paused", newTask("a"))
	add("paused", newTask("b"))
	first := add("waiting", newTask("b"))
	second := add("waiting", newTask("c"))
	third := add("waiting", newTask("a"))
	diff(b, "the oldest two", stalledSagas(b.found(0, 2)), []uuid.UUID{first, second})
	diff(b, "all", stalledSagas(b.found(0, 10)), []uuid.UUID{first, second, third})
	diff(b, "no more than none", b.found(0, 0), nil)
}

// stall returns a stall of a saga, with events for sinks.
func stall(saga uuid.UUID, kind, path string, since time.Time, sinks ...string) journal.StallNotice {
	f := journal.StallNotice{Stall: journal.Stall{ID: journal.StallID(saga, kind, path, since), Saga: saga, Kind: kind, Path: path, Since: since, Why: "✈ it's \"so\""}}
	for _, sink := range sinks {
		f.Events = append(f.Events, journal.Event{ID: f.ID, Saga: saga, Sink: sink, Data: []byte(`{}`)})
	}
	return f
}

func (b *bench) note(show time.Duration, want int, list ...journal.StallNotice) {
	b.Helper()
	fresh, err := b.NoteStalls(b.ctx, list, show)
	b.must(err)
	if fresh != want {
		b.Fatalf("%d of %d were not known, want %d", fresh, len(list), want)
	}
}

func (b *bench) stalls(f journal.StallFilter) []journal.Stall {
	b.Helper()
	out, err := b.ListStalls(b.ctx, f)
	b.must(err)
	return out
}

func noteStalls(b *bench) {
	one, _ := b.started()
	two, _ := b.started()
	late := stall(one, journal.StallNoSlot, "pay", epoch.Add(time.Hour), "s", "t")
	early := stall(two, journal.StallForgotten, "", epoch, "s")
	nobody := stall(newID(), journal.StallForgotten, "", epoch, "s")
	b.note(time.Hour, 2, late, early, nobody, early)
	b.note(time.Hour, 0, late, early)
	b.note(time.Hour, 0)
	diff(b, "events", len(b.claimEvents(10, time.Hour)), 3)
	for _, sink := range []string{"s", "t"} {
		b.must(b.EventDelivered(b.ctx, late.ID, sink))
	}
	b.must(b.EventDelivered(b.ctx, early.ID, "s"))
	b.note(time.Hour, 0, late, early)
	diff(b, "once they were delivered", b.claimEvents(10, time.Hour), nil)
	for _, f := range []*journal.StallNotice{&late, &early} {
		f.Definition, f.Version = b.head(f.Saga).Definition, b.head(f.Saga).Version
	}
	diff(b, "all", b.stalls(journal.StallFilter{}), []journal.Stall{early.Stall, late.Stall})
	diff(b, "the first", b.stalls(journal.StallFilter{Limit: 1}), []journal.Stall{early.Stall})
	diff(b, "the next", b.stalls(journal.StallFilter{After: early.Stall, Limit: 1}), []journal.Stall{late.Stall})
	diff(b, "no more", b.stalls(journal.StallFilter{After: late.Stall}), nil)
	diff(b, "a kind", b.stalls(journal.StallFilter{Kind: journal.StallNoSlot}), []journal.Stall{late.Stall})
	diff(b, "a saga", b.stalls(journal.StallFilter{Saga: two}), []journal.Stall{early.Stall})
	st, err := b.Stats(b.ctx)
	b.must(err)
	diff(b, "counted", st.Stalled, map[string]int64{journal.StallNoSlot: 1, journal.StallForgotten: 1})
	b.note(100*time.Millisecond, 0, late)
	b.eventually("it is shown no more", func() bool { return len(b.stalls(journal.StallFilter{})) == 1 })
	b.note(100*time.Millisecond, 0, early)
	b.eventually("nothing is shown", func() bool { return len(b.stalls(journal.StallFilter{})) == 0 })
	b.note(time.Hour, 0, early) // forgets what has not been noted for long
	b.note(time.Hour, 0, late)  // it is still known
	diff(b, "shown again", len(b.stalls(journal.StallFilter{})), 2)
	a := journal.Append{Saga: two, Records: chain(two, b.records(two)[0].Hash, 2, 1), Row: ended(), Release: true}
	b.ok(a)
	diff(b, "of those that live", b.stalls(journal.StallFilter{}), []journal.Stall{late.Stall})
	st, err = b.Stats(b.ctx)
	b.must(err)
	diff(b, "counted then", st.Stalled, map[string]int64{journal.StallNoSlot: 1})
}

func stallsForgotten(b *bench) {
	saga := newID()
	a := begin(saga)
	a.Row, a.Release = ended(), true
	b.ok(a)
	f := stall(saga, journal.StallForgotten, "", epoch, "s")
	b.note(time.Hour, 1, f)
	b.must(b.Delete(b.ctx, saga))
	b.ok(a)
	b.note(time.Hour, 1, f) // the id belongs to a new saga
}

func noteStallsConcurrently(b *bench) {
	var list []journal.StallNotice
	for range 40 {
		saga, _ := b.started()
		list = append(list, stall(saga, journal.StallForgotten, "", epoch, "s"))
	}
	backwards := slices.Clone(list)
	slices.Reverse(backwards)
	stores := []journal.Store{b.Store, b.Store}
	if b.subject.Again != nil {
		stores[1] = b.again()
	}
	type noted struct {
		fresh int
		err   error
	}
	ends := make(chan noted)
	for i := range 6 {
		go func() {
			all := list
			if i%2 == 1 {
				all = backwards
			}
			fresh, err := stores[i%2].NoteStalls(b.ctx, all, time.Hour)
			ends <- noted{fresh, err}
		}()
	}
	total := 0
	for range 6 {
		n := <-ends
		b.must(n.err)
		total += n.fresh
	}
	diff(b, "messages", total, len(list))
	diff(b, "events", len(b.claimEvents(100, time.Hour)), len(list))
}
