package crash

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/examples/world"
	"recourse/internal/invariant"
	"recourse/journal"
	"recourse/saga"
)

// evidence is the final state of database, ledger and clients.
type evidence struct {
	sagas     []invariant.Saga
	ledger    world.Ledger
	starts    []invariant.Start
	cancelled []uuid.UUID
	defs      map[string]*saga.Definition
	now       time.Time
}

// gather reads it.
func (l *load) gather(t *testing.T) evidence {
	t.Helper()
	ledger, err := l.world.Ledger(context.Background(), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	e := evidence{ledger: ledger, starts: l.starts, cancelled: l.cancelled, defs: definitions(t, l.timeout), now: time.Now()}
	store := l.fleet.cfg.db.open(t)
	defer store.Close()
	for f := (journal.Filter{Limit: 500}); ; {
		found, err := store.Sagas(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range found.Heads {
			records, err := store.Records(t.Context(), h.ID, 0, 10_000)
			if err != nil {
				t.Fatal(err)
			}
			e.sagas = append(e.sagas, invariant.Saga{ID: h.ID, Definition: e.defs[h.Definition], Head: &h, Records: records})
		}
		if len(found.Heads) < f.Limit {
			return e
		}
		f.Before = found.Heads[len(found.Heads)-1].ID
	}
}

// check returns all errors in the evidence.
func (e evidence) check() []string {
	var wrong []string
	c := invariant.New(invariant.Config{Ledger: invariant.OfWorld(e.ledger), Clock: e.now.Add(-time.Second), Now: e.now, Starts: e.starts, OneProgram: true})
	ended := make(map[uuid.UUID]string)
	keys := make(map[string]uuid.UUID)
	for _, s := range e.sagas {
		c.Add(c.Check(s))
		ended[s.ID] = s.Head.Status
		if s.Head.EndedAt.IsZero() {
			wrong = append(wrong, fmt.Sprintf("saga %s (%s) has not ended: %s", s.ID, s.Head.Definition, s.Head.Status))
		}
		if other, twice := keys[s.Head.Key]; twice {
			wrong = append(wrong, fmt.Sprintf("key %s started saga %s and saga %s", s.Head.Key, other, s.ID))
		}
		keys[s.Head.Key] = s.ID
		if want := expected(s); want != "" && s.Head.Status != want {
			wrong = append(wrong, fmt.Sprintf("saga %s (%s) ended as %s, want %s", s.ID, s.Head.Definition, s.Head.Status, want))
		}
	}
	for _, s := range e.sagas {
		if parent := s.Head.Parent; !parent.IsNil() && ended[parent] != s.Head.Status {
			wrong = append(wrong, fmt.Sprintf("saga %s ended as %s, and its parent %s as %s", s.ID, s.Head.Status, parent, ended[parent]))
		}
	}
	for _, v := range c.End() {
		wrong = append(wrong, v.String())
	}
	for _, s := range e.starts {
		if got := keys["anonymous:"+s.Key]; got != s.ID {
			wrong = append(wrong, fmt.Sprintf("key %s was acknowledged for saga %s, and is of saga %s", s.Key, s.ID, got))
		}
	}
	for _, id := range e.cancelled {
		if ended[id] == string(saga.Succeeded) {
			wrong = append(wrong, fmt.Sprintf("saga %s was acknowledged as cancelled, and has succeeded", id))
		}
	}
	return wrong
}

// expected is how a saga must end whatever strikes, because of retries and people; "" where it
// depends.
func expected(s invariant.Saga) string {
	if !s.Head.Parent.IsNil() {
		return "" // as its parent does
	}
	switch s.Head.Definition {
	case "books", "naps", "ships":
		return string(saga.Succeeded)
	case "wide":
		return byInput(s, 3)
	case "family":
		return byInput(s, 2)
	case "fails":
		return string(saga.Compensated)
	case "slow":
		if !slices.ContainsFunc(s.Records, func(r journal.Record) bool { return r.Kind == journal.Cancelled }) {
			return string(saga.Succeeded)
		}
	}
	return ""
}

// byInput is the end of a saga whose last step fails when its input is divisible.
func byInput(s invariant.Saga, by int) string {
	var started saga.StartedData
	var input struct {
		N int `json:"n"`
	}
	if json.Unmarshal(s.Records[0].Data, &started) != nil || json.Unmarshal(started.Input, &input) != nil {
		return "something that can be read"
	}
	if input.N%by == 0 {
		return string(saga.Compensated)
	}
	return string(saga.Succeeded)
}

// verify ends the load and checks the evidence, and that keys find their sagas again.
func (l *load) verify(t *testing.T) evidence {
	t.Helper()
	wrong := l.settle(2 * time.Minute)
	e := l.gather(t)
	wrong = append(wrong, e.check()...)
	for i := max(0, len(e.starts)-20); i < len(e.starts); i++ {
		s := e.starts[i]
		status, body := l.repeated(s.Key)
		if status != http.StatusOK || sagaOf(t, body) != s.ID {
			wrong = append(wrong, fmt.Sprintf("key %s of saga %s is answered %d %.200s", s.Key, s.ID, status, body))
		}
	}
	for i, w := range wrong {
		if i == 20 {
			t.Errorf("… and %d more", len(wrong)-i)
			break
		}
		t.Error(w)
	}
	if len(wrong) > 0 {
		e.transcripts(t, wrong)
	}
	l.log(t, e)
	return e
}

// repeated sends an acknowledged start again, as a client would: for some seconds, while a node
// does not answer or refuses for now.
func (l *load) repeated(key string) (status int, body []byte) {
	for deadline := time.Now().Add(10 * time.Second); ; <-time.After(100 * time.Millisecond) {
		status, body = l.request("POST", "/v1/sagas", []byte(l.started[key]), "Idempotency-Key", key)
		if now := time.Now(); now.After(deadline) || status != 0 && status != http.StatusServiceUnavailable {
			return status, body
		}
	}
}

// log logs the counts of the evidence.
func (l *load) log(t *testing.T, e evidence) {
	t.Helper()
	ends := make(map[string]int)
	for _, s := range e.sagas {
		ends[s.Head.Definition+" "+s.Head.Status]++
	}
	var list []string
	for _, k := range slices.Sorted(maps.Keys(ends)) {
		list = append(list, fmt.Sprintf("%d %s", ends[k], k))
	}
	t.Logf("%d sagas, %d starts acknowledged, %d entries in the ledger; answers by status: %v\n%s", len(e.sagas), len(e.starts), len(e.ledger), l.answers, strings.Join(list, ", "))
}

// transcripts logs the journals of a few sagas with errors.
func (e evidence) transcripts(t *testing.T, wrong []string) {
	shown := 0
	for _, s := range e.sagas {
		if shown < 3 && slices.ContainsFunc(wrong, func(w string) bool { return strings.Contains(w, s.ID.String()) }) {
			shown++
			t.Logf("%s:\n%s", s.ID, transcript(s.ID, s.Records))
		}
	}
}

func transcript(id uuid.UUID, records []journal.Record) string {
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "%s %3d %s %-12s %-8s %-4s %d %-9s %s %.200s\n", id.String()[:8], r.Seq, r.At.Format("05.000"), r.Kind, r.Path, r.Way, r.Attempt, r.Class, r.Node, r.Data)
	}
	return b.String()
}
