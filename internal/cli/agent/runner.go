package agent

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/api"
	"recourse/internal/cli"
	"recourse/internal/cli/remote"
	"recourse/retry"
	"recourse/saga/machine"
)

const (
	requestTime = 75 * time.Second // for a response; the server answers within 60 s
	detachTime  = 5 * time.Second
	grace       = 10 * time.Second // between SIGTERM and SIGKILL
)

var (
	// away is the policy for requests while the server is away.
	away = retry.Policy{Initial: 200 * time.Millisecond, Max: 5 * time.Second, Factor: 2000, Jitter: 300}
	// restart is the policy for the process.
	restart = retry.Policy{Initial: time.Second, Max: time.Minute, Factor: 2000, Jitter: 300}
)

func random() uint64 { return rand.Uint64() }

// runner runs the lives of one session.
type runner struct {
	app      *cli.App
	program  string
	args     []string
	flags    remote.ServerFlags
	restarts int
	parks    bool   // an exit with 0 before the ends of calls is like one with the code parked
	keyed    bool   // a later run can continue the session
	replays  bool   // the process runs against the session's journal, in no life of it
	database string // of the server in this process; "": it is another process
	session  session
	life     *life // the last one; nil: none yet
	watcher  *watcher
	prefix   string                        // of notes
	slots    chan struct{}                 // of a worker; nil: no worker runs the agent
	begun    func()                        // called when a worker's process has a slot
	reopen   func() (remote.Answer, error) // repeats the request that opened the session
	// Server.Runs; nil: another process is the server.
	runs func(context.Context, uuid.UUID) error

	mu   sync.Mutex
	away bool // guarded by mu: the server does not respond
}

// note prints a line on stderr, which the process shares.
func (r *runner) note(format string, args ...any) { r.app.Note("recourse: "+r.prefix+format, args...) }

// token returns the session's token with this secret. It must never be printed.
func (r *runner) token(secret string) string {
	return api.Token(uuid.FromStringOrNil(r.session.ID), secret)
}

// try sends a request once.
func (r *runner) try(ctx context.Context, key string, call remote.Call) (remote.Answer, error) {
	return r.within(ctx, requestTime, key, call)
}

// errSlow means that a request had no response in time.
var errSlow = errors.New("the server did not respond in time")

// within sends a request and waits for its response for at most d.
func (r *runner) within(ctx context.Context, d time.Duration, key string, call remote.Call) (remote.Answer, error) {
	timed, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	cl, err := remote.ServerFlags{Server: r.flags.Server, APIKey: key}.Client(timed)
	if err != nil {
		return remote.Answer{}, err
	}
	answer, err := cl.Do(call)
	if err != nil && timed.Err() != nil && ctx.Err() == nil {
		return answer, cli.Exit(cli.Unreachable, errSlow)
	}
	return answer, err
}

// transient reports whether a request may succeed later.
func (r *runner) transient(ctx context.Context, err error) bool {
	return ctx.Err() == nil && cli.ExitCode(err) == cli.Unreachable
}

// insist repeats a request while the server is away or busy.
func (r *runner) insist(ctx context.Context, send func() (remote.Answer, error)) (answer remote.Answer, err error) {
	for attempt := 1; ; attempt++ {
		answer, err = send()
		if err == nil || !r.transient(ctx, err) {
			if err == nil || remote.Code(err) != "" {
				r.responds(true, nil)
			}
			return answer, err
		}
		r.responds(false, err)
		t := time.NewTimer(away.Delay(attempt, random()))
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return answer, err
		}
	}
}

// responds notes when the server is away, and when it is back.
func (r *runner) responds(yes bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case yes && r.away:
		r.note("the server responds again")
	case !yes && !r.away:
		r.note("trying again: %s", err)
	}
	r.away = !yes
}

// ask sends a request in the name of the present life.
func (r *runner) ask(method, part string, body any) (remote.Answer, error) {
	call := remote.Call{Method: method, Path: remote.SessionPath(r.session.ID, part), Body: body}
	return r.insist(r.app.Ctx, func() (remote.Answer, error) { return r.try(r.app.Ctx, r.token(r.life.secret), call) })
}

// read reads the session in the name of a life.
func (r *runner) read(secret string) (remote.Answer, error) {
	return r.try(r.app.Ctx, r.token(secret), remote.Call{Method: http.MethodGet, Path: remote.SessionPath(r.session.ID)})
}

// steps reads the session's calls, and its own steps, which have no action.
func (r *runner) steps() ([]machine.CallView, error) {
	list, err := listOf[machine.CallView](r, "calls")
	if err != nil {
		return nil, err
	}
	own, err := listOf[machine.OwnView](r, "steps")
	for _, v := range own {
		list = append(list, machine.CallView{Path: v.Path, Status: v.Status, WaitsFor: v.WaitsFor, Undo: v.Undo, Unread: v.Unread})
	}
	return list, err
}

