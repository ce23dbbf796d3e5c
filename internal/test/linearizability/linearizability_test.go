package linearizability_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"recourse/catalog"
	"recourse/internal/test/buffer"
	"recourse/internal/test/linearizability"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/kinds"
)

// rounds is how many histories each store gets: more with RECOURSE_HISTORY_ROUNDS.
func rounds(t *testing.T) int {
	text := os.Getenv("RECOURSE_HISTORY_ROUNDS")
	if text == "" {
		return 1
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("RECOURSE_HISTORY_ROUNDS is %q, not a number of rounds", text)
	}
	return n
}

// TestHistories lets clients loose on nodes that fail, on databases that fail,
// and checks the responses: while it went wrong, and after it had healed.
func TestHistories(t *testing.T) {
	for name, open := range databases {
		t.Run(name, func(t *testing.T) {
			for round := range rounds(t) {
				t.Run(strconv.Itoa(round+1), func(t *testing.T) { history(t, open(t)) })
			}
		})
	}
}

func history(t *testing.T, stores []journal.Store) {
	dir := t.ArtifactDir() // kept after the test with -artifacts
	var log buffer.Buffer
	c := newCluster(t, setup{stores: stores, others: others{moody: true}, log: &log})
	l := &load{t: t, cluster: c, recorder: linearizability.NewRecorder(), slots: slots(100), hasty: 12}
	t.Cleanup(func() {
		if t.Failed() {
			path := filepath.Join(dir, "nodes.log")
			if err := os.WriteFile(path, []byte(log.String()), 0o644); err != nil {
				t.Error(err)
			}
			t.Logf("the nodes' log: %s", path)
		}
	})

	c.faults.on.Store(true)
	var disturbing sync.WaitGroup
	over := make(chan struct{})
	disturbing.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(time.Duration(100+rand.IntN(500)) * time.Millisecond):
				c.disturb()
			}
		}
	})
	l.run(6, 3*time.Second)
	close(over)
	disturbing.Wait()

	c.faults.on.Store(false)
	l.hasty = 0
	l.run(3, 300*time.Millisecond)
	truth := c.rest()
	ops := l.recorder.Ops()
	t.Log(tally(ops, truth))
	report(t, linearizability.Check(ops, truth), 5)
}

// rest waits until no saga continues by itself, stops all nodes and reads the store.
func (c *cluster) rest() *linearizability.Truth {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	store := c.stores[0]
	cat := catalog.New(store, catalog.Options{Kinds: kinds.All()})
	def := func(name string, version int) (*saga.Definition, error) { return cat.Definition(ctx, name, version) }
	before, live, quiet := "", "", 0
	for poll := time.NewTicker(50 * time.Millisecond); quiet < 4; {
		select {
		case <-poll.C:
		case <-ctx.Done():
			c.t.Fatalf("the sagas do not come to rest after all has healed:%s", live)
		}
		found, err := store.Sagas(ctx, journal.Filter{Limit: 100_000})
		if err != nil {
			c.t.Fatal(err)
		}
		now := ""
		live = ""
		for _, h := range found.Heads {
			line := fmt.Sprintf("\n\t%s %s at %d, to be claimed %v, by %q", h.ID, h.Status, h.Seq, h.WakeAt, h.Owner)
			if s := saga.Status(h.Status); !s.Terminal() && s != saga.Stuck && s != saga.PausedStatus || h.Owner != "" {
				live += line
			}
			now += line
		}
		if quiet++; live != "" || now != before {
			quiet = 0
		}
		before = now
	}
	for place := range c.nodes {
		c.end(place, true)
	}
	c.ended.Wait()
	c.faults.late.Wait()
	truth, err := linearizability.Read(ctx, store, def)
	if err != nil {
		c.t.Fatal(err)
	}
	return truth
}

// report fails the test with the violations, and draws them.
func report(t *testing.T, found []linearizability.Violation, most int) {
	t.Helper()
	for i, v := range found {
		if i == most {
			t.Errorf("… and %d more", len(found)-most)
			break
		}
		t.Error(v)
		path := filepath.Join(t.ArtifactDir(), fmt.Sprintf("history-%d.html", i+1))
		if drawn, err := v.Draw(path); drawn {
			t.Logf("drawn, if -artifacts keeps it: %s (%v)", path, err)
		}
	}
}

// tally counts the operations of a history.
func tally(ops []linearizability.Op, truth *linearizability.Truth) string {
	kinds, answers, ends := map[string]int{}, map[string]int{}, map[string]int{}
	for _, o := range ops {
		what := string(o.Do)
		if o.Do == linearizability.Command {
			what = o.Verb()
		}
		kinds[what]++
		answer := fmt.Sprint(o.Answer.Status)
		if o.Answer.Code != "" {
			answer += " " + o.Answer.Code
		}
		if o.Answer.Replayed {
			answer += " replayed"
		}
		answers[what+" "+answer]++
	}
	for _, s := range truth.Sagas {
		ends[string(s.End())]++
	}
	return fmt.Sprintf("%d requests %v\nanswers %v\n%d sagas %v", len(ops), kinds, answers, len(truth.Sagas), ends)
}
