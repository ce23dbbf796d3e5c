package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"recourse/api"
	"recourse/examples/llmstub"
	"recourse/examples/world"
	"recourse/internal/cli"
	"recourse/internal/cli/remote"
	"recourse/internal/test/buffer"
)

const agentActions = "../../examples/agents/refund/actions"

// agentRun is `recourse agent run`, run inside the test, with a shell script as its agent.
type agentRun struct {
	stop   context.CancelFunc // as a signal does
	ended  chan int           // receives the exit code
	out    buffer.Buffer
	errOut buffer.Buffer
}

func startAgent(t *testing.T, env []string, script string, flags ...string) *agentRun {
	t.Helper()
	if !slices.Contains(flags, "--actions") {
		flags = append(flags, "--actions", "look,refund,mail")
	}
	args := append([]string{"agent", "run", "--name", "refund", "--lease", "5s"}, flags...)
	return startCommand(t, env, append(args, "--", "sh", "-c", script))
}

// startCommand runs a command inside the test.
func startCommand(t *testing.T, env, args []string) *agentRun {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	a := &agentRun{stop: cancel, ended: make(chan int, 1)}
	m := Main{Args: args, Env: append(slices.Clip(env), "PATH="+os.Getenv("PATH")), Stdin: strings.NewReader(""), Stdout: &a.out, Stderr: &a.errOut}
	go func() { a.ended <- m.Run(ctx) }()
	t.Cleanup(cancel)
	return a
}

// exits fails the test unless the command ends with this code.
func (a *agentRun) exits(t *testing.T, want int, says string) {
	t.Helper()
	select {
	case code := <-a.ended:
		if code != want || !strings.Contains(a.errOut.String(), says) {
			t.Errorf("exit %d, want %d and %q:\n%s%s", code, want, says, a.out.String(), a.errOut.String())
		}
	case <-time.After(40 * time.Second):
		t.Fatalf("the command has not ended:\n%s%s", a.out.String(), a.errOut.String())
	}
	if strings.Contains(a.errOut.String(), api.TokenPrefix) {
		t.Errorf("a token is printed:\n%s", a.errOut.String())
	}
}