// listOf reads a list of the session.
func listOf[T any](r *runner, part string) (list []T, _ error) {
	_, err := r.insist(r.app.Ctx, func() (remote.Answer, error) {
		ctx, cancel := context.WithTimeout(r.app.Ctx, requestTime)
		defer cancel()
		cl, err := remote.ServerFlags{Server: r.flags.Server, APIKey: r.token(r.life.secret)}.Client(ctx)
		if err == nil {
			list, err = remote.ReadAll[T](cl, remote.SessionPath(r.session.ID, part), url.Values{}, 0)
		}
		return remote.Answer{}, err
	})
	return list, err
}

// pause waits, and reports false if the program should stop.
func (r *runner) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.app.Ctx.Done():
		return false
	}
}

// wait waits. It returns an error if the life ends before, or the program should stop.
func (r *runner) wait(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case v := <-r.life.over:
		return r.ended(v)
	case <-r.app.Ctx.Done():
		return r.interrupted()
	}
}

// interrupted detaches, and returns the error of a command that a signal has stopped.
func (r *runner) interrupted() error {
	if r.replays {
		return cli.Exit(cli.Failed, errors.New("interrupted"))
	}
	r.detach()
	return end(cli.Failed, "interrupted; %s", r.goesOn())
}

// detach ends the life at once instead of at the end of its lease. Nothing depends on it.
func (r *runner) detach() {
	if r.life == nil {
		return
	}
	r.life.stop()
	_, err := r.within(context.WithoutCancel(r.app.Ctx), detachTime, r.token(r.life.secret), remote.Call{Method: http.MethodPost, Path: remote.SessionPath(r.session.ID, "detach"), Body: struct{}{}})
	if err != nil && remote.Code(err) != "superseded" {
		r.note("not detached, so the session is attached until the lease ends: %s", err)
	}
}

// verdict says why a life is over before its process has ended.
type verdict int

const (
	isClosed     verdict = iota + 1 // the session is committed or aborted, or has ended
	isSuperseded                    // another process acts for the session
	isReplayed                      // the journal that the process runs against has no more to say
)

// ended returns the end of the session, or its loss, as an error.
func (r *runner) ended(v verdict) error {
	r.life.stop()
	switch v {
	case isSuperseded:
		return end(held, "another process acts for session %s", r.session.ID)
	case isReplayed:
		return errReplayed
	}
	return r.finish()
}

// life is a life of the session: its heartbeats are sent until stop.
type life struct {
	secret string
	number int
	routes []string     // variables of the process: where it sends requests to models and tools
	over   chan verdict // receives at most one value
	stop   func()       // ends the heartbeats, and waits for the end of the last one
}

func (r *runner) newLife(secret string, d attached) *life {
	ctx, cancel := context.WithCancel(r.app.Ctx)
	l := &life{secret: secret, number: d.Life, routes: r.routes(d, r.token(secret)), over: make(chan verdict, 1)}
	done := make(chan struct{})
	l.stop = func() {
		cancel()
		<-done
	}
	lease := time.Duration(d.LeaseMS) * time.Millisecond
	go func() {
		defer close(done)
		if v := r.beat(ctx, secret, lease); v != 0 {
			l.over <- v
		}
	}()
	return l
}

// beat sends heartbeats at a third of the lease. It returns 0 if ctx is done.
func (r *runner) beat(ctx context.Context, secret string, lease time.Duration) verdict {
	every := time.NewTicker(max(lease/3, time.Second))
	defer every.Stop()
	call := remote.Call{Method: http.MethodPost, Path: remote.SessionPath(r.session.ID, "heartbeat"), Body: struct{}{}}
	for {
		select {
		case <-every.C:
		case <-ctx.Done():
			return 0
		}
		var said struct {
			Stop bool `json:"stop"`
		}
		answer, err := r.insist(ctx, func() (remote.Answer, error) { return r.within(ctx, lease/3, r.token(secret), call) })
		if err == nil {
			err = answer.Into(&said)
		}
		switch {
		case ctx.Err() != nil:
			return 0
		case said.Stop:
			return isClosed
		case remote.Code(err) == "superseded":
			if v := r.reattach(ctx, secret); v != 0 {
				return v
			}
		case err != nil:
			r.note("heartbeat: %s", err)
		}
	}
}

// reattach continues a life whose lease has ended, unless another process has followed.
func (r *runner) reattach(ctx context.Context, secret string) verdict {
	_, err := r.attach(ctx, secret, "")
	switch code := remote.Code(err); {
	case err == nil:
		r.note("the lease had ended: attached to the session again")
	case code == "superseded", code == "session_held":
		return isSuperseded
	case closed(code):
		return isClosed
	case ctx.Err() == nil:
		r.note("attach: %s", err)
	}
	return 0
}

// killed is the exit code of a process that a signal has ended.
const killed = -1

