package sim

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/idempotency"
	"recourse/internal/invariant"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/machine"
	"recourse/saga/replay"
)

func (s *sim) violate(id uuid.UUID, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !id.IsNil() {
		text = "saga " + id.String() + ": " + text
		s.show(id)
	}
	s.result.Violations = append(s.result.Violations, text)
}

// show adds the journals of a saga and of those above it to what a violation prints.
func (s *sim) show(id uuid.UUID) {
	records := s.records(id)
	s.result.Journals[id] = records
	var started saga.StartedData
	if len(records) == 0 || records[0].Decode(&started) != nil {
		return
	}
	if payer, _ := started.Payer(); payer != "" {
		s.show(uuid.FromStringOrNil(payer))
	}
}

func (s *sim) heads() []journal.Head { return s.list(journal.Filter{Limit: 10_000}) }

func (s *sim) list(f journal.Filter) []journal.Head {
	found, err := s.store.Sagas(ctx, f)
	if err != nil {
		panic(err)
	}
	return found.Heads
}

// over reports whether every saga has ended and was released. It is called at each event after
// healing, so it checks only every 64th time, and reads no more pages than it needs.
func (s *sim) over() bool {
	if s.n%64 != 0 {
		return false
	}
	for page := (journal.Filter{Limit: 8}); ; {
		heads := s.list(page)
		for _, h := range heads {
			if h.EndedAt.IsZero() || h.Owner != "" { // a late command may make a node claim an ended saga
				return false
			}
			page.Before = h.ID
		}
		if len(heads) < page.Limit {
			return true
		}
	}
}

// check compares the journals with each other and with the ledger.
func (s *sim) check() {
	heads := s.everything()
	seen := make(map[uuid.UUID]bool)
	digest := sha256.New()
	var sagas []invariant.Saga
	machines := make(map[uuid.UUID]*machine.Machine)
	journals := make(map[uuid.UUID][]journal.Record)
	for _, h := range heads {
		seen[h.ID] = true
		s.result.Statuses[saga.Status(h.Status)]++
		records := s.records(h.ID)
		m := s.checkSaga(h, records)
		if len(records) > 0 {
			digest.Write(records[len(records)-1].Hash)
		}
		machines[h.ID], journals[h.ID] = m, records
		sagas = append(sagas, invariant.Saga{ID: h.ID, Definition: s.defs[h.Definition], Head: &h, Records: records, Machine: m})
	}
	digest.Sum(s.result.Digest[:0])
	s.checkAnchors(journals)
	for _, h := range heads {
		if p := machines[h.Parent]; p != nil && p.Status().Terminal() && s.defs[h.Definition].Session == nil {
			s.checkChild(h, p, journals[h.Parent])
		}
	}

	s.checkUndos(machines, journals)
	s.checkOutbox(journals)
	left, err := s.store.TaskStats(ctx)
	left = slices.DeleteFunc(left, func(t journal.TaskStat) bool {
		return t.Waiting == 0 && strings.HasPrefix(t.Type, "agent:") // leases that have not ended yet
	})
	if err != nil || len(left) > 0 && len(s.result.Violations) == 0 {
		s.violate(uuid.Nil, "12: tasks remain after their sagas have ended: %v %v", left, err)
	}
	for _, v := range invariant.Check(sagas, s.world.ledger, s.now) {
		s.violate(v.Saga, "%d: %s", v.N, v.Text)
	}
	for id := range s.acked {
		if !seen[id] {
			s.violate(uuid.Nil, "1: an acknowledged start is gone: %s", id)
		}
	}
}

// checkSaga checks that a journal replays to an end, and compares it with the true state of the
// world, which only the simulator knows. It returns the machine, nil if the journal does not
// replay.
func (s *sim) checkSaga(h journal.Head, records []journal.Record) *machine.Machine {
	s.result.Records += len(records)
	m, err := machine.Replay(s.defs[h.Definition], h.ID, records)
	if err != nil {
		s.violate(h.ID, "2: %v", err)
		return nil
	}
	if !m.Status().Terminal() {
		s.violate(h.ID, "12: it has not ended: %s, row %s, wakes at %s, owner %q", m.Status(), h.Status, wakes(h.WakeAt), h.Owner)
		return m
	}
	s.checkEffects(h.ID, m, records)
	s.checkPivot(h.ID, m.Definition(), records)
	s.checkTasks(m.Definition(), h.ID, records)
	s.checkSession(h.ID, m.Definition(), records)
	s.checkApprovals(h.ID, starter(records), records)
	s.checkSignals(m.Definition(), h.ID, records)
	s.checkFork(h, records)
	s.checkWaits(h.ID, m.Definition(), records)
	s.checkReplay(h.ID, m, records)
	return m
}

// checkReplay checks that the saga, replayed against its own definition, makes the same requests
// and comes to the same end.
func (s *sim) checkReplay(id uuid.UUID, m *machine.Machine, records []journal.Record) {
	// No journal says that a saga's timeout was due and did not fire, because no node was running
	// or a command came first.
	def, last := m.Definition(), records[len(records)-1].At
	timedOut := m.Reason() != nil && m.Reason().Code == "timeout"
	if def.Timeout > 0 && !timedOut && last.Sub(records[0].At) >= def.Timeout {
		return
	}
	res, err := replay.Against(def, id, records, replay.Options{})
	if errors.Is(err, replay.ErrSession) || errors.Is(err, replay.ErrContinues) {
		return
	}
	if err != nil || res.Verdict != replay.Same {
		s.violate(id, "2: replayed against its own definition: %s at %q: %s, %v", res.Verdict, res.Path, res.Difference(), err)
	}
}

