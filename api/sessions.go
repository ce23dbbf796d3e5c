package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gofrs/uuid/v5"
	"github.com/labstack/echo/v4"

	"recourse/internal/oauth"
	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/machine"
)

// ofSession is the prefix of the routes of one session.
const ofSession = "/v1/sessions/:id"

// sessionRoutes lists the routes of sessions.
func (s *server) sessionRoutes() []route {
	of := func(method, path string, op, orKey operation, h echo.HandlerFunc) route {
		return route{method: method, path: path, op: op, orKey: orKey, handler: h, stream: true}
	}
	finish := of(http.MethodPost, ofSession+"/steps/:step/finish", opLife, "", s.finishStep)
	finish.document = true // its output may be large
	return []route{
		of(http.MethodPost, "/v1/sessions", opSession, "", s.openSession),
		of(http.MethodGet, "/v1/sessions", opSession, "", s.listUnattached),
		of(http.MethodGet, ofSession, opLife, opRead, s.getSession),
		of(http.MethodPost, ofSession+"/attach", opSession, "", s.attach),
		of(http.MethodPost, ofSession+"/heartbeat", opLife, "", s.beat),
		of(http.MethodPost, ofSession+"/detach", opLife, "", s.detach),
		of(http.MethodGet, ofSession+"/actions", opLife, opRead, s.listPinned),
		of(http.MethodGet, ofSession+"/journal", opLife, opRead, s.lastRecords),
		of(http.MethodPost, ofSession+"/calls", opLife, "", s.call),
		of(http.MethodGet, ofSession+"/calls", opLife, opRead, s.listCalls),
		of(http.MethodGet, ofSession+"/calls/:path", opLife, opRead, s.getCall),
		of(http.MethodPost, ofSession+"/calls/:path/undo", opLife, opOperate, s.undoCall),
		{method: http.MethodGet, path: ofSession + "/asks/:path", op: opRead, handler: s.getAsk},
		of(http.MethodPost, ofSession+"/steps", opLife, "", s.beginStep),
		finish,
		of(http.MethodGet, ofSession+"/steps", opLife, opRead, s.listOwnSteps),
		of(http.MethodGet, ofSession+"/steps/:step", opLife, opRead, s.getOwnStep),
		of(http.MethodPost, ofSession+"/steps/:step/undo", opLife, opOperate, s.undoOwnStep),
		of(http.MethodPost, ofSession+"/commit", opLife, "", s.commit),
		of(http.MethodPost, ofSession+"/abort", opLife, opCancel, s.abort),
		of(http.MethodGet, ofSession+"/summary", opLife, opRead, s.summary),
		{method: http.MethodDelete, path: ofSession + "/content", op: opOperate, handler: s.eraseContent},
	}
}

// sessionView is a session in a response: its saga, and its policy.
type sessionView struct {
	machine.View
	Session sessionPart `json:"session"`
}

type sessionPart struct {
	Name        string        `json:"name"`
	Actions     []string      `json:"actions"` // with their versions
	MaxCalls    int           `json:"max_calls"`
	MaxParallel int           `json:"max_parallel"`
	MaxAsks     int           `json:"max_asks"`
	MaxSteps    int           `json:"max_steps"`
	Lease       string        `json:"lease"`
	OnExceed    saga.OnExceed `json:"on_exceed"`
	OnLost      onLost        `json:"on_lost"`
	Life        int           `json:"life"`     // 0: no process has attached
	Attached    bool          `json:"attached"` // the life goes on

	Models       []string          `json:"models,omitempty"`
	OnDivergence saga.OnDivergence `json:"on_divergence"`
	Ignore       []string          `json:"ignore,omitempty"`
	StreamHold   saga.StreamHold   `json:"stream_hold"`
	Keep         saga.KeepContents `json:"keep"`
}

type onLost struct {
	Wait string        `json:"wait"`
	Then saga.LostThen `json:"then"`
}