// process runs the agent's process to its end, and returns its exit code. An error says that the
// command is over: the process was stopped, or could not be started.
func (r *runner) process() (int, error) {
	free, err := r.slot()
	if err != nil {
		return 0, err
	}
	defer free()
	p := exec.Command(r.program, r.args...) //nolint:noctx // stopped by signals, below
	p.Env = r.environment()
	p.Stdout, p.Stderr = r.app.RawStdout(), r.app.Stderr
	if r.slots == nil { // the processes of a worker cannot share one
		p.Stdin = r.app.Stdin
	}
	p.WaitDelay = grace
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM) // besides Ctx, to know which one it was
	defer signal.Stop(signals)
	if err := p.Start(); err != nil {
		r.detach()
		return 0, cli.Exit(cli.Usage, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = p.Wait() // its state has the result
	}()
	select {
	case <-exited:
		select {
		case v := <-r.life.over: // the process has noticed it first
			return 0, r.ended(v)
		default:
		}
		if r.app.Ctx.Err() != nil {
			return 0, r.interrupted()
		}
		return p.ProcessState.ExitCode(), nil
	case v := <-r.life.over:
		if !r.replays {
			r.note("stopping the agent")
		}
		terminate(p.Process, syscall.SIGTERM, exited, signals)
		return 0, r.ended(v)
	case <-r.app.Ctx.Done():
		sign := os.Signal(syscall.SIGTERM)
		select {
		case sign = <-signals:
		case <-time.After(50 * time.Millisecond): // it was no signal
		}
		terminate(p.Process, sign, exited, signals)
		return 0, r.interrupted()
	}
}

// terminate asks a process to stop, and kills it if it does not, or if another signal arrives.
func terminate(p *os.Process, sign os.Signal, exited <-chan struct{}, signals <-chan os.Signal) {
	_ = p.Signal(sign) // it may have ended
	t := time.NewTimer(grace)
	defer t.Stop()
	select {
	case <-exited:
		return
	case <-t.C:
	case <-signals:
	}
	_ = p.Kill()
	<-exited
}

// private begin the variables that the process does not get: the session's token stands for the API
// key, which may do more, and only the server's steps use secrets.
var private = []string{"RECOURSE_API_KEY=", "RECOURSE_SECRET_", "RECOURSE_LLM_API_KEY=", "RECOURSE_DATABASE="}

// maxInput is the largest input that is passed on in a variable: Linux does not run a program if
// one of its variables has 128 KiB.
const maxInput = 120 << 10

// environment returns the variables of the process.
func (r *runner) environment() []string {
	env := slices.DeleteFunc(slices.Clone(r.app.Env), func(entry string) bool {
		return slices.ContainsFunc(private, func(begin string) bool { return strings.HasPrefix(entry, begin) })
	})
	if r.replays {
		env = withoutServers(env)
	}
	if r.database != "" {
		env = slices.DeleteFunc(env, isCollectors)
	}
	input := cmp.Or(string(r.session.Input), "null")
	if len(input) > maxInput {
		// It is empty rather than absent: a program that takes an absent input for null would do
		// another task, and an empty text is no JSON. It also replaces an outer session's input.
		r.note("RECOURSE_INPUT is empty: the input of the session has %d bytes, and the program reads it from the session", len(input))
		input = ""
	}
	return append(append(env, r.life.routes...),
		"RECOURSE_URL="+strings.TrimRight(r.flags.Server, "/"),
		"RECOURSE_SESSION="+r.session.ID,
		"RECOURSE_TOKEN="+r.token(r.life.secret),
		"RECOURSE_LIFE="+strconv.Itoa(r.life.number),
		"RECOURSE_RESUMED="+strconv.FormatBool(r.life.number > 1),
		"RECOURSE_INPUT="+input)
}

// isCollectors reports whether a variable has credentials for the collector of traces. They are for
// the server: if that is another process, they are the agent's own.
func isCollectors(entry string) bool {
	name, _, _ := strings.Cut(entry, "=")
	return name == "OTEL_EXPORTER_OTLP_HEADERS" || name == "OTEL_EXPORTER_OTLP_TRACES_HEADERS"
}

// routes returns the variables by which client packages find the server's routes for models and
// tools, as far as the server has them. The session's token takes the place of a provider's key.
func (r *runner) routes(d attached, token string) []string {
	var env []string
	at := func(name, url string) bool {
		if strings.HasPrefix(url, "/") {
			url = strings.TrimRight(r.flags.Server, "/") + url
		}
		if url != "" {
			env = append(env, name+"="+url)
		}
		return url != ""
	}
	if at("OPENAI_BASE_URL", d.LLM.OpenAI) {
		// The package agents of OpenAI sends traces to api.openai.com, with its key: that is the
		// token.
		env = append(env, "OPENAI_API_KEY="+token, "OPENAI_AGENTS_DISABLE_TRACING=1")
	}
	if at("ANTHROPIC_BASE_URL", d.LLM.Anthropic) {
		env = append(env, "ANTHROPIC_API_KEY="+token)
	}
	at("RECOURSE_MCP_URL", d.MCP)
	return env
}