// starter returns who started the saga, or its outermost parent.
func starter(records []journal.Record) string {
	var d saga.StartedData
	mustRead(records[0], &d)
	if d.Parent != nil {
		return d.Parent.Starter
	}
	return d.Actor
}

// checkEffects checks the effects of a saga in the world: invariants 6, 7, 8, 11.
func (s *sim) checkEffects(id uuid.UUID, m *machine.Machine, records []journal.Record) {
	residual := make(map[string]bool)
	for _, r := range m.Residual() {
		residual[r.Path] = true
	}
	def := m.Definition()
	for _, path := range sent(records) {
		effects, live := 0, 0
		for g := range 4 {
			key := idempotency.Key(id, path, journal.Do, g)
			e, l := s.world.count(key)
			if e > 1 {
				s.violate(id, "6: %d effects under one key of %s", e, path)
			}
			effects, live = effects+e, live+l
		}
		final := isFinal(def, path)
		switch {
		case m.Status() == saga.Compensated && live > 0 && !final:
			s.violate(id, "8: compensated, but %d effects of %s remain", live, path)
		case m.Status() == saga.Failed && live > 0 && !residual[path] && !final:
			s.violate(id, "11: failed, and %s remains but is not in residual", path)
		case m.Status() == saga.Succeeded && effects != live && m.CallStatus(path) != machine.CallUndone && m.OwnStatus(path) != machine.CallUndone && !s.undoneLater(id):
			s.violate(id, "7: succeeded, but %s was undone", path)
		}
	}
}

// sent lists the steps that have sent a request, in the order of their first intents.
func sent(records []journal.Record) (paths []string) {
	for _, r := range records {
		if _, query := saga.SplitQuery(r.Path); r.Kind == journal.Intent && r.Attempt > 0 && r.Way == journal.Do && !query && !slices.Contains(paths, r.Path) {
			paths = append(paths, r.Path)
		}
	}
	return paths
}

// isFinal reports whether the step is in `finally`, or inside one that is.
func isFinal(def *saga.Definition, path string) bool {
	path, _ = saga.SplitQuery(path)
	return slices.ContainsFunc(def.Finally, func(s *saga.Step) bool { return inside(s, saga.StepID(path)) })
}

func inside(s *saga.Step, id string) bool {
	if s.ID == id {
		return true
	}
	b, ok := s.Body.(saga.Block)
	return ok && slices.ContainsFunc(b.Lists(), func(list []*saga.Step) bool {
		return slices.ContainsFunc(list, func(s *saga.Step) bool { return inside(s, id) })
	})
}

// checkPivot checks that nothing is undone after the pivot without a command.
func (s *sim) checkPivot(id uuid.UUID, def *saga.Definition, records []journal.Record) {
	pivoted := false
	for _, r := range records {
		switch r.Kind {
		case journal.Outcome:
			step := def.Step(r.Path)
			if step != nil && step.Pivot && r.Way == journal.Do && r.Class == journal.Succeeded {
				var d saga.OutcomeData
				mustRead(r, &d)
				pivoted = pivoted || !d.Stubbed
			}
		case journal.Compensating:
			var d saga.CompensatingData
			mustRead(r, &d)
			if pivoted && len(d.Plan) > 0 && d.Reason.Code != "operator" {
				s.violate(id, "undone after the pivot without a command")
			}
		}
	}
}

func mustRead(r journal.Record, into any) {
	if err := r.Decode(into); err != nil {
		panic(err)
	}
}

// count counts the effects of a key, and those that were not undone.
func (w *theWorld) count(key string) (effects, live int) {
	for _, id := range w.byKey[key] {
		effects++
		if !w.undone[id] {
			live++
		}
	}
	return effects, live
}

// liveForward reports whether the step has an effect that was not undone.
func (s *sim) liveForward(id uuid.UUID, path string) bool {
	id = s.takenFrom(id, path)
	for g := range 4 {
		if _, live := s.world.count(idempotency.Key(id, path, journal.Do, g)); live > 0 {
			return true
		}
	}
	return false
}

// Transcripts returns a text with the faults that struck, and the journals of the sagas with
// violations, one line per record.
func (r Result) Transcripts() string {
	var b strings.Builder
	fmt.Fprintf(&b, "faults that struck:\n%s\n", strings.Join(r.Story, "\n"))
	ids := slices.SortedFunc(maps.Keys(r.Journals), journal.CompareID)
	for _, id := range ids {
		fmt.Fprintf(&b, "saga %s:\n", id)
		for _, rec := range r.Journals[id] {
			fmt.Fprintf(&b, "%3d %10s %-12s %-10s %-4s %d %-9s %s %.500s\n", rec.Seq, rec.At.Sub(epoch), rec.Kind, rec.Path, rec.Way, rec.Attempt, rec.Class, rec.Node, rec.Data)
		}
	}
	return b.String()
}

// wakes formats the time at which a saga wakes up.
func wakes(at time.Time) string {
	if at.IsZero() {
		return "no time"
	}
	return at.Sub(epoch).String()
}
