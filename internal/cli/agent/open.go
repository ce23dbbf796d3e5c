package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/internal/cli"
	"recourse/internal/cli/remote"
)

// Opening has the flags of `recourse agent run` that say what the session is like that it opens.
type Opening struct {
	Input        string   `short:"i" placeholder:"JSON" help:"The session's input: JSON, @FILE, or - for stdin."`
	Label        []string `short:"l" sep:"none" placeholder:"K=V" help:"A label; repeatable."`
	Budget       string   `placeholder:"AMOUNT" help:"The most that the session may cost, such as \"5.00 USD\"."`
	Tokens       int64    `placeholder:"N" help:"The most tokens that its requests to models may use."`
	OnExceed     string   `enum:",fail,ask" default:"" placeholder:"fail|ask" help:"What happens to a call or a request that the budget does not cover: fail (the default), or ask a person to raise it."`
	Parent       string   `placeholder:"ID" help:"The whole id of the saga or session whose budget pays for this session."`
	MaxCalls     int      `placeholder:"N" help:"The most calls; the server's default is 200."`
	MaxParallel  int      `placeholder:"N" help:"The most calls that run at once; the server's default is 8."`
	MaxAsks      int      `placeholder:"N" help:"The most requests to models; the server's default is 2000."`
	MaxSteps     int      `placeholder:"N" help:"The most own steps; the server's default is 2000."`
	Models       []string `placeholder:"MODEL" help:"The models that the agent may ask, separated by commas, or patterns such as gpt-5-*. Default: all."`
	OnDivergence string   `enum:",guard,stop,ignore" default:"" placeholder:"guard|stop|ignore" help:"What happens if the agent asks a model something else than in an earlier life: guard (the default), stop or ignore."`
	Ignore       []string `sep:"none" placeholder:"REGEXP" help:"A pattern (RE2) of texts in requests to models that do not matter, such as timestamps; repeatable."`
	StreamHold   string   `enum:",tools,all" default:"" placeholder:"tools|all" help:"Which parts of a streamed answer wait for the journal: tools (the default) or all."`
	Keep         string   `enum:",full,answers" default:"" placeholder:"full|answers" help:"What is stored of requests to models: full (the default), or answers: no prompts."`
	Lease        string   `placeholder:"DURATION" help:"How long the session counts as attached without a heartbeat, 5s to 10m; the server's default is 30s."`
	LostWait     string   `placeholder:"DURATION" help:"How long the session waits for another process if it has none; the server's default is 1h."`
	OnLost       string   `enum:",hold,abort" default:"" placeholder:"hold|abort" help:"What follows then: hold (the default: a person decides) or abort."`
	Timeout      string   `placeholder:"DURATION" help:"The session is aborted if it has not ended by then. Default: no timeout."`
}

// openRequest is the body that opens a session. With the same key it must be the same.
type openRequest struct {
	Name         string            `json:"name"`
	Key          string            `json:"key,omitempty"`
	Actions      []string          `json:"actions"`
	Input        json.RawMessage   `json:"input,omitempty"`
	Labels       map[string]string `json:"labels,omitempty"`
	Budget       any               `json:"budget,omitempty"` // an amount, or a budgetRequest
	Parent       string            `json:"parent,omitempty"`
	MaxCalls     int               `json:"max_calls,omitempty"`
	MaxParallel  int               `json:"max_parallel,omitempty"`
	MaxAsks      int               `json:"max_asks,omitempty"`
	MaxSteps     int               `json:"max_steps,omitempty"`
	Models       []string          `json:"models,omitempty"`
	OnDivergence string            `json:"on_divergence,omitempty"`
	Ignore       []string          `json:"ignore,omitempty"`
	StreamHold   string            `json:"stream_hold,omitempty"`
	Keep         string            `json:"keep,omitempty"`
	Lease        string            `json:"lease,omitempty"`
	OnLost       *lostRequest      `json:"on_lost,omitempty"`
	Timeout      string            `json:"timeout,omitempty"`
}

type budgetRequest struct {
	Amount   string `json:"amount,omitempty"`
	Tokens   int64  `json:"tokens,omitempty"`
	OnExceed string `json:"on_exceed,omitempty"`
}

type lostRequest struct {
	Wait string `json:"wait,omitempty"`
	Then string `json:"then,omitempty"`
}

