package api

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"recourse/journal"
	"recourse/retry"
)

// ErrGrant means that a key cannot have this grant.
var ErrGrant = errors.New("only a key of the role agent has a grant: actions such as refund or refund@3, patterns of sessions' names such as support-*, patterns of models such as gpt-5-*, " +
	`and the most that a session may cost, such as "5.00 USD", or 5.00 in the currency of its actions`)

// Grant limits the sessions that a new key opens. An empty list allows all, and an empty budget
// sets no limit. A budget may end with /session, for readers. Error: ErrGrant.
func Grant(k *journal.APIKey, g journal.AgentGrant) error {
	if len(g.Actions)+len(g.Sessions)+len(g.Models) == 0 && g.Budget == "" {
		return nil
	}
	if k.Role != "agent" {
		return fmt.Errorf("%w; this one has the role %s", ErrGrant, k.Role)
	}
	for _, ref := range g.Actions {
		name, version, versioned := strings.Cut(ref, "@")
		if !nameForm.MatchString(name) || versioned && parseVersion(version) == 0 {
			return fmt.Errorf("%w; %.100q is not an action", ErrGrant, ref)
		}
	}
	for _, pattern := range g.Sessions {
		if _, err := path.Match(pattern, ""); err != nil || pattern == "" || strings.ContainsAny(pattern, "/ ") {
			return fmt.Errorf("%w; %.100q is not a pattern of names", ErrGrant, pattern)
		}
	}
	for _, pattern := range g.Models {
		if !isModelPattern(pattern) || len(g.Models) > maxModels {
			return fmt.Errorf("%w; at most %d models, and %.100q is one", ErrGrant, maxModels, pattern)
		}
	}
	if g.Budget != "" {
		m, err := grantBudget(strings.TrimSuffix(g.Budget, "/session"))
		if err != nil {
			return fmt.Errorf("%w; %.100q is not an amount", ErrGrant, g.Budget)
		}
		g.Budget = m.String()
	}
	k.Binding.Agent = &g
	return nil
}

// grantBudget parses the budget of a grant. One without a currency is in that of a session's
// actions, and the result has none.
func grantBudget(text string) (retry.Money, error) {
	m, err := retry.ParseMoney(text)
	if err != nil {
		return retry.Amount(text, "")
	}
	return m, nil
}
