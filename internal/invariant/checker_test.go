package invariant_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/internal/invariant"
	"recourse/internal/story/storytest"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
)

var unknown = uuid.FromStringOrNil("019aa5d0-0000-7000-8000-00000000000f")

// withConfig are violations that a Checker finds only with more than the journals; without the harm
// it finds none.
var withConfig = []struct {
	name string
	n    int
	game string
	tell func(s *invariant.Saga, g *good) invariant.Config
	harm func(s *invariant.Saga, c *invariant.Config)
}{
	{"a start without its saga", 1, "succeeded", known, func(_ *invariant.Saga, c *invariant.Config) {
		c.Starts = append(c.Starts, invariant.Start{ID: unknown})
	}},
	{"a key with two sagas", 1, "succeeded", known, func(s *invariant.Saga, c *invariant.Config) {
		c.Starts = append(c.Starts, invariant.Start{ID: unknown, Key: "k"})
	}},
	{"another input", 1, "succeeded", known, func(_ *invariant.Saga, c *invariant.Config) {
		c.Starts[0].Input = json.RawMessage(`{"late":true}`)
	}},
	{"a request without an intent, under the saga's key", 4, "succeeded", partial, func(s *invariant.Saga, _ *invariant.Config) {
		s.Records = slices.DeleteFunc(s.Records, func(r journal.Record) bool { return r.Path == "charge" })
		reseal(s)
	}},
	{"another request than intended", 4, "succeeded", partial, func(_ *invariant.Saga, c *invariant.Config) {
		c.Ledger.Entries = slices.Clone(c.Ledger.Entries)
		c.Ledger.Entries[0].Path = "/elsewhere"
	}},
	{"two effects under one key", 6, "lost", partial, func(_ *invariant.Saga, c *invariant.Config) {
		e := c.Ledger.Entries.Effects()[0]
		e.EffectID += "_again"
		c.Ledger.Entries = append(slices.Clone(c.Ledger.Entries), e)
	}},
	{"no effect", 7, "succeeded", partial, func(_ *invariant.Saga, c *invariant.Config) {
		c.Ledger.Entries = c.Ledger.Entries.Where(func(e world.Entry) bool { return e.Kind != world.Effect || e.Service != "pay" })
	}},
	{"the row lacks its inbox entry", 11, "asking", rested, func(s *invariant.Saga, _ *invariant.Config) { s.Head.Inbox = []journal.Entry{} }},
	{"the row is newer than its journal", 12, "asking", rested, func(s *invariant.Saga, _ *invariant.Config) { s.Head.Seq++ }},
	{"the row has another status", 12, "asking", rested, func(s *invariant.Saga, _ *invariant.Config) { s.Head.Status = "waiting" }},
	{"the row ended at another time", 12, "succeeded", rested, func(s *invariant.Saga, _ *invariant.Config) { s.Head.EndedAt = s.Head.EndedAt.Add(1) }},
	{"the row has ended, the saga has not", 12, "asking", rested, func(s *invariant.Saga, _ *invariant.Config) { s.Head.EndedAt = time.Now() }},
	{"owned by a node without a lease", 12, "asking", rested, func(s *invariant.Saga, _ *invariant.Config) { s.Head.Owner = "node-0" }},
	{"nobody's, and no wake-up", 12, "backing off", rested, func(s *invariant.Saga, _ *invariant.Config) { s.Head.WakeAt = time.Time{} }},
	{"a wake-up far too late", 12, "backing off", rested, func(s *invariant.Saga, _ *invariant.Config) { s.Head.WakeAt = s.Head.WakeAt.Add(24 * time.Hour) }},
	{"a lost attempt that nobody settles", 12, "backing off", rested, func(s *invariant.Saga, _ *invariant.Config) {
		s.Records = s.Records[:2]
		s.Head.Seq, s.Head.WakeAt, s.Head.Status = 2, time.Time{}, string(saga.Running)
	}},
	{"a secret", 19, "succeeded", known, func(_ *invariant.Saga, c *invariant.Config) { c.Canaries = []string{"", "LIS-OSL"} }},
	{"a quoted secret", 19, "succeeded", known, func(_ *invariant.Saga, c *invariant.Config) { c.Canaries = []string{`"route":"LIS`} }},
}

// known configures the start of the saga.
func known(s *invariant.Saga, _ *good) invariant.Config {
	return invariant.Config{Starts: []invariant.Start{{ID: s.ID, Key: "k", Input: json.RawMessage(`{ "late": false }`)}}, Canaries: []string{"xyzzy"}}
}

// partial configures a ledger that also has requests of other clients.
func partial(_ *invariant.Saga, g *good) invariant.Config {
	entries := append(slices.Clone(g.ledger), world.Entry{N: 1000, At: g.end, Kind: world.Request, Service: "pay", Method: "POST", Path: "/pay/charges", Key: "another client's"},
		world.Entry{N: 1001, At: g.end, Kind: world.Request, Service: "pay", Method: "POST", Path: "/pay/charges"})
	return invariant.Config{Ledger: &invariant.Ledger{Entries: entries}}
}

