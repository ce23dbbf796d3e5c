package machine

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/retry"
	"recourse/saga"
)

// session is the part of a machine that only a session has. Its steps come by record: each `called`
// adds one, as a group of its own, so calls run in parallel. Everything after that is as for a step
// of a definition: intents, outcomes, doubt, costs, and the undo in the reverse order of the first
// intents.
type session struct {
	policy *saga.Session

	life   int             // of the last `attached`; 0: none yet
	leases int             // how many `attached` there are
	live   bool            // the last life goes on
	token  string          // of the last life
	ended  map[string]bool // tokens of the lives that another one has followed
	since  time.Time       // since when no life goes on
	from   time.Time       // from when the wait for a process counts
	lost   bool            // no process came back in time

	steps      []*node            // in the order of their `called`
	calls      []*node            // those that call actions
	owns       []*node            // those that the agent does itself
	active     []*group           // steps that have not ended
	identities map[string][]*node // calls and asks by identity, the oldest first
	counts     map[string]int     // calls by action
	undos      []*node            // calls that are being undone while the session continues
	asks       asks
	diverged   *saga.Divergence // the last one; nil: none
	committed  bool
	output     json.RawMessage
	waitForIt  []Decision // the WakeAt decision for a process, once it was asked for
}

func newSession(policy *saga.Session) *session {
	return &session{policy: policy, ended: make(map[string]bool), identities: make(map[string][]*node), counts: make(map[string]int)}
}

// walk visits the calls that may continue, or that wait.
func (s *session) walk(visit func(*node) bool) bool {
	for _, g := range s.active {
		if !g.walk(visit) {
			return false
		}
	}
	for _, n := range s.undos {
		if !visit(n) {
			return false
		}
	}
	return true
}

func (s *session) drop(g *group) {
	s.active = slices.DeleteFunc(s.active, func(o *group) bool { return o == g })
}

// undone removes a call whose undo has ended.
func (s *session) undone(n *node) {
	s.undos = slices.DeleteFunc(s.undos, func(o *node) bool { return o == n })
}

// undoInFlight reports whether the undo of a call awaits an answer.
func (s *session) undoInFlight() bool {
	return s != nil && slices.ContainsFunc(s.undos, func(n *node) bool { return n.compensation.state == inFlight })
}

// decideSession decides what happens if no process comes back, the undos and the calls in progress,
// as many calls as may run at once.
func (m *Machine) decideSession(s *session) (ds []Decision) {
	if !s.live {
		ds = append(ds, m.decideLost(s)...)
	}
	for _, n := range s.undos {
		if ds = append(ds, m.decideCompensation(n)...); decides(ds) {
			return ds
		}
	}
	room := s.policy.MaxParallel
	for _, g := range s.active {
		if g.cur.forward.state == inFlight && g.cur.isCall() {
			room--
		}
	}
	for _, g := range s.active {
		if room <= 0 && g.cur.forward.state == ready && !g.cur.approval && g.cur.isCall() {
			continue // it would send
		}
		if ds = append(ds, m.decideGroup(g)...); decides(ds) {
			break
		}
	}
	return ds
}

// decideLost waits for a process of the agent and then, if the policy says so, for a person.
func (m *Machine) decideLost(s *session) []Decision {
	if !s.lost {
		if s.waitForIt == nil {
			s.waitForIt = wake("", "", saga.TimerLost, s.from.Add(s.policy.LostWait))
		}
		return s.waitForIt
	}
	seq := strconv.FormatInt(m.seq, 10)
	return []Decision{Escalate{saga.Entry{
		ID:   uuid.NewV5(m.id, "inbox:session:"+s.since.UTC().Format(journal.TimeFormat)),
		Kind: saga.InboxSession, Since: s.since, ETag: seq,
		Title:   "No process of the agent has come back to session " + s.policy.Name,
		Detail:  "Start the agent again, which continues the session. Or resume the session to wait for another " + saga.Duration(s.policy.LostWait) + ", or abort it, which undoes its calls.",
		Actions: []string{"resume", "abort"},
	}}}
}

