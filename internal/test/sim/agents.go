package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/uuid/v5"

	"recourse/engine"
	"recourse/journal"
	"recourse/saga"
	"recourse/saga/dsl"
	"recourse/saga/kinds"
	"recourse/saga/kinds/ask"
	"recourse/saga/kinds/ask/relay"
	"recourse/saga/machine"
)

// agentActions are the actions that agents may call.
const agentActions = `action: refund
agents: {limits: [{sum: input.amount, max: 4}, {calls: 3}]}
http: "POST http://w/do/refund"
body: {order: "${input.order}", amount: "${input.amount}"}
cost: 0.02 USD
timeout: 1s
retry: {initial: 100ms, attempts: 4}
compensate: {http: "DELETE http://w/do/refund/${output.id}", timeout: 1s, undo_within: 1m, retry: {initial: 100ms}}
---
action: book
agents: {limits: [{calls: 2}]}
input: {order: string}
http: "POST http://w/do/book"
body: {order: "${input.order}"}
timeout: 1s
retry: {initial: 100ms, attempts: 2}
compensate: {http: "DELETE http://w/do/book?key=${key}", timeout: 1s, undo_within: 8s, retry: {initial: 100ms}}
---
action: pay
agents: {approve_when: input.order == "1" || session.calls > 7}
input: {order: string}
http: "POST http://w/do/pay"
body: {order: "${input.order}"}
timeout: 1s
in_doubt: ask
retry: {initial: 100ms, attempts: 3}
compensate: {http: "DELETE http://w/do/pay/${output.id}", timeout: 1s, undo_within: 1m, retry: {initial: 100ms}}
---
action: charge
agents: auto
input: {order: string}
http: "POST http://w/do/charge"
body: {order: "${input.order}"}
timeout: 1s
in_doubt:
  verify: {http: "GET http://w/status/charge?key=${key}", found: "result.body.count > 0", output: "${result.body}", after: 1s, timeout: 1s}
  otherwise: ask
retry: {initial: 100ms, attempts: 3}
compensate: {http: "DELETE http://w/do/charge/${output.id}", timeout: 1s, undo_within: 1m, retry: {initial: 100ms}}
---
action: mail
agents: auto
input: {order: string}
http: "POST http://w/do/mail"
body: {order: "${input.order}"}
timeout: 1s
in_doubt: fail
---
action: drop
agents: auto
input: {key: string}
http: "DELETE http://w/do/own?key=${input.key}"
timeout: 1s
retry: {initial: 100ms}
---
action: look
agents: auto
input: {order: string}
http: "GET http://w/look"
timeout: 1s
retry: {initial: 100ms}
`

// held returns a policy with all actions.
func held(name string, on saga.OnDivergence) saga.SessionData {
	return saga.SessionData{Name: name, Actions: []string{"refund@1", "book@1", "pay@1", "charge@1", "mail@1", "look@1", "drop@1"}, MaxCalls: 12, MaxParallel: 2, Lease: "5s", OnLost: &saga.OnLost{Wait: "15s"}, OnDivergence: on}
}

// raised returns a policy whose budget a person raises.
func raised(d saga.SessionData) saga.SessionData {
	d.OnExceed = saga.ExceedAsk
	return d
}

// agentPolicies are the policies of the sessions.
var agentPolicies = []saga.SessionData{
	held("held", ""), held("guarded", saga.DivergenceGuard), held("stopped", saga.DivergenceStop), held("careless", saga.DivergenceIgnore), raised(held("generous", saga.DivergenceGuard)),
	{Name: "aborted", Actions: []string{"refund@1", "book@1", "look@1", "drop@1"}, MaxCalls: 5, MaxParallel: 1, MaxAsks: 4, MaxSteps: 1, Lease: "5s", OnLost: &saga.OnLost{Wait: "6s", Then: saga.AbortSession}, Timeout: "90s"},
}

// agentDefinitions are the definitions of these policies, by name.
var agentDefinitions = compileSessions()

