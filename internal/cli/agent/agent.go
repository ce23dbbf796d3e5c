// Package agent has the command that runs an agent's process in a session: it opens the session,
// keeps its lease, restarts the process when it fails, and commits or aborts the session at the
// end.
package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"time"

	"recourse/api"
	"recourse/internal/cli"
	"recourse/internal/cli/config"
	"recourse/internal/cli/remote"
	"recourse/saga"
	"recourse/saga/machine"
)

// Command is `recourse agent`.
type Command struct {
	Run    Run    `cmd:"" help:"Run an agent's process in a session: keep its lease, restart it, and commit or abort at its end."`
	Worker Worker `cmd:"" help:"Run an agent's process in each session of a name that has none."`
	Replay Replay `cmd:"" help:"Run an agent's process against the journal of a session, and print the first request that differs."`
}

// Exit codes of `recourse agent run` besides cli.OK, Failed, Usage and Forbidden. They replace the
// codes that other commands use for these numbers.
const (
	undone = 3 // the session was aborted, and all its effects are undone
	remain = 4 // the session was aborted, and effects remain, or a person has to decide
	held   = 5 // another process acts for the session
)

// Exit codes of the agent's process that mean something. Any other code but 0 is a failure.
const (
	parked  = 75 // run it again once what it waits for has come
	aborted = 76 // abort the session
)

// Run is `recourse agent run`.
type Run struct {
	Server  string   `env:"RECOURSE_SERVER" placeholder:"URL" help:"The server's address. Default: a server in this process, with --database."`
	APIKey  string   `name:"api-key" env:"RECOURSE_API_KEY" placeholder:"KEY" help:"The API key, of the role agent. The process does not get it. Prefer the environment variable."`
	Name    string   `default:"agent" help:"What sessions of this kind are called; default ${default}."`
	Key     string   `placeholder:"KEY" help:"Continue the session that was opened with this key, or open one. Default: open a session."`
	Session string   `placeholder:"ID" help:"Run the agent in this session, such as a fork, instead of opening one."`
	Actions []string `placeholder:"NAME[@VERSION]|FILE|DIR" help:"The actions that the agent may call, separated by commas: their names with --server, and files or directories without."`
	Opening
	Restarts int    `default:"5" help:"How often the process is run again after a failure; default ${default}."`
	Park     bool   `help:"If the program exits with 0 before it has got the ends of its calls, run it again once one of them has ended, as after 75."`
	Plain    bool   `help:"Print the session's calls as lines on a terminal, too, instead of showing them in its last lines."`
	Database string `placeholder:"FILE|URL" help:"The database of the server in this process; default recourse.db. Without --server only."`
	config.LocalFlags
	Command []string `arg:"" name:"cmd" help:"The agent's program and its arguments, after --."`
}

// session is what the command reads of a session.
type session struct {
	machine.View
	Session struct {
		Name  string `json:"name"`
		Lease string `json:"lease"`
		Life  int    `json:"life"`
	} `json:"session"`
}

// Run runs the agent until its session has ended, or cannot go on.
func (c *Run) Run(a *cli.App, embed Embed) error {
	err := c.run(a, embed)
	if errors.Is(err, errCommitted) {
		return nil
	}
	switch cli.ExitCode(err) {
	case cli.Unreachable, cli.Conflict, cli.NotFound:
		if _, ok := errors.AsType[*result](err); ok {
			return err
		}
		return cli.Exit(cli.Failed, err) // these codes mean something else here
	default:
		return err
	}
}

// result is the end of a session, as an error with an exit code.
type result struct{ error }

// Unwrap returns the error.
func (r *result) Unwrap() error { return r.error }

// errCommitted is the result of a session that is committed.
var errCommitted = &result{cli.Exit(cli.OK, nil)}

func end(code int, format string, args ...any) error {
	return &result{cli.Exit(code, fmt.Errorf(format, args...))}
}

func (c *Run) run(a *cli.App, embed Embed) error {
	program, err := exec.LookPath(c.Command[0])
	if err != nil {
		return cli.Exit(cli.Usage, fmt.Errorf("the agent cannot be run: %w", err))
	}
	if c.Restarts < 0 {
		return cli.Exit(cli.Usage, errors.New("--restarts is 0 or more"))
	}
	body, err := c.request(a)
	if err != nil {
		return err
	}
	if c.Session == "" && len(c.Actions) == 0 {
		return cli.Exit(cli.Usage, errors.New("--actions names the actions that the agent may call; or continue a session with --session"))
	}
	if c.Session != "" && !reflect.DeepEqual(body, openRequest{Name: c.Name}) {
		return cli.Exit(cli.Usage, errors.New("--session continues a session as it was opened: leave out the flags that open one, such as --actions, --key and --budget"))
	}
	r := &runner{app: a, program: program, args: c.Command[1:], flags: remote.ServerFlags{Server: c.Server, APIKey: c.APIKey}, restarts: c.Restarts, parks: c.Park, keyed: c.Key != ""}
	stop, err := c.connect(r, embed, &body)
	if err != nil {
		return err
	}
	defer stop()
	found := true
	if c.Session != "" {
		err = r.find(c.Session)
	} else {
		found, err = r.open(body)
	}
	if err != nil {
		return err
	}
	r.watcher = r.watch(c.Plain, found)
	defer r.watcher.stop()
	err = r.live()
	if r.life != nil {
		r.life.stop()
	}
	return err
}

