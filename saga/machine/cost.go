package machine

import (
	"recourse/retry"
	"recourse/saga"
)

// modelUse is the known use of one model.
type modelUse struct {
	input, output int64
	spent         retry.Money
}

// uncertainUse is what an attempt may have used of a model. Its answer did not say.
type uncertainUse struct {
	model  string
	cost   retry.Money
	tokens int64
}

// useModel books what an attempt used of the model that its request named. A cost or a number of
// tokens that is unknown stays with the track.
func (m *Machine) useModel(step *saga.Step, s *track, d *saga.OutcomeData, cost retry.Money) {
	body, ok := step.Body.(saga.Modelled)
	if !ok || s.request == nil {
		return
	}
	model := body.Model(*s.request)
	if model == "" {
		return
	}
	u := modelUse{spent: cost}
	if d.Tokens != nil {
		u.input, u.output = d.Tokens.Input, d.Tokens.Output
	}
	m.bookModel(model, u)
	left := uncertainUse{model: model}
	if d.Cost == "" {
		left.cost = s.reserved
	}
	if d.Tokens == nil {
		left.tokens = s.reservedTokens
	}
	if !left.cost.IsZero() || left.tokens > 0 {
		s.uncertain = append(s.uncertain, left)
	}
}

func (m *Machine) bookModel(model string, u modelUse) {
	if u.input == 0 && u.output == 0 && u.spent.IsZero() {
		return
	}
	if m.models == nil {
		m.models = make(map[string]modelUse)
	}
	so := m.models[model]
	m.models[model] = modelUse{so.input + u.input, so.output + u.output, so.spent.Add(u.spent)}
}

// settleModels books the uncertain use of attempts once it is known whether they happened, as
// settleCost does.
func (m *Machine) settleModels(s *track, happened bool) {
	for _, u := range s.uncertain {
		if happened {
			m.bookModel(u.model, modelUse{output: u.tokens, spent: u.cost})
		}
	}
	s.uncertain = nil
}

// modelViews lists the use of each model. It is nil if no model was used.
func (m *Machine) modelViews() map[string]saga.ModelView {
	if len(m.models) == 0 {
		return nil
	}
	views := make(map[string]saga.ModelView, len(m.models))
	for name, u := range m.models { // any order
		views[name] = saga.ModelView{Input: u.input, Output: u.output, Spent: u.spent.Decimal()}
	}
	return views
}