func viewOf(m *machine.Machine) sessionView {
	p := m.Definition().Session
	number, _, ongoing := m.Life()
	return sessionView{m.View(), sessionPart{Name: p.Name, Actions: p.Data.Actions, MaxCalls: p.MaxCalls, MaxParallel: p.MaxParallel, MaxAsks: p.MaxAsks, MaxSteps: p.MaxSteps,
		Lease: saga.Duration(p.Lease), OnExceed: cmp.Or(p.Data.OnExceed, saga.ExceedFail), OnLost: onLost{saga.Duration(p.LostWait), p.LostThen}, Life: number, Attached: ongoing,
		Models: p.Data.Models, OnDivergence: p.Data.OnDivergence, Ignore: p.Data.Ignore, StreamHold: p.Data.StreamHold, Keep: p.Data.Keep}}
}

func (l *live) replySession(c echo.Context, status int) error {
	c.Response().Header().Set("ETag", seqTag(l.m.Seq()))
	return reply(c, status, viewOf(l.m))
}

// openSession serves POST /v1/sessions.
func (s *server) openSession(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), s.cfg.Limits.Request)
	defer cancel()
	o, err := s.readObject(c, "name", "key", "input", "actions", "budget", "max_calls", "max_parallel", "max_asks", "max_steps", "labels", "timeout", "lease", "on_lost", "models", "on_divergence", "ignore", "stream_hold", "keep", "parent")
	if err != nil {
		return err
	}
	body, err := s.body(c)
	if err != nil {
		return err
	}
	b := beginning{hash: fingerprint(c, body), version: 1}
	if b.key, err = sessionKey(c, o); err != nil {
		return err
	}
	begun, replayed, err := s.startOnce(ctx, b, func() (machine.Begun, bool, error) { return s.openNew(ctx, c, o, b) })
	if p, ok := errors.AsType[*problem](err); ok && p.Type == problemType+"idempotency_key_reused" {
		// Agents read this: a new key for the same task would repeat its effects.
		p.Detail = "the key belongs to a session that was opened with other fields: send the same ones to find it again. Only another task has another key"
	}
	if err != nil {
		return err
	}
	defer begun.Stop()
	l, err := s.session(c, begun.ID)
	if err != nil {
		return err
	}
	c.Response().Header().Set(echo.HeaderLocation, "/v1/sessions/"+begun.ID.String())
	if replayed {
		c.Response().Header().Set(replayHeader, "true")
		return l.replySession(c, http.StatusOK)
	}
	return l.replySession(c, http.StatusCreated)
}

// sessionKey returns the key of a start: the field `key`, or the Idempotency-Key.
func sessionKey(c echo.Context, o *object) (string, error) {
	key := o.str("key")
	if key == "" {
		return idempotencyKey(c)
	}
	if !isKey(key) {
		return "", invalid(saga.Finding{Pointer: "/key", Code: "bad_key", Detail: fmt.Sprintf("key has 1 to %d visible ASCII characters without spaces, such as ticket-17", maxKey)})
	}
	return callerOf(c).scope() + ":session:" + key, nil
}

// openNew opens a session. Errors: forbidden, not_for_agents, invalid_session, and those of begin.
func (s *server) openNew(ctx context.Context, c echo.Context, o *object, b beginning) (machine.Begun, bool, error) {
	policy := s.policy(o, longestLease(ctx))
	input, budget, labels := o.raw("input"), o.budgetOr(&policy.OnExceed), o.labels(false)
	parent := o.parent(b.key)
	if err := o.err(); err != nil {
		return machine.Begun{}, false, err
	}
	who, named := callerOf(c), budget != nil && budget.Amount != ""
	if err := who.mayOpen(policy, &budget); err != nil {
		return machine.Begun{}, false, err
	}
	if who.role == "agent" {
		b.opener = who.name
		n, err := s.cfg.Store.Opened(ctx, b.opener, maxLive)
		if err != nil {
			return machine.Begun{}, false, err
		}
		if n >= maxLive {
			return machine.Begun{}, false, fail("rate_limited", "the key %q has %d sessions that have not ended: commit or abort some, or have a person decide about those that wait (GET /v1/inbox)", who.name, n).after(60)
		}
	}
	if err := s.pinActions(ctx, who, policy); err != nil {
		return machine.Begun{}, false, err
	}
	def, err := s.cfg.Catalog.Session(ctx, policy)
	if errs, ok := errors.AsType[*dsl.Errors](err); ok {
		return machine.Begun{}, false, fail("invalid_session", "these actions cannot be used together: %s", errs.List[0].Detail)
	}
	if err != nil {
		return machine.Begun{}, false, err
	}
	b.def = def
	b.options = machine.StartOptions{Version: 1, Input: input, Vars: s.cfg.Vars, Budget: budget, Labels: labels, Actor: who.name, Traceparent: traceparent(c)}
	if !parent.IsNil() {
		return s.beginBelow(ctx, c, parent, named, b)
	}
	return s.begin(ctx, b)
}