// status returns the status of a session that does forward work. calls is the status by its
// calls; succeeded: none is in progress.
func (s *session) status(calls saga.Status) saga.Status {
	switch {
	case calls == saga.Stuck || s.lost:
		return saga.Stuck
	case calls != saga.Succeeded:
		return calls
	case s.live:
		return saga.Running
	}
	return saga.Waiting
}

// Live reports whether the saga is a session with a life that goes on.
func (m *Machine) Live() bool { return m.session != nil && m.session.live && m.open() == nil }

// HoldsLease reports whether the session needs its process: it goes on, or it is being aborted and
// the process may still finish an own step.
func (m *Machine) HoldsLease() bool { return m.Live() || m.finishing() }

// leaseTimeout is the longest time that a life may last.
const leaseTimeout = 10 * 365 * 24 * time.Hour

// LeaseTask returns the task whose lease is that of the session's last life.
func (m *Machine) LeaseTask() journal.Task {
	s := m.session
	token := sha256.Sum256([]byte(s.token)) // a store's tokens have 16 bytes, which are as hard to guess
	return journal.Task{
		ID: m.LeaseID(), Saga: m.id, Way: journal.Do, Attempt: s.leases, Type: "agent:" + s.policy.Name, Input: json.RawMessage("null"),
		Lease: s.policy.Lease, Timeout: leaseTimeout,
		Claimant: &journal.Claimant{Worker: "agent", Token: uuid.UUID(token[:uuid.Size])},
	}
}

// LeaseID returns the id of that task; Nil if the session has had no life.
func (m *Machine) LeaseID() uuid.UUID {
	if m.session == nil || m.session.leases == 0 {
		return uuid.Nil
	}
	return TaskID(m.id, "", journal.Do, m.session.leases)
}

// unwantedLeases lists the tasks of lives that another one has followed, and that of the last life
// if the session needs no process any longer.
func (m *Machine) unwantedLeases() (list []uuid.UUID) {
	if m.session == nil {
		return nil
	}
	last := m.session.leases
	if m.HoldsLease() {
		last--
	}
	for n := max(last-1, 1); n <= last; n++ { // earlier ones were withdrawn before
		list = append(list, TaskID(m.id, "", journal.Do, n))
	}
	return list
}

// EndLife returns the draft of the record that ends a life: its lease has ended, or its process has
// detached. ok is false if that lease is not the last life's, or that life has ended.
func (m *Machine) EndLife(lease int, how string, at time.Time) (_ Draft, ok bool) {
	if !m.HoldsLease() || lease != m.session.leases {
		return Draft{}, false
	}
	timer := saga.TimerLease
	if how != string(journal.TaskExpired) {
		timer = saga.TimerDetach
	}
	due := saga.Time{Time: at.UTC().Truncate(time.Millisecond)}
	return Draft{Kind: journal.Woke, Data: saga.WokeData{Timer: timer, Due: due, Latest: m.recorded(true)}}, true
}

// open refuses what only a session can do that does forward work.
func (m *Machine) open() *Refusal {
	switch {
	case m.session == nil:
		return refusal("no_session", "the saga is not a session", "")
	case m.finished != nil:
		return refusal("terminal", "the session has ended as "+string(m.finished.Status), "open another session")
	case m.reason != nil || m.undoing:
		return refusal("aborted", "the session is being undone", "read its summary, and open another session")
	case m.session.committed:
		return refusal("committed", "the session is committed", "open another session")
	}
	return nil
}

// lives refuses what a life asks for that has ended.
func (m *Machine) lives(life int) *Refusal {
	if err := m.open(); err != nil {
		return err
	}
	switch s := m.session; {
	case life != s.life || life == 0:
		return refusal("superseded", fmt.Sprintf("life %d of the session has ended", life), "another process of the agent has attached to the session: stop this one")
	case !s.live:
		return refusal("superseded", fmt.Sprintf("the lease of life %d has ended", life), "attach to the session again")
	}
	return nil
}