// tokenIn waits until the agent has written its token into a file, and returns the token.
func tokenIn(t *testing.T, path string) string {
	t.Helper()
	for range 1000 {
		if b, err := os.ReadFile(path); err == nil && bytes.HasSuffix(b, []byte("\n")) {
			return strings.TrimSpace(string(b))
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatal("the agent has not begun")
	return ""
}

// servedBy returns the server in the process of an agent's command, once the agent has written its
// address into a file next to that of the token.
func servedBy(t *testing.T, token string) *serving {
	t.Helper()
	url := tokenIn(t, token+".url")
	return &serving{url: url, env: []string{"RECOURSE_SERVER=" + url}}
}

// in sends a request of a session with a token, and decodes the response.
func (s *serving) in(t *testing.T, token, method, part, body string, into any) int {
	t.Helper()
	return s.inWith(t, "Bearer "+token, token, method, part, body, into)
}

// inWith does the same with any credentials.
func (s *serving) inWith(t *testing.T, credentials, token, method, part, body string, into any) int {
	t.Helper()
	id := strings.Split(token, "_")[1]
	id = strings.Join([]string{id[:8], id[8:12], id[12:16], id[16:20], id[20:]}, "-")
	req, err := http.NewRequestWithContext(t.Context(), method, s.url+remote.SessionPath(id)+"/"+part, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if credentials != "" {
		req.Header.Set("Authorization", credentials)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if into != nil {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode
}

// agents serves the actions of the refund agent.
func agents(t *testing.T) (*world.Server, *serving) {
	t.Helper()
	w, vars := worldFor(t)
	s := serve(t, vars, "--database", filepath.Join(t.TempDir(), "a.db"))
	ok(t, s.env, "definitions", "apply", agentActions)
	return w, s
}

func refundOf(order string, amount int) string {
	return fmt.Sprintf(`{"action": "refund", "input": {"order": %q, "amount": %d}, "wait": "10s"}`, order, amount)
}

func TestAgentCommits(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	env := s.env
	a := startAgent(t, env, `echo "$RECOURSE_URL $RECOURSE_LIFE $RECOURSE_RESUMED $RECOURSE_INPUT"; cat; test -n "$RECOURSE_SESSION"`,
		"--input", `{"amount": 19.10}`, "--key", "ticket-1")
	a.exits(t, cli.OK, "committed")
	if want := s.url + " 1 false {\"amount\":19.10}\n"; a.out.String() != want {
		t.Errorf("the agent printed %q, not %q", a.out.String(), want)
	}
	// The same command again finds that the session has ended.
	startAgent(t, env, "exit 1", "--input", `{"amount": 19.10}`, "--key", "ticket-1").exits(t, cli.OK, "the session is committed")
	startAgent(t, env, "exit 1", "--key", "ticket-1").exits(t, cli.Usage, "") // another input
}

// waits is the script of an agent that writes its token into a file, and does the rest after let.
func waits(token, rest string) string {
	return "echo $RECOURSE_TOKEN >" + token + "; until test -e " + token + ".go; do sleep 0.05; done; " + rest
}

func let(t *testing.T, token string) {
	t.Helper()
	if err := os.WriteFile(token+".go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAgentAborts(t *testing.T) {
	t.Parallel()
	w, s := agents(t)
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, waits(token, "exit 76"))
	if status := s.in(t, tokenIn(t, token), "POST", "calls", refundOf("o-1", 1910), nil); status != http.StatusOK {
		t.Errorf("refund: %d", status)
	}
	let(t, token)
	a.exits(t, 3, "all its effects are undone")
	if l := w.Ledger(); len(l.Effects()) != 1 || len(l.Live()) != 0 {
		t.Errorf("effects %+v", l.Effects())
	}

	token = filepath.Join(t.TempDir(), "token")
	a = startAgent(t, s.env, waits(token, "exit 76"))
	s.in(t, tokenIn(t, token), "POST", "calls", `{"action": "mail", "input": {"to": "a@shop.example", "order": "o-1"}}`, nil)
	let(t, token)
	a.exits(t, 4, "mail[0]")
}

// A process that fails is run again, in a life of its own, and not too often.
func TestAgentRestarts(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	a := startAgent(t, s.env, `echo $RECOURSE_LIFE $RECOURSE_RESUMED; test $RECOURSE_LIFE = 2 || exit 9`, "--key", "a")
	a.exits(t, cli.OK, "the agent has exited with 9; life 2 begins")
	if a.out.String() != "1 false\n2 true\n" {
		t.Errorf("lives %q", a.out.String())
	}
	startAgent(t, s.env, `kill -9 $$`, "--key", "b", "--restarts", "0").exits(t, cli.Failed, "the agent was killed")
	// It has detached, so the session is free.
	a = startAgent(t, s.env, `echo $RECOURSE_LIFE`, "--key", "b")
	a.exits(t, cli.OK, "found")
	if strings.Contains(a.errOut.String(), "another process") || a.out.String() != "2\n" {
		t.Errorf("%s%s", a.out.String(), a.errOut.String())
	}
}

// The session is not committed while a call is open.
func TestAgentWaitsForItsCalls(t *testing.T) {
	t.Parallel()
	w, s := agents(t)
	if err := w.AddFault(world.Rule{Match: world.Match{PathPrefix: "/pay"}, Times: 1, Do: world.Do{DelayMS: 2500}}); err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, waits(token, "exit 0"))
	if status := s.in(t, tokenIn(t, token), "POST", "calls", strings.Replace(refundOf("o-1", 1910), "10s", "0s", 1), nil); status != http.StatusAccepted {
		t.Errorf("refund: %d", status)
	}
	let(t, token)
	a.exits(t, cli.OK, "refund[0]")
	if n := len(w.Ledger().Live()); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// says waits until the command has printed a text.
func (a *agentRun) says(t *testing.T, text string) {
	t.Helper()
	for range 1500 {
		if strings.Contains(a.errOut.String(), text) {
			return
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Fatalf("the command has not said %q:\n%s", text, a.errOut.String())
}

// While a call waits for a person, a process that has ended with 0 is not the end of the session.
// The command says what it waits for. With --park, the process runs again and gets the result.
func TestAgentEndsWhileACallWaits(t *testing.T) {
	t.Parallel()
	w, s := agents(t)
	for i, tt := range []struct {
		flags []string
		says  string
		lives string
	}{
		{nil, "waiting to commit", "1\n"},
		{[]string{"--park"}, "parked until a call ends", "1\n2\n"},
	} {
		token := filepath.Join(t.TempDir(), "token")
		a := startAgent(t, nil, waits(token, "echo $RECOURSE_LIFE"), append(tt.flags, "--server", s.url, "--restarts", "0")...)
		secret := tokenIn(t, token)
		if status := s.in(t, secret, "POST", "calls", strings.Replace(refundOf(fmt.Sprint("o-", i), 20000), "10s", "0s", 1), nil); status != http.StatusAccepted {
			t.Errorf("refund: %d", status)
		}
		let(t, token)
		id := s.sessionID(t)
		a.says(t, tt.says+": refund[0] waits for approval; decide at "+s.url+"/inbox or with `recourse inbox --saga "+id+" --server "+s.url+"`")
		if hint := strings.Contains(a.errOut.String(), "with --park it would run again"); hint != (tt.flags == nil) {
			t.Errorf("%v: %s", tt.flags, a.errOut.String())
		}
		if v := ok(t, s.env, "sessions", "show", id); strings.Contains(v, "succeeded") {
			t.Errorf("it is committed:\n%s", v)
		}
		flag := "--server " + s.url
		if out := ok(t, nil, "inbox", "--server", s.url+"/"); !strings.Contains(out, "recourse approve "+id+" 'refund[0]' "+flag+"\n") || !strings.Contains(out, `--comment "…" `+flag+"\n") {
			t.Errorf("the inbox:\n%s", out)
		}
		if out := ok(t, nil, "show", "--server", s.url, id); !strings.Contains(out, "`recourse inbox --saga "+id+" "+flag+"`") {
			t.Errorf("shown:\n%s", out)
		}
		ok(t, s.env, "approve", id, "refund[0]", "--yes")
		a.exits(t, cli.OK, "committed")
		if a.out.String() != tt.lives {
			t.Errorf("%v: lives %q", tt.flags, a.out.String())
		}
	}
	if n := len(w.Ledger().Live()); n != 2 {
		t.Errorf("%d effects", n)
	}

	// If the agent has ended, nobody finishes its own step.
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, waits(token, "exit 0"))
	s.in(t, tokenIn(t, token), "POST", "steps", `{"id": "letter", "effect": "none"}`, nil)
	let(t, token)
	id := s.sessionID(t)
	a.says(t, "waiting to commit: own.letter was begun by the agent and not finished; nobody finishes an own step of an agent that has ended: `recourse sessions abort "+id+"`")
	ok(t, s.env, "sessions", "abort", id, "--wait", "0s")
	a.exits(t, 3, "")
}

// The command says why an aborted session does not end.
func TestAgentSaysWhyAnUndoTakesTime(t *testing.T) {
	t.Parallel()
	w, s := agents(t)
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, waits(token, "exit 76"))
	s.in(t, tokenIn(t, token), "POST", "calls", refundOf("o-1", 1910), nil)
	if err := w.AddFault(world.Rule{Match: world.Match{PathPrefix: "/pay"}, Times: 1, Do: world.Do{DelayMS: 7000}}); err != nil {
		t.Fatal(err)
	}
	let(t, token)
	id := s.sessionID(t)
	a.says(t, "waiting for the end of the session: refund[0] is being undone; `recourse show "+id+"` shows why\n")
	a.exits(t, 3, "")

	token = filepath.Join(t.TempDir(), "token")
	a = startAgent(t, s.env, waits(token, "exit 76"))
	tokenIn(t, token)
	id = s.sessionID(t)
	ok(t, s.env, "pause", id)
	let(t, token)
	a.says(t, "waiting for the end of the session: it is paused: `recourse resume "+id+"` resumes it\n")
	ok(t, s.env, "resume", id)
	a.exits(t, 3, "")
}

// A parked process is run again once the call that it waits for has ended.
func TestAgentParks(t *testing.T) {
	t.Parallel()
	w, s := agents(t)
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, waits(token, "test $RECOURSE_LIFE = 2 || exit 75"), "--restarts", "0")
	var v struct {
		Path     string
		WaitsFor string `json:"waits_for"`
	}
	if status := s.in(t, tokenIn(t, token), "POST", "calls", strings.Replace(refundOf("o-1", 20000), "10s", "1s", 1), &v); status != http.StatusAccepted || v.WaitsFor != "approval" {
		t.Errorf("refund: %d %+v", status, v)
	}
	let(t, token)
	<-time.After(time.Second)
	id := s.sessionID(t)
	ok(t, s.env, "approve", id, v.Path, "--yes")
	a.exits(t, cli.OK, "parked until a call ends: refund[0] waits for approval; decide at "+s.url+"/inbox or with `recourse inbox --saga "+id+"`\n")
	if n := len(w.Ledger().Live()); n != 1 {
		t.Errorf("%d effects", n)
	}
}

// With --park, a process whose call ends after it has asked last, and before it exits, runs again.
// One that has got the ends of its calls does not.
func TestAgentParksTooLate(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	for _, tt := range []struct {
		exit, lives string
		gets        bool
	}{{"0", "1\n2\n", false}, {"75", "1\n2\n", false}, {"0", "1\n", true}} {
		token := filepath.Join(t.TempDir(), "token")
		a := startAgent(t, s.env, waits(token, "echo $RECOURSE_LIFE; test $RECOURSE_LIFE = 2 || exit "+tt.exit), "--park", "--restarts", "0")
		secret := tokenIn(t, token)
		refund := strings.Replace(refundOf("o-1", 20000), "10s", "0s", 1)
		if status := s.in(t, secret, "POST", "calls", refund, nil); status != http.StatusAccepted {
			t.Errorf("refund: %d", status)
		}
		id := s.sessionID(t)
		ok(t, s.env, "approve", id, "refund[0]", "--yes")
		as := "" // somebody else waits for the end
		if tt.gets {
			as = "Bearer " + secret
		}
		if status := s.inWith(t, as, secret, "GET", "calls/refund[0]?wait=10s", "", nil); status != http.StatusOK {
			t.Errorf("the end: %d", status)
		}
		let(t, token)
		a.exits(t, cli.OK, "committed")
		if a.out.String() != tt.lives {
			t.Errorf("exit %s, got %v: lives %q", tt.exit, tt.gets, a.out.String())
		}
	}
}

// sessionID returns the id of the newest session.
func (s *serving) sessionID(t *testing.T, more ...string) string {
	t.Helper()
	var list []struct{ ID string }
	if err := json.Unmarshal([]byte(ok(t, append(more, s.env...), "sessions", "list", "-o", "json")), &list); err != nil || len(list) == 0 {
		t.Fatalf("no session: %v", err)
	}
	return list[0].ID
}

// An agent whose session someone aborts is stopped.
func TestAgentIsStopped(t *testing.T) {
	t.Parallel()
	w, s := agents(t)
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, `trap 'echo stopped; exit 0' TERM; `+waits(token, "exit 0"))
	s.in(t, tokenIn(t, token), "POST", "calls", refundOf("o-1", 1910), nil)
	id := s.sessionID(t)
	if out := ok(t, s.env, "sessions", "show", id[:13]); !strings.Contains(out, "life 1, attached") || !strings.Contains(out, "refund[0]") {
		t.Errorf("%s", out)
	}
	if out := ok(t, s.env, "sessions", "abort", id[:13], "--reason", "a mistake"); !strings.Contains(out, "compensated") {
		t.Errorf("%s", out)
	}
	a.exits(t, 3, "stopping the agent")
	if out := ok(t, s.env, "sessions", "list"); !strings.Contains(out, ": a mistake\n") {
		t.Errorf("the list has no reason:\n%s", out)
	}
	if a.out.String() != "stopped\n" || len(w.Ledger().Live()) != 0 {
		t.Errorf("%q %+v", a.out.String(), w.Ledger().Live())
	}
	if r := run(t, s.env, "sessions", "show", "01234567"); r.code != cli.NotFound {
		t.Errorf("exit %d: %s", r.code, r.errOut)
	}
}

// A process that another one has followed is stopped.
func TestAgentIsSuperseded(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, waits(token, "exit 0"), "--key", "a")
	old := tokenIn(t, token)
	secret := old[len(old)-43:]
	if status := s.inWith(t, "", old, "POST", "attach", fmt.Sprintf(`{"holder": "other", "secret": %q, "previous": %q}`, api.NewSecret(), secret), nil); status != http.StatusOK {
		t.Fatalf("attach: %d", status)
	}
	a.exits(t, 5, "another process acts for session")
}

// A signal is forwarded to the agent, whose session is then free for another process.
func TestAgentIsInterrupted(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, `trap 'echo stopped; exit 0' TERM; `+waits(token, "exit 0"), "--key", "a")
	tokenIn(t, token)
	// Meanwhile, nobody else gets the session: the lease is renewed for longer than its 5 seconds.
	startAgent(t, s.env, "exit 0", "--key", "a").exits(t, 5, "waiting until its lease ends")
	a.stop()
	a.exits(t, cli.Failed, "recourse sessions abort")
	if a.out.String() != "stopped\n" {
		t.Errorf("%q", a.out.String())
	}
	a = startAgent(t, s.env, "echo $RECOURSE_LIFE", "--key", "a")
	a.exits(t, cli.OK, "committed")
	if a.out.String() != "2\n" || strings.Contains(a.errOut.String(), "waiting") {
		t.Errorf("%s%s", a.out.String(), a.errOut.String())
	}
}

// An agent keeps its session while the server is away for longer than the lease.
func TestAgentSurvivesTheServer(t *testing.T) {
	t.Parallel()
	_, vars := worldFor(t)
	db := filepath.Join(t.TempDir(), "a.db")
	s := serve(t, vars, "--database", db)
	ok(t, s.env, "definitions", "apply", agentActions)
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, waits(token, "exit 0"), "--restarts", "0")
	tokenIn(t, token)
	s.stop()
	<-time.After(6 * time.Second)
	s = serve(t, vars, "--database", db, "--listen", strings.TrimPrefix(s.url, "http://"))
	status := 0
	for until := time.Now().Add(30 * time.Second); status != http.StatusOK && time.Now().Before(until); <-time.After(100 * time.Millisecond) {
		// It is 403 until the command has attached again.
		if status = s.in(t, tokenIn(t, token), "POST", "calls", refundOf("o-1", 1910), nil); status != http.StatusOK && status != http.StatusForbidden {
			t.Fatalf("refund: %d", status)
		}
	}
	if status != http.StatusOK {
		t.Errorf("refund: %d", status)
	}
	let(t, token)
	a.exits(t, cli.OK, "the server responds again")
}