// maxLive is how many sessions of a key of the role agent have not ended. Requests that come at the
// same moment may exceed it.
const maxLive = 100

var sessionName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// policy reads the policy of a session, whose lease has at most this length.
func (s *server) policy(o *object, lease time.Duration) *saga.SessionData {
	d := &saga.SessionData{Name: o.str("name"), Timeout: o.str("timeout"), Lease: o.str("lease")}
	if !sessionName.MatchString(d.Name) {
		o.bad("/name", "bad_name", "name is what sessions of this kind are called, such as support: a small letter, then up to 62 small letters, digits or dashes")
	}
	if !o.into("actions", &d.Actions, `a list of actions, such as ["refund", "book@3"]`) && len(o.wrong) == 0 || len(d.Actions) == 0 {
		o.bad("/actions", "missing_field", `name the actions that the agent may call: ["refund", "book@3"], or ["*"] for all`)
	}
	o.within("lease", saga.MinLease, lease)
	if d.Timeout != "" {
		if _, err := dsl.ParseDuration(d.Timeout); err != nil {
			o.bad("/timeout", "bad_duration", "timeout: %s", err)
		}
	}
	number := func(name string, into *int) {
		if o.into(name, into, "a whole number") && (*into < 1 || *into > saga.MaxSessionCalls) {
			o.bad("/"+name, "bad_number", "%s is from 1 to %d", name, saga.MaxSessionCalls)
		}
	}
	number("max_calls", &d.MaxCalls)
	number("max_parallel", &d.MaxParallel)
	number("max_asks", &d.MaxAsks)
	number("max_steps", &d.MaxSteps)
	if raw := o.raw("on_lost"); raw != nil && string(raw) != "null" {
		in := &object{}
		if err := in.parse(raw, "/on_lost", []string{"wait", "then"}); err != nil {
			o.wrong = append(o.wrong, asProblem(err).Errors...)
			return d
		}
		d.OnLost = &saga.OnLost{Wait: in.str("wait"), Then: saga.LostThen(in.str("then"))}
		if wait, err := dsl.ParseDuration(d.OnLost.Wait); d.OnLost.Wait != "" && (err != nil || wait < saga.MinLease) {
			in.bad("/wait", "bad_duration", "wait is a duration such as \"1h\", of at least %v", saga.MinLease)
		}
		if then := d.OnLost.Then; then != "" && then != saga.HoldSession && then != saga.AbortSession {
			in.bad("/then", "bad_field", "then is hold (the default: a person decides) or abort (the calls are undone)")
		}
		o.adopt(in, "/on_lost")
	}
	modelPolicy(o, d)
	d.Complete()
	return d
}

// Bounds of patterns.
const (
	maxIgnored     = 16
	maxIgnoredSize = 256
	maxModels      = 100
)

// isModelPattern reports whether a text is a model's name, or a pattern of names as path.Match has
// them.
func isModelPattern(text string) bool {
	_, err := path.Match(text, "")
	return err == nil && text != ""
}