// validateLife refuses what the process of a life asks for that has ended; 0: no process asks.
func (m *Machine) validateLife(life int) *Refusal {
	if life == 0 {
		return nil
	}
	return m.lives(life)
}

// Attach returns the draft of the record that begins the session's next life. Calls of earlier
// lives are refused from then on. It returns an empty draft if the process has its life already.
// Errors: *Refusal.
func (m *Machine) Attach(message uuid.UUID, c saga.Attach) (Draft, *Refusal) {
	if err := m.open(); err != nil {
		return Draft{}, err
	}
	s := m.session
	life := s.life + 1
	switch {
	case c.Token == "":
		return Draft{}, refusal("bad_secret", "a process that attaches has a secret", "")
	case s.ended[c.Token]:
		return Draft{}, refusal("superseded", "another process of the agent has followed the one with this secret", "stop this one; a new process makes a new secret")
	case c.Token == s.token && s.live:
		return Draft{}, nil
	case c.Token == s.token:
		life = s.life
	case s.live && c.Previous != s.token:
		return Draft{}, refusal("session_held", fmt.Sprintf("life %d of the session goes on", s.life), "wait until its lease ends, or send the secret of its process as `previous`")
	}
	return Draft{Kind: journal.Attached, Data: saga.AttachedData{Message: message.String(), Life: life, Holder: c.Holder, Token: c.Token}}, nil
}

// Identity returns the identity of a call, and completes its input with the defaults of the
// action's schema.
func (m *Machine) Identity(c *saga.CallAction) (string, *Refusal) {
	if m.session == nil {
		return "", m.open()
	}
	action := m.session.policy.Actions[c.Action]
	switch {
	case action == nil:
		return "", refusal("unknown_action", "the session has no action "+strconv.Quote(c.Action), "its actions are "+m.session.names())
	case action.Agents == nil:
		return "", notForAgents(c.Action)
	}
	if c.Input == nil {
		c.Input = json.RawMessage("null")
	}
	var wrong *Refusal
	if c.Input, wrong = callInput(action.Step, c.Input); wrong != nil {
		return "", wrong
	}
	if reads(action.Step) && c.ID == "" {
		identity, err := saga.ReadIdentity(c.Action, c.Input)
		return identity, badInput(err)
	}
	var once json.RawMessage
	if action.Once != nil && c.ID == "" {
		var err error
		if once, err = action.Once.JSON(callEnv{input: c.Input}); err != nil {
			return "", badInput(fmt.Errorf("`once` of action %s could not be evaluated: %w", c.Action, err))
		}
	}
	identity, err := saga.CallIdentity(c.Action, c.ID, once, c.Input, c.Again)
	return identity, badInput(err)
}

func notForAgents(action string) *Refusal {
	return refusal("not_for_agents", "action "+action+" is not for agents", "its author lets agents call it with the key `agents`")
}

// names lists the session's actions.
func (s *session) names() string { return list(slices.Sorted(maps.Keys(s.policy.Actions))) }

// badInput returns the refusal of an input; nil for no error.
func badInput(err error) *Refusal {
	if err == nil {
		return nil
	}
	r := refusal("bad_input", "the input cannot be used", err.Error())
	r.Invalid, r.Findings = true, []saga.Finding{{Pointer: "/input", Code: "bad_input", Detail: err.Error()}}
	return r
}

// callEnv has the values that the policy of an action reads.
type callEnv struct {
	input   json.RawMessage
	session map[string]any // nil: it is not read
}

// Root implements expr.Env.
func (e callEnv) Root(name string) (any, bool) {
	switch {
	case name == saga.ActionInput:
		return raw(e.input), true
	case name == "session" && e.session != nil:
		return e.session, true
	}
	return nil, false
}