// attachRequest is the body of an attach.
type attachRequest struct {
	Holder   string `json:"holder"`
	Secret   string `json:"secret"`
	Previous string `json:"previous,omitempty"`
}

// attached is the response to an attach.
type attached struct {
	Life    int   `json:"life"`
	LeaseMS int64 `json:"lease_ms"`
	LLM     struct {
		OpenAI    string `json:"openai"`
		Anthropic string `json:"anthropic"`
	} `json:"llm"` // base URLs of the models' routes; "": the server has none
	MCP string `json:"mcp"` // likewise
}

// attach begins a life with a secret. previous is the secret of the life that it replaces.
func (r *runner) attach(ctx context.Context, secret, previous string) (d attached, _ error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	body := attachRequest{Holder: fmt.Sprintf("%s:%d", host, os.Getpid()), Secret: secret, Previous: previous}
	answer, err := r.insist(ctx, func() (remote.Answer, error) {
		return r.try(ctx, r.flags.APIKey, remote.Call{Method: http.MethodPost, Path: remote.SessionPath(r.session.ID, "attach"), Body: body})
	})
	if err != nil {
		return d, err
	}
	return d, answer.Into(&d)
}

// begin begins the next life. If another process is attached, the first life waits for as long as
// that process can be silent: a process that was killed is attached until its lease ends.
func (r *runner) begin() error {
	ctx := r.app.Ctx
	secret, previous := api.NewSecret(), ""
	until := time.Now()
	if r.life != nil {
		previous = r.life.secret
		r.life.stop()
	} else if lease, err := time.ParseDuration(cmp.Or(r.session.Session.Lease, "30s")); err == nil && r.slots == nil {
		until = until.Add(lease + 2*time.Second)
	}
	for waits := false; ; {
		d, err := r.attach(ctx, secret, previous)
		switch code := remote.Code(err); {
		case err == nil:
			if err := r.complete(secret); err != nil {
				return err
			}
			r.life = r.newLife(secret, d)
			r.watcher.begin(secret)
			return nil
		case code == "session_held" && time.Now().Before(until):
			if !waits {
				waits = true
				r.note("another process is attached to the session: waiting until its lease ends")
			}
			if !r.pause(time.Second) {
				return r.interrupted()
			}
		case code == "session_held", code == "superseded":
			return end(held, "another process acts for session %s", r.session.ID)
		case closed(code) && r.slots != nil && r.life == nil:
			return errOver
		case closed(code):
			return r.finish()
		default:
			return err
		}
	}
}

// closed reports whether the code of a refusal means that the session is over for its agent.
func closed(code string) bool { return code == "terminal" || code == "aborted" || code == "committed" }

// live runs the process, life after life. It returns the end of the session, or of the command, as
// an error.
func (r *runner) live() error {
	failures, quick := 0, 0
	for {
		if err := r.begin(); err != nil {
			return err
		}
		began := time.Now()
		code, err := r.process()
		if err != nil {
			return err
		}
		why := fmt.Sprintf("the agent has exited with %d", code)
		switch code {
		case 0:
			if r.parks {
				waits, err := r.park()
				if err != nil {
					return err
				}
				if waits {
					continue
				}
			}
			return r.commit()
		case aborted:
			return r.abort()
		case parked:
			waits, err := r.park()
			if err != nil {
				return err
			}
			if waits {
				continue
			}
			why = "the agent has parked, but no call of the session is open"
		case killed:
			why = "the agent was killed"
		}
		if failures++; failures > r.restarts {
			r.detach()
			return end(cli.Failed, "%s, and was restarted %d times; %s", why, r.restarts, r.goesOn())
		}
		if quick++; time.Since(began) > restart.Max {
			quick = 1
		}
		delay := restart.Delay(quick, random())
		r.note("%s; life %d begins in %s", why, r.life.number+1, delay.Round(100*time.Millisecond))
		if err := r.wait(delay); err != nil {
			return err
		}
	}
}

// goesOn says how to continue the session.
func (r *runner) goesOn() string {
	if r.slots != nil {
		return fmt.Sprintf("session %s goes on: a worker takes it again, or %s ends it", r.session.ID, r.command("sessions abort "+r.session.ID))
	}
	if r.program == "" && !r.keyed { // an MCP client has no --session
		return fmt.Sprintf("session %s goes on without a process: %s undoes its calls; with --key, a later run continues a session", r.session.ID, r.command("sessions abort "+r.session.ID))
	}
	flag := "--session " + r.session.ID
	if r.keyed {
		flag = "the same --key"
	}
	return fmt.Sprintf("session %s goes on: run the agent with %s, or %s", r.session.ID, flag, r.command("sessions abort "+r.session.ID))
}