// modelPolicy reads the parts of a session's policy that concern models.
func modelPolicy(o *object, d *saga.SessionData) {
	if o.into("models", &d.Models, `a list of models or patterns, such as ["gpt-5-*"]`) {
		for i, pattern := range d.Models {
			if !isModelPattern(pattern) || len(d.Models) > maxModels {
				o.bad(fmt.Sprintf("/models/%d", i), "bad_pattern", "models has at most %d names of models, or patterns such as gpt-5-*", maxModels)
				break
			}
		}
	}
	if o.into("ignore", &d.Ignore, `a list of patterns, such as ["\\d{4}-\\d\\d-\\d\\d"]`) {
		for i, pattern := range d.Ignore {
			if _, err := regexp.Compile(pattern); err != nil || pattern == "" || len(pattern) > maxIgnoredSize || len(d.Ignore) > maxIgnored {
				o.bad(fmt.Sprintf("/ignore/%d", i), "bad_pattern", "ignore has at most %d patterns (RE2) of at most %d bytes", maxIgnored, maxIgnoredSize)
				break
			}
		}
	}
	d.OnDivergence, d.StreamHold, d.Keep = saga.OnDivergence(o.str("on_divergence")), saga.StreamHold(o.str("stream_hold")), saga.KeepContents(o.str("keep"))
	switch d.OnDivergence {
	case "", saga.DivergenceGuard, saga.DivergenceStop, saga.DivergenceIgnore:
	default:
		o.bad("/on_divergence", "bad_field", "on_divergence is guard (the default: calls that may repeat an effect wait for a person), stop (the request is refused) or ignore")
	}
	if d.StreamHold != "" && d.StreamHold != saga.HoldTools && d.StreamHold != saga.HoldAll {
		o.bad("/stream_hold", "bad_field", "stream_hold is tools (the default: tool calls wait until they are in the journal) or all")
	}
	if d.Keep != "" && d.Keep != saga.KeepFull && d.Keep != saga.KeepAnswers {
		o.bad("/keep", "bad_field", "keep is full (the default) or answers (prompts are not stored)")
	}
}

// everyAction stands for all actions that the caller may call when the session is opened.
const everyAction = "*"

// pinActions replaces each action of a policy by its version. Errors: not_for_agents,
// invalid_session.
func (s *server) pinActions(ctx context.Context, who caller, d *saga.SessionData) error {
	var wrong []saga.Finding
	if len(d.Actions) == 1 && d.Actions[0] == everyAction {
		all, err := s.callable(ctx, who)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			wrong = append(wrong, saga.Finding{Pointer: "/actions/0", Code: "unknown_action", Detail: "there is no action that the agent may call: publish one with the key `agents`, or allow the API key to call one"})
		}
		d.Actions = nil
		for i := range all {
			d.Actions = append(d.Actions, all[i].Action)
		}
	}
	seen := make(map[string]bool)
	for i, ref := range d.Actions {
		at := fmt.Sprintf("/actions/%d", i)
		name, text, versioned := strings.Cut(ref, "@")
		version := 0
		if g := who.binding.Agent; versioned {
			version = parseVersion(text)
		} else if g != nil {
			version = g.Version(name)
		}
		if versioned && version == 0 || !nameForm.MatchString(name) {
			wrong = append(wrong, saga.Finding{Pointer: at, Code: "bad_action", Detail: fmt.Sprintf("%.100q is not an action: write its name, or its name and version as in refund@3; [\"*\"] alone stands for all", ref)})
			continue
		}
		if seen[name] {
			wrong = append(wrong, saga.Finding{Pointer: at, Code: "duplicate_action", Detail: "action " + name + " is named twice: name one version of it"})
			continue
		}
		seen[name] = true
		a, err := s.cfg.Catalog.Action(ctx, name, version)
		switch {
		case errors.Is(err, journal.ErrNotFound):
			wrong = append(wrong, saga.Finding{Pointer: at, Code: "unknown_action", Detail: fmt.Sprintf("there is no action %.100s: GET /v1/actions lists them", ref)})
		case err != nil:
			return err
		case a.Agents == nil:
			return fail("not_for_agents", "action %s is not for agents: its author lets agents call it with the key `agents`", a.Name)
		default:
			d.Actions[i] = fmt.Sprintf("%s@%d", a.Name, a.Version)
			if err := who.mayCall(a); err != nil {
				return err
			}
		}
	}
	if len(wrong) > 0 {
		return fail("invalid_session", "fix the fields in `errors`; no session was opened").with(wrong...)
	}
	return nil
}