func compileSessions() map[string]*saga.Definition {
	o := dsl.Options{Kinds: kinds.With(kinds.Options{LLM: models}), Actions: actionsOf(agentActions)}
	defs := make(map[string]*saga.Definition)
	for i := range agentPolicies {
		def, errs := dsl.Session(&agentPolicies[i], o)
		if errs != nil {
			panic(errs)
		}
		def.Session.Ask = impatient(def.Session.Ask)
		defs[def.Name] = def
	}
	return defs
}

// actionsOf compiles actions, each in its first version.
func actionsOf(sources string) func(string, int) (*saga.Action, error) {
	list := make(map[string]*saga.Action)
	for src := range strings.SplitSeq(sources, "---\n") {
		a, errs := dsl.ParseAction("sim", []byte(src), dsl.Options{Kinds: kinds.All()})
		if errs != nil {
			panic(errs)
		}
		a.Version = 1
		list[a.Name] = a
	}
	return func(name string, _ int) (*saga.Action, error) {
		if a := list[name]; a != nil {
			return a, nil
		}
		return nil, fmt.Errorf("there is no action %s", name)
	}
}

// agent is a program that opens a session, and whose process dies and begins again. It always makes
// the same calls, so that its processes show whether a call is made twice.
type agent struct {
	s       *sim
	session uuid.UUID
	policy  *saga.SessionData
	plan    []task
	abort   bool // it aborts the session in the end
	forgets bool // its questions are without the conversation before them
	process *agentProcess
	born    int
	given   map[string]string // the path that answered a call, by its place in the plan
	first   map[string]string // the path that answered the first call of a life, by identity
	m       *machine.Machine  // as far as the agent has read the journal
	index   *ask.Index        // likewise
	heard   map[string]string // the hash of the answer to the k-th time that a question was asked
	rivals  rivals
}

// task is a part of an agent's program: calls that it makes at the same time, the undo of one, a
// step that the agent does itself, or a session that it opens for another agent.
type task struct {
	calls []saga.CallAction
	undo  bool // of the first call of the task before
	own   *ownTask
	model *modelTask
	sub   *agent // nil: none. It belongs to this agent's session
}

// agentProcess is one process of an agent. It may live on, without knowing, when another one has
// followed it.
type agentProcess struct {
	a       *agent
	number  int
	secret  string
	dead    bool
	mute    bool      // its heartbeats do not arrive
	asleep  time.Time // it is suspended until then
	renewed time.Time // when its lease was renewed
	life    int
	asked   map[string]int           // calls that it has made, by identity
	used    map[string]ask.Use       // questions that it has asked, by path
	heard   map[string]int           // answers that it has heard, by identity
	got     map[string]bool          // paths of the calls that it has asked for
	known   map[string]bool          // those of them that its server has not forgotten
	talk    []string                 // its conversation with the model
	streams map[string]*relay.Stream // the responses that it reads, by path
	ran     map[string]bool          // responses whose tool calls it has made, by path
	stamp   string                   // what it writes into its questions, and no other process does
	zeros   string                   // how it writes the orders in its calls: as the model has answered
}

// open opens a session, under a key, and starts the agent. Sometimes it belongs to a saga.
func (s *sim) open(i int, start Agent) {
	rng := rand.New(rand.NewPCG(start.Seed, 0xa6e47))
	a, key := s.newAgent(rng), fmt.Sprint("agent-", i)
	for range rng.IntN(2) {
		a.plan = append(a.plan, task{sub: s.newAgent(rng)})
	}
	if rng.IntN(3) == 0 {
		if parent := s.payer(rng); !parent.IsNil() {
			s.openBelow(parent, key, a, func(uuid.UUID) {})
			return
		}
	}
	def, data := a.started()
	s.ask(key, def, data, func(id uuid.UUID) { a.work(id) })
}

// newAgent returns an agent with a random program.
func (s *sim) newAgent(rng *rand.Rand) *agent {
	policy := &agentPolicies[rng.IntN(len(agentPolicies))]
	a := (&agent{s: s, policy: policy, abort: rng.IntN(5) == 0, forgets: rng.IntN(3) == 0}).again()
	asks := rng.IntN(5) < 2 // before each of its calls
	for i := range 1 + rng.IntN(4) {
		if asks {
			a.plan = append(a.plan, task{model: newModelTask(rng, policy)}, policyTask(rng, policy))
			continue
		}
		if rng.IntN(3) == 0 {
			a.plan = append(a.plan, task{own: newOwnTask(rng, i)})
			continue
		}
		if rng.IntN(3) == 0 {
			a.plan = append(a.plan, task{model: newModelTask(rng, policy)})
			continue
		}
		a.plan = append(a.plan, policyTask(rng, policy))
	}
	return a
}