func TestAgentUsage(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	base := []string{"agent", "run", "--actions", "refund"}
	for _, tt := range []struct {
		env, args []string
		code      int
		says      string
	}{
		{s.env, []string{"--", "no-such-program"}, cli.Usage, "no-such-program"},
		{s.env, []string{"--name", "Refund", "--", "true"}, cli.Usage, "--name"},
		{s.env, []string{"--budget", "much", "--", "true"}, cli.Usage, "budget"},
		{s.env, []string{"--restarts", "-1", "--", "true"}, cli.Usage, "--restarts"},
		{s.env, []string{"--actions", "refunds", "--", "true"}, cli.Usage, "refunds"},
		{nil, []string{"--server", "localhost:8080", "--", "true"}, cli.Usage, "http://"},
		{s.env, []string{"--database", "a.db", "--", "true"}, cli.Usage, "--server"},
		{s.env, []string{"--actions", agentActions, "--", "true"}, cli.Usage, "names of published actions: `recourse definitions apply " + agentActions + "`"},
		{s.env, []string{"--actions", "testdata", "--", "true"}, cli.Usage, "publishes those in testdata"},
		{nil, []string{"--", "true"}, cli.Usage, "--server to use the actions of a server"},
		{nil, []string{"--database", filepath.Join(t.TempDir(), "a.db"), "--actions", agentActions, "--", "true"}, cli.Usage, "refund: no such file"},
	} {
		r := run(t, append(tt.env, "PATH="+os.Getenv("PATH")), append(base, tt.args...)...)
		if r.code != tt.code || !strings.Contains(r.errOut, tt.says) {
			t.Errorf("%v: exit %d, want %d and %q: %s", tt.args, r.code, tt.code, tt.says, r.errOut)
		}
	}
}