// getSession serves GET /v1/sessions/{id}, which has an ETag.
func (s *server) getSession(c echo.Context) error {
	if _, err := readQuery(c); err != nil {
		return err
	}
	l, err := s.readSession(c)
	if err != nil {
		return err
	}
	if l.unchanged(c) {
		return l.notModified(c)
	}
	return l.replySession(c, http.StatusOK)
}

// readSession returns the session in the path, for a request with its token or an API key. With an
// API key, the life has the number 0.
func (s *server) readSession(c echo.Context) (*life, error) {
	if strings.HasPrefix(bearer(c), TokenPrefix) {
		return s.lifeOf(c)
	}
	id, err := sagaID(c)
	if err != nil {
		return nil, err
	}
	l, err := s.session(c, id)
	if err != nil {
		return nil, err
	}
	return &life{live: l}, nil
}

// attachView is the response to an attach.
type attachView struct {
	Life       int       `json:"life"`
	Resumed    bool      `json:"resumed"` // there was an earlier life
	LeaseMS    int64     `json:"lease_ms"`
	LeaseUntil saga.Time `json:"lease_until"`
	LLM        baseURLs  `json:"llm"` // the base URLs for the clients of models; their API key is the token
	MCP        string    `json:"mcp"` // the URL of the tools, for clients of the Model Context Protocol
}

var secretForm = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// attach serves POST /v1/sessions/{id}/attach.
func (s *server) attach(c echo.Context) error {
	o, err := s.readObject(c, "holder", "secret", "previous")
	if err != nil {
		return err
	}
	holder, secret, previous := o.str("holder"), o.str("secret"), o.str("previous")
	if !secretForm.MatchString(secret) {
		o.bad("/secret", "bad_secret", "the process makes the secret itself: 32 random bytes in base64url, which are 43 characters")
	}
	if previous != "" && !secretForm.MatchString(previous) {
		o.bad("/previous", "bad_secret", "previous is the secret of the process that this one replaces; leave it out if it is not known")
	}
	if utf8.RuneCountInString(holder) > maxWorker || hasControl(holder) {
		o.bad("/holder", "bad_holder", "holder is a name of the process of at most %d characters", maxWorker)
	}
	if err := o.err(); err != nil {
		return err
	}
	id, err := sagaID(c)
	if err != nil {
		return err
	}
	l, err := s.session(c, id)
	if err != nil {
		return err
	}
	if err := callerOf(c).mayAttach(id, l.def.Session.Data, l.m.Starter()); err != nil {
		return err
	}
	ctx := c.Request().Context()
	cmd := saga.Command{Do: saga.Attach{Holder: holder, Token: hashFor(ctx, secret), Previous: hashFor(ctx, previous)}, Actor: callerOf(c).name}
	if _, err := l.ask(c, cmd); err != nil {
		return err
	}
	task := l.m.LeaseTask()
	lease, err := s.cfg.Store.Heartbeat(ctx, task.ID, task.Claimant.Token)
	if errors.Is(err, journal.ErrTaskLost) {
		return fail("unavailable", "the lease has ended since: attach again").of(id).after(1)
	} else if err != nil {
		return err
	}
	number, _, _ := l.m.Life()
	return reply(c, http.StatusOK, attachView{Life: number, Resumed: number > 1, LeaseMS: task.Lease.Milliseconds(), LeaseUntil: saga.Time{Time: lease.Until}, LLM: baseURLsOf(c), MCP: origin(c) + mcpPath})
}

// beatView is the response to a heartbeat.
type beatView struct {
	LeaseUntil saga.Time `json:"lease_until"`
	Stop       bool      `json:"stop"` // the session is over for its agent: it is committed, aborted, or has ended
}

// beat serves POST /v1/sessions/{id}/heartbeat.
func (s *server) beat(c echo.Context) error {
	if _, err := s.readObject(c); err != nil {
		return err
	}
	l, err := s.lifeOf(c)
	if err != nil {
		return err
	}
	if l.m.Closed() { // the lease is not renewed, so that an abort does not wait longer for open steps
		return reply(c, http.StatusOK, beatView{LeaseUntil: saga.Time{Time: s.cfg.Engine.Now()}, Stop: true})
	}
	task := l.m.LeaseTask()
	lease, err := s.cfg.Store.Heartbeat(c.Request().Context(), task.ID, task.Claimant.Token)
	switch {
	case errors.Is(err, journal.ErrTaskLost):
		return leaseEnded(l.id)
	case err != nil:
		return err
	}
	return reply(c, http.StatusOK, beatView{LeaseUntil: saga.Time{Time: lease.Until}})
}