// started returns the definition of the agent's session, and the data of its start.
func (a *agent) started() (*saga.Definition, saga.StartedData) {
	def := a.s.defs[saga.SessionPrefix+a.policy.Name]
	data, _, wrong := machine.Begin(def, machine.StartOptions{Version: 1, Input: json.RawMessage("null"), Actor: client.name})
	if wrong != nil {
		panic(fmt.Sprint(wrong))
	}
	switch {
	case a.policy.OnExceed == saga.ExceedAsk:
		data.Budget = &saga.BudgetData{Amount: "0.02", Currency: "USD"}
	case a.policy.Name != "aborted":
		data.Budget = &saga.BudgetData{Amount: "0.10", Currency: "USD"}
	}
	return def, data
}

// work starts the agent in its session, unless it works there already.
func (a *agent) work(session uuid.UUID) {
	if a.s.agents[session] != nil {
		return
	}
	a.session, a.m = session, machine.New(a.s.defs[saga.SessionPrefix+a.policy.Name], session)
	a.s.agents[session] = a
	a.begin("")
}

// again returns an agent with the same program, which has done nothing yet.
func (a *agent) again() *agent {
	return &agent{s: a.s, policy: a.policy, plan: a.plan, abort: a.abort, forgets: a.forgets,
		given: make(map[string]string), first: make(map[string]string), index: ask.NewIndex(), heard: make(map[string]string), rivals: newRivals()}
}

// policyTask returns a random part of a program.
func policyTask(rng *rand.Rand, policy *saga.SessionData) (t task) {
	if rng.IntN(6) == 0 {
		t.undo = true
		return t
	}
	for range 1 + rng.IntN(3) {
		name := policy.Actions[rng.IntN(len(policy.Actions)-1)] // the last one undoes own steps
		order := rng.IntN(3)
		c := saga.CallAction{Action: name[:len(name)-len("@1")], Input: json.RawMessage(fmt.Sprintf(`{"order":"%d"}`, order))}
		if c.Action == "refund" { // its input has no schema, which would write it in one form
			c.Input = json.RawMessage(fmt.Sprintf(`{"amount":%d,"order":"%d"}`, order+1, order))
		}
		switch rng.IntN(8) {
		case 0:
			c.ID = c.Action + "-" + string(c.Input)
		case 1:
			c.Again = 1
		}
		t.calls = append(t.calls, c)
	}
	return t
}

// begin starts a process of the agent. previous is the secret of the process before, if it is
// known.
func (a *agent) begin(previous string) {
	p := &agentProcess{a: a, number: a.born, asked: make(map[string]int), used: make(map[string]ask.Use), heard: make(map[string]int), got: make(map[string]bool), known: make(map[string]bool), streams: make(map[string]*relay.Stream), ran: make(map[string]bool)}
	a.born++
	if p.number > 0 && a.s.fault(PromptStamped, "agent") {
		p.stamp = " at " + strconv.Itoa(p.number)
	}
	p.secret = fmt.Sprintf("%x", sha256.Sum256([]byte(a.session.String()+strconv.Itoa(p.number))))
	a.process = p
	p.attach(previous)
}

// later schedules an event of the process.
func (p *agentProcess) later(d time.Duration, do func()) {
	p.a.s.after(d, func() {
		switch {
		case p.dead:
		case p.a.s.now.Before(p.asleep):
			p.later(p.asleep.Sub(p.a.s.now), do)
		default:
			do()
		}
	})
}

func hashOf(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return hex.EncodeToString(sum[:])
}