// Without a server, the command serves a database itself, and the session is continued by its key.
func TestAgentWithoutAServer(t *testing.T) {
	t.Parallel()
	w, env := worldFor(t)
	db := filepath.Join(t.TempDir(), "a.db")
	start := func(script string) *agentRun {
		return startAgent(t, env, script, "--key", "a", "--database", db, "--actions", agentActions, "--restarts", "0")
	}
	token := filepath.Join(t.TempDir(), "token")
	a := start("echo $RECOURSE_URL >" + token + ".url; " + waits(token, "exit 9"))
	secret := tokenIn(t, token)
	s := servedBy(t, token)
	if status := s.in(t, secret, "POST", "calls", refundOf("o-1", 1910), nil); status != http.StatusOK {
		t.Errorf("refund: %d", status)
	}
	startAgent(t, env, "exit 0", "--database", db, "--actions", agentActions).exits(t, cli.Failed, "with the server of that process: --server")
	let(t, token)
	a.exits(t, cli.Failed, "`recourse serve` with database "+db)
	if r := run(t, s.env, "sessions", "list"); r.code != cli.Unreachable {
		t.Errorf("the server has not ended: %s", r.out)
	}

	// The next one continues the session, and serves the inbox while the agent is parked.
	token = filepath.Join(t.TempDir(), "token")
	a = start("echo $RECOURSE_URL >" + token + ".url; " + waits(token, "test $RECOURSE_LIFE = 3 || exit 75"))
	secret = tokenIn(t, token)
	s = servedBy(t, token)
	var v struct {
		Path     string
		Replayed bool
	}
	if status := s.in(t, secret, "POST", "calls", refundOf("o-1", 1910), &v); status != http.StatusOK || !v.Replayed {
		t.Errorf("the refund again: %d %+v", status, v)
	}
	if status := s.in(t, secret, "POST", "calls", strings.Replace(refundOf("o-2", 20000), "10s", "1s", 1), &v); status != http.StatusAccepted {
		t.Errorf("the large refund: %d", status)
	}
	let(t, token)
	for range 200 {
		if strings.Contains(a.errOut.String(), v.Path+" waits for approval; decide at "+s.url+"/inbox") {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	id := s.sessionID(t)
	ok(t, s.env, "approve", id, v.Path, "--yes")
	a.exits(t, cli.OK, "/inbox or with `recourse inbox --saga "+id+" --server "+s.url+"`")
	if n := len(w.Ledger().Live()); n != 2 {
		t.Errorf("%d effects, want 2", n)
	}

	// It is an ordinary database, which a server shows.
	start("exit 1").exits(t, cli.OK, "the session is committed")
	startCommand(t, env, []string{"agent", "run", "--database", db, "--session", id, "--", "true"}).exits(t, cli.OK, "the session is committed")
	s = serve(t, env, "--database", db)
	if out := ok(t, s.env, "sessions", "show", s.sessionID(t)); !strings.Contains(out, "succeeded") || !strings.Contains(out, "refund[1]") {
		t.Errorf("%s", out)
	}
}

// A session that was being undone when its command was stopped goes on with the next command.
func TestAgentGoesOnUndoing(t *testing.T) {
	t.Parallel()
	w, env := worldFor(t)
	db := filepath.Join(t.TempDir(), "a.db")
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, env, "echo $RECOURSE_URL >"+token+".url; "+waits(token, "exit 76"), "--database", db, "--actions", agentActions)
	secret := tokenIn(t, token)
	s := servedBy(t, token)
	if status := s.in(t, secret, "POST", "calls", refundOf("o-1", 1910), nil); status != http.StatusOK {
		t.Errorf("refund: %d", status)
	}
	id := s.sessionID(t)
	if err := w.AddFault(world.Rule{Match: world.Match{PathPrefix: "/pay"}, Do: world.Do{Before: world.FaultStatus, Status: 503}}); err != nil {
		t.Fatal(err)
	}
	let(t, token)
	a.says(t, "waiting for its end")
	a.stop()
	<-a.ended
	w.ClearFaults()
	if n := len(w.Ledger().Live()); n != 1 {
		t.Fatalf("%d effects when the command was stopped, want 1", n)
	}
	startCommand(t, env, []string{"agent", "run", "--database", db, "--session", id, "--", "true"}).exits(t, 3, "all its effects are undone")
}

// Without a server, the command refuses to continue a session that was opened at one, and to let
// such a session pay: it would not run it.
func TestAgentLeavesSessionsOfAServer(t *testing.T) {
	t.Parallel()
	_, env := worldFor(t)
	db := filepath.Join(t.TempDir(), "a.db")
	s := serve(t, env, "--database", db)
	ok(t, s.env, "definitions", "apply", agentActions)
	opened := []string{"--key", "a", "--restarts", "0", "--actions", "look,mail,refund"}
	startAgent(t, s.env, "exit 9", opened...).exits(t, cli.Failed, "goes on")
	id := s.sessionID(t)
	s.stop()
	refused := "saga " + id + " was started at a server, whose configuration it needs: run `recourse serve --database " + db + "`, and this command with --server"
	startAgent(t, env, "exit 0", "--database", db, "--actions", agentActions, "--key", "a").exits(t, cli.Failed, refused)
	startAgent(t, env, "exit 0", "--database", db, "--actions", agentActions, "--key", "b", "--parent", id).exits(t, cli.Failed, refused)
	startCommand(t, env, []string{"agent", "run", "--database", db, "--session", id, "--", "true"}).exits(t, cli.Failed, refused)

	s = serve(t, env, "--database", db)
	startAgent(t, s.env, "exit 0", opened...).exits(t, cli.OK, "committed")
	s.stop()
	startAgent(t, env, "exit 0", "--database", db, "--actions", agentActions, "--key", "a").exits(t, cli.OK, "the session is committed")
}

// The agent's requests to language models go to the server in the command's process, which has the
// provider's key. The agent does not have it. The command says that a budget in money does not
// limit requests to a model without a price.
func TestAgentModels(t *testing.T) {
	t.Parallel()
	_, env := worldFor(t)
	models, err := llmstub.New(llmstub.Config{APIKey: "sk-provider"}).Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { models.Close() })
	env = append(env, "OPENAI_BASE_URL="+models.URL+"/v1", "OPENAI_API_KEY=sk-provider", "RECOURSE_LLM_API_KEY=sk-provider")
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, env, `env >`+token+`.env; `+waits(token, "exit 0"), "--database", filepath.Join(t.TempDir(), "a.db"), "--actions", agentActions, "--budget", "1.00 USD")
	secret := tokenIn(t, token)
	text, err := os.ReadFile(token + ".env")
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "sk-provider") {
		t.Errorf("the agent has the provider's key:\n%s", text)
	}
	var base string
	for line := range strings.Lines(string(text)) {
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "OPENAI_BASE_URL="); ok {
			base = url
		}
	}
	if !strings.HasSuffix(base, "/llm/openai/v1") || !strings.Contains(string(text), "\nOPENAI_API_KEY="+secret+"\n") {
		t.Fatalf("the agent's variables:\n%s", text)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/chat/completions", strings.NewReader(`{"model": "small", "max_tokens": 50, "messages": [{"role": "user", "content": "Say something"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the model's response: %s", resp.Status)
	}
	let(t, token)
	a.exits(t, cli.OK, "requests to small count as free, so the budget of 1.00 USD does not limit them")
}