// reads reports whether the action of a step has no effect.
func reads(step *saga.Step) bool {
	call, ok := step.Body.(saga.Call)
	return ok && call.ReadOnly()
}

// Call returns the path of the step that answers a call, and the draft of the record that adds the
// step; nil if the step exists already. A call finds the step of the same identity that an earlier
// life, or an earlier call of this life, has added: the first call the first step, and so on. After
// the last one, a new step is added only if the last one certainly had no effect, or was undone, or
// only reads. The refusal's code says what the agent can do.
func (m *Machine) Call(message uuid.UUID, c saga.CallAction) (path string, _ *Draft, _ *Refusal) {
	if err := m.lives(c.Life); err != nil {
		return "", nil, err
	}
	identity, err := m.Identity(&c)
	if err != nil {
		return "", nil, err
	}
	s := m.session
	same := s.identities[identity]
	if len(same) > 0 {
		if err := same[0].differs(c, s.policy.Actions[c.Action].Once != nil); err != nil {
			return "", nil, err
		}
	}
	switch {
	case c.Before < len(same):
		return same[c.Before].path, nil, nil
	case len(same) > 0 && !same[len(same)-1].repeatable():
		return same[len(same)-1].path, nil, nil
	case len(s.calls) >= s.policy.MaxCalls:
		return "", nil, refusal("limit", fmt.Sprintf("the session has made its %d calls", s.policy.MaxCalls), "commit or abort the session, or open one with a higher max_calls")
	}
	approve, err := m.admit(c, nil)
	if err == nil {
		err = m.forked.noStub(s.policy.Actions[c.Action].Step, c.Action, identity)
	}
	if err != nil {
		return "", nil, err
	}
	path = s.path(c.Action)
	return path, &Draft{Kind: journal.Called, Path: path, Way: journal.Do,
		Data: saga.CalledData{Message: message.String(), Life: c.Life, What: saga.ActionCall, Action: c.Action, Identity: identity, N: len(same), Input: c.Input, Approve: approve, Resembles: m.mayRepeat(c)}}, nil
}

// admit checks a new call by the policy of its action, and reports whether a person has to approve
// it. The call may be the one that undoes an own step: then an earlier one for this step does not
// count.
func (m *Machine) admit(c saga.CallAction, undoes *node) (approve bool, _ *Refusal) {
	s := m.session
	action := s.policy.Actions[c.Action]
	env := callEnv{input: c.Input, session: saga.SessionRoot(len(s.calls), m.account.Spent.Add(m.account.Reserved))}
	for i := range action.Agents.Limits {
		if err := s.within(c.Action, &action.Agents.Limits[i], env, undoes); err != nil {
			return false, err
		}
	}
	if action.Agents.Approve || action.Agents.ApproveWhen == nil {
		return action.Agents.Approve, nil
	}
	yes, err := action.Agents.ApproveWhen.Bool(env)
	if err != nil {
		return false, badInput(fmt.Errorf("`approve_when` of action %s could not be evaluated: %w", c.Action, err))
	}
	return yes, nil
}

// within refuses a call that is over a limit. The calls of the action count that may have an
// effect, also those that were undone; and those that are to undo own steps, except the given one.
func (s *session) within(action string, l *saga.CallLimit, env callEnv, except *node) *Refusal {
	calls, sum := 1, retry.Money{}
	if l.Sum != nil {
		adds, err := l.Adds(env)
		if err != nil {
			return badInput(err)
		}
		sum = adds
	}
	for _, n := range s.steps {
		input, ok := n.calls(action)
		if !ok || n == except || n.noEffect() {
			continue
		}
		calls++
		if l.Sum != nil {
			// There is no error: the same limit has admitted the call.
			if adds, err := l.Adds(callEnv{input: input}); err == nil {
				sum = sum.Add(adds)
			}
		}
	}
	switch {
	case l.Sum == nil && calls > l.Calls:
		return refusal("limit", fmt.Sprintf("the session has reached the limit of %d for calls of action %s", l.Calls, action), "it holds until the session ends: finish without this call, or ask the person you work for; the author of the action sets the limit")
	case l.Sum != nil && sum.Cmp(l.Max) > 0:
		return refusal("limit", "the calls of action "+action+" would reach "+sum.Decimal()+", more than the limit of "+l.Max.Decimal(), "it holds until the session ends: finish without this call, or ask the person you work for; the author of the action sets the limit")
	}
	return nil
}

