package linearizability_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"recourse/internal/test/linearizability"
	"recourse/saga"
	"recourse/saga/machine"
)

// slot is one saga that clients share, from before it is started.
type slot struct {
	key string // of its start, "" for none
	n   int    // its input; a start with another body has n+1,000

	mu   sync.Mutex
	id   string
	seq  int64         // seen last
	sent []sentCommand // under a key, to be sent again
}

// sentCommand is a command as it was sent.
type sentCommand struct {
	key, id string
	command saga.Command
}

// load is the clients of a cluster.
type load struct {
	t        *testing.T
	cluster  *cluster
	recorder *linearizability.Recorder
	slots    []*slot
	hasty    int // percent of requests that their client gives up on early

	mu    sync.Mutex
	marks int
}

// run makes clients send requests until the time is over.
func (l *load) run(clients int, d time.Duration) {
	var wg sync.WaitGroup
	end := time.Now().Add(d)
	for number := range clients {
		wg.Go(func() {
			tr := &http.Transport{}
			defer tr.CloseIdleConnections()
			c := &linearizability.Client{Number: number, Recorder: l.recorder, HTTP: &http.Client{Transport: tr}}
			for time.Now().Before(end) {
				l.request(c, l.slot())
			}
		})
	}
	wg.Wait()
}

// slot is one of those that are in use now: each is for a second and a half.
func (l *load) slot() *slot {
	first := int(l.recorder.Now()/(250*time.Millisecond)) % len(l.slots)
	return l.slots[(first+rand.IntN(6))%len(l.slots)]
}

// request makes one.
func (l *load) request(c *linearizability.Client, s *slot) {
	to := l.cluster.target()
	if to.URL == "" {
		pause(5)
		return
	}
	patience := 20 * time.Second
	if rand.IntN(100) < l.hasty {
		patience = time.Duration(1+rand.IntN(30)) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	s.mu.Lock()
	id, seq := s.id, s.seq
	s.mu.Unlock()
	switch n := rand.IntN(100); {
	case id == "" || n < 8:
		l.start(ctx, c, to, s)
	case n < 38:
		known, prefer := int64(0), ""
		if rand.IntN(3) == 0 {
			known = seq
		}
		if rand.IntN(20) == 0 {
			prefer = "wait=1"
		}
		s.saw(c.Get(ctx, to, id, known, prefer))
	case n < 55:
		c.Journal(ctx, to, id, rand.Int64N(seq+2), 1+rand.IntN(40), rand.IntN(2) == 0)
	default:
		l.command(ctx, c, to, s)
	}
}

func (l *load) start(ctx context.Context, c *linearizability.Client, to linearizability.Target, s *slot) {
	n := s.n
	if s.key != "" && rand.IntN(8) == 0 {
		n += 1000
	}
	if s.key == "" {
		l.mu.Lock()
		l.marks++
		n = 10_000 + l.marks
		l.mu.Unlock()
	}
	o := c.Start(ctx, to, s.key, "trip", n)
	if o.Answer.Status == 503 { // a node that is not ready responds at once
		pause(20)
	}
	s.saw(o)
}

// saw keeps the content of a response, for the next requests.
func (s *slot) saw(o linearizability.Op) {
	if o.Answer.Status != 200 && o.Answer.Status != 201 && o.Answer.Status != 202 {
		return
	}
	var v machine.View
	if json.Unmarshal([]byte(o.Answer.Body), &v) != nil || v.ID == "" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id = v.ID // a retry's, at times
	s.seq = v.Seq
}

// command sends a new command, or one that was sent before under the same key.
func (l *load) command(ctx context.Context, c *linearizability.Client, to linearizability.Target, s *slot) {
	s.mu.Lock()
	k := sentCommand{id: s.id, command: anyCommand(s.seq)}
	if len(s.sent) > 0 && rand.IntN(4) == 0 {
		k = s.sent[rand.IntN(len(s.sent))]
	} else {
		l.mu.Lock()
		l.marks++
		k.command.Reason = fmt.Sprintf("mark-%d", l.marks)
		l.mu.Unlock()
		if _, patches := k.command.Do.(saga.Patch); !patches && rand.IntN(2) == 0 {
			k.key = "key-of-" + k.command.Reason
			s.sent = append(s.sent, k)
		}
	}
	s.mu.Unlock()
	s.saw(c.Command(ctx, to, k.key, k.id, k.command))
}

// anyCommand returns a command, with a seq that was seen where one is needed.
func anyCommand(seq int64) saga.Command {
	if rand.IntN(4) == 0 {
		seq = 0 // whatever has happened
	}
	switch n := rand.IntN(100); {
	case n < 6:
		return saga.Command{Do: saga.Cancel{}}
	case n < 8:
		return saga.Command{Do: saga.Cancel{Mode: "stop"}}
	case n < 11:
		return saga.Command{Do: saga.Compensate{}}
	case n < 28:
		return saga.Command{Do: saga.Pause{}}
	case n < 52:
		return saga.Command{Do: saga.Resume{}}
	case n < 62:
		return saga.Command{Do: saga.Retry{}}
	case n < 82:
		to := saga.Resolve{Outcome: []string{"succeeded", "failed", "retry", "skip", "compensated"}[rand.IntN(5)]}
		if to.Outcome == "succeeded" {
			to.Output = json.RawMessage(`{"id":"found"}`)
		}
		return saga.Command{Do: to, Path: tripSteps[rand.IntN(len(tripSteps))], IfSeq: seq}
	}
	return saga.Command{Do: saga.Patch{Labels: map[string]string{"l": fmt.Sprint(rand.IntN(3) + 1)}}, IfSeq: seq}
}

// slots makes n slots.
func slots(n int) (list []*slot) {
	for i := range n {
		s := &slot{n: i, key: fmt.Sprintf("start-%d", i)}
		if i%5 == 4 {
			s.key = ""
		}
		list = append(list, s)
	}
	return list
}