// The flags of `agent run` say what the session is like that it opens.
func TestAgentOpens(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	a := startAgent(t, s.env, "exit 0", "--label", "team=a", "--budget", "5.00 USD", "--tokens", "9000", "--on-exceed", "ask", "--max-calls", "11", "--max-parallel", "2", "--max-asks", "12", "--max-steps", "13",
		"--models", "gpt-5-*,small", "--on-divergence", "stop", "--ignore", `\d{1,4}`, "--ignore", "at .*", "--stream-hold", "all", "--keep", "answers", "--lost-wait", "2h", "--on-lost", "abort", "--timeout", "3h")
	a.exits(t, cli.OK, "committed")
	out := ok(t, s.env, "sessions", "show", s.sessionID(t), "-o", "json")
	for _, want := range []string{`"team":"a"`, `"budget":"5.00"`, `"budget":9000`, `"on_exceed":"ask"`, `"max_calls":11`, `"max_parallel":2`, `"max_asks":12`, `"max_steps":13`, `"models":["gpt-5-*","small"]`, `"on_divergence":"stop"`,
		`"ignore":["\\d{1,4}","at .*"]`, `"stream_hold":"all"`, `"keep":"answers"`, `"on_lost":{"wait":"2h","then":"abort"}`} {
		if !strings.Contains(out, want) {
			t.Errorf("the session does not have %s: %s", want, out)
		}
	}
	startAgent(t, s.env, "exit 0", "--max-calls", "-1").exits(t, cli.Usage, "--max-calls")
	startAgent(t, s.env, "exit 0", "--on-lost", "cry").exits(t, cli.Usage, "--on-lost")
}