// calls reports whether the step calls an action, or would call it to undo an own step, and with
// which input.
func (n *node) calls(action string) (input json.RawMessage, ok bool) {
	switch {
	case n.step.Use != nil:
		return n.forward.actionInput, n.step.Use.Action == action
	case n.own != nil && n.own.undo != nil:
		return n.own.undo.With, n.step.Compensate.Use.Action == action
	}
	return nil, false
}

// isCall reports whether the step of a session is the call of an action.
func (n *node) isCall() bool { return n.own == nil && !n.model }

// noEffect reports whether the call has failed and certainly has no effect.
func (n *node) noEffect() bool {
	return n.forward.state.ended() && n.forward.state != done && !n.forward.doubt && n.compensation.state != done
}

// callInput returns the input of a call with the defaults of the action's schema.
func callInput(step *saga.Step, input json.RawMessage) (json.RawMessage, *Refusal) {
	if step.Use == nil || step.Use.Input == nil {
		return input, nil
	}
	filled, findings := applyTo(step.Use.Input, input)
	if len(findings) == 0 {
		return filled, nil
	}
	r := refusal("bad_input", "the input does not match the input of action "+step.Use.String(), findings[0].Pointer+": "+findings[0].Detail)
	r.Invalid, r.Findings = true, findings
	return nil, r
}

// differs refuses a call that has the identity of n although it asks for something else.
func (n *node) differs(c saga.CallAction, once bool) *Refusal {
	switch {
	case c.ID == "" && once && !saga.SameInput(n.forward.actionInput, c.Input):
		return refusal("already_done", "the call "+n.path+" of this action has the same `once` and another input: nothing was sent", "read that call; this one cannot be made in this session")
	case c.ID == "":
		return nil
	case n.step.Use.Action != c.Action:
		return refusal("id_reused", "the call "+n.path+" with this id is of another action", "choose another id for another call").at("/id", "id_reused")
	case !saga.SameInput(n.forward.actionInput, c.Input):
		return refusal("id_reused", "the call "+n.path+" with this id has another input", "choose another id for another call").at("/input", "id_reused")
	}
	return nil
}

// decideApproval lets a step wait until a person approves its request, or its event. Exactly that
// request is sent then, whatever its templates would give later.
func (m *Machine) decideApproval(n *node) []Decision {
	if body, ok := n.step.Body.(saga.Announce); ok {
		kind, data, to, err := body.Announce(m.env(n))
		if err != nil {
			return m.refuse(n, asFailure(n.step.Kind, err))
		}
		a := m.eventApproval(n, kind, data, to)
		return []Decision{Write{Record: Draft{Kind: journal.Intent, Path: n.path, Way: journal.Do, Data: saga.IntentData{Awaited: &saga.Awaited{Approval: a}}}}}
	}
	request, key, input, err := m.render(n, n.forward.generation, journal.Do)
	if err != nil {
		return m.refuse(n, asFailure("request", err))
	}
	d := saga.IntentData{Request: request, RequestHash: request.Hash()}
	if m.session == nil {
		d.Input = input
	}
	a := m.approvalOf(n, input, request, nil)
	d.Awaited = &saga.Awaited{Approval: a}
	return []Decision{Write{Record: Draft{Kind: journal.Intent, Path: n.path, Way: journal.Do, Key: key, Data: d}}}
}

