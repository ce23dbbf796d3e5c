package examples

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"recourse/examples/world"
	"recourse/internal/test/buffer"
	"recourse/internal/test/program"
)

const (
	refundAgent = "../../../examples/agents/refund"
	agentKills  = 3 // of the agent's process; once more, the server is killed
	agentOrders = 12
)

// agentRounds returns RECOURSE_AGENT_ROUNDS, or 1: the number of sessions of a test, one after the
// other.
func agentRounds(t *testing.T) int {
	n, err := strconv.Atoi(cmp.Or(os.Getenv("RECOURSE_AGENT_ROUNDS"), "1"))
	if err != nil || n < 1 {
		t.Fatalf("RECOURSE_AGENT_ROUNDS: %v", err)
	}
	return n
}

// orders returns the input of the refund agent, with orders whose ids begin with a prefix. The last
// order's id begins with another one.
func orders(n int, prefix, last string) string {
	type order struct {
		Order  string `json:"order"`
		Amount int    `json:"amount"`
		To     string `json:"to"`
	}
	var list []order
	for i := range n {
		list = append(list, order{prefix + strconv.Itoa(i), 1000 + i, "ann@shop.example"})
	}
	list[n-1].Order = last + strconv.Itoa(n-1)
	b, err := json.Marshal(map[string]any{"orders": list})
	if err != nil {
		panic(err)
	}
	return string(b)
}

// refund runs the refund agent of examples/agents under `recourse agent run`. It kills the agent's
// process so often and the server so often, spread over the requests to the mock services, which
// are so many without kills.
func (s *scene) refund(key, input string, requests, kills, restarts int) (out string, code int) {
	s.t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		s.t.Fatalf("the refund agent needs python3: %v", err)
	}
	if err := s.world.AddFault(world.Rule{Do: world.Do{DelayMS: 40}}); err != nil {
		s.t.Fatal(err)
	}
	before := len(s.world.Ledger().Requests())
	r := &agentRun{name: "refund", key: key, actions: "look,refund,mail", input: input, restarts: kills, command: []string{"python3", refundAgent + "/agent.py"}}
	s.runAgent(r)
	rng := rand.New(rand.NewPCG(seed(s.t), uint64(before)))
	what := slices.Concat(slices.Repeat([]bool{true}, kills), slices.Repeat([]bool{false}, restarts))
	rng.Shuffle(len(what), func(i, j int) { what[i], what[j] = what[j], what[i] })
	part := requests / len(what)
	for n, agent := range what {
		after := before + part*n + 1 + rng.IntN(part-1)
		if _, err := s.world.Await(r.ctx, func(l world.Ledger) bool { return len(l.Requests()) >= after }); err != nil {
			s.t.Fatalf("no request %d: %v\n%s", after, err, &r.said)
		}
		<-time.After(time.Duration(rng.IntN(50)) * time.Millisecond)
		if !agent {
			s.restart()
			continue
		}
		if err := r.kill(1, 0); err != nil {
			s.t.Fatalf("kill %d: %v", n, err)
		}
	}
	out, code = r.end()
	if lives := strings.Count(out, ": begins"); lives != kills+1 {
		s.t.Errorf("%d lives have begun, want %d:\n%s", lives, kills+1, out)
	}
	s.replay(r)
	return out, code
}