// rested configures the row that the saga has when no node runs it.
func rested(s *invariant.Saga, _ *good) invariant.Config {
	m, err := machine.Replay(s.Definition, s.ID, s.Records)
	if err != nil {
		panic(err)
	}
	s.Head = &journal.Head{ID: s.ID, Row: m.Row()}
	return invariant.Config{Nodes: func(node string) bool { return node == "node-1" }, Now: m.At()}
}

// A saga in quarantine waits for a person, although it could continue by its journal.
func TestQuarantinedIsNoViolation(t *testing.T) {
	g := games["backing off"](t)
	s := g.saga()
	cfg := rested(&s, &g)
	s.Head.Status, s.Head.Claims, s.Head.WakeAt = journal.StatusStuck, journal.QuarantineAfter, time.Time{}
	for _, v := range check(cfg, s) {
		t.Error(v)
	}
	s.Head.Claims = 0
	catches(t, 12, check(cfg, s))
}

// If a step is undone because its child was never started, that child must not exist, whichever of
// the two is added first.
func TestNeverStarted(t *testing.T) {
	child := unknown
	parent := storytest.Play(t, "saga: p\nsteps:\n  - {id: sub, run: kid, retry: none}\n", storytest.Script{Answer: func(s machine.Send, _ time.Time) saga.Answer {
		if s.Way == journal.Undo {
			return saga.Answer{Code: saga.NoSaga, Final: true}
		}
		child = uuid.FromStringOrNil(s.Request.Child.Saga)
		return saga.Answer{Sent: true, Code: "connection"}
	}})
	kid := storytest.Play(t, "saga: kid\nsteps:\n  - {id: a, set: 1}\n", storytest.Script{})
	sagas := []invariant.Saga{
		{ID: parent.ID, Definition: parent.Def, Records: parent.Records},
		{ID: child, Definition: kid.Def, Records: kid.Records},
	}
	edit(t, &sagas[1].Records[0], func(d *saga.StartedData) {
		d.Parent = &saga.ParentData{Saga: parent.ID.String(), Path: "sub", Depth: 1}
	})
	reseal(&sagas[1])
	for range 2 {
		for _, all := range []bool{false, true} {
			c := invariant.New(invariant.Config{})
			for _, s := range sagas {
				if all || s.ID == parent.ID {
					c.Add(c.Check(s))
				}
			}
			got := c.End()
			if !all {
				for _, v := range got {
					t.Errorf("before the harm: %v", v)
				}
				continue
			}
			catches(t, 8, got)
		}
		slices.Reverse(sagas)
	}
}

// undoneLater returns a saga that has succeeded, and one that undoes it and has begun at this time.
func undoneLater(t *testing.T, begun time.Time) (of, by invariant.Saga) {
	t.Helper()
	made := storytest.Play(t, "saga: x\nsteps:\n  - {id: a, http: POST http://w/a, compensate: {http: DELETE http://w/a, undo_within: 1h}}\n", storytest.Script{Answer: func(machine.Send, time.Time) saga.Answer {
		return saga.Answer{Sent: true, Status: 200}
	}})
	m := machine.New(made.Def, unknown)
	by = invariant.Saga{ID: unknown, Definition: made.Def}
	add := func(d machine.Draft) {
		r, err := m.Append(d, begun, "node-1")
		if err != nil {
			t.Fatal(err)
		}
		by.Records = append(by.Records, r)
	}
	add(m.Start(machine.BeginUndo(made.Machine, made.Records, machine.StartOptions{})))
	add(m.Decide()[0].(machine.Write).Record)
	return invariant.Saga{ID: made.ID, Definition: made.Def, Records: made.Records}, by
}

// At most one saga undoes another one, in time, and with the whole of its journal.
func TestUndoLater(t *testing.T) {
	in := storytest.Begin.Add(30 * time.Minute)
	for _, tt := range []struct {
		name  string
		begun time.Time
		harm  func(of, second *invariant.Saga)
		want  string
	}{
		{"in time", in, nil, ""},
		{"too late", storytest.Begin.Add(2 * time.Hour), nil, "whose window ended"},
		{"twice", in, func(_, second *invariant.Saga) { second.ID[15]++; reseal(second) }, "was undone by saga"},
		{"with another journal", in, func(of, _ *invariant.Saga) {
			of.Records[0].Node = "node-9"
			reseal(of)
		}, "does not have the whole journal"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			of, by := undoneLater(t, tt.begun)
			second := by
			second.Records = slices.Clone(by.Records)
			if tt.harm != nil {
				tt.harm(&of, &second)
			}
			sagas := []invariant.Saga{of, by}
			if second.ID != by.ID {
				sagas = append(sagas, second)
			}
			c := invariant.New(invariant.Config{})
			for _, s := range sagas {
				c.Add(c.Check(s))
			}
			found := c.End()
			if tt.want == "" {
				for _, v := range found {
					t.Error(v)
				}
				return
			}
			if !slices.ContainsFunc(found, func(v invariant.Violation) bool { return v.N == 29 && strings.Contains(v.Text, tt.want) }) {
				t.Errorf("not caught: %v", found)
			}
		})
	}
}