// eventApproval describes the approval that a step waits for before its event is published.
func (m *Machine) eventApproval(n *node, kind string, data json.RawMessage, to []string) *saga.ApprovalData {
	return m.approvalOf(n, nil, nil, map[string]any{"type": kind, "data": saga.Visible(data), "to": to})
}

// repeatable reports whether the call has ended and certainly has no effect: it failed, or it was
// undone, or it only reads. Then the same call may be made once more. A call that an earlier one
// answers is like that one.
func (n *node) repeatable() bool {
	switch {
	case n.answerer() != n:
		return n.answerer().repeatable()
	case reads(n.step), n.compensation.state == done:
		return true
	case n.forward.failure != nil && n.forward.failure.Code == codeRejected:
		return false // a person has said no
	}
	return n.noEffect()
}

// path returns the path of an action's next call.
func (s *session) path(action string) string {
	return action + "[" + strconv.Itoa(s.counts[action]) + "]"
}

// Commit returns the draft of the record that ends the session's forward work.
func (m *Machine) Commit(message uuid.UUID, c saga.CommitSession) (Draft, *Refusal) {
	if err := m.lives(c.Life); err != nil {
		return Draft{}, err
	}
	if len(m.session.active)+len(m.session.undos) > 0 {
		return Draft{}, refusal("calls_open", "steps of the session have not ended", "wait for its calls, finish its own steps, or abort the session: "+list(m.session.paths()))
	}
	return Draft{Kind: journal.Committed, Data: saga.CommittedData{Message: message.String(), Output: c.Output}}, nil
}

// paths lists the calls that have not ended.
func (s *session) paths() []string {
	paths := make([]string, 0, len(s.active))
	for _, g := range s.active {
		paths = append(paths, g.cur.path)
	}
	for _, n := range s.undos {
		paths = append(paths, n.path)
	}
	return paths
}

func (m *Machine) validateUndoCall(path string) *Refusal {
	if err := m.open(); err != nil {
		return err
	}
	n := m.steps[path]
	nothing := func(why, help string) *Refusal { return refusal("nothing_to_undo", why, help) }
	switch {
	case n == nil:
		return nothing("the session has no call "+path+" that was sent", "")
	case n.answerer() != n:
		return nothing("a person has said that call "+path+" is the same as "+n.answerer().path, "undo that call")
	case n.stays():
		return nothing("call "+path+" belongs to session "+n.taken.by.String()+", of which this one is a fork", "undo it there")
	case n.stubbed:
		return nothing("call "+path+" has a stub for its outcome, so nothing was done", "")
	case n.forward.state != done:
		return nothing("call "+path+" has not succeeded", "a call in doubt is settled first; a call that failed has no effect")
	case n.compensation.state != ready || m.undoes(n):
		return nothing("call "+path+" is undone, or being undone", "")
	case !n.canUndo():
		return nothing("action "+n.step.Use.String()+" cannot be undone", "it has no `compensate` for calls that succeeded")
	}
	return nil
}

// canUndo reports whether the call can be undone once it has succeeded.
func (n *node) canUndo() bool {
	return n.step.Compensate != nil && n.step.Compensate.Applies(journal.Succeeded) && !n.stubbed && !n.stays()
}