// attach attaches until it succeeds, or the session is over for this process.
func (p *agentProcess) attach(previous string) {
	from := p.a.s.now
	p.ask(saga.Command{Do: saga.Attach{Holder: "p" + strconv.Itoa(p.number), Token: hashOf(p.secret), Previous: hashOf(previous)}}, func(_ string, no *machine.Refusal) {
		switch {
		case no == nil && !p.leased(): // as the API answers: the lease has ended since
			p.later(p.a.s.aside.between(200*time.Millisecond, 2*time.Second), func() { p.attach(previous) })
		case no == nil:
			life, _, _ := p.a.m.Life()
			p.renewed = from
			if first := p.life == 0; first {
				p.life = life
				p.a.rivals.lives[life] = p
				p.beats()
				p.mayDie()
				p.run(0)
			}
		case no.Code == "session_held":
			p.later(p.a.s.aside.between(200*time.Millisecond, 2*time.Second), func() { p.attach(previous) })
		}
	})
}

// leased renews the lease of the process, and reports whether it has one. The session may not know
// yet that the lease has ended.
func (p *agentProcess) leased() bool {
	task := p.a.m.LeaseTask()
	_, err := p.a.s.store.Heartbeat(ctx, task.ID, task.Claimant.Token)
	if err != nil && !errors.Is(err, journal.ErrTaskLost) {
		panic(err)
	}
	return err == nil
}

// beats sends heartbeats. If the lease is lost, the process attaches again.
func (p *agentProcess) beats() {
	s := p.a.s
	p.later(5*time.Second/3, func() {
		defer p.beats()
		if p.mute || s.fault(BeatLost, "agent") {
			return
		}
		p.a.read()
		if life, _, _ := p.a.m.Life(); life != p.life {
			return // it was followed: its calls are refused
		}
		if p.a.m.Closed() {
			return // it may finish an own step until its lease ends
		}
		if p.leased() {
			p.renewed = s.now
		} else {
			p.attach("")
		}
	})
}

// mayDie makes the process die, be followed while it lives on, or be suspended past its lease.
func (p *agentProcess) mayDie() {
	s, a := p.a.s, p.a
	p.later(s.aside.between(200*time.Millisecond, 4*time.Second), func() {
		if a.process != p {
			return
		}
		if s.fault(AgentSleeps, "agent") {
			p.asleep = s.now.Add(s.aside.between(4*time.Second, 10*time.Second))
			p.mayDie()
			return
		}
		follows := s.fault(AgentFollowed, "agent")
		if !follows && !s.fault(AgentDies, "agent") {
			p.mayDie()
			return
		}
		p.dead = !follows
		if p.dead && s.aside.IntN(3) == 0 {
			p.detach()
		}
		previous, most := p.secret, 9*time.Second
		if s.aside.IntN(3) == 0 {
			previous, most = "", 18*time.Second // the next one waits for the end of the lease
			p.mute = true
		}
		s.after(s.aside.between(0, most), func() {
			if a.process == p {
				a.begin(previous)
			}
		})
	})
}

// detach ends the life of the process, as package api does.
func (p *agentProcess) detach() {
	s, a := p.a.s, p.a
	a.read()
	if life, _, _ := a.m.Life(); life != p.life {
		return
	}
	lease := a.m.LeaseTask()
	m := s.message(a.session, saga.Command{Do: saga.EndTask{Way: lease.Way, Attempt: lease.Attempt, Result: saga.TaskResult{Outcome: "completed"}}})
	if err := s.store.EndTask(ctx, lease.ID, lease.Claimant.Token, string(m.Data), m); err != nil && !errors.Is(err, journal.ErrTaskLost) {
		panic(err)
	}
}

// read reads what is new in the journal.
func (a *agent) read() {
	records, err := a.s.store.Records(ctx, a.session, a.m.Seq(), 1<<20)
	if err != nil {
		panic(err)
	}
	for _, r := range records {
		if err := a.m.Apply(r); err != nil {
			panic(err)
		}
		if err := a.index.Add(&r); err != nil {
			panic(err)
		}
	}
}