// With --session, an agent runs in a session that exists, such as a fork, or one without a key
// whose process has failed.
func TestAgentRunsInASession(t *testing.T) {
	t.Parallel()
	w, s := agents(t)
	const script = `echo "$RECOURSE_LIFE $RECOURSE_INPUT"`
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, waits(token, "exit 9"), "--restarts", "0", "--input", "17")
	s.in(t, tokenIn(t, token), "POST", "calls", refundOf("o-1", 1910), nil)
	let(t, token)
	id := s.sessionID(t)
	a.exits(t, cli.Failed, "run the agent with --session "+id)
	again := func(env []string, args ...string) *agentRun {
		t.Helper()
		return startCommand(t, env, append(append([]string{"agent", "run"}, args...), "--", "sh", "-c", script))
	}
	a = again(s.env, "--session", id[:13])
	a.exits(t, cli.OK, "session "+id+" found")
	if a.out.String() != "2 17\n" {
		t.Errorf("%q", a.out.String())
	}
	again(s.env, "--session", id).exits(t, cli.OK, "the session is committed")

	if r := run(t, nil, "sessions", "fork", id, "--server", s.url); !strings.Contains(r.errOut, "`recourse compare "+id[:13]) || !strings.Contains(r.errOut, " --server "+s.url+" -- COMMAND` runs its agent") {
		t.Errorf("%s", r.errOut)
	}
	var fork struct{ ID string }
	if err := json.Unmarshal([]byte(ok(t, s.env, "sessions", "fork", id, "-o", "json")), &fork); err != nil {
		t.Fatal(err)
	}
	again(s.env, "--session", fork.ID).exits(t, cli.OK, "session "+fork.ID+" found")
	if n := len(w.Ledger().Live()); n != 1 {
		t.Errorf("%d effects", n)
	}
	for _, more := range []string{"--actions=refund", "--key=a", "--input=1", "--budget=1 USD", "--label=a=b", "--tokens=1"} {
		again(s.env, "--session", fork.ID, more).exits(t, cli.Usage, "leave out the flags that open one")
	}
	again(s.env).exits(t, cli.Usage, "--actions")
	again(s.env, "--session", "01890a5d-ac96-774b-bcce-b302099a8057").exits(t, cli.Failed, "")
}

// An agent runs with a key of the role agent, which it does not see, and only within the key's
// grant.
func TestAgentKey(t *testing.T) {
	t.Parallel()
	_, vars := worldFor(t)
	db := filepath.Join(t.TempDir(), "a.db")
	create := func(args ...string) string {
		return "RECOURSE_API_KEY=" + strings.TrimSpace(ok(t, nil, append([]string{"keys", "create", "--database", db}, args...)...))
	}
	admin := create("--role", "admin")
	key := create("--role", "agent", "--name", "bot", "--actions", "look,refund@1,mail", "--sessions", "refund,support-*", "--models", "gpt-5-*", "--budget", "5.00 USD/session", "--expires", "30d")
	create("--role", "agent", "--name", "bare", "--budget", "7.50/session")
	if out := ok(t, nil, "keys", "list", "--database", db); !strings.Contains(out, "7.50/session") {
		t.Errorf("%s", out)
	}
	if out := ok(t, nil, "keys", "list", "--database", db); !strings.Contains(out, "refund support-* look refund@1 mail gpt-5-* 5.00 USD/session") {
		t.Errorf("%s", out)
	}
	for _, args := range [][]string{
		{"--role", "client", "--actions", "refund"}, {"--role", "agent", "--actions", "Refund!"}, {"--role", "agent", "--sessions", "[a"}, {"--role", "agent", "--models", "[a"},
		{"--role", "agent", "--budget", "much/session"}, {"--role", "agent", "--expires", "soon"}, {"--role", "agent", "--expires", "-3h"},
	} {
		if r := run(t, nil, append([]string{"keys", "create", "--database", db}, args...)...); r.code != cli.Usage || r.out != "" {
			t.Errorf("%v: exit %d: %s%s", args, r.code, r.out, r.errOut)
		}
	}

	s := serve(t, vars, "--database", db)
	ok(t, append(s.env, admin), "definitions", "apply", agentActions)
	env := slices.Concat(s.env, []string{key})
	startAgent(t, s.env, "exit 0").exits(t, cli.Forbidden, "")
	startAgent(t, env, "exit 0", "--budget", "6 USD").exits(t, cli.Forbidden, "at most 5.00 USD")
	startAgent(t, env, "exit 0", "--name", "other").exits(t, cli.Forbidden, "support-*")
	a := startAgent(t, env, `echo "key=$RECOURSE_API_KEY"`, "--key", "a")
	a.exits(t, cli.OK, "committed")
	if a.out.String() != "key=\n" {
		t.Errorf("the agent has a key: %q", a.out.String())
	}
	startAgent(t, env, "exit 1", "--key", "a").exits(t, cli.OK, "the session is committed")
	if out := ok(t, append(s.env, admin), "sessions", "show", s.sessionID(t, admin)); !strings.Contains(out, "succeeded") {
		t.Errorf("%s", out)
	}
	startAgent(t, env, "exit 9", "--restarts", "0", "--input", "17").exits(t, cli.Failed, "exited with 9")
	id := s.sessionID(t, admin)
	session := func(id string) *agentRun {
		return startCommand(t, env, []string{"agent", "run", "--session", id, "--", "sh", "-c", "echo $RECOURSE_INPUT"})
	}
	session(id[:13]).exits(t, cli.Usage, "the whole id")
	a = session(id)
	a.exits(t, cli.OK, "committed")
	if a.out.String() != "17\n" {
		t.Errorf("the input %q", a.out.String())
	}
	if r := run(t, env, "sessions", "list"); r.code != cli.Forbidden {
		t.Errorf("an agent's key lists sessions: %s", r.out)
	}
}

