package examples

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"recourse/api/client"
	"recourse/examples/world"
)

const (
	undoCalls = 5
	undoKills = 10
)

// undoActions are an action whose calls can be undone for a day, and one for a second.
var undoActions = map[string]string{
	"refund": `action: refund
input: {order: string, amount: integer}
http: POST ${vars.pay}/refunds
body: {order: "${input.order}", amount: "${input.amount}"}
in_doubt: retry
compensate: {http: "POST ${vars.pay}/refunds/${output.id}/cancel", undo_within: 1d}
agents: auto
`,
	"brief": `action: brief
input: {order: string}
http: POST ${vars.pay}/refunds
body: {order: "${input.order}", amount: 1}
in_doubt: retry
compensate: {http: "POST ${vars.pay}/refunds/${output.id}/cancel", undo_within: 1s}
agents: auto
`,
}

// TestUndoLaterKilled undoes a session with five effects that was committed, and kills the server
// ten times meanwhile. Nothing remains, each effect is undone once, and a second request gives the
// same undo. A session whose window is over is not undone.
func TestUndoLaterKilled(t *testing.T) {
	t.Parallel()
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			undoLaterKilled(t, database(t))
		})
	}
}

func undoLaterKilled(t *testing.T, database string) {
	s := stage(t, database, nil)
	for name, source := range undoActions { // any order
		if out, code := s.command("definitions", "apply", s.file(name+".yaml", source), "--server", "http://"+s.server.addr); code != 0 {
			t.Fatalf("apply: %s", out)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Second)
	defer cancel()
	var orders []any
	for i := range undoCalls {
		orders = append(orders, map[string]any{"order": string(rune('a' + i)), "amount": 1000 + i})
	}
	of := s.committed(ctx, "refund", orders...)
	if made := len(s.world.Ledger().Live()); made != undoCalls {
		t.Fatalf("the session has made %d effects, want %d", made, undoCalls)
	}

	if err := s.world.AddFault(world.Rule{Do: world.Do{DelayMS: 100}}); err != nil {
		t.Fatal(err)
	}
	by := s.undoLater(of, 201, "")
	rng := rand.New(rand.NewPCG(seed(t), 2))
	var at []int64
	for seq := int64(0); len(at) < undoKills; {
		v, err := s.client.Get(ctx, by)
		if err != nil {
			t.Fatal(err)
		}
		if v.Ended() { // the machine is slow
			break
		}
		if v.Seq == seq { // no node has it yet
			<-time.After(5 * time.Millisecond)
			continue
		}
		<-time.After(time.Duration(rng.IntN(100)) * time.Millisecond)
		s.kill()
		s.start()
		seq = v.Seq
		at = append(at, seq)
	}
	if len(at) < undoKills/2 {
		t.Errorf("the server was killed %d times only before the end of the undo", len(at))
	}
	v, err := s.client.Wait(ctx, by)
	if err != nil {
		t.Fatalf("the undo has not ended: %v\n%s", err, s.transcript(by))
	}
	l := s.world.Ledger()
	if v.Status != "succeeded" || len(l.Live()) != 0 || len(l.Effects()) != undoCalls || len(l.Undos()) != undoCalls {
		t.Errorf("the undo is %s; %d effects, %d undos, %d left\n%s", v.Status, len(l.Effects()), len(l.Undos()), len(l.Live()), s.transcript(by))
	}
	if again := s.undoLater(of, 200, ""); again != by {
		t.Errorf("the second undo is saga %s, not %s", again, by)
	}
	t.Logf("killed after the records %d of %d; %d requests for %d undos", at, v.Seq, len(l.Requests()), len(l.Undos()))

	late := s.committed(ctx, "brief", map[string]any{"order": "z"})
	<-time.After(1100 * time.Millisecond)
	s.undoLater(late, 409, "undo_window_over")
	l = s.world.Ledger()
	if len(l.Live()) != 1 {
		t.Errorf("%d effects are left of the session whose window is over", len(l.Live()))
	}
	if out, ok := s.verify(l); !ok {
		t.Errorf("verify: %s", out)
	}
}

// committed makes calls of an action in a session of their own, commits it, and returns its id.
func (s *scene) committed(ctx context.Context, action string, inputs ...any) string {
	s.t.Helper()
	session, err := s.client.Open(ctx, client.Open{Name: "desk", Actions: []string{action}, Key: action})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, input := range inputs {
		if _, err := session.Call(ctx, client.Call{Action: action, Input: input}); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := session.Commit(ctx, nil); err != nil {
		s.t.Fatal(err)
	}
	return session.ID
}

// undoLater asks for the undo of a saga, until there is a response, whose status and code must be
// these. It returns the id of the saga that undoes it.
func (s *scene) undoLater(of string, want int, code string) string {
	s.t.Helper()
	status, _, b := s.call("POST", "/v1/sagas/"+of+"/compensate", `{"reason": "the customer has changed her mind"}`)
	var v struct{ ID, Type string }
	if err := json.Unmarshal(b, &v); err != nil || status != want || code != "" && !strings.HasSuffix(v.Type, code) {
		s.t.Fatalf("compensate: %d, want %d %s: %s", status, want, code, b)
	}
	return v.ID
}
