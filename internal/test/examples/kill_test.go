package examples

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"recourse/api/client"
	"recourse/examples/llmstub"
	"recourse/examples/world"
)

const (
	kills  = 20
	last   = 3 // kills after the approval
	stride = 2 // a server is killed after at most so many outcomes
)

// seed returns RECOURSE_EXAMPLES_SEED, or 7.
func seed(t *testing.T) uint64 {
	text := cmp.Or(os.Getenv("RECOURSE_EXAMPLES_SEED"), "7")
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("RECOURSE_EXAMPLES_SEED: %v", err)
	}
	return n
}

// TestResearchKilled kills the server of a research saga twenty times at random moments, mostly
// with completions, searches, pages or the publication in flight. The saga must succeed as without
// kills.
func TestResearchKilled(t *testing.T) {
	t.Parallel()
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			killed(t, database(t))
		})
	}
}

func killed(t *testing.T, database string) {
	s := stage(t, database, func(c llmstub.Call) llmstub.Fault {
		return llmstub.Fault{Delay: 10 * time.Millisecond, Pace: time.Duration(5+7*(c.Number%5)) * time.Millisecond}
	})
	if err := s.world.AddFault(world.Rule{Do: world.Do{DelayMS: 150}}); err != nil {
		t.Fatal(err)
	}
	f := s.fetch(func(string, int) error {
		<-time.After(40 * time.Millisecond)
		return nil
	})
	s.publish("research")
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
	defer cancel()
	v, err := s.client.Start(ctx, client.Start{Definition: "research-report", Input: tea, Key: "tea"})
	if err != nil {
		t.Fatal(err)
	}
	id := v.ID
	rng := rand.New(rand.NewPCG(seed(t), 0))
	var at []int64 // length of the journal at each kill
	for n := range kills {
		outcomes := 1 + rng.IntN(stride)
		if n%5 == 4 || n > kills-last {
			outcomes = 0 // the server is killed as soon as it is up
		}
		seq, ended := s.progress(ctx, id, outcomes, n >= kills-last)
		if !ended {
			at = append(at, seq)
		}
		<-time.After(time.Duration(rng.IntN(60)) * time.Millisecond)
		s.kill()
		s.start()
	}
	if len(at) < kills-last {
		t.Errorf("the saga ended before most of the kills: %d", at)
	}
	for ended := false; !ended; {
		_, ended = s.progress(ctx, id, 1000, true)
	}
	if v, err = s.client.Wait(ctx, id); err != nil {
		t.Fatalf("the saga has not ended: %v\n%s", err, s.transcript(id))
	}
	play{status: "succeeded", output: report, effect: published, events: []string{publishedEvent}}.ended(t, s, v)

	pages, again := f.pages(t)
	keys, replayed := s.keys()
	if pages != 12 || keys != completions {
		t.Errorf("%d pages and %d completions, want %d and %d", pages, keys, 12, completions)
	}
	t.Logf("killed %d times, at the records %d of %d; %d completions were billed, each once, and answered %d times more from the stub's memory; %d pages were fetched, and %d times more under the same key",
		kills, at, v.Seq, keys, replayed, pages, again)
	if t.Failed() {
		t.Logf("the journal:\n%s", s.transcript(id))
	}
}

// progress waits until so many more attempts of the saga have succeeded, or it has ended, or it
// waits for a person, who approves if approve is true. It returns the length of the journal and
// whether the saga has ended.
func (s *scene) progress(ctx context.Context, id string, outcomes int, approve bool) (seq int64, ended bool) {
	s.t.Helper()
	before := -1
	for ; ctx.Err() == nil; <-time.After(5 * time.Millisecond) {
		v, err := s.client.Get(ctx, id)
		if err != nil {
			s.t.Fatalf("the saga: %v", err)
		}
		done := strings.Count(s.transcript(id), `"class":"succeeded"`)
		if before < 0 {
			before = done
		}
		e, asked := s.inbox("approval")
		if asked && approve {
			if status, b := s.decide(e, "approve"); status != 200 {
				s.t.Errorf("approve: %d %s", status, b)
			}
		}
		if v.Ended() || asked || done >= before+outcomes {
			return v.Seq, v.Ended()
		}
	}
	s.t.Fatalf("the saga makes no progress:\n%s", s.transcript(id))
	return 0, false
}

// keys counts the keys of completions, and how many requests were answered from the stub's memory.
// No key may be billed twice.
func (s *scene) keys() (keys, replayed int) {
	s.t.Helper()
	billed := make(map[string]int)
	for _, b := range s.model.Bills() {
		if b.Billed {
			billed[b.Key]++
		}
		if b.Replayed {
			replayed++
		}
	}
	for key, n := range billed {
		if n != 1 {
			s.t.Errorf("the completion with the key %s was billed %d times", key, n)
		}
	}
	return len(billed), replayed
}