// startWorker starts `recourse agent worker`.
func startWorker(t *testing.T, env []string, script string, flags ...string) *agentRun {
	t.Helper()
	args := append([]string{"agent", "worker", "--type", "refund"}, flags...)
	return startCommand(t, env, append(args, "--", "sh", "-c", script))
}

// opens makes a session without a process, and returns its id.
func (s *serving) opens(t *testing.T, name, more string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/sessions", strings.NewReader(`{"name": "`+name+`", "actions": ["refund"], "lease": "20s"`+more+`}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var v struct{ ID string }
	if err := json.NewDecoder(resp.Body).Decode(&v); err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatalf("open: %d %v", resp.StatusCode, err)
	}
	return v.ID
}

// until waits until the session has a status.
func (s *serving) until(t *testing.T, id, status string, a *agentRun) {
	t.Helper()
	var out string
	for range 600 {
		if out = ok(t, s.env, "sessions", "show", id); strings.Contains(strings.SplitN(out, "\n", 3)[0]+out, status) {
			return
		}
		<-time.After(50 * time.Millisecond)
	}
	t.Fatalf("the session is not %s:\n%s%s", status, out, a.errOut.String())
}

// A worker runs a process in each session of its name that has none, and gives a session back when
// it is stopped.
func TestAgentWorker(t *testing.T) {
	t.Parallel()
	w, s := agents(t)
	other := s.opens(t, "other", "")
	first, second := s.opens(t, "refund", `, "input": 1`), s.opens(t, "refund", `, "input": 2`)
	dir := t.TempDir()
	// The first session's agent parks on an approval, which must not keep the second one waiting.
	script := `cd ` + dir + `; echo "$RECOURSE_SESSION $RECOURSE_LIFE $RECOURSE_INPUT"
		test $RECOURSE_INPUT = 1 || exit 0
		echo $RECOURSE_TOKEN >token; until test -e token.go; do sleep 0.05; done; test $RECOURSE_LIFE != 1 || exit 75`
	a := startWorker(t, s.env, script)
	token := tokenIn(t, filepath.Join(dir, "token"))
	var v struct{ Path string }
	if status := s.in(t, token, "POST", "calls", strings.Replace(refundOf("o-1", 20000), "10s", "1s", 1), &v); status != http.StatusAccepted {
		t.Errorf("refund: %d", status)
	}
	let(t, filepath.Join(dir, "token"))
	s.until(t, second, "succeeded", a)
	ok(t, s.env, "approve", first, v.Path, "--yes")
	s.until(t, first, "succeeded", a)
	if n := len(w.Ledger().Live()); n != 1 {
		t.Errorf("%d effects", n)
	}

	// A session whose process has gone is taken over, and one that the worker is stopped in is free
	// again.
	third := s.opens(t, "refund", `, "input": 3`)
	s.until(t, third, "succeeded", a)
	for _, name := range []string{"token", "token.go"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	fourth := s.opens(t, "refund", `, "input": 1`)
	tokenIn(t, filepath.Join(dir, "token")) // its process runs
	a.stop()
	a.exits(t, cli.OK, fourth[:13]+" interrupted")
	let(t, filepath.Join(dir, "token"))
	b := startWorker(t, s.env, script)
	s.until(t, fourth, "succeeded", b)
	if out := a.out.String() + b.out.String(); strings.Contains(out, other) || strings.Count(out, "\n") != 6 || !strings.Contains(out, fourth+" 2 1") {
		t.Errorf("lives:\n%s", out)
	}
	b.stop()
	b.exits(t, cli.OK, fourth[:13]+" committed")
	startWorker(t, s.env, "true", "--parallel", "0").exits(t, cli.Usage, "--parallel")
}

// The first commands of docs/agents.md do what the page says.
func TestAgentsPage(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	clone := t.TempDir()
	dir := filepath.Join(clone, "examples/agents/refund")
	for _, part := range []string{"examples/agents/refund", "sdk/python"} {
		if err := os.CopyFS(filepath.Join(clone, part), os.DirFS(filepath.Join("../..", part))); err != nil {
			t.Fatal(err)
		}
	}
	page := docPage(t, "agents.md")
	block := func(mark string) string {
		t.Helper()
		for _, m := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(page, -1) {
			if strings.Contains(m[1], mark) {
				return m[1]
			}
		}
		t.Fatalf("no block with %s", mark)
		return ""
	}
	shell := func(env []string, script string) *exec.Cmd {
		c := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		c.Dir, c.Stdin = dir, strings.NewReader("y\n")
		c.Env = append(append(os.Environ(), env...), pathVar(t))
		return c
	}
	run := func(env []string, script string) (string, int) {
		t.Helper()
		c := shell(env, script)
		out, err := c.CombinedOutput()
		if err != nil && c.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), c.ProcessState.ExitCode()
	}
	sh := func(env []string, mark string) (string, int) {
		t.Helper()
		return run(env, block(mark))
	}
	if out, code := sh(vars, "ticket-17"); code != cli.OK || !strings.Contains(out, "committed") || len(w.Ledger().Live()) != 6 {
		t.Errorf("exit %d, %d effects:\n%s", code, len(w.Ledger().Live()), out)
	}
	if out, code := sh(vars, "ticket-20"); code != 3 || !strings.Contains(out, "gives up") || len(w.Ledger().Live()) != 6 || len(w.Ledger().Undos()) != 2 {
		t.Errorf("exit %d, %d effects:\n%s", code, len(w.Ledger().Live()), out)
	}
	var said buffer.Buffer
	large := shell(vars, block("ticket-19"))
	large.Stdout, large.Stderr = &said, &said
	if err := large.Start(); err != nil {
		t.Fatal(err)
	}
	var inbox []string
	for range 1000 {
		if inbox = regexp.MustCompile("refund\\[0\\] waits for approval; decide at \\S+/inbox or with `(recourse inbox --saga (\\S+) --server (\\S+))`").FindStringSubmatch(said.String()); inbox != nil {
			break
		}
		<-time.After(20 * time.Millisecond)
	}
	if inbox == nil {
		t.Fatalf("nothing waits:\n%s", said.String())
	}
	approve := strings.NewReplacer("0193…", inbox[2], "http://127.0.0.1:40213", inbox[3]).Replace(block("recourse approve"))
	if out, code := run(nil, inbox[1]); code != cli.OK || !strings.Contains(out, strings.TrimSpace(approve)) {
		t.Errorf("the inbox: exit %d:\n%s", code, out)
	}
	if out, code := run(nil, approve); code != cli.OK {
		t.Errorf("approve: exit %d:\n%s", code, out)
	}
	if err := large.Wait(); err != nil || len(w.Ledger().Live()) != 8 {
		t.Errorf("the large refund: %v, %d effects:\n%s", err, len(w.Ledger().Live()), said.String())
	}

	s := serve(t, vars, "--database", filepath.Join(dir, "recourse.db"))
	undo := strings.NewReplacer("0193…", inbox[2], "http://127.0.0.1:8080", s.url).Replace(block("recourse undo"))
	// The exit code says that the mail remains.
	if out, code := run(nil, undo); code != cli.Failed || !strings.Contains(out, "1. undo refund[0]") || !strings.Contains(out, "mail[0] stays") || len(w.Ledger().Live()) != 7 {
		t.Errorf("undo: exit %d, %d effects:\n%s", code, len(w.Ledger().Live()), out)
	}
	ok(t, s.env, "definitions", "apply", filepath.Join(dir, "actions"))
	if out, code := sh(s.env, "ticket-21"); code != cli.OK || !strings.Contains(out, "committed") || len(w.Ledger().Live()) != 13 {
		t.Errorf("with a server: exit %d, %d effects:\n%s", code, len(w.Ledger().Live()), out)
	}
	if out := ok(t, s.env, "sessions", "list"); strings.Count(out, "succeeded") != 4 || strings.Count(out, "compensated") != 1 {
		t.Errorf("%s", out)
	}
}