// ask sends a command to the session, as package api does, and calls then once with what the
// journal says.
func (p *agentProcess) ask(c saga.Command, then func(path string, no *machine.Refusal)) {
	s, a := p.a.s, p.a
	message, from := s.aside.id(s.now), s.now
	sent := false
	var poll func()
	poll = func() {
		a.read()
		path, pending, no := a.m.Ask(message, c)
		if no != nil || !pending {
			then(path, no)
			return
		}
		if a.m.Applied(message) { // it was refused in a state that has passed
			message, sent = s.aside.id(s.now), false
			p.later(s.aside.between(time.Second, 10*time.Second), poll)
			return
		}
		if sent && s.now.Sub(from) > commandLimit { // the API answers that nothing is certain, and the agent asks again
			message, sent = s.aside.id(s.now), false
		}
		if !sent && !s.fault(AskLost, "agent") {
			sent, from = true, s.now
			p.send(message, c)
		}
		p.later(s.aside.between(20*time.Millisecond, 300*time.Millisecond), poll)
	}
	p.later(s.aside.between(0, 20*time.Millisecond), poll)
}

// send sends a command: to a node that may run the session, and if it does not, or the answer does
// not come, as a message.
func (p *agentProcess) send(message uuid.UUID, c saga.Command) {
	s, a := p.a.s, p.a
	m := s.message(a.session, c)
	m.ID = message
	if o, ok := c.Do.(saga.AskModel); ok {
		if err := s.store.PutBlobs(ctx, a.session, o.Blobs); err != nil && !errors.Is(err, journal.ErrEnded) {
			panic(err)
		}
	}
	n := s.nodes[s.aside.IntN(len(s.nodes))]
	if !n.alive || s.aside.IntN(2) == 0 {
		s.deliver(m)
		return
	}
	took := &asked{}
	n.later(0, func() {
		n.tell(a.session, engine.Asked{ID: a.session, Message: message, Command: c, Reply: took})
	})
	p.later(s.aside.between(10*time.Millisecond, time.Second), func() {
		if a.read(); !took.took || !a.m.Applied(message) {
			s.deliver(m)
		}
	})
}

// commandLimit is how long an agent waits until its session has taken a command.
const commandLimit = 30 * time.Second

// asked is what a lane answers to an engine.Asked.
type asked struct{ took bool }

// run does the rest of the program.
func (p *agentProcess) run(at int) {
	a := p.a
	if at == len(a.plan) {
		p.end()
		return
	}
	if a.plan[at].undo {
		p.undo(at)
		return
	}
	if own := a.plan[at].own; own != nil {
		p.begin(own, func() { p.think(func() { p.run(at + 1) }) })
		return
	}
	if model := a.plan[at].model; model != nil {
		p.question(model, 0, false, func() { p.think(func() { p.run(at + 1) }) })
		return
	}
	if sub := a.plan[at].sub; sub != nil {
		a.s.openBelow(a.session, fmt.Sprint("sub-", a.session, "-", at), sub.again(), func(id uuid.UUID) { p.join(id, func() { p.run(at + 1) }) })
		return
	}
	open := len(a.plan[at].calls)
	for i, c := range a.plan[at].calls {
		if c.ID == "" { // with an id, another input would be refused
			c.Input = json.RawMessage(strings.Replace(string(c.Input), `"order":"`, `"order":"`+p.zeros, 1))
		}
		p.call(fmt.Sprint(at, ".", i), c, 0, func() {
			if open--; open == 0 {
				p.think(func() { p.run(at + 1) })
			}
		})
	}
}

// join waits for the end of a session that this agent has opened, most of the time.
func (p *agentProcess) join(id uuid.UUID, then func()) {
	s := p.a.s
	head, err := s.store.Saga(ctx, id)
	if err != nil || !head.EndedAt.IsZero() || p.a.m.Ended() || s.aside.IntN(50) == 0 {
		then()
		return
	}
	p.later(time.Second, func() {
		p.a.read()
		p.join(id, then)
	})
}

// think lets time pass before the process does something more. Its lease may end meanwhile.
func (p *agentProcess) think(then func()) {
	if p.a.s.aside.IntN(4) > 0 {
		then()
		return
	}
	p.later(p.a.s.aside.between(0, 8*time.Second), then)
}

// backwards writes the same object with its members in the other order.
func backwards(input json.RawMessage) json.RawMessage {
	members := strings.Split(strings.Trim(string(input), "{}"), ",")
	slices.Reverse(members)
	return json.RawMessage("{ " + strings.Join(members, ", ") + " }")
}