// detach serves POST /v1/sessions/{id}/detach.
func (s *server) detach(c echo.Context) error {
	if _, err := s.readObject(c); err != nil {
		return err
	}
	l, err := s.lifeOf(c)
	if err != nil {
		return err
	}
	task := l.m.LeaseTask()
	m, err := s.messageOf(l.id, saga.Command{Do: saga.EndTask{Way: task.Way, Attempt: task.Attempt, Result: saga.TaskResult{Outcome: saga.TaskCompleted}}, Actor: agentName(l.def.Session.Data)})
	if err != nil {
		return err
	}
	err = s.cfg.Store.EndTask(c.Request().Context(), task.ID, task.Claimant.Token, "detach", m)
	if err != nil && !errors.Is(err, journal.ErrTaskLost) {
		return err
	}
	// Another process may attach once the session knows that this one is gone.
	if _, err := l.await(c.Request().Context(), s.cfg.Limits.Command, func() bool { return !l.m.HoldsLease() || l.m.LeaseID() != task.ID }); err != nil {
		return err
	}
	return reply(c, http.StatusOK, beatView{LeaseUntil: saga.Time{Time: s.cfg.Engine.Now()}, Stop: true})
}

// commit serves POST /v1/sessions/{id}/commit.
func (s *server) commit(c echo.Context) error {
	o, err := s.readObject(c, "output")
	if err != nil {
		return err
	}
	l, err := s.lifeOf(c)
	if err != nil {
		return err
	}
	output := o.raw("output")
	if len(output) > maxOutput {
		return fail("body_too_large", "an output has at most %d bytes: store it elsewhere, and return a reference", maxOutput)
	}
	if _, err := l.ask(c, saga.Command{Do: saga.CommitSession{Life: l.number, Output: output}}); err != nil {
		return err
	}
	if _, err := l.await(c.Request().Context(), s.cfg.Limits.Command, l.ended); err != nil {
		return err
	}
	return l.replySession(c, http.StatusOK)
}

// abort serves POST /v1/sessions/{id}/abort.
func (s *server) abort(c echo.Context) error {
	o, err := s.readObject(c, "reason")
	if err != nil {
		return err
	}
	cmd := saga.Command{Reason: o.reason(false)}
	if err := o.incomplete(); err != nil {
		return err
	}
	l, err := s.readSession(c)
	if err != nil {
		return err
	}
	cmd.Do = saga.Cancel{Life: l.number}
	if l.number == 0 {
		if err := callerOf(c).mayCommand(l.m.Starter(), ""); err != nil {
			return err
		}
	}
	if l.m.Reason() != nil {
		return l.replySession(c, http.StatusAccepted) // it was aborted before
	}
	if l.m.Committed() {
		return fail("committed", "a committed session is not aborted. It can be undone later, as long as the `undo_within` of each of its steps lasts: POST /v1/sagas/{id}/compensate").of(l.id)
	}
	done, err := l.execute(c, cmd)
	if err != nil {
		return err
	}
	if !done {
		return unreadYet("cancel").of(l.id)
	}
	return l.replySession(c, http.StatusAccepted)
}

// lostAfter is how long a command may take that this node has taken. Then the node may have lost
// the session, and the command is sent as a message.
const lostAfter = 2 * time.Second