// The sample of the SDK for Python runs with the example's actions.
func TestAgentSample(t *testing.T) {
	t.Parallel()
	w, vars := worldFor(t)
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "actions"), os.DirFS(agentActions)); err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("../../sdk/python/README.md")
	if err != nil {
		t.Fatal(err)
	}
	sdk, err := os.ReadFile("../../sdk/python/recourse.py")
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string) string {
		return regexp.MustCompile("(?s)```" + kind + "\n(.*?)```").FindStringSubmatch(string(readme))[1]
	}
	for name, text := range map[string]string{"recourse.py": string(sdk), "first.py": block("python")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), "sh", "-e", "-c", block("sh"))
	c.Dir, c.Env = dir, append(append(os.Environ(), vars...), pathVar(t))
	out, err := c.CombinedOutput()
	if report, none := os.ReadFile(filepath.Join(dir, "report.json")); err != nil || none != nil || len(w.Ledger().Live()) != 1 {
		t.Errorf("%v, report %q, %d effects:\n%s", err, report, len(w.Ledger().Live()), out)
	}
}

// A parked process is run again once a person has decided about a step that it does itself.
func TestAgentParksForAnOwnStep(t *testing.T) {
	t.Parallel()
	_, s := agents(t)
	token := filepath.Join(t.TempDir(), "token")
	a := startAgent(t, s.env, waits(token, "test $RECOURSE_LIFE = 2 || exit 75"), "--restarts", "0")
	secret := tokenIn(t, token)
	if status := s.in(t, secret, "POST", "steps", `{"id": "letter", "effect": "irreversible"}`, nil); status != http.StatusCreated {
		t.Errorf("begun: %d", status)
	}
	if status := s.in(t, secret, "POST", "steps/letter/finish", `{"attempt": 1, "status": "in_doubt"}`, nil); status != http.StatusOK {
		t.Errorf("finished: %d", status)
	}
	let(t, token)
	<-time.After(time.Second)
	id := s.sessionID(t)
	if out := ok(t, s.env, "sessions", "show", id); !strings.Contains(out, "own.letter") || !strings.Contains(out, "waits for: doubt") {
		t.Errorf("shown:\n%s", out)
	}
	ok(t, s.env, "resolve", id, "own.letter", "--outcome", "succeeded", "--set-output", "{}", "--reason", "it is in the post")
	a.exits(t, cli.OK, "own.letter waits for a decision whether it happened")
}