func (m *Machine) applyUndoCall(path string) error {
	if err := m.validateUndoCall(path); err != nil {
		return fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	m.session.undos = append(m.session.undos, m.steps[path])
	return nil
}

func (m *Machine) applyAttached(r journal.Record) error {
	var d saga.AttachedData
	if err := take(m, r, &d); err != nil {
		return err
	}
	if err := m.open(); err != nil {
		return fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	s := m.session
	switch again := d.Token == s.token && !s.live; {
	case s.ended[d.Token], again && d.Life != s.life, !again && d.Life != s.life+1:
		return fmt.Errorf("%w: life %d", ErrImpossible, d.Life)
	case !again && s.token != "":
		s.ended[s.token] = true
	}
	if s.lost {
		m.inboxRevision++ // the entry leaves the inbox
	}
	m.applied[d.Message] = true
	s.life, s.token, s.live, s.lost, s.waitForIt = d.Life, d.Token, true, false, nil
	s.leases++
	return nil
}

// applyTimer applies a timer of the session. ok is false if it is not one.
func (s *session) applyTimer(m *Machine, d saga.WokeData, at time.Time) (ok bool) {
	switch timer := d.Timer; {
	case s == nil:
		return false
	case timer == saga.TimerLease, timer == saga.TimerDetach:
		s.live, s.since, s.from = false, at, counts(d.Latest, at)
	case timer == saga.TimerLost && s.policy.LostThen == saga.AbortSession:
		m.abortBy(&saga.Reason{Code: "lost", Title: "no process of the agent came back within " + saga.Duration(s.policy.LostWait), Step: m.currentPath()})
	case timer == saga.TimerLost:
		s.lost = true
		m.inboxRevision++
	default:
		return false
	}
	return true
}

// resume makes a session wait for a process once more.
func (s *session) resume(m *Machine, d saga.CommandData, at time.Time) {
	if s != nil && s.lost {
		s.lost, s.since, s.from, s.waitForIt = false, at, counts(d.Latest, at), nil
		m.inboxRevision++
	}
}

// applyCalled adds the step that the agent asks for.
func (m *Machine) applyCalled(r journal.Record) error {
	var d saga.CalledData
	if err := take(m, r, &d); err != nil {
		return err
	}
	if err := m.lives(d.Life); err != nil {
		return fmt.Errorf("%w: %w", ErrImpossible, err)
	}
	m.applied[d.Message] = true
	switch d.What {
	case saga.ActionCall:
		return m.applyCall(r, &d)
	case saga.OwnStep:
		return m.applyOwn(r.Path, &d)
	case saga.ModelAsk:
		return m.applyAsk(r.Path, &d)
	}
	return fmt.Errorf("%w: what %q", saga.ErrUnreadable, d.What)
}

// applyCall adds the call of an action.
func (m *Machine) applyCall(r journal.Record, d *saga.CalledData) error {
	s, path := m.session, r.Path
	action := s.policy.Actions[d.Action]
	same := s.identities[d.Identity]
	switch {
	case action == nil, path != s.path(d.Action), d.N != len(same):
		return fmt.Errorf("%w: call %d of %s in life %d", ErrImpossible, d.N, d.Action, d.Life)
	case len(same) > 0 && !same[len(same)-1].repeatable():
		return fmt.Errorf("%w: call %s may have had the effect", ErrImpossible, same[len(same)-1].path)
	}
	step := *action.Step
	step.ID = path
	n := m.addStep(&step)
	n.in.index = len(s.calls)
	n.forward.actionInput, n.approval, n.life = d.Input, d.Approve || n.approval, d.Life
	if m.forked != nil {
		n.identity = d.Identity
	}
	s.counts[d.Action]++
	s.calls = append(s.calls, n)
	s.identities[d.Identity] = append(same, n)
	return m.applyResembles(n, d, r)
}

// addStep adds a step to the session, as a group of its own. If the step fails, that is an answer
// to the agent, and fails nothing else.
func (m *Machine) addStep(step *saga.Step) *node {
	step.Continue = true
	g := &group{steps: []*saga.Step{step}, call: m.session}
	m.enter(g)
	m.session.active = append(m.session.active, g)
	m.session.steps = append(m.session.steps, g.cur)
	return g.cur
}

func (m *Machine) applyCommitted(r journal.Record) error {
	var d saga.CommittedData
	if err := take(m, r, &d); err != nil {
		return err
	}
	if m.open() != nil || len(m.session.active)+len(m.session.undos) > 0 {
		return fmt.Errorf("%w: committed while calls are in progress, or after the end", ErrImpossible)
	}
	m.applied[d.Message] = true
	m.session.committed, m.session.output = true, d.Output
	return nil
}