func check(cfg invariant.Config, s invariant.Saga) []invariant.Violation {
	c := invariant.New(cfg)
	c.Add(c.Check(s))
	return c.End()
}

func TestCatchesWithConfig(t *testing.T) {
	for _, tt := range withConfig {
		t.Run(tt.name, func(t *testing.T) {
			g := games[tt.game](t)
			s := g.saga()
			cfg := tt.tell(&s, &g)
			for _, v := range check(cfg, s) {
				t.Errorf("before the harm: %v", v)
			}
			tt.harm(&s, &cfg)
			catches(t, tt.n, check(cfg, s))
		})
	}
}

// A state that is allowed at some time of a saga's life is no violation: neither in a journal that
// continues, nor with a ledger that has more or less.
func TestEveryPrefixIsFine(t *testing.T) {
	for name, game := range games {
		t.Run(name, func(t *testing.T) {
			g := game(t)
			for n := 1; n <= len(g.played.Records); n++ {
				s := g.saga()
				s.Records = s.Records[:n]
				for _, v := range check(invariant.Config{Ledger: &invariant.Ledger{Entries: g.ledger, Keyless: map[string]bool{"mail": true}}}, s) {
					t.Errorf("after %d records: %v", n, v)
				}
				s.Definition = nil
				for _, v := range check(invariant.Config{}, s) {
					t.Errorf("without the definition, after %d records: %v", n, v)
				}
			}
			s := g.saga()
			written := g.played.Records[len(g.played.Records)-1].At.Add(-time.Millisecond)
			early := &invariant.Ledger{Until: written, Keyless: map[string]bool{"mail": true},
				Entries: g.ledger.Where(func(e world.Entry) bool { return e.Kind == world.Request })}
			for _, v := range check(invariant.Config{Ledger: early}, s) {
				t.Errorf("the ledger was written earlier: %v", v)
			}
			other := &invariant.Ledger{Covers: func(url string) bool { return strings.Contains(url, "elsewhere") }}
			for _, v := range check(invariant.Config{Ledger: other}, s) {
				t.Errorf("the ledger is another service's: %v", v)
			}
		})
	}
}

// Coverage says which invariants were not checked.
func TestCoverage(t *testing.T) {
	g := games["succeeded"](t)
	bare := g.saga()
	bare.Definition = nil
	for _, tt := range []struct {
		name string
		cfg  invariant.Config
		s    invariant.Saga
		all  []int // checked in full
		none []int // not at all
	}{
		{"a journal", invariant.Config{}, bare, []int{3, 17, 24, 25, 27, 29}, []int{1, 4, 6, 7, 8, 10, 12, 14, 19, 22, 23, 26, 30, 33}},
		{"and its definition", invariant.Config{}, g.saga(), []int{2, 3, 5, 10, 13, 14, 15, 16, 17, 24, 25, 26, 27, 28, 29, 32, 33, 35}, []int{1, 4, 7, 8, 12, 19, 22, 30}},
		{"and requests", invariant.Config{Ledger: &invariant.Ledger{Entries: g.ledger.Requests(), RequestsOnly: true}}, g.saga(),
			[]int{2, 3, 5, 10, 13, 14, 15, 16, 17, 24, 25, 26, 27, 28, 29, 32, 33, 35}, []int{1, 7, 8, 12, 19, 22, 30}},
		{"and a world", invariant.Config{Ledger: invariant.OfWorld(g.ledger), Clock: g.end, OneProgram: true, Anchored: true}, g.saga(),
			[]int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35}, []int{1, 19}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := invariant.New(tt.cfg)
			c.Add(c.Check(tt.s))
			c.End()
			var all, none []int
			for _, v := range c.Coverage() {
				switch {
				case !v.Checked:
					none = append(none, v.N)
				case v.Why == "":
					all = append(all, v.N)
				}
			}
			if !slices.Equal(all, tt.all) || !slices.Equal(none, tt.none) {
				t.Errorf("checked in full %v, want %v; not at all %v, want %v", all, tt.all, none, tt.none)
			}
		})
	}
}

// Requests of other clients are counted and are no violation; a complete ledger has none.
func TestForeignRequests(t *testing.T) {
	g := games["succeeded"](t)
	s := g.saga()
	cfg := partial(&s, &g)
	c := invariant.New(cfg)
	c.Add(c.Check(s))
	if found := c.End(); len(found) > 0 || c.Totals().Foreign != 2 {
		t.Errorf("%d foreign requests, want 2; violations %v", c.Totals().Foreign, found)
	}
	cfg.Ledger.Complete = true
	catches(t, 4, check(cfg, s))
}

// The clocks of two machines differ. The caller says by how much.
func TestSkew(t *testing.T) {
	g := games["succeeded"](t)
	entries := slices.Clone(g.ledger)
	for i := range entries {
		entries[i].At = entries[i].At.Add(-time.Second)
	}
	catches(t, 4, check(invariant.Config{Ledger: &invariant.Ledger{Entries: entries}}, g.saga()))
	for _, v := range check(invariant.Config{Ledger: &invariant.Ledger{Entries: entries, Skew: time.Second}}, g.saga()) {
		t.Error(v)
	}
}