// call makes a call until it has ended. A call that failed is made once more.
func (p *agentProcess) call(place string, c saga.CallAction, try int, then func()) {
	a := p.a
	c.Life = p.life
	if p.number%2 == 1 {
		c.Input = backwards(c.Input)
	}
	identity, no := a.m.Identity(&c)
	if no != nil {
		panic(no)
	}
	c.Before = p.asked[identity]
	c.Resembles = p.resembles(c.Action)
	p.ask(saga.Command{Do: c}, func(path string, no *machine.Refusal) {
		switch {
		case no != nil && no.Code == "limit":
			then()
			return
		case no != nil:
			p.refused(no, func() { p.call(place, c, try, then) })
			return
		case c.Before == 0 && a.first[identity] == "":
			a.first[identity] = path
		case c.Before == 0 && a.first[identity] != path:
			a.s.violate(a.session, "23: the first call of a life is answered by %s, and was by %s", path, a.first[identity])
		}
		p.asked[identity]++
		p.got[path], p.known[path] = true, true
		if place := place + "/" + strconv.Itoa(try); a.given[place] == "" {
			a.given[place] = path
		}
		p.await(path, func(status machine.CallStatus) {
			if status == machine.CallFailed && try == 0 {
				p.call(place, c, 1, then)
				return
			}
			then()
		})
	})
}

// refused repeats a request that was refused because the lease was lost. A process that was
// followed, or whose session is over, stops.
func (p *agentProcess) refused(no *machine.Refusal, again func()) {
	if life, _, _ := p.a.m.Life(); no.Code == "superseded" && life == p.life {
		p.later(500*time.Millisecond, again)
		return
	}
	p.dead = true
}

// await waits until a call has ended, or the session has.
func (p *agentProcess) await(path string, then func(machine.CallStatus)) {
	p.a.read()
	if status := p.a.m.CallStatus(path); status.Ended() || p.a.m.Ended() {
		then(status)
		return
	}
	p.later(p.a.s.aside.between(50*time.Millisecond, 500*time.Millisecond), func() { p.await(path, then) })
}

// undo undoes the first call of the task before, if there is one that can be undone.
func (p *agentProcess) undo(at int) {
	next := func() { p.run(at + 1) }
	path := p.a.given[fmt.Sprint(at-1, ".0/0")]
	if path == "" {
		next()
		return
	}
	p.ask(saga.Command{Do: saga.UndoCall{Life: p.life}, Path: path}, func(string, *machine.Refusal) { next() })
}

// end commits or aborts the session.
func (p *agentProcess) end() {
	if p.a.abort {
		p.ask(saga.Command{Do: saga.Cancel{Life: p.life}, Reason: "the agent gives up"}, func(_ string, no *machine.Refusal) {
			if no != nil {
				p.refused(no, p.end)
				return
			}
			p.dead = true
		})
		return
	}
	p.ask(saga.Command{Do: saga.CommitSession{Life: p.life, Output: json.RawMessage(`"done"`)}}, func(_ string, no *machine.Refusal) {
		switch {
		case no == nil:
			p.dead = true
		case no.Code == "calls_open":
			p.later(p.a.s.aside.between(100*time.Millisecond, time.Second), p.end)
		default:
			p.refused(no, p.end)
		}
	})
}

// checkSession checks that of the calls with one recorded identity at most one has an effect that
// stands. Package invariant has the other rules about sessions.
func (s *sim) checkSession(id uuid.UUID, def *saga.Definition, records []journal.Record) {
	if def.Session == nil {
		return
	}
	s.checkOwn(id, records)
	s.checkModels(id, records)
	s.checkGuard(id)
	stands := make(map[string][]string)
	for _, r := range records {
		if r.Kind != journal.Called {
			continue
		}
		var d saga.CalledData
		mustRead(r, &d)
		if d.What == saga.ActionCall && s.liveForward(id, r.Path) {
			stands[d.Identity] = append(stands[d.Identity], r.Path)
		}
	}
	for identity, paths := range stands { // any order
		if len(paths) > 1 {
			slices.Sort(paths)
			s.violate(id, "23: %v stand, and all are the call %s", paths, identity)
		}
	}
}
