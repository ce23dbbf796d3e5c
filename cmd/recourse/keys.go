package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"recourse/api"
	"recourse/internal/cli"
	"recourse/internal/cli/database"
	"recourse/journal"
	"recourse/saga/dsl"
)

type keysCmd struct {
	Create createKeyCmd `cmd:"" help:"Create a key. It is printed once, and stored only as a hash."`
	List   listKeysCmd  `cmd:"" help:"List keys, without their secrets."`
	Revoke revokeKeyCmd `cmd:"" help:"Delete a key: it stops working at once."`
}

// keyView is a key as -o json prints it.
type keyView struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Role      string `json:"role"`
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at,omitempty"`
	journal.KeyBinding
	Key string `json:"key,omitempty"` // only when it is created
}

func viewKey(k journal.APIKey) keyView {
	v := keyView{ID: k.ID.String(), Name: k.Name, Role: k.Role, CreatedAt: k.CreatedAt.UTC().Format(journal.TimeFormat), KeyBinding: k.Binding}
	if !k.ExpiresAt.IsZero() {
		v.ExpiresAt = k.ExpiresAt.UTC().Format(journal.TimeFormat)
	}
	return v
}

type createKeyCmd struct {
	database.Flag
	cli.OutputFlag
	Role     string   `required:"" enum:"viewer,client,worker,agent,approver,operator,admin" help:"viewer, client, worker, agent, approver, operator or admin."`
	Name     string   `help:"Name of the key's owner, for journals. Keys with the same name are one client. Default: a unique name."`
	Source   []string `sep:"none" placeholder:"SOURCE" help:"Restrict the key to events of this CloudEvents source; repeatable."`
	Signal   []string `sep:"none" placeholder:"DEFINITION[/SIGNAL]" help:"Restrict the key to signals for these definitions (order-*), or to one signal (order-*/paid); repeatable."`
	Actions  []string `placeholder:"NAME[@VERSION],…" help:"Restrict a key of the role agent to sessions with these actions, separated by commas."`
	Sessions []string `placeholder:"PATTERN,…" help:"Restrict a key of the role agent to sessions with these names (support-*), separated by commas."`
	Models   []string `placeholder:"PATTERN,…" help:"Restrict a key of the role agent to requests to these models (gpt-5-*), separated by commas."`
	Budget   string   `placeholder:"AMOUNT" help:"The most that a session may cost that a key of the role agent opens, such as \"5.00 USD\", or 5.00 in the currency of its actions."`
	Expires  string   `placeholder:"DURATION" help:"Validity, such as 30d or 2160h. Default: until it is revoked."`
}

// Run creates a key, and the database if necessary, so that a key can exist before `serve` runs.
func (c *createKeyCmd) Run(a *cli.App) error {
	k, secret, err := api.NewKey(c.Name, c.Role)
	if err != nil {
		return cli.Exit(cli.Usage, err)
	}
	if err := api.Bind(&k, c.Source, c.Signal); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	if err := api.Grant(&k, journal.AgentGrant{Actions: c.Actions, Sessions: c.Sessions, Models: c.Models, Budget: c.Budget}); err != nil {
		return cli.Exit(cli.Usage, err)
	}
	if c.Expires != "" {
		valid, err := validity(c.Expires)
		if err != nil {
			return err
		}
		k.ExpiresAt = k.CreatedAt.Add(valid)
	}
	store, err := database.Open(a.Ctx, c.Database, true) // not for a command that is wrong
	if err != nil {
		return err
	}
	defer store.Close()
	if err := store.AddKey(a.Ctx, k); err != nil {
		return fmt.Errorf("store the key: %w", err)
	}
	if c.Machine() {
		v := viewKey(k)
		v.Key = secret
		return a.Encode(v)
	}
	a.Printf("%s\n", secret)
	a.Note("This is shown once. Key %s, name %s, role %s; send it as `Authorization: Bearer`, or set RECOURSE_API_KEY.", k.ID, k.Name, k.Role)
	return nil
}