// money returns the budget of an amount; nil for none.
func money(amount string) any {
	if amount == "" {
		return nil
	}
	return amount
}

// request returns the body that opens the session of the flags.
func (c *Run) request(a *cli.App) (openRequest, error) {
	o := c.Opening
	body := openRequest{Name: c.Name, Key: c.Key, Actions: c.Actions, Budget: money(o.Budget), Parent: o.Parent, MaxCalls: o.MaxCalls, MaxParallel: o.MaxParallel, MaxAsks: o.MaxAsks, MaxSteps: o.MaxSteps,
		Models: o.Models, OnDivergence: o.OnDivergence, Ignore: o.Ignore, StreamHold: o.StreamHold, Keep: o.Keep, Lease: o.Lease, Timeout: o.Timeout}
	if o.Tokens != 0 || o.OnExceed != "" {
		body.Budget = budgetRequest{o.Budget, o.Tokens, o.OnExceed}
	}
	if o.LostWait != "" || o.OnLost != "" {
		body.OnLost = &lostRequest{o.LostWait, o.OnLost}
	}
	labels, err := cli.Pairs("--label", o.Label)
	if err != nil {
		return body, err
	}
	if len(labels) > 0 {
		body.Labels = labels
	}
	body.Input, err = a.JSONArg("--input", o.Input)
	return body, err
}

// patience is how long the command waits for a server that does not respond at the start. Later it
// waits without a limit.
const patience = time.Minute

// open opens the session, or finds the one of the key.
func (r *runner) open(body openRequest) (found bool, _ error) {
	ctx, cancel := context.WithTimeout(r.app.Ctx, patience)
	defer cancel()
	header := map[string]string{}
	opened := func() (remote.Answer, error) {
		return r.try(r.app.Ctx, r.flags.APIKey, remote.Call{Method: http.MethodPost, Path: "/v1/sessions", Body: body, Header: header})
	}
	r.reopen = opened
	answer, err := opened() // sets the idempotency key that all attempts share
	if err != nil && r.transient(ctx, err) {
		answer, err = r.insist(ctx, opened)
	}
	if err != nil {
		return false, r.explain(err, body.Actions)
	}
	if err := answer.Into(&r.session); err != nil {
		return false, err
	}
	how := "opened"
	if answer.Status == http.StatusOK {
		how, found = "found", true
	}
	r.note("session %s %s", r.session.ID, how)
	return found, r.checkRuns(r.session.ID)
}

// explain adds to the error of an open that its actions look like files, which only a server in
// this process reads.
func (r *runner) explain(err error, actions []string) error {
	if r.database != "" || remote.Code(err) == "" {
		return err
	}
	for _, name := range actions {
		if _, none := os.Stat(name); none == nil {
			return fmt.Errorf("%w; with a server, --actions are names of published actions: %s publishes those in %s", err, r.flags.Command(r.app, "definitions apply "+name), name)
		}
	}
	return err
}

// find finds a session by its id. A key of the role agent may not read it: then it is read once
// the process is attached.
func (r *runner) find(id string) error {
	ctx, cancel := context.WithTimeout(r.app.Ctx, patience)
	defer cancel()
	r.reopen = func() (remote.Answer, error) {
		return r.try(r.app.Ctx, r.flags.APIKey, remote.Call{Method: http.MethodGet, Path: remote.SessionPath(id)})
	}
	answer, err := r.insist(ctx, r.reopen)
	switch {
	case err == nil:
		err = answer.Into(&r.session)
		r.note("session %s found", r.session.ID)
		return errors.Join(err, r.checkRuns(r.session.ID))
	case remote.Code(err) != "forbidden":
		return err
	}
	if _, wrong := uuid.FromString(id); wrong != nil {
		return cli.Exit(cli.Usage, errors.New("--session: with a key that may not read sessions, write the whole id"))
	}
	r.session.ID = id
	return r.checkRuns(id)
}

// complete reads the session in the name of a life, unless that has been done before.
func (r *runner) complete(secret string) error {
	if r.session.Definition != "" {
		return nil
	}
	answer, err := r.insist(r.app.Ctx, func() (remote.Answer, error) { return r.read(secret) })
	if err != nil {
		return err
	}
	return answer.Into(&r.session)
}