// ask sends a command to the session until its journal answers, and returns the path of the call
// that answers it. A refusal is returned as a problem. The session must have been read just before.
func (l *live) ask(c echo.Context, cmd saga.Command) (path string, err error) {
	if path, ok, err := l.askReplay(cmd); ok {
		return path, err
	}
	ctx := c.Request().Context()
	var message uuid.UUID
	var refusal *machine.Refusal
	pending, sent := false, false
	answered := func() bool {
		path, pending, refusal = l.m.Ask(message, cmd)
		return refusal != nil || !pending || sent && l.m.Applied(message)
	}
	answered()
	for until := time.Now().Add(l.s.cfg.Limits.Command); ; {
		switch {
		case refusal != nil:
			return "", asProblem(refusal).of(l.id).at(cmd.Path)
		case !pending:
			return path, nil
		case time.Now().After(until), sent && l.s.stopping():
			return "", fail("unavailable", "it is not certain that anything was done: send the same request again").of(l.id).after(1)
		}
		// Not sent yet, or refused in a state of the session that has passed.
		m, err := l.s.messageOf(l.id, cmd)
		if err != nil {
			return "", err
		}
		message, sent = m.ID, true
		if l.s.cfg.Engine.Ask(ctx, l.id, message, cmd) {
			done, err := l.awaitShared(c, min(lostAfter, time.Until(until)), answered)
			if err != nil {
				return "", err
			}
			if done {
				continue
			}
		}
		if err := l.storeContents(ctx, l.id, cmd); err != nil {
			return "", err
		}
		if err := l.s.cfg.Engine.Send(ctx, m); err != nil {
			return "", sagaError(l.id, err)
		}
		if _, err := l.awaitShared(c, time.Until(until), answered); err != nil {
			return "", err
		}
	}
}

// mayOpen returns a problem if a key of the role agent does not allow a session with this policy.
// It sets the budget that the key allows if the request names none.
func (w caller) mayOpen(d *saga.SessionData, budget **saga.BudgetData) error {
	g := w.binding.Agent
	if g == nil {
		return nil
	}
	if !g.Names(d.Name) {
		return fail("forbidden", "the key %q opens sessions named %s, not %.63q", w.name, strings.Join(g.Sessions, ", "), d.Name)
	}
	if len(g.Models) > 0 && len(d.Models) == 0 {
		d.Models = g.Models
	}
	for i, pattern := range d.Models {
		if !g.Asks(pattern) {
			return fail("forbidden", "the key %q allows the models %s, not %.100q: see models[%d]", w.name, strings.Join(g.Models, ", "), pattern, i)
		}
	}
	if g.Budget == "" {
		return nil
	}
	most, err := grantBudget(g.Budget)
	if err != nil {
		return fmt.Errorf("the budget of key %s: %w", w.name, err)
	}
	if *budget == nil {
		*budget = &saga.BudgetData{}
	}
	b := *budget
	if b.Amount == "" {
		b.Amount, b.Currency = most.Decimal(), most.Currency
		return nil
	}
	if b.Currency == "" {
		b.Currency = most.Currency
	}
	amount, err := retry.Amount(b.Amount, most.Currency)
	if err != nil || b.Currency != "" && b.Currency != most.Currency && most.Currency != "" || amount.Cmp(most) > 0 {
		return fail("forbidden", "the key %q allows a session a budget of at most %s", w.name, g.Budget)
	}
	return nil
}

// mayCall returns a problem if a key of the role agent does not allow the action.
func (w caller) mayCall(a *saga.Action) error {
	g := w.binding.Agent
	if g == nil || g.Calls(a.Name, a.Version) {
		return nil
	}
	if w.isSubject() {
		return fail("insufficient_scope", "the access token does not allow the action %s: get one with the scope %s, too", a.Name, oauth.Scope(a.Name))
	}
	return fail("forbidden", "the key %q allows the actions %s, not %s@%d", w.name, strings.Join(g.Actions, ", "), a.Name, a.Version)
}

// mayAttach returns a problem if a key of the role agent, or an access token, may not attach to a
// session. A subject does not learn that there is a session of others.
func (w caller) mayAttach(id uuid.UUID, d *saga.SessionData, starter string) error {
	if w.isSubject() {
		if starter != w.name {
			return noSaga(id)
		}
		return w.mayUse(d)
	}
	if g := w.binding.Agent; g != nil && !g.Names(d.Name) || w.role == "agent" && starter != w.name {
		return fail("forbidden", "the key %q attaches to sessions that it has opened: this one was opened by %q", w.name, starter)
	}
	return nil
}
