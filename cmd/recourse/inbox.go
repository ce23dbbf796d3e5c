package main

import (
	"encoding/json"
	"net/url"
	"strings"

	"recourse/internal/story"
	"recourse/saga"
)

type inboxCmd struct {
	serverFlags
	outputFlag
	Kind string `enum:",approval,in_doubt,stuck,held,budget" default:"" help:"Only of this kind: approval, in_doubt, stuck, held or budget."`
	Saga string `placeholder:"ID" help:"Only of this saga."`
}

// inboxEntry is an entry as the API shows it.
type inboxEntry struct {
	ID         string        `json:"id"`
	Kind       string        `json:"kind"`
	Saga       string        `json:"saga"`
	Definition string        `json:"definition"`
	Path       string        `json:"path"`
	Since      saga.Time     `json:"since"`
	Title      string        `json:"title"`
	Detail     string        `json:"detail"`
	Request    *saga.Request `json:"request"`
	Key        string        `json:"key"`
	Actions    []string      `json:"actions"`
	ETag       string        `json:"etag"`

	// Of an approval.
	Shown     json.RawMessage `json:"shown"`
	ShownHash string          `json:"shown_hash"`
	Approvers []string        `json:"approvers"`
	Form      json.RawMessage `json:"form"`
}

// Run lists what waits.
func (c *inboxCmd) Run(a *app) error {
	cl, err := c.client(a.ctx)
	if err != nil {
		return err
	}
	q := url.Values{}
	if c.Kind != "" {
		q.Set("kind", c.Kind)
	}
	if c.Saga != "" {
		q.Set("saga", c.Saga)
	}
	if c.json() {
		return listRaw(a, cl, "/v1/inbox", q, 0)
	}
	list, err := pages[inboxEntry](cl, "/v1/inbox", q, 0)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		a.printf("Nothing waits for a person.\n")
	}
	for i, e := range list {
		if i > 0 {
			a.printf("\n")
		}
		a.entry(e, cl)
	}
	return nil
}

// entry prints an entry, and the commands that deal with it.
func (a *app) entry(e inboxEntry, cl *client) {
	a.printf("%s  %s\n", story.Paint(e.Kind, story.Doubt, a.colour), story.Paint(story.Short(e.Title, 200), story.Strong, a.colour))
	a.printf("  saga %s  %s  step %s, since %s\n", e.Saga, e.Definition, e.Path, clock(e.Since.Time))
	if e.Request != nil {
		a.printf("  sent: %s %s  key %s\n", e.Request.Method, story.Short(e.Request.URL, 200), e.Key)
	}
	if len(e.Shown) > 0 {
		a.printf("  shown: %s\n", story.Short(string(e.Shown), 200))
	}
	a.printf("  %s\n", story.Short(e.Detail, 600))
	path := e.Path
	if strings.ContainsAny(path, "[]") { // which some shells take for a pattern
		path = "'" + path + "'"
	}
	switch e.Kind {
	case saga.InboxBudget: // what is not named in the order stays as it is
		raise, auth := `"2.00 USD"`, ""
		if cl.key != "" {
			auth = ` -H "Authorization: Bearer $RECOURSE_API_KEY"`
		}
		if strings.Contains(e.Detail, " tokens;") {
			raise = `{"tokens": 100000}`
		}
		a.printf("  → curl -X PATCH %s/v1/sagas/%s -H 'If-Match: *' -H 'Content-Type: application/json' -d '{\"budget\": %s}'%s\n", cl.base, e.Saga, raise, auth)
		a.printf("  → recourse cancel %s --reason \"…\"\n", e.Saga)
		return
	case saga.InboxApproval:
		data := ""
		if len(e.Form) > 0 {
			data = " --data '{…}'"
		}
		a.printf("  → recourse approve %s %s%s\n", e.Saga, path, data)
		a.printf("  → recourse reject %s %s --comment \"…\"\n", e.Saga, path)
		return
	}
	if e.Path == "" { // it is about the saga, not about a step
		a.printf("  → recourse resume %s --reason \"…\"\n", e.Saga)
		return
	}
	a.printf("  → recourse resolve %s %s --outcome %s --reason \"…\"\n", e.Saga, path, strings.Join(e.Actions, "|"))
}
