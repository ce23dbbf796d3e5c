package machine

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gofrs/uuid/v5"

	"recourse/journal"
	"recourse/saga"
)

// asks are a session's requests to language models. Each is a step with one attempt. The machine
// does not compare them: its caller knows which recorded answer a request may have.
type asks struct {
	all      []*node
	messages map[string]*node // by the id of the command
}

// AskModel returns the path of the step of a request to a model, and the draft of the record that
// adds the step; nil if this command has added it before.
func (m *Machine) AskModel(message uuid.UUID, c saga.AskModel) (path string, _ *Draft, _ *Refusal) {
	if err := m.lives(c.Life); err != nil {
		return "", nil, err
	}
	s := m.session
	if n := s.asks.messages[message.String()]; n != nil {
		return n.path, nil, nil
	}
	switch {
	case s.policy.Ask == nil:
		return "", nil, refusal("no_models", "this program cannot ask models for its sessions", "")
	case len(s.asks.all) >= s.policy.MaxAsks:
		return "", nil, refusal("limit", fmt.Sprintf("the session has asked models %d times", s.policy.MaxAsks), "commit or abort the session, or open one with a higher max_asks")
	}
	r, err := s.policy.Ask.Body.(saga.Call).Request(callEnv{input: c.Input})
	if err != nil {
		f := asFailure("request", err)
		return "", nil, refusal(f.Code, f.Title, f.Detail)
	}
	if reserve := reserveOf(s.policy.Ask, r); !m.fits(reserve) && !m.mayFit(reserve) && !(m.asksForRaise() && m.storesPrompts()) {
		return "", nil, refusal(codeBudget, "the budget of the session does not cover the request: "+m.why(reserve), "raise the budget (PATCH /v1/sagas/{id}), or limit the tokens of the response")
	}
	path = askPath(len(s.asks.all))
	return path, &Draft{Kind: journal.Called, Path: path, Way: journal.Do, Blobs: c.Blobs, Data: saga.CalledData{
		Message: message.String(), Life: c.Life, What: saga.ModelAsk, Identity: c.Identity, N: len(s.identities[c.Identity]), Input: c.Input, Diverged: c.Diverged}}, nil
}

// storesPrompts reports whether the session stores what is sent to models. A request that waits for
// a higher budget is sent without its client, from what is stored.
func (m *Machine) storesPrompts() bool { return m.session.policy.Data.Keep != saga.KeepAnswers }

// askPath returns the path of the n-th request to a model.
func askPath(n int) string { return "llm[" + strconv.Itoa(n) + "]" }

// applyAsk adds a request to a model.
func (m *Machine) applyAsk(path string, d *saga.CalledData) error {
	s := m.session
	if s.policy.Ask == nil || path != askPath(len(s.asks.all)) || d.N != len(s.identities[d.Identity]) {
		return fmt.Errorf("%w: request %d to a model in life %d", ErrImpossible, d.N, d.Life)
	}
	step := *s.policy.Ask
	step.ID = path
	n := m.addStep(&step)
	n.forward.actionInput, n.model = d.Input, true
	if s.asks.messages == nil {
		s.asks.messages = make(map[string]*node)
	}
	s.asks.all = append(s.asks.all, n)
	s.identities[d.Identity] = append(s.identities[d.Identity], n)
	s.asks.messages[d.Message] = n
	if d.Diverged != nil {
		s.diverged = d.Diverged
	}
	return nil
}

// shownAsk is what a person is shown of a request to a model. Its contents are those of the step.
type shownAsk struct {
	Step   string `json:"step"`
	Output any    `json:"output"`
}

// last returns the last request that a model has answered; nil if there is none.
func (a *asks) last() *shownAsk {
	for _, n := range slices.Backward(a.all) {
		if n.forward.state == done {
			return &shownAsk{n.path, saga.Visible(n.output)}
		}
	}
	return nil
}
