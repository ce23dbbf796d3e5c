package trigger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
)

// fire has a node look once at a time.
func (r *rig) fire(c *Cron, at string) {
	r.t.Helper()
	r.clock.set(at)
	if err := c.fire(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func TestCronFires(t *testing.T) {
	r := newRig(t)
	c := NewCron(r.Starter)
	r.publish("saga: d\ntriggers: [{event: a}, {cron: '0 9 * * 1-5', timezone: Europe/Berlin, input: {at: '${event.time}'}}, {cron: '@hourly', if: event.time > '2026-03-02T08:30:00Z', catch_up: none}]")
	r.fire(c, "2026-03-02T08:00:00Z") // published just now: 9:00 in Berlin is no concern of its
	r.want()
	r.fire(c, "2026-03-02T08:59:59Z")
	r.want()
	for range 3 {
		r.fire(c, "2026-03-02T09:00:00Z")
	}
	r.want("d null")
	r.fire(c, "2026-03-03T08:00:01Z")
	r.want("d null", `d {"at":"2026-03-03T08:00:00Z"}`, "d null")
}

// In the hour that comes twice a time fires twice, once each, on a node that looks and on one that
// catches up; in the one that is skipped, not at all.
func TestCronWhenClocksChange(t *testing.T) {
	for name, tt := range map[string]struct {
		published string
		looks     []string
		want      []string
	}{
		"twice": {"2026-10-24T12:00:00Z", []string{"2026-10-25T00:30:00Z", "2026-10-25T00:31:00Z", "2026-10-25T01:29:59Z", "2026-10-25T01:30:00Z", "2026-10-25T01:31:00Z", "2026-10-25T12:00:00Z"},
			[]string{`d "2026-10-25T00:30:00Z"`, `d "2026-10-25T01:30:00Z"`}},
		"twice, caught up with": {"2026-10-24T12:00:00Z", []string{"2026-10-25T12:00:00Z", "2026-10-25T12:00:01Z"},
			[]string{`d "2026-10-25T00:30:00Z"`, `d "2026-10-25T01:30:00Z"`}},
		"skipped": {"2026-03-28T12:00:00Z", []string{"2026-03-29T00:30:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-29T12:00:00Z", "2026-03-30T00:30:00Z"},
			[]string{`d "2026-03-30T00:30:00Z"`}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			c := NewCron(r.Starter)
			r.clock.set(tt.published)
			r.publish("saga: d\ntriggers: [{cron: '30 2 * * *', timezone: Europe/Berlin, catch_up: all, input: '${event.time}'}]")
			r.fire(c, tt.published)
			for _, at := range tt.looks {
				r.fire(c, at)
				r.fire(NewCron(r.Starter), at) // another node, which has just begun
			}
			r.want(tt.want...)
		})
	}
}

// down fires at 8:30, is down, and comes back as another process.
func down(t *testing.T, spec, catchUp, back string) *rig {
	r := newRig(t)
	c := NewCron(r.Starter)
	r.publish("saga: d\ntriggers: [{cron: '" + spec + "', catch_up: " + catchUp + ", input: '${event.time}'}]")
	r.fire(c, "2026-03-02T08:30:00Z")
	again := another(t, r.clock, r.store)
	again.fire(NewCron(again.Starter), back)
	return again
}

func TestCatchUp(t *testing.T) {
	first := `d "2026-03-02T08:30:00Z"`
	down(t, "30 * * * *", "last", "2026-03-02T12:31:00Z").want(first, `d "2026-03-02T12:30:00Z"`)
	down(t, "30 * * * *", "last", "2036-03-02T12:45:00Z").want(first, `d "2036-03-02T12:30:00Z"`)
	down(t, "30 * * * *", "none", "2026-03-02T12:45:00Z").want(first)
	down(t, "30 * * * *", "none", "2026-03-02T12:30:30Z").want(first, `d "2026-03-02T12:30:00Z"`)
	down(t, "30 * * * *", "all", "2026-03-02T11:00:00Z").want(first, `d "2026-03-02T09:30:00Z"`, `d "2026-03-02T10:30:00Z"`)
	all := down(t, "30 * * * *", "all", "2026-04-02T11:00:00Z").inputs()
	if len(all) != 102 || all[100] != `d "2026-03-06T12:30:00Z"` || all[101] != `d "2026-04-02T10:30:00Z"` {
		t.Errorf("%d: %v … %v", len(all), all[99:], all[len(all)-1])
	}
}

// A catch-up that is interrupted, wherever that is, fires as many times as another one: in the same
// process, and in another one.
func TestCatchUpThatIsInterrupted(t *testing.T) {
	const back = "2026-04-02T11:00:00Z"
	want := down(t, "30 * * * *", "all", back).inputs()
	for notes := range 103 { // of the beginning and 101 times
		for _, restart := range []bool{false, true} {
			r := newRig(t)
			c := NewCron(r.Starter)
			r.publish("saga: d\ntriggers: [{cron: '30 * * * *', catch_up: all, input: '${event.time}'}]")
			r.fire(c, "2026-03-02T08:30:00Z")
			r.clock.set(back)
			store := r.cfg.Store
			r.cfg.Store = &tired{store, notes}
			if err := c.fire(t.Context()); (err == nil) != (notes == 102) {
				t.Fatal(notes, err)
			}
			r.cfg.Store = store
			if restart {
				r = another(t, r.clock, r.store)
				c = NewCron(r.Starter)
			}
			r.fire(c, back)
			if got := r.inputs(); !slices.Equal(got, want) {
				t.Fatalf("after %d notes, restart %t: %d: %v … %v", notes, restart, len(got), got[min(99, len(got)-1):min(105, len(got))], got[len(got)-1])
			}
			// The next long time without a server begins with the last time that fired.
			r.fire(NewCron(r.Starter), "2026-05-02T11:00:00Z")
			if got := r.inputs(); len(got) != len(want)+101 || got[len(want)] != `d "2026-04-02T11:30:00Z"` {
				t.Fatalf("after %d notes, restart %t, the next one: %d", notes, restart, len(got))
			}
		}
	}
}

// tired is a store that notes some firings, and then fails.
type tired struct {
	Store
	left int
}

func (s *tired) SetFired(ctx context.Context, name string, at time.Time) error {
	if s.left--; s.left < 0 {
		return errDied
	}
	return s.Store.SetFired(ctx, name, at)
}

// A schedule that was removed during a catch-up begins again with the version that has it again.
func TestCatchUpOfAScheduleThatWasRemoved(t *testing.T) {
	const hourly = "saga: d\ntriggers: [{cron: '30 * * * *', catch_up: all, input: '${event.time}'}]"
	r := newRig(t)
	r.publish(hourly)
	r.fire(NewCron(r.Starter), "2026-03-02T08:30:00Z")
	r.clock.set("2026-04-02T11:00:00Z")
	store := r.cfg.Store
	r.cfg.Store = &tired{store, 10}
	if err := NewCron(r.Starter).fire(t.Context()); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	r.cfg.Store = store
	before := len(r.inputs())
	r.publish("saga: d")
	r.publish(hourly)
	again := another(t, r.clock, r.store)
	again.fire(NewCron(again.Starter), "2026-04-02T13:31:00Z")
	if got := again.inputs(); len(got) != before+3 || got[before] != `d "2026-04-02T11:30:00Z"` {
		t.Errorf("%v", got[before:])
	}
}

// What a node has fired before it dies is not fired again, although it has not noted it.
func TestCronAfterACrash(t *testing.T) {
	r := newRig(t)
	r.publish("saga: d\ntriggers: [{cron: '30 * * * *', input: '${event.time}'}]")
	c := NewCron(r.Starter)
	r.cfg.Store = forgetful{r.cfg.Store}
	r.clock.set("2026-03-02T08:30:00Z")
	if err := c.fire(t.Context()); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	again := another(t, r.clock, r.store)
	again.fire(NewCron(again.Starter), "2026-03-02T08:30:20Z")
	again.want(`d "2026-03-02T08:30:00Z"`)
}

// The same holds if a new version has its triggers in another order when the node is back: what was
// fired is not fired again, and not taken for the firing of the trigger that is now in its place.
func TestCronAfterACrashAndAChange(t *testing.T) {
	r := newRig(t)
	r.publish("saga: d\ntriggers: [{cron: '30 * * * *', input: 1}, {cron: '30 8 * * *', input: 2}]")
	c := NewCron(r.Starter)
	r.cfg.Store = dying{r.cfg.Store, r}
	r.clock.set("2026-03-02T08:30:00Z")
	if err := c.fire(t.Context()); !errors.Is(err, errDied) {
		t.Fatal(err)
	}
	r.want("d 1")
	again := another(t, r.clock, r.store)
	again.publish("saga: d\ntriggers: [{cron: '30 8 * * *', input: 2}, {cron: '30 * * * *', input: 1}]")
	again.fire(NewCron(again.Starter), "2026-03-02T08:30:20Z")
	again.want("d 1", "d 2")
}

// dying is the store of a process that dies before it notes a firing, and starts nothing after it.
type dying struct {
	Store
	rig *rig
}

func (d dying) SetFired(context.Context, string, time.Time) error {
	d.rig.fails = errDied
	return errDied
}

var errDied = errors.New("died")

// forgetful is the store of a process that dies before it notes a firing.
type forgetful struct{ Store }

func (forgetful) SetFired(context.Context, string, time.Time) error { return errDied }

// A start that fails is due still; another trigger does not wait for it.
func TestCronTriesAgain(t *testing.T) {
	r := newRig(t)
	r.publish("saga: d\ntriggers: [{cron: '30 * * * *'}]")
	r.publish("saga: e\ntriggers: [{cron: '30 * * * *'}]")
	c := NewCron(r.Starter)
	r.clock.set("2026-03-02T08:30:00Z")
	r.fails = saga.ErrBusy
	if err := c.fire(t.Context()); !errors.Is(err, saga.ErrBusy) {
		t.Fatal(err)
	}
	r.want("e null")
	r.fire(c, "2026-03-02T08:30:01Z")
	r.want("e null", "d null")
}

// The log has an outage once, and its end.
func TestCronLogsAnOutageOnce(t *testing.T) {
	var log strings.Builder
	c := NewCron(New(Config{Log: slog.New(slog.NewTextHandler(&log, nil))}))
	for i, err := range []error{nil, errDied, errDied, nil, nil} {
		c.logOutage(err)
		if n, want := strings.Count(log.String(), "\n"), []int{0, 1, 1, 2, 2}[i]; n != want {
			t.Errorf("after %d checks it has logged %s", i+1, &log)
		}
	}
	if !strings.HasSuffix(log.String(), "msg=\"triggers fire again\"\n") {
		t.Errorf("logged %s", &log)
	}
}

// In a new version, unchanged times continue, even if other triggers now come before them; new ones
// begin with it; a refused start is skipped.
func TestCronOfANewVersion(t *testing.T) {
	r := newRig(t)
	c := NewCron(r.Starter)
	r.publish("saga: d\ntriggers: [{cron: '30 * * * *', input: {v: 1}}]")
	r.fire(c, "2026-03-02T08:00:00Z")
	r.fire(c, "2026-03-02T08:31:00Z")
	other := another(t, r.clock, r.store)
	r.clock.set("2026-03-02T09:29:00Z")
	other.publish("saga: d\ntriggers: [{cron: '0 * * * *', catch_up: all, input: {v: 0}}, {cron: '30 * * * *', input: {v: 2}}]")
	r.fire(c, "2026-03-02T09:31:00Z") // it has looked at the definitions less than ten seconds ago
	r.fire(c, "2026-03-02T09:31:01Z")
	r.fire(c, "2026-03-02T10:00:00Z")
	r.want(`d {"v":1}`, `d {"v":2}`, `d {"v":0}`)
	// A time is no address, so that each start is refused.
	r.publish("saga: d\ninput: {v: email}\ntriggers: [{cron: '30 * * * *', input: {v: '${event.time}'}}]")
	r.fire(c, "2026-03-02T10:30:00Z")
	r.publish("saga: d\ntriggers: [{cron: '30 * * * *', input: {v: 4}}]")
	r.fire(c, "2026-03-02T10:30:30Z")
	if err := r.cat.Archive(t.Context(), journal.Definition, "d"); err != nil {
		t.Fatal(err)
	}
	r.fire(c, "2026-03-02T11:31:00Z")
	r.want(`d {"v":1}`, `d {"v":2}`, `d {"v":0}`)
}

// A schedule that a version does not have begins again with the version that has it again. The next
// version continues it.
func TestCronThatWasRemoved(t *testing.T) {
	const hourly = "saga: d\ntriggers: [{cron: '30 * * * *', catch_up: all, input: '${event.time}'}]"
	r := newRig(t)
	r.publish(hourly)
	r.fire(NewCron(r.Starter), "2026-03-02T08:30:00Z")
	for at, src := range []string{"saga: d", hourly, hourly + " # again"} {
		r.clock.set(fmt.Sprintf("2026-03-02T1%d:40:00Z", at))
		r.publish(src)
	}
	again := another(t, r.clock, r.store)
	again.fire(NewCron(again.Starter), "2026-03-02T12:40:01Z")
	again.want(`d "2026-03-02T08:30:00Z"`, `d "2026-03-02T12:30:00Z"`)
}

// Several nodes fire each time once.
func TestCronOnSeveralNodes(t *testing.T) {
	r := newRig(t)
	r.publish("saga: d\ntriggers: [{cron: '*/10 * * * *', input: '${event.time}'}, {cron: '*/10 * * * *', input: 2}]")
	nodes := []*rig{r, another(t, r.clock, r.store), another(t, r.clock, r.store)}
	crons := make([]*Cron, len(nodes))
	for i, n := range nodes {
		crons[i] = NewCron(n.Starter)
	}
	for minute := 1; minute < 60; minute++ {
		r.clock.set(fmt.Sprintf("2026-03-02T08:%02d:00Z", minute))
		var all sync.WaitGroup
		for _, c := range crons {
			all.Go(func() {
				if err := c.fire(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	got := r.inputs()
	slices.Sort(got)
	want := []string{"d 2", "d 2", "d 2", "d 2", "d 2"}
	for minute := 10; minute < 60; minute += 10 {
		want = append(want, fmt.Sprintf(`d "2026-03-02T08:%02d:00Z"`, minute))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// The loop looks each second, and ends with its context.
func TestRunCron(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.publish("saga: d\ntriggers: [{cron: '* * * * *', input: '${event.time}'}]")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			NewCron(r.Starter).Run(ctx)
			close(ended)
		}()
		synctest.Wait()
		r.clock.set("2026-03-02T08:01:00Z")
		time.Sleep(tick)
		synctest.Wait()
		r.want(`d "2026-03-02T08:01:00Z"`)
		r.fails = saga.ErrBusy
		r.clock.set("2026-03-02T08:02:00Z")
		time.Sleep(2 * tick)
		synctest.Wait()
		r.want(`d "2026-03-02T08:01:00Z"`, `d "2026-03-02T08:02:00Z"`)
		cancel()
		<-ended
	})
}

func TestLastTime(t *testing.T) {
	def, errs := dsl.Parse("t", []byte("saga: x\ntriggers: [{cron: '0 0 1 1 *'}]\nsteps:\n  - {id: a, set: 1}\n"), dsl.Options{Kinds: kinds.All()})
	if errs != nil {
		t.Fatal(errs)
	}
	least, now := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	if last := lastTime(def.Triggers[0].Cron, least, now); !last.Equal(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Error(last)
	}
	if last := lastTime(def.Triggers[0].Cron, least, least.Add(time.Hour)); !last.Equal(least) {
		t.Error(last)
	}
}