// commit commits the session once its calls have ended.
func (r *runner) commit() error {
	said := ""
	for {
		_, err := r.ask(http.MethodPost, "commit", struct{}{})
		switch code := remote.Code(err); {
		case err == nil:
			r.note("committed")
			return errCommitted
		case closed(code):
			return r.finish()
		case code == "calls_open":
			if steps, err := r.steps(); err == nil { // otherwise the next commit has the same error
				if line := r.waiting(steps); line != "" && line != said {
					said = line
					r.note("waiting to commit: %s%s", line, r.unheard(steps))
				}
			}
		case code != "superseded": // then the heartbeat attaches again, or reports the end
			return err
		}
		if err := r.wait(time.Second); err != nil {
			return err
		}
	}
}

// abort aborts the session and waits until its calls are undone.
func (r *runner) abort() error {
	for {
		_, err := r.ask(http.MethodPost, "abort", map[string]string{"reason": "the agent aborted the session"})
		switch code := remote.Code(err); {
		case err == nil, closed(code):
			r.detach() // the process has ended, so the abort need not wait for its own steps
			return r.finish()
		case code != "superseded":
			return err
		}
		if err := r.wait(time.Second); err != nil {
			return err
		}
	}
}

// park waits until a call or an own step that was open has ended. It does not wait if one has ended
// since the agent asked for it last. It keeps the lease: a session without a process counts as lost
// after a time. waits is false if the agent has got the ends of all.
func (r *runner) park() (waits bool, _ error) {
	var open []string
	said := ""
	for {
		steps, err := r.steps()
		if err == nil {
			// The end of an own step that the agent has left would be its own doing.
			steps = slices.DeleteFunc(steps, func(v machine.CallView) bool { return v.Action == "" && v.Status == machine.CallRunning })
			for _, v := range steps {
				if v.Unread || slices.Contains(open, v.Path) && v.Status.Ended() {
					r.note("%s has ended: %s", v.Path, v.Status)
					return true, nil
				}
			}
			if open == nil {
				for _, v := range steps {
					if !v.Status.Ended() {
						open = append(open, v.Path)
					}
				}
			}
			if open == nil {
				return false, nil
			}
			if line := r.waiting(steps); line != said {
				said = line
				r.note("the agent is parked until a call ends: %s", line)
			}
		} else if remote.Code(err) != "superseded" {
			return false, err
		}
		if err := r.wait(time.Second); err != nil {
			return false, err
		}
	}
}

// finish waits until a session that is over for its agent has ended, and returns how, as an error.
func (r *runner) finish() error {
	read := r.reopen // without a life there is no token, and a key of the role agent may not read
	if r.life != nil {
		read = func() (remote.Answer, error) { return r.read(r.life.secret) }
	}
	reported, said := false, ""
	var seq int64
	var since time.Time // when the session had this seq first
	for {
		answer, err := r.insist(r.app.Ctx, read)
		if err != nil {
			return err
		}
		v := new(session) // not r.session: a heartbeat may still read that
		if err := answer.Into(v); err != nil {
			return err
		}
		switch left := len(v.Residual) + len(v.Doubts); {
		case v.Status == saga.Succeeded:
			r.note("the session is committed")
			return errCommitted
		case v.Status == saga.Compensated && left == 0:
			return end(undone, "session %s was aborted, and all its effects are undone", v.ID)
		case v.Status.Terminal():
			return end(remain, "session %s was aborted, and effects remain: %s; %s explains them", v.ID, effects(v), r.command("show "+v.ID))
		case len(v.Open) > 0:
			return end(remain, "session %s was aborted, and a person has to decide: %s", v.ID, r.command("inbox --saga "+v.ID))
		case !reported:
			reported = true
			r.note("the session is over for its agent: waiting for its end")
		case v.Seq != seq:
			seq, since = v.Seq, time.Now()
		case time.Since(since) > quiet:
			if line := r.stays(v); line != said {
				said = line
				r.note("waiting for the end of the session: %s", line)
			}
			since = time.Now()
		}
		if !r.pause(300 * time.Millisecond) {
			return r.interrupted()
		}
	}
}

// effects lists the effects that remain or may remain.
func effects(v *session) string {
	var list []string
	for _, e := range v.Residual {
		list = append(list, e.Path+" ("+e.Why+")")
	}
	for _, e := range v.Doubts {
		list = append(list, e.Path+" (in doubt: "+e.Why+")")
	}
	if list == nil {
		return "the session is " + string(v.Status)
	}
	return strings.Join(list, ", ")
}
