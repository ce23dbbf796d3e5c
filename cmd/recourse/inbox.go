package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"recourse/internal/story"
	"recourse/retry"
	"recourse/saga"
)

type inboxCmd struct {
	serverFlags
	outputFlag
	Kind string `enum:",approval,in_doubt,stuck,held,budget" default:"" help:"Only this kind: approval, in_doubt, stuck, held or budget."`
	Saga string `placeholder:"ID" completion-predictor:"saga" help:"Only entries of this saga."`
}

// inboxEntry is an entry as the API returns it.
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

	// Fields of an approval.
	Shown     json.RawMessage `json:"shown"`
	ShownHash string          `json:"shown_hash"`
	Approvers []string        `json:"approvers"`
	Form      json.RawMessage `json:"form"`
}

// Run lists the inbox.
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
	if c.machine() {
		return listRaw(a, cl, "/v1/inbox", q, 0)
	}
	list, err := pages[inboxEntry](cl, "/v1/inbox", q, 0)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		a.printf("Inbox is empty.\n")
	}
	for i, e := range list {
		if i > 0 {
			a.printf("\n")
		}
		a.entry(e)
	}
	return nil
}

// entry prints an entry and the commands that resolve it.
func (a *app) entry(e inboxEntry) {
	title := 200
	if a.tty {
		title = max(a.columns()-len(e.Kind)-2, 1)
	}
	a.printf("%s  %s\n", story.Paint(e.Kind, story.Doubt, a.colour), story.Paint(story.Short(e.Title, title), story.Strong, a.colour))
	where := fmt.Sprintf("saga %s  %s", e.Saga, e.Definition)
	if e.Path != "" {
		where += "  step " + e.Path
	}
	if since := clock(e.Since.Time); a.tty && a.columns() < roomy {
		a.text(where+", "+age(time.Since(e.Since.Time))+" ago", 2)
	} else {
		a.text(where+", since "+since, 2)
	}
	if e.Request != nil {
		verb, object := e.Request.Target()
		a.text(fmt.Sprintf("sent: %s %s", verb, story.Short(object, 200)), 3)
		a.text("key "+e.Key, 1)
	}
	a.asked(e.Shown)
	a.text(inCommands(e.Detail), 6)
	path := e.Path
	if strings.ContainsAny(path, "[]") { // some shells read brackets as a pattern
		path = "'" + path + "'"
	}
	switch e.Kind {
	case saga.InboxBudget:
		a.command("recourse budget", e.Saga, enough(e.Detail))
		a.command("recourse cancel", e.Saga, `--reason "…"`)
		return
	case saga.InboxApproval:
		approve := []string{"recourse approve", e.Saga, path}
		if len(e.Form) > 0 {
			approve = append(approve, "--data '"+blank(e.Form)+"'")
		}
		a.command(approve...)
		a.command("recourse reject", e.Saga, path, `--comment "…"`)
		return
	}
	if e.Path == "" { // it concerns the saga, not a step
		a.command("recourse resume", e.Saga, `--reason "…"`)
		return
	}
	a.command("recourse resolve", e.Saga, path, "--outcome "+strings.Join(e.Actions, "|"), `--reason "…"`)
}

// These match the text of a budget's inbox entry: the maximum cost of the step, and the amounts
// spent and reserved.
var (
	lacksMoney  = regexp.MustCompile(`^it may cost (\S+) (\S+); spent (\S+), reserved (\S+) of `)
	lacksTokens = regexp.MustCompile(`^it may use (\d+) tokens; used (\d+), reserved (\d+) of `)
)

// enough returns the smallest budget that the step fits into, in the format of `recourse budget`.
func enough(detail string) string {
	if m := lacksMoney.FindStringSubmatch(detail); m != nil {
		var sum retry.Money
		for _, part := range []string{m[1], m[3], m[4]} {
			amount, err := retry.Total(part, m[2])
			if err != nil {
				return "AMOUNT"
			}
			sum = sum.Add(amount)
		}
		return `"` + sum.String() + `"`
	}
	if m := lacksTokens.FindStringSubmatch(detail); m != nil {
		sum := 0
		for _, part := range m[1:] {
			n, err := strconv.Atoi(part)
			if err != nil {
				return "AMOUNT"
			}
			sum += n
		}
		return fmt.Sprintf("--tokens %d", sum)
	}
	return "AMOUNT"
}

// mostShown is the maximum of listed properties of the content to approve.
const mostShown = 12

// asked prints the content to approve: an object by its properties, each in a line or two.
func (a *app) asked(doc json.RawMessage) {
	names, values := properties(doc)
	if len(doc) == 0 {
		return
	}
	if len(names) == 0 || len(names) > mostShown {
		a.text("shown: "+story.Short(string(doc), 200), 3)
		return
	}
	for _, name := range names {
		text := string(values[name])
		_ = json.Unmarshal(values[name], &text) // a text without its quotes, other values as written
		a.text("shown "+name+": "+story.Short(text, 200), 3)
	}
}

// blank returns the data of a form, to be filled in: {"limit":…}.
func blank(form json.RawMessage) string {
	var schema struct {
		Properties json.RawMessage `json:"properties"`
	}
	_ = json.Unmarshal(form, &schema) // an invalid schema has no properties
	names, _ := properties(schema.Properties)
	// A quote would end the shell's string.
	if len(names) == 0 || len(names) > 4 || strings.Contains(strings.Join(names, ""), "'") {
		return "{…}"
	}
	for i, name := range names {
		quoted, _ := json.Marshal(name)
		names[i] = string(quoted) + ":…"
	}
	return "{" + strings.Join(names, ",") + "}"
}

// properties returns an object's names, in order, and its values; nothing for other values.
func properties(doc json.RawMessage) (names []string, values map[string]json.RawMessage) {
	if json.Unmarshal(doc, &values) != nil {
		return nil, nil
	}
	return slices.Sorted(maps.Keys(values)), values
}

// command prints a command to type. On a terminal it is split over several lines if it is too long.
func (a *app) command(parts ...string) {
	line := "  →"
	for _, part := range parts {
		if n := utf8.RuneCountInString(line) + utf8.RuneCountInString(part); a.tty && n+3 > a.columns() && line != "  →" {
			a.printf("%s \\\n", line)
			line = "     "
		}
		line += " " + part
	}
	a.printf("%s\n", line)
}

// text prints a text below an entry's head: on a terminal wrapped, with at most this many lines.
func (a *app) text(text string, lines int) {
	if !a.tty {
		a.printf("  %s\n", story.Short(text, 600))
		return
	}
	a.printf("%s\n", wrapped(text, "  ", a.columns(), lines))
}
