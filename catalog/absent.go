package catalog

import (
	"context"
	"errors"
	"fmt"

	"recourse/journal"
	"recourse/saga"
)

// Codes of the warnings about names that the server does not have. They do not prevent publishing,
// because what is missing may be added later.
const (
	codeMissingSecret     = "missing-secret"
	codeUnknownDefinition = "unknown-definition"
)

// MissingDefinitions lists the definitions that a definition's steps run and that this server does
// not have now, or has archived. Errors are the store's.
func (c *Catalog) MissingDefinitions(ctx context.Context, def *saga.Definition) ([]saga.Finding, error) {
	var list []saga.Finding
	for _, run := range def.Runs {
		if run.Name == def.Name {
			continue
		}
		why, err := c.unrunnable(ctx, run.Name)
		if err != nil {
			return nil, err
		}
		if why != "" {
			f := run.At
			f.Code, f.Detail = codeUnknownDefinition, why
			list = append(list, f)
		}
	}
	return list, nil
}

// unrunnable returns why a step cannot run a definition, "" if it can.
func (c *Catalog) unrunnable(ctx context.Context, target string) (string, error) {
	name, version, _ := saga.RunTarget(target)
	var err error
	if version > 0 {
		_, err = c.store.Document(ctx, Kind, name, version)
	} else {
		var d journal.Document
		if d, err = c.lookup.newest(ctx, name); err == nil && d.Archived {
			err = ErrArchived
		}
	}
	switch {
	case err == nil:
		return "", nil
	case errors.Is(err, ErrArchived):
		return fmt.Sprintf("the definition %s is archived: publish it again before the step runs", name), nil
	case errors.Is(err, journal.ErrNotFound):
		return fmt.Sprintf("this server has no definition %s: publish it before the step runs", target), nil
	}
	return "", fmt.Errorf("definition %s: %w", target, err)
}

// MissingSecrets lists the secrets of a definition that this server does not have now, and says
// where it looks for them.
func (c *Catalog) MissingSecrets(def *saga.Definition) []saga.Finding {
	return c.missingSecrets(def.Mentions)
}

// MissingSecretsOfAction is MissingSecrets for an action.
func (c *Catalog) MissingSecretsOfAction(a *saga.Action) []saga.Finding {
	return c.missingSecrets(a.Mentions)
}

func (c *Catalog) missingSecrets(mentions []saga.Mention) []saga.Finding {
	if c.options.Secret == nil {
		return nil
	}
	var list []saga.Finding
	for _, m := range mentions {
		if _, err := c.options.Secret(m.Name); err != nil {
			f := m.At
			f.Code, f.Detail = codeMissingSecret, err.Error()
			list = append(list, f)
		}
	}
	return list
}