// validity parses --expires.
func validity(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil {
		d, err = dsl.ParseDuration(text)
	}
	if err != nil || d <= 0 {
		return 0, cli.Exit(cli.Usage, fmt.Errorf("--expires %s: write a positive duration, such as 30d or 2160h", text))
	}
	return d, nil
}

type listKeysCmd struct {
	database.Flag
	cli.OutputFlag
}

// Run lists keys.
func (c *listKeysCmd) Run(a *cli.App) error {
	store, err := database.Open(a.Ctx, c.Database, false)
	if err != nil {
		return err
	}
	defer store.Close()
	keys, err := store.ListKeys(a.Ctx)
	if err != nil {
		return fmt.Errorf("list keys: %w", err)
	}
	views := make([]keyView, len(keys))
	var rows [][]string
	for i, k := range keys {
		v := viewKey(k)
		views[i] = v
		rows = append(rows, []string{v.ID, v.Name, v.Role, v.CreatedAt, v.ExpiresAt, strings.Join(boundTo(k.Binding), " ")})
	}
	if c.Machine() {
		return a.Encode(views)
	}
	a.Table([]cli.Column{{Head: "KEY"}, {Head: "NAME", Least: 8}, {Head: "ROLE"}, {Head: "CREATED", Least: 10, Extra: true}, {Head: "EXPIRES", Least: 10}, {Head: "BOUND TO", Least: 10}}, rows)
	return nil
}

// boundTo lists what a key is restricted to.
func boundTo(b journal.KeyBinding) []string {
	list := slices.Concat(b.Sources, b.Signals)
	if g := b.Agent; g != nil {
		list = slices.Concat(list, g.Sessions, g.Actions, g.Models)
		if g.Budget != "" {
			list = append(list, g.Budget+"/session")
		}
	}
	return list
}

type revokeKeyCmd struct {
	database.Flag
	ID string `arg:"" help:"The key's id, as keys list prints it, or its first 8 characters or more."`
}

// Run revokes a key.
func (c *revokeKeyCmd) Run(a *cli.App) error {
	store, err := database.Open(a.Ctx, c.Database, false)
	if err != nil {
		return err
	}
	defer store.Close()
	keys, err := store.ListKeys(a.Ctx)
	if err != nil {
		return fmt.Errorf("list keys: %w", err)
	}
	k, err := keyNamed(keys, c.ID)
	if err != nil {
		return err
	}
	if err := store.RevokeKey(a.Ctx, k.ID); err != nil && !errors.Is(err, journal.ErrNotFound) { // revoked concurrently
		return fmt.Errorf("revoke the key: %w", err)
	}
	a.Printf("%s (%s) revoked\n", k.ID, k.Name)
	return nil
}

// keyNamed finds the only key whose id begins with a text.
func keyNamed(keys []journal.APIKey, text string) (journal.APIKey, error) {
	if len(text) < 8 || !new(journal.Filter).Named(text) {
		return journal.APIKey{}, cli.Exit(cli.Usage, fmt.Errorf("%s is not a key's id, nor its first 8 characters or more: `recourse keys list` shows them", text))
	}
	keys = slices.DeleteFunc(keys, func(k journal.APIKey) bool { return !strings.HasPrefix(k.ID.String(), strings.ToLower(text)) })
	switch len(keys) {
	case 0:
		return journal.APIKey{}, cli.Exit(cli.NotFound, fmt.Errorf("there is no key %s: `recourse keys list` shows them", text))
	case 1:
		return keys[0], nil
	}
	return journal.APIKey{}, cli.Exit(cli.Usage, fmt.Errorf("nothing was revoked: write more of the id, since %s begins those of %s (%s), %s (%s), and maybe others",
		text, keys[0].ID, keys[0].Name, keys[1].ID, keys[1].Name))
}
