package examples

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"recourse/api/client"
	"recourse/examples/llmstub"
	"recourse/examples/world"
)

const (
	toolOrders = 5
	toolKills  = 8
)

// TestToolsKilled kills the server of a saga whose model calls tools, at random moments. Each order
// is refunded once, no mail is sent twice, and each answer of the model is billed once, although
// the model never answers the same again. A person approves the large refund. Undone afterwards, no
// refund is left.
func TestToolsKilled(t *testing.T) {
	t.Parallel()
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			toolsKilled(t, database(t))
		})
	}
}

func toolsKilled(t *testing.T, database string) {
	s := stageModel(t, database, llmstub.Config{Seed: seed(t), Fault: func(llmstub.Call) llmstub.Fault {
		return llmstub.Fault{Delay: 20 * time.Millisecond, Pace: 5 * time.Millisecond}
	}})
	if err := s.world.AddFault(world.Rule{Do: world.Do{DelayMS: 60}}); err != nil {
		t.Fatal(err)
	}
	s.publishActions(refundAgent)
	s.publish(filepath.Join("agents", "refund", "support"), "max_tokens: 2000\n",
		"max_tokens: 2000\n  - {id: end, fail: as the test wants}\n")
	type order struct {
		Order  string `json:"order"`
		Amount int    `json:"amount"`
		To     string `json:"to"`
	}
	var list []order
	for i := range toolOrders {
		list = append(list, order{"o-" + string(rune('a'+i)), 1000 + i, "ann@shop.example"})
	}
	list[2].Amount = 20000 // a person approves it
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
	defer cancel()
	v, err := s.client.Start(ctx, client.Start{Definition: "support", Input: map[string]any{"orders": list}, Key: "support"})
	if err != nil {
		t.Fatal(err)
	}
	id := v.ID
	rng := rand.New(rand.NewPCG(seed(t), 1))
	var at []int64
	for range toolKills {
		seq, ended := s.progress(ctx, id, 1+rng.IntN(3), true)
		if ended {
			break
		}
		at = append(at, seq)
		<-time.After(time.Duration(rng.IntN(80)) * time.Millisecond)
		s.kill()
		s.start()
	}
	if len(at) < toolKills/2 {
		t.Errorf("the saga was killed %d times only", len(at))
	}
	for ended := false; !ended; {
		_, ended = s.progress(ctx, id, 1000, true)
	}
	if v, err = s.client.Wait(ctx, id); err != nil {
		t.Fatal(err)
	}
	l := s.world.Ledger()
	refunded, mailed := l.Op("pay", "refund").Effects(), l.Op("mail", "send").Effects()
	if len(refunded) != toolOrders || distinct(refunded) != toolOrders || len(mailed) != distinct(mailed) || len(mailed) == 0 {
		t.Errorf("%d refunds for %d orders, %d mails for %d", len(refunded), distinct(refunded), len(mailed), distinct(mailed))
	}
	keys, replayed := s.keys()
	t.Logf("killed at the records %d of %d; %d refunds, %d mails; %d answers of the model, each billed once, and sent %d times more", at, v.Seq, len(refunded), len(mailed), keys, replayed)
	if left := l.Live().Op("pay", "refund"); v.Status != "failed" || len(left) > 0 { // the mails remain
		t.Errorf("the saga ended as %s, and these refunds are left: %v", v.Status, left)
	}
	if out, ok := s.verify(l); !ok {
		t.Errorf("verify: %s", out)
	}
	if t.Failed() {
		t.Logf("the journal:\n%s", s.transcript(id))
	}
}

// distinct counts the different requests of entries.
func distinct(l world.Ledger) int {
	bodies := make(map[string]bool)
	for _, e := range l {
		bodies[e.BodySHA256] = true
	}
	return len(bodies)
}
