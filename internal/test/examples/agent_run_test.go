package examples

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"recourse/internal/test/buffer"
	"recourse/internal/test/program"
)

// agentRun is a running `recourse agent run`. The agents of examples/agents print a line for each
// thing that they do, which begins with the number of their life; the first has the process's id.
type agentRun struct {
	name, key, actions string
	input              string
	restarts           int
	command            []string

	cmd    *exec.Cmd
	ctx    context.Context // ends the run if it takes too long
	stop   context.CancelFunc
	said   buffer.Buffer
	ended  chan struct{} // closed when it has ended
	killed int           // the last life whose process was killed
}

const (
	mostOfARun = 5 * time.Minute
	// agentLease outlives each restart of the server: without it, a life ends at the restart, too.
	agentLease = "2m"
)

// runAgent starts a run.
func (s *scene) runAgent(r *agentRun) {
	s.t.Helper()
	r.ctx, r.stop = context.WithTimeout(s.t.Context(), mostOfARun)
	args := []string{"agent", "run", "--server", "http://" + s.server.addr, "--name", r.name, "--key", r.key, "--actions", r.actions,
		"--lease", agentLease, "--restarts", strconv.Itoa(r.restarts), "--input", r.input, "--"}
	r.cmd = exec.CommandContext(r.ctx, program.Path(s.t), append(args, r.command...)...)
	r.cmd.Stdout, r.cmd.Stderr = &r.said, &r.said
	r.ended = make(chan struct{})
	if err := r.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	go func() {
		defer close(r.ended)
		_ = r.cmd.Wait() // its state has the result
	}()
}

// end waits for the end of the run.
func (r *agentRun) end() (out string, code int) {
	<-r.ended
	r.stop()
	return r.said.String(), r.cmd.ProcessState.ExitCode()
}

// replay runs the agent against the journal of the session of a run that has ended, which must find
// no difference, and send nothing.
func (s *scene) replay(r *agentRun) {
	s.t.Helper()
	_, rest, _ := strings.Cut(r.said.String(), "recourse: session ")
	id, _, ok := strings.Cut(rest, " ")
	if !ok {
		s.t.Fatalf("the run does not name its session:\n%s", &r.said)
	}
	requests, asks := len(s.world.Ledger().Requests()), len(s.model.Bills())
	out, code := s.command(append([]string{"agent", "replay", "--server", "http://" + s.server.addr, id, "--"}, r.command...)...)
	if code != 0 || !strings.Contains(out, "recourse: the same: ") {
		s.t.Errorf("replay of session %s: exit %d:\n%s", id, code, out)
	}
	if n, m := len(s.world.Ledger().Requests())-requests, len(s.model.Bills())-asks; n != 0 || m != 0 {
		s.t.Errorf("the replay has sent %d requests, and asked the model %d times", n, m)
	}
}

// kill kills the agent's process, once its life has printed so many lines, and some time later. It
// kills a life once. It fails if the run has ended before.
func (r *agentRun) kill(lines int, later time.Duration) error {
	for {
		life, pid, n := r.life()
		if life > r.killed && n >= lines {
			r.killed = life
			<-time.After(later)
			p, err := os.FindProcess(pid)
			if err != nil {
				return err
			}
			return p.Kill()
		}
		select {
		case <-r.ended:
			return fmt.Errorf("the agent has ended before it was killed:\n%s", &r.said)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// life returns the number of the last life, the id of its process, and the number of lines that it
// has printed; 0 before the first.
func (r *agentRun) life() (life, pid, lines int) {
	for line := range strings.Lines(r.said.String()) {
		var n, id int
		if !strings.HasSuffix(line, "\n") {
			break
		}
		if _, err := fmt.Sscanf(line, "life %d: begins as process %d", &n, &id); err == nil {
			life, pid, lines = n, id, 0
		}
		if strings.HasPrefix(line, "life ") {
			lines++
		}
	}
	return life, pid, lines
}

// publishActions publishes the actions of an agent.
func (s *scene) publishActions(agent string) {
	s.t.Helper()
	if out, code := s.command("definitions", "apply", agent+"/actions", "--server", "http://"+s.server.addr); code != 0 {
		s.t.Fatalf("apply: %s", out)
	}
}