// TestRefundAgent kills the refund agent three times at random moments, and the server once. Each
// order is refunded once, and each customer gets at most one mail. With RECOURSE_AGENT_ROUNDS, it
// does so in several sessions, and kills the server three times in each.
func TestRefundAgent(t *testing.T) {
	t.Parallel()
	rounds, restarts := agentRounds(t), 1
	if rounds > 1 {
		restarts = 3
	}
	for name, database := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := stage(t, database(t), nil)
			s.publishActions(refundAgent)
			for round := range rounds {
				out, code := s.refund(fmt.Sprint("ticket-", round), orders(agentOrders, fmt.Sprint(round, "-"), fmt.Sprint(round, "-")), 3*agentOrders, agentKills, restarts)
				if code != 0 {
					t.Fatalf("exit %d:\n%s", code, out)
				}
			}
			l := s.world.Ledger()
			refunds := make(map[string]int) // by the body of the request, which is that of an order
			for _, e := range l.Op("pay", "refund").Live() {
				refunds[e.BodySHA256]++
			}
			twice := 0
			for _, n := range refunds {
				twice += n - 1
			}
			sent := make(map[string]int)
			for _, e := range l.Op("mail", "send").Effects() {
				if sent[e.BodySHA256]++; sent[e.BodySHA256] > 1 {
					t.Error("a mail was sent twice")
				}
			}
			if want := rounds * agentOrders; len(refunds) != want || twice > 0 {
				t.Errorf("%d of %d orders were refunded, and %d refunds were repeated", len(refunds), want, twice)
			}
			t.Logf("%d kills of the agent, %d of the server: %d orders, %d refunds in %d requests, %d mails in %d requests", rounds*agentKills, rounds*restarts, rounds*agentOrders,
				len(refunds), len(l.Op("pay", "refund").Requests()), len(sent), len(l.Op("mail", "send").Requests()))
			if out, ok := s.verify(l); !ok {
				t.Errorf("verify: %s", out)
			}
		})
	}
}

// TestRefundAgentWithoutAServer kills `recourse agent run` together with the server in its process,
// at random moments. The same command continues the session.
func TestRefundAgentWithoutAServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	w, err := world.New(world.Config{}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if err := w.AddFault(world.Rule{Do: world.Do{DelayMS: 40}}); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(seed(t), 1))
	said := new(buffer.Buffer)
	start := func() *exec.Cmd {
		cmd := exec.CommandContext(t.Context(), program.Path(t), "agent", "run", "--name", "refund", "--key", "ticket-1", "--database", filepath.Join(dir, "a.db"),
			"--actions", refundAgent+"/actions", "--lease", "5s", "--input", orders(agentOrders, "o-", "o-"), "--", "python3", refundAgent+"/agent.py")
		cmd.Env = append(os.Environ(), "RECOURSE_VAR_pay="+w.URL+"/pay", "RECOURSE_VAR_orders="+w.URL+"/orders", "RECOURSE_VAR_mail="+w.URL+"/mail")
		cmd.Stdout, cmd.Stderr = said, said
		// The agent is killed with it: it would wait for the server forever.
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		return cmd
	}
	for n := range 2 {
		cmd := start()
		after := n*agentOrders + 1 + rng.IntN(agentOrders-1)
		if _, err := w.Await(t.Context(), func(l world.Ledger) bool { return len(l.Requests()) >= after }); err != nil {
			t.Fatalf("no request %d: %v\n%s", after, err, said)
		}
		<-time.After(time.Duration(rng.IntN(50)) * time.Millisecond)
		if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
	}
	if err := start().Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	l := w.Ledger()
	if n := len(l.Op("pay", "refund").Live()); n != agentOrders {
		t.Errorf("%d refunds, want %d\n%s", n, agentOrders, said)
	}
	if lives := strings.Count(said.String(), ": begins"); lives != 3 {
		t.Errorf("%d lives, want 3:\n%s", lives, said)
	}
}

// TestRefundAgentAborts: an agent that gives up leaves nothing, though it is killed before.
func TestRefundAgentAborts(t *testing.T) {
	t.Parallel()
	s := stage(t, databases["sqlite"](t), nil)
	s.publishActions(refundAgent)
	out, code := s.refund("ticket-2", orders(agentOrders, "o-", "final-"), 2*agentOrders, 1, 0)
	if code != 3 {
		t.Errorf("exit %d, want 3:\n%s", code, out)
	}
	l := s.world.Ledger()
	if made, left := len(l.Effects()), len(l.Live()); made != agentOrders || left != 0 {
		t.Errorf("%d effects, %d left, want %d and none\n%s", made, left, agentOrders, out)
	}
	if out, ok := s.verify(l); !ok {
		t.Errorf("verify: %s", out)
	}
}
